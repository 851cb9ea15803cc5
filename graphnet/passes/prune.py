"""Prune: nothing is computed that no output needs."""

from __future__ import annotations

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.leaf import Label, StopGradient
from graphnet.ops.shape import Slice

__all__ = ["prune"]


def prune(graph: Graph) -> Graph:
    """Labels and stop-gradients vanish (no derivative is taken any more), and a slice of a joined array
    reads the join's input itself, so that inputs which nobody reads are not computed.

    Nodes that no output depends on are in no Graph to begin with.
    """
    return graph.rewrite(_replace)


def _replace(node: Node) -> Node:
    match node.op:
        case Label() | StopGradient():
            return node.inputs[0]
        case Slice(key=key):
            (x,) = node.inputs
            smaller = x.op.sliced(key, x, *x.inputs)
            return node if smaller is None else smaller
    return node
