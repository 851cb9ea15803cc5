"""Batch: elementwise work on the pieces of a join, done once on the whole."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node, Op, Shape
from graphnet.ops.broadcast import BroadcastTo
from graphnet.ops.elementwise import Elementwise
from graphnet.ops.leaf import Fill
from graphnet.ops.shape import Join, Slice, reshape
from graphnet.passes.joining import pieces_of_one

__all__ = ["batch"]

#: How long a chain of elementwise ops is followed back from a join.
DEEPEST = 16


def batch(graph: Graph) -> Graph:
    """[f(x_1); f(x_2); ...] = f([x_1; x_2; ...]) where the x_t are slices of one array, or one broadcast row.

    After products have been stacked over time, this is what is left at each time step: a bias added to a
    slice. Also a join of slices that lie one behind another becomes the array that they were cut from.
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


def _whole(pieces: Sequence[Node], to: Shape, single: set[Node], depth: int) -> Node | None:
    """The pieces joined along the first axis, in shape `to`, made from whole arrays; None if not so."""
    first = pieces[0]
    match first.op:
        case Slice():
            found = pieces_of_one(pieces, 0)
            return None if found is None else reshape(found, to)
        case Fill(number=number):
            same = all(isinstance(p.op, Fill) and p.op.number == number for p in pieces)
            return Fill(number, to, first.dtype)() if same else None
        case BroadcastTo():
            row = first.inputs[0]
            same = all(isinstance(p.op, BroadcastTo) and p.inputs[0] is row for p in pieces)
            fits = same and row.ndim < first.ndim and row.shape == to[-row.ndim :]
            return BroadcastTo(to)(row) if fits else None
        case Elementwise() as op if depth < DEEPEST:
            return _once(op, pieces, to, single, depth)
    return None


def _once(op: Op, pieces: Sequence[Node], to: Shape, single: set[Node], depth: int) -> Node | None:
    """The op on the whole of each input, if it is that of all pieces."""
    first = pieces[0]
    if any(p.op != op or p not in single or len(p.inputs) != len(first.inputs) for p in pieces):
        return None
    operands = [
        _whole(column, to, single, depth + 1) for column in zip(*(p.inputs for p in pieces), strict=True)
    ]
    return None if None in operands else op(*operands)
