"""Expand: the softmax family, the losses, argmax, products scaled by case and lookups along later axes, in simpler ops.

A compiled back end then needs to know loops, reductions, products and lookups only, and what two ops share (the
exponentials of a loss and of its gradient) is computed once.
"""

from __future__ import annotations

from graphnet.graph.graph import Graph, ancestors, rewrite
from graphnet.graph.node import Node

__all__ = ["expand"]


def expand(graph: Graph) -> Graph:
    """Replaces each node whose op says what it is in other ops (see Op.expanded), and of these again."""
    return graph.rewrite(_simplest)


def _simplest(node: Node) -> Node:
    written_out = node.op.expanded(node, *node.inputs) if node.inputs and node.size else None
    if written_out is None:
        return node
    made = [x for x in ancestors([written_out], stop=node.inputs) if x not in node.inputs]
    return rewrite(made, _simplest).get(written_out, written_out)
