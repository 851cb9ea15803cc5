"""Merge: the same op on the same inputs is one node."""

from __future__ import annotations

from graphnet.graph import Graph
from graphnet.node import Node

__all__ = ["merge"]


def merge(graph: Graph) -> Graph:
    """Nodes with equal ops and the same inputs become one (the first); inputs first, so in one sweep.

    Inputs, parameters and random nodes are equal to themselves alone. Labels keep their own names.
    """
    first: dict[tuple[object, ...], Node] = {}

    def replace(node: Node) -> Node:
        if node.op.is_label:
            return node
        op = node.op
        # Ops without settings are equal by class: no need to compare them.
        settings = op if op.__dict__ or op.by_identity else None
        return first.setdefault((type(op), settings, node.dtype.num, *map(id, node.inputs)), node)

    return graph.rewrite(replace)
