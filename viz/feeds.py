"""Arrays for the inputs of a graph, and the values of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphnet.backends.numpy import call_forward
from graphnet.call.arguments import as_input, sample_inputs
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from viz.errors import DrawingError

Feeds = Mapping[Node, Any]


def fed(graph: Graph, feeds: Feeds | None) -> dict[Node, Array]:
    """Array for each input: those of `feeds`, or random ones from a fixed seed: standard normal, or integers in the
    range of
    an index.

    Raises DrawingError for an input without an array and for a key that is not an input; ShapeError, DtypeError for an
    array that does not fit.
    """
    inputs = graph.inputs
    if feeds is None:
        return dict(zip(inputs, sample_inputs(inputs, graph), strict=True))
    if not isinstance(feeds, Mapping):
        raise DrawingError(f"feeds must be a dict {{input node: array}}, not a {type(feeds).__name__}.")
    strangers = [key for key in feeds if key not in set(inputs)]
    if strangers:
        listed = ", ".join(key.describe() if isinstance(key, Node) else repr(key) for key in strangers)
        raise DrawingError(
            f"feeds: {listed} is not an input of this graph; its inputs are "
            f"{', '.join(node.describe() for node in inputs) or 'none'}."
        )
    missing = [node for node in inputs if node not in feeds]
    if missing:
        raise DrawingError(
            f"feeds has no array for {', '.join(node.describe() for node in missing)}; pass one for each input, or "
            "leave feeds out to fill all inputs at random."
        )
    return {node: as_input(node, feeds[node]) for node in inputs}


def computed(outputs: Iterable[Node], given: Mapping[Node, Array]) -> Iterator[tuple[Node, Array]]:
    """Yields each node that the outputs depend on with its value, computed by the rules of the ops; drops used values.

    Raises BackendError, which names the node, if a rule fails.
    """
    order = Graph(outputs).order
    last: dict[Node, int] = {}
    for i, node in enumerate(order):
        for source in (node, *node.inputs):
            last[source] = i
    dying: dict[int, list[Node]] = {}
    for node, i in last.items():
        dying.setdefault(i, []).append(node)
    values: dict[Node, Array] = {}
    for i, node in enumerate(order):
        value = given[node] if node.op.is_input else call_forward(node, [values[x] for x in node.inputs])
        values[node] = value
        yield node, value
        for dead in dying.get(i, ()):
            del values[dead]
