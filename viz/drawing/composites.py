"""Composites: groups of nodes drawn as one operator, such as a layer norm.

with gn.scope(composite="layer norm"):
    ...
"""

from __future__ import annotations

from dataclasses import dataclass

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node

#: The label of a scope that names a composite.
LABEL = "composite"


@dataclass(frozen=True)
class Composite:
    """Name, nodes (inputs first), and the node that others read."""

    name: str
    nodes: tuple[Node, ...]
    root: Node


def composites_of(graph: Graph) -> dict[Node, Composite]:
    """Composite of each node that belongs to one: connected nodes of one label with a single output."""
    leader: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        while leader[node] is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for node in graph.order:
        if node.is_leaf or node.scope.get(LABEL) is None:
            continue
        leader[node] = node
        for source in node.inputs:
            if source in leader and source.scope == node.scope:
                leader[find(source)] = node
    members: dict[Node, list[Node]] = {}
    for node in leader:
        members.setdefault(find(node), []).append(node)
    outputs = set(graph.outputs)
    found: dict[Node, Composite] = {}
    for nodes in members.values():
        inside = set(nodes)
        read = [n for n in nodes if n in outputs or any(c not in inside for c in graph.consumers[n])]
        if len(read) == 1 and len(nodes) > 1:
            composite = Composite(str(nodes[0].scope[LABEL]), tuple(nodes), read[0])
            found |= dict.fromkeys(nodes, composite)
    return found
