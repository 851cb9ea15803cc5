"""viz: pictures of graphs, training curves and coloured text.

import viz

viz.draw(cost)                                       # shows itself in a notebook
viz.draw(cost, style="compact").save("cost.svg")     # .svg .png .pdf .dot .html
viz.training_curve("run/history.jsonl").savefig("curve.png")
viz.flight_recorder("run.jsonl").savefig("run.png")  # of Hessian-free steps
print(viz.reading(rnn.read(network, text)))          # coloured by the probability of each character
"""

from __future__ import annotations

from viz.charts.compare import best_setting, compare_runs
from viz.charts.curves import training_curve
from viz.charts.norms import gradient_by_distance, weight_norms
from viz.charts.reading import cost_over_text
from viz.charts.second_order import flight_recorder
from viz.charts.solved import minibatches_and_failures
from viz.drawing.closed import closed_picture, is_unrolled
from viz.drawing.dot import to_dot
from viz.drawing.note import Notes
from viz.drawing.picture import check_style, names_in, picture_of
from viz.drawing.render import Drawing
from viz.drawing.things import Drawable, graph_of
from viz.errors import DrawingError
from viz.notes import changes, gradients, times, values
from viz.pages import TextPage, reading, samples
from viz.show import history_chart, mimebundle
from viz.style import COLOUR_BLIND, DARK, LIGHT, Style, Theme, style_of
from viz.text import coloured, coloured_html

__all__ = [
    "COLOUR_BLIND", "DARK", "LIGHT", "Drawing", "DrawingError", "Notes", "Style", "TextPage", "best_setting", "changes",
    "coloured", "coloured_html", "compare_runs", "cost_over_text", "draw", "flight_recorder", "gradient_by_distance",
    "gradients", "history_chart", "mimebundle", "minibatches_and_failures", "reading", "samples", "times", "to_dot",
    "training_curve", "values", "weight_norms",
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
