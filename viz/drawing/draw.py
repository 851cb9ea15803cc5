"""viz.draw: picture of a graph."""

from __future__ import annotations

from graphnet.settings import shown
from viz.drawing.closed import closed_picture, closes_by_default
from viz.drawing.condense import times_of
from viz.drawing.merge import (
    check_steps,
    close_clusters,
    fold_blocks,
    fold_columns,
    fold_time,
    fork_states,
    weights_beside_uses,
)
from viz.drawing.note import Notes
from viz.drawing.picture import check_style, names_in, picture_of
from viz.drawing.render import Drawing, check_limit
from viz.drawing.things import Drawable, graph_of
from viz.errors import DrawingError, chosen
from viz.style import Theme, style_of


def draw(
    thing: Drawable,
    style: str = "full",
    *,
    closed: bool | None = None,
    rankdir: str | None = None,
    steps: int | None = None,
    limit: int | None = 3000,
    theme: Theme = "light",
    notes: Notes | None = None,
) -> Drawing:
    """Draws a node with all nodes that it depends on, several nodes, a Graph, or the optimized graph of a Function.

    thing: one of these, or an object or class with a method `__graph__()` that returns a `graphnet.Graph`: cells,
    networks. A class is drawn as its instance without arguments.
    style: "full" (default) draws every node; "compact" folds weights into edges and biases into operators.
    closed: True draws each layer at each time step as one box, time from left to right, layers from bottom to top; in a
    graph without time steps, each cell (each `gn.scope`) as one operator. False draws the nodes inside. None (default)
    closes unrolled networks of several time steps, or of four hidden layers or more.
    rankdir: for open pictures, "LR" (left to right), "BT" (bottom to top), or None (default): "BT" for graphs unrolled
    in time, "LR" for others.
    steps: maximum number of time steps, and of repeated blocks of a cell, to draw: the first, the last, and those
    between as one. None (default): 8 time steps, or 4 in open pictures; 3 blocks. Networks that run one after the other
    share it, with at least 3 steps for each; their default is 6.
    limit: maximum number of nodes to lay out; 3000 by default, None for no limit. `.dot` has none.
    theme: "light" (default), "dark", "colour-blind", or a Style.
    notes: notes on nodes, from `values`, `gradients`, `times`, `changes` or `units`; None by default.
    Raises DrawingError for other objects, and for notes of another graph.

    >>> x = gn.input((3, 2), name="x")
    >>> drawing = viz.draw(gn.mean(gn.tanh(x)))
    >>> drawing
    <Drawing of 5 nodes, full style>
    >>> drawing.save("graph.dot").name
    'graph.dot'
    """
    check_style(style)
    check_limit(limit)
    colours = style_of(theme)
    if notes is not None and not isinstance(notes, Notes):
        raise DrawingError(
            f"notes must be a result of viz.values, gradients, times or changes (which returns two), "
            f"not {shown(notes)}."
        )
    graph = graph_of(thing)
    if notes is not None and notes.nodes and set(notes.nodes).isdisjoint(graph.order):
        raise DrawingError(
            "notes are of another graph: none of their nodes is drawn. Make notes for the graph that you draw."
        )
    unrolled = bool(times_of(graph))
    closed = chosen("closed", closed, rankdir is None and closes_by_default(graph))
    if closed and unrolled:
        if rankdir is not None:
            raise DrawingError(
                "rankdir must be left out with closed=True: time runs from left to right in a closed picture."
            )
        whole = closed_picture(graph, names_in(graph, colours), notes)
        return Drawing(
            fold_columns(whole, check_steps(steps, 8 if len(whole.parts) == 1 else 6)),
            "closed",
            None,
            limit,
            colours,
        )
    picture = fold_time(picture_of(graph, style, colours, notes), check_steps(steps, 4))
    if closed:
        return Drawing(close_clusters(picture, notes), style, rankdir, limit, colours)
    picture = fold_blocks(picture, check_steps(steps, 3))
    if unrolled and rankdir is None:
        picture = fork_states(weights_beside_uses(picture))
    return Drawing(picture, style, rankdir, limit, colours)
