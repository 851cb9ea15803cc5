"""viz: pictures of graphs, training curves and coloured text.

import viz

viz.draw(cost)                                       # shows itself in a notebook
viz.draw(cost, style="compact").save("cost.svg")     # .svg .png .pdf .dot .html
viz.training_curve("run/history.jsonl").savefig("curve.png")
viz.flight_recorder("run.jsonl").savefig("run.png")  # of Hessian-free steps
print(viz.coloured(text, probabilities, guesses))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viz.drawing.closed import closed_picture, is_unrolled
from viz.drawing.dot import to_dot
from viz.drawing.note import Notes
from viz.drawing.picture import check_style, names_in, picture_of
from viz.drawing.render import Drawing
from viz.drawing.things import Drawable, graph_of
from viz.errors import DrawingError
from viz.notes import changes, gradients, times, values
from viz.style import COLOUR_BLIND, DARK, LIGHT, Style, Theme, style_of
from viz.text import coloured, coloured_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from viz.charts.history import History

__all__ = [
    "COLOUR_BLIND", "DARK", "LIGHT", "Drawing", "DrawingError", "Notes", "Style", "changes", "coloured",
    "coloured_html",
    "draw", "flight_recorder", "gradients", "minibatches_and_failures", "times", "to_dot", "training_curve", "values",
]  # fmt: skip


def draw(
    thing: Drawable,
    style: str = "full",
    *,
    closed: bool | None = None,
    rankdir: str | None = None,
    limit: int | None = 3000,
    theme: Theme = "light",
    notes: Notes | None = None,
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
    theme: "light", "dark", "colour-blind", or a Style.
    notes: what it says of each node beyond its op, from `values`, `gradients`, `times` or `changes`.
    Raises DrawingError, which names what can be drawn.
    """
    check_style(style)
    colours = style_of(theme)
    graph = graph_of(thing)
    if closed is None:
        closed = rankdir is None and is_unrolled(graph)
    if not closed:
        return Drawing(picture_of(graph, style, colours, notes), style, rankdir, limit, colours)
    if rankdir is not None:
        raise DrawingError("rankdir: time runs from left to right in a closed picture; leave rankdir out.")
    return Drawing(closed_picture(graph, names_in(graph, colours), notes), "closed", None, limit, colours)


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
