"""viz: pictures of graphs, training curves and coloured text.

import viz

viz.draw(cost)                                       # shows itself in a notebook
viz.draw(cost, style="compact").save("cost.svg")     # .svg .png .pdf .dot .html
viz.training_curve("run/history.jsonl").savefig("curve.png")
viz.flight_recorder("run.jsonl").savefig("run.png")  # of Hessian-free steps
print(viz.coloured(text, probabilities, guesses))
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphnet.function import Function
from graphnet.graph import Graph
from graphnet.node import Node
from viz.drawing.closed import closed_picture, is_unrolled
from viz.drawing.dot import to_dot
from viz.drawing.picture import check_style, names_in, picture_of
from viz.drawing.render import Drawing
from viz.errors import DrawingError
from viz.style import LIGHT, Style
from viz.text import coloured, coloured_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from viz.charts.history import History

__all__ = [
    "LIGHT",
    "Drawing",
    "DrawingError",
    "Style",
    "coloured",
    "coloured_html",
    "draw",
    "flight_recorder",
    "minibatches_and_failures",
    "to_dot",
    "training_curve",
]


def draw(
    thing: Any,
    style: str = "full",
    *,
    closed: bool | None = None,
    rankdir: str | None = None,
    limit: int | None = 3000,
    theme: Style = LIGHT,
) -> Drawing:
    """A picture of a node's history, several nodes', a Graph, or a Function (its optimised graph).

    Also of whatever has a method `__graph__()` that returns a `graphnet.Graph`: cells, networks; of a class
    that has one, it is the picture of an instance made without arguments.

    style: "full" draws every node; "compact" folds weights into edges and biases into operators.
    closed: True draws each layer at each time step as one box, time from left to right, layers from bottom
    to top; False draws what is inside. None closes graphs unrolled over several time steps, and no others.
    rankdir: for open pictures, "LR", "BT" (bottom to top), or None: "BT" for graphs unrolled in time, "LR"
    for others.
    limit: the most nodes that are laid out; None for no limit. `.dot` has none.
    Raises DrawingError, which names what can be drawn.
    """
    check_style(style)
    graph = _graph_of(thing)
    if closed is None:
        closed = rankdir is None and is_unrolled(graph)
    if not closed:
        return Drawing(picture_of(graph, style, theme), style, rankdir, limit, theme)
    if rankdir is not None:
        raise DrawingError("rankdir: time runs from left to right in a closed picture; leave rankdir out.")
    return Drawing(closed_picture(graph, names_in(graph, theme)), "closed", None, limit, theme)


def training_curve(history: History) -> Figure:
    """Training and validation bits per character against epoch; see `viz.charts.curves`."""
    from viz.charts import curves  # matplotlib is slow to import

    return curves.training_curve(history)


def flight_recorder(history: History, title: str | None = None) -> Figure:
    """A Hessian-free run, step by step: loss, ρ, λ, norms, conjugate gradient; see `viz.charts.second_order`."""
    from viz.charts import second_order

    return second_order.flight_recorder(history, title)


def minibatches_and_failures(table: History, title: str | None = None) -> Figure:
    """Minibatches to solve each problem, and failures, against T; see `viz.charts.solved`."""
    from viz.charts import solved

    return solved.minibatches_and_failures(table, title)


def _graph_of(thing: Any) -> Graph:
    if isinstance(thing, Graph):
        return thing
    if isinstance(thing, Function):
        return thing.graph
    if isinstance(thing, Node):
        return Graph(thing)
    if callable(getattr(thing, "__graph__", None)):
        return _asked(thing)
    if isinstance(thing, Sequence) and thing and all(isinstance(x, Node) for x in thing):
        return Graph(thing)
    raise DrawingError(
        f"thing: cannot draw {_described(thing)}. Give a Node, a sequence of Nodes, a Graph, a Function, a "
        "cell, a network or an unrolled network (anything with a method __graph__ that returns a Graph)."
    )


def _asked(thing: Any) -> Graph:
    """The graph that an object gives of itself."""
    if isinstance(thing, type) and inspect.isfunction(getattr(thing, "__graph__", None)):
        try:
            thing = thing()
        except Exception as error:
            raise DrawingError(
                f"thing: {_described(thing)} needs an instance to be drawn, and cannot be made without "
                f"arguments ({error}): make one."
            ) from error
    graph = thing.__graph__()
    if not isinstance(graph, Graph):
        raise DrawingError(
            f"thing: __graph__ of {_described(thing)} returned {_described(graph)}; it must return a "
            "graphnet.Graph."
        )
    return graph


def _described(thing: Any) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    if isinstance(thing, Sequence) and not isinstance(thing, (str, bytes)):
        return "an empty sequence" if not thing else "a sequence that holds something other than Nodes"
    return f"a {type(thing).__name__}"
