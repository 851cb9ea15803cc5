"""Fuse: elementwise nodes that can run as one loop become a group, which compiled back ends make one kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from graphnet.collector import collector_paused
from graphnet.expression import is_compilable
from graphnet.graph import Graph, Group
from graphnet.node import Node
from graphnet.ops.elementwise import Elementwise
from graphnet.ops.index import OneHot, Take
from graphnet.passes.analysis import varying_nodes

__all__ = ["fuse", "is_fusable"]

#: A group holds no chain longer than this: kernels stay small, however long a chain of nodes is.
LONGEST_CHAIN = 48
#: A sum of more terms is no part of a group; nor is a group of more nodes made: kernels would grow without end.
WIDEST = 16
LARGEST = 400
#: How long a chain of nodes may be that is computed again.
DEEPEST = 6
#: Functions that cost more than reading a value back; all else is done again rather than stored.
COSTLY = ("exp", "log", "tanh", "sin", "cos", "**", "sqrt", "/")


def is_fusable(node: Node) -> bool:
    """True for nodes that a loop over their elements can compute."""
    op = node.op
    if isinstance(op, Elementwise):
        return (
            len(node.inputs) <= WIDEST
            and node.dtype.kind != "u"
            and not any(x.dtype.kind == "u" for x in node.inputs)
            and is_compilable(op.kernel)
        )
    if isinstance(op, Take):
        x, index = node.inputs
        along_last = op.axis == 1 and index.ndim == 1
        return x.ndim == 2 and (op.axis == 0 or along_last) and node.dtype.kind != "u"
    return isinstance(op, OneHot) and node.dtype.kind != "u"


def _flows(source: Node, node: Node) -> bool:
    """True if an element of the node needs just that element of the source (both fusable)."""
    return source.shape == node.shape and not isinstance(node.op, (OneHot, Take))


def fuse(graph: Graph) -> Graph:
    """The same nodes, with groups.

    A node's level counts the boundaries (products, reductions, changes of shape) on the longest way to it, and tells
    whether it varies (see analysis.varying_nodes). Two nodes of one level and shape have no boundary between them, so
    joining all that are connected makes no cycle. Cheap nodes that only later groups read are computed there again
    instead of being stored.
    """
    with collector_paused():
        return Graph(graph.outputs, graph.inputs, _groups(graph))


def _groups(graph: Graph) -> list[Group]:
    order = graph.order
    fusable = {node for node in order if node.inputs and is_fusable(node)}
    level = _levels(order, fusable)
    sunk = _sunk(graph, fusable, level)
    group_of = _components(order, fusable - sunk, level)
    members: dict[object, list[Node]] = {}
    for node in order:
        if node in group_of:
            members.setdefault(group_of[node], []).append(node)
    outputs = set(graph.outputs)
    consumers = graph.consumers
    return [_group(nodes, sunk, outputs, consumers) for nodes in members.values()]


#: (boundaries passed, links of the chain since the last one // LONGEST_CHAIN) along the longest way; whether it varies.
Level = tuple[int, int, bool]


def _levels(order: Sequence[Node], fusable: set[Node]) -> dict[Node, Level]:
    varying = varying_nodes(order)
    level: dict[Node, Level] = {}
    chain: dict[Node, int] = {}
    for node in order:
        if not node.inputs:
            level[node] = (0, 0, node in varying)
            chain[node] = 0
            continue
        joins = node in fusable
        most, links = 0, 0
        for source in node.inputs:
            inside = joins and source in fusable and _flows(source, node)
            reached = level[source][0] + (0 if inside or not source.inputs else 1)
            length = chain[source] + 1 if inside else 0
            if reached > most:
                most, links = reached, length
            elif reached == most:
                links = max(links, length)
        chain[node] = links
        level[node] = (most, links // LONGEST_CHAIN, node in varying)
    return level


def _sunk(graph: Graph, fusable: set[Node], level: dict[Node, Level]) -> set[Node]:
    """Nodes that are computed again in each group that reads them."""
    sunk: dict[Node, int] = {}  # -> how many sunk nodes follow each other from here on
    kept = set(graph.outputs)
    stored: set[Node] = set(kept)
    consumers = graph.consumers

    def is_read_later(node: Node) -> bool:
        """True if all that read it are loops of a later level, or computed again themselves."""
        own = level[node]
        for r in consumers[node]:
            if r not in fusable or (r not in sunk and level[r] == own) or not _flows(node, r):
                return False
        return True

    for node in reversed(graph.order):
        if node not in fusable:
            stored.update(node.inputs)
            continue
        if node not in kept and _is_cheap(node) and is_read_later(node):
            unstored = [x for x in node.inputs if x.inputs and x in fusable and x not in stored]
            follow = 1 + max([sunk.get(r, 0) for r in consumers[node]], default=0)
            if len(unstored) <= 1 and follow <= DEEPEST:
                sunk[node] = follow
                stored.update(node.inputs)
                continue
        own = level[node]
        for source in node.inputs:
            if source not in fusable or level[source] != own or not _flows(source, node):
                stored.add(source)
    return set(sunk)


@cache
def _is_costly(kernel: str) -> bool:
    return any(function in kernel for function in COSTLY)


def _is_cheap(node: Node) -> bool:
    op = node.op
    if isinstance(op, (OneHot, Take)):
        return True
    return isinstance(op, Elementwise) and len(node.inputs) <= 2 and not _is_costly(op.kernel)


def _components(order: Sequence[Node], fusable: set[Node], level: dict[Node, Level]) -> dict[Node, Node]:
    """For each node, one that stands for its group."""
    parent = {node: node for node in fusable}

    def find(node: Node) -> Node:
        root = node
        while parent[root] is not root:
            root = parent[root]
        while parent[node] is not root:
            parent[node], node = root, parent[node]
        return root

    for node in order:
        if node in fusable:
            for source in node.inputs:
                if source in fusable and _flows(source, node) and level[source] == level[node]:
                    a, b = find(source), find(node)
                    if a is not b:
                        parent[b] = a
    found = {node: find(node) for node in fusable}
    size = Counter(found.values())
    return {node: root if size[root] <= LARGEST else node for node, root in found.items()}


def _group(
    nodes: list[Node], sunk: set[Node], outputs: set[Node], consumers: Mapping[Node, list[Node]]
) -> Group:
    own = set(nodes)
    computed = set(nodes)
    pending = list(nodes)
    while pending:
        for source in pending.pop().inputs:
            if source in sunk and source not in computed:
                computed.add(source)
                pending.append(source)
    given = tuple(n for n in nodes if n in outputs or any(r not in own for r in consumers[n]))
    return Group(tuple(sorted(computed, key=lambda n: n.serial)), given)
