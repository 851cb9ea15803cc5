"""Picture of a network that reads its own predictions (Lynge 2016, fig. 3.6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.settings import MANY, shown
from viz.drawing.closed import Box, BoxKind, ClosedPicture, Link, closed_picture
from viz.drawing.merge import check_steps, fold_columns
from viz.drawing.picture import names_in
from viz.drawing.render import Drawing
from viz.errors import DrawingError
from viz.style import EdgeRole, Theme, style_of

if TYPE_CHECKING:  # pictures of graphs need no networks
    from graphnet_rnn import Network


def generation(network: Network, steps: int = 4, *, theme: Theme = "light") -> Drawing:
    """A network that generates symbols: each prediction, turned into a symbol by χ, is the next input.

    χ takes the most probable symbol, or draws one. The first input is data; the others are labels on the output of χ.
    With the loss "squared", there are no probabilities and no χ: the next input is the prediction itself.
    network: network with as many outputs as inputs. steps: number of time steps to draw, at least 3; 4 by default.
    theme: "light" (default), "dark", "colour-blind", or a Style.
    Raises DrawingError for other objects, and for a network that reads later inputs or has other outputs than inputs.
    Source: Lynge 2016, 3.5 and fig. 3.6.

    >>> viz.generation(rnn.Network([rnn.GRU(4)], inputs=5, outputs=5))
    <Drawing of 17 nodes, closed style>
    """
    if not callable(getattr(network, "unroll", None)) or isinstance(network, type):
        raise DrawingError(f"network: generation needs an rnn.Network, not a {type(network).__name__}.")
    if network.inputs != network.outputs:
        raise DrawingError(
            f"network: must have as many outputs ({network.outputs}) as inputs ({network.inputs}), so that its outputs "
            "can be its next inputs."
        )
    if not network.causal:
        raise DrawingError(
            f"network: {shown(network, MANY)} reads later inputs, which do not exist while a network generates; "
            "pass a causal network."
        )
    if network.pool is not None:
        raise DrawingError(
            f"network: with pool={network.pool!r} it has one output for a whole sequence; generation needs an "
            "output at each step."
        )
    count = check_steps(steps, 4)
    colours = style_of(theme)
    outputs = _outputs(network, count)
    graph = Graph(outputs)
    picture = fold_columns(closed_picture(graph, names_in(graph, colours)), count)
    return Drawing(_fed_back(picture, network.loss != "squared"), "closed", None, None, colours)


def _outputs(network: Network, steps: int) -> list[Node]:
    settings: dict[str, Any] = {"labels": 1} if network.loss == "ctc" else {}
    return list(network.unroll(steps, batch=1, training=False, **settings).outputs)


def _fed_back(picture: ClosedPicture, chosen: bool) -> ClosedPicture:
    """Adds χ above each output, and an edge from χ to the next input; chosen=False: from the output, without χ."""
    top = len(picture.states)
    boxes: list[Box] = []
    data: dict[int, Box] = {}
    outputs: dict[int, Box] = {}
    for box in picture.shapes:
        if box.kind is BoxKind.DATA and box.column > 0:
            box = replace(box, kind=BoxKind.IMAGINARY)
        if box.kind in (BoxKind.DATA, BoxKind.IMAGINARY) and box.row == 0:
            data[box.column] = box
        if box.kind is BoxKind.OUTPUT and box.row == top - 1:
            outputs[box.column] = box
        boxes.append(box)
    links = list(picture.edges)
    for column, output in outputs.items():
        choice = Box(
            f"choice_{column}",
            BoxKind.OUTPUT,
            top,
            column,
            ("<i>χ</i>",),
            "a symbol, chosen by its probability",
        )
        if chosen:
            boxes.append(choice)
            links.append(Link(output.key, choice.key, EdgeRole.TO_OUTPUT))
        if column + 1 in data:
            links.append(Link((choice if chosen else output).key, data[column + 1].key, EdgeRole.GENERATED))
    return replace(
        picture,
        shapes=tuple(boxes),
        edges=tuple(links),
        states=(*picture.states, 1) if chosen else picture.states,
    )
