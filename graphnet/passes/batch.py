"""Batch: elementwise work on the inputs of a join, done once on the whole."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node, Op, Shape
from graphnet.ops.broadcast import BroadcastTo
from graphnet.ops.leaf import Fill
from graphnet.ops.shape import Join, Slice, reshape
from graphnet.passes.joining import common_slice

#: How long a chain of elementwise ops is followed back from a join.
DEEPEST = 16


def batch(graph: Graph) -> Graph:
    """[f(x_1); f(x_2); ...] = f([x_1; x_2; ...]) where the x_t are slices of one array, or one broadcast row.

    After products have been stacked over time, this work remains at each time step: a bias is added to a
    slice. A join of adjacent slices becomes the array that they were cut from.
    graph: the graph to change; the result is a new graph.

    >>> x = gn.input((4, 3))
    >>> graph = gn.Graph([gn.concatenate([gn.exp(x[:2]), gn.exp(x[2:])])], [x])
    >>> len(graph), len(gn.passes.batch(graph))
    (6, 2)
    """
    originals = iter(graph.order)
    read_once = graph.read_once
    #: Nodes of the new graph that only one other reads: these may vanish into the whole.
    single: set[Node] = set()

    def replace(node: Node) -> Node:
        if next(originals) in read_once:
            single.add(node)
        match node.op:
            case Join(axis=0) if len(node.inputs) > 1:
                whole = _whole(node.inputs, node.shape, single, 0)
                return node if whole is None else whole
        return node

    return graph.rewrite(replace)


def _whole(nodes: Sequence[Node], to: Shape, single: set[Node], depth: int) -> Node | None:
    """The nodes joined along the first axis, in shape `to`, computed from whole arrays; None if not possible."""
    first = nodes[0]
    match first.op:
        case Slice():
            found = common_slice(nodes, 0)
            return None if found is None else reshape(found, to)
        case Fill(number=number):
            return Fill(number, to, first.dtype)() if all(x.op.everywhere == number for x in nodes) else None
        case BroadcastTo():
            row = first.inputs[0]
            same = all(isinstance(x.op, BroadcastTo) and x.inputs[0] is row for x in nodes)
            fits = same and row.ndim < first.ndim and row.shape == to[-row.ndim :]
            return BroadcastTo(to)(row) if fits else None
        case op if op.is_elementwise and depth < DEEPEST:
            return _once(op, nodes, to, single, depth)
    return None


def _once(op: Op, nodes: Sequence[Node], to: Shape, single: set[Node], depth: int) -> Node | None:
    first = nodes[0]
    if any(x.op != op or x not in single or len(x.inputs) != len(first.inputs) for x in nodes):
        return None
    operands = [
        _whole(column, to, single, depth + 1) for column in zip(*(x.inputs for x in nodes), strict=True)
    ]
    return None if None in operands else op(*operands)
