"""Merge: the same op on the same inputs is one node."""

from __future__ import annotations

from graphnet.graph import Graph
from graphnet.node import Node, Op

__all__ = ["merge"]


def merge(graph: Graph) -> Graph:
    """Nodes with equal ops and the same inputs become one (the first); inputs first, so in one sweep.

    Inputs, parameters and random nodes are equal to themselves alone. Labels keep their own names.
    """
    first: dict[tuple[int, int, tuple[Node, ...]], Node] = {}
    # To hash an op's settings takes longer than all else here, and many nodes share one op.
    equal: dict[Op, Op] = {}
    known: dict[int, int] = {}

    def replace(node: Node) -> Node:
        op = node.op
        if op.is_label:
            return node
        kind = known.get(id(op))
        if kind is None:
            kind = known[id(op)] = id(equal.setdefault(op, op))
        return first.setdefault((kind, node.dtype.num, node.inputs), node)

    return graph.rewrite(replace)
