"""Matching of the nodes of a graph before and after a compiler pass."""

from __future__ import annotations

from collections import deque
from typing import Any

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node


def kept_nodes(before: Graph, after: Graph) -> dict[Node, Node]:
    """Node of the second graph -> the same node in the first.

    Nodes match if they are identical, or have the same op, shape, name and source line; inputs may differ. Of several
    such nodes, the first match.
    """
    same = set(before.order) & set(after.order)
    old: dict[tuple[Any, ...], deque[Node]] = {}
    for node in before.order:
        if node not in same:
            old.setdefault(_identity(node), deque()).append(node)
    kept = {node: node for node in same}
    for node in after.order:
        if node not in same and (left := old.get(_identity(node))):
            kept[node] = left.popleft()
    return kept


def _identity(node: Node) -> tuple[Any, ...]:
    return type(node.op), node.op, node.shape, node.dtype, node.name, node.source_serial
