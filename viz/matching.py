"""Matching: which nodes of a graph a pass has kept."""

from __future__ import annotations

from collections import deque
from typing import Any

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node

__all__ = ["kept_nodes"]


def kept_nodes(before: Graph, after: Graph) -> dict[Node, Node]:
    """For each node of the second graph that the first has as well, that one there.

    A node is in both if it is the same, or if one of the same op, shape, name and place in the user's program is; so
    what merely reads something else than before is kept. Of several such, the first are.
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
