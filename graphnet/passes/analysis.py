"""What passes want to know of a graph: which products may run side by side."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from graphnet.collector import collector_paused
from graphnet.graph import Graph
from graphnet.node import Node
from graphnet.ops.leaf import Input
from graphnet.ops.linear import MatMul
from graphnet.ops.random import Random
from graphnet.provenance import attributed_to

__all__ = ["dynamic_nodes", "independent_groups", "replace_groups"]


def dynamic_nodes(order: Sequence[Node]) -> set[Node]:
    """What depends on inputs or random draws; all else depends on parameters and constants alone."""
    found: set[Node] = set()
    for node in order:
        if isinstance(node.op, (Input, Random)) or not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def independent_groups(order: Sequence[Node], groups: Sequence[list[Node]], split: bool) -> list[list[Node]]:
    """The groups of which no member depends on another.

    split: one that is not so is split by the number of products on the longest way to each member: on one
    way that number grows. Parts of one member are left out.
    """
    bit = {node: 1 << g for g, group in enumerate(groups) for node in group}
    behind: dict[Node, int] = {}
    level: dict[Node, int] = {}
    tied = 0
    for node in order:
        mask, depth = 0, 0
        for source in node.inputs:
            mask |= behind[source]
            reached = level[source]
            depth = max(depth, reached)
        own = bit.get(node, 0)
        if own:
            tied |= mask & own
        behind[node] = mask | own
        level[node] = depth + 1 if isinstance(node.op, MatMul) else depth
    result = []
    for g, group in enumerate(groups):
        if not tied >> g & 1:
            result.append(group)
        if not tied >> g & 1 or not split:
            continue
        by_level: dict[int, list[Node]] = defaultdict(list)
        for node in group:
            by_level[level[node]].append(node)
        result += by_level.values()
    return [group for group in result if len(group) > 1]


def replace_groups(
    graph: Graph, groups: Sequence[list[Node]], build: Callable[[list[Node]], Sequence[Node]]
) -> Graph:
    """The graph in which each group's members, with rewritten inputs, are replaced by build(members).

    Of groups that would wait for each other in a circle the smallest are dropped.
    """
    chosen = list(groups)
    while chosen:
        done, stuck = _replaced(graph, chosen, build)
        if not stuck:
            return Graph([done[node] for node in graph.outputs], graph.inputs)
        least = min(len(chosen[g]) for g in stuck)
        dropped = {g for g in stuck if len(chosen[g]) == least}
        chosen = [group for g, group in enumerate(chosen) if g not in dropped]
    return graph


def _replaced(
    graph: Graph, groups: Sequence[list[Node]], build: Callable[[list[Node]], Sequence[Node]]
) -> tuple[Mapping[Node, Node], list[int]]:
    order = graph.order
    # Numbers stand for nodes: 0 ... n - 1 by position, n + g for group g.
    n = len(order)
    number = {node: i for i, node in enumerate(order)}
    for g, group in enumerate(groups):
        for node in group:
            number[node] = n + g
    waits = [0] * (n + len(groups))
    then: list[list[int]] = [[] for _ in range(n + len(groups))]
    for node in order:
        own = number[node]
        for source in node.inputs:
            then[number[source]].append(own)
            waits[own] += 1
    # A group comes as early as it can, all else in the order that it had.
    place = {node: i for i, node in enumerate(order)}
    first = [min(place[node] for node in group) for group in groups]
    ready = [(i, i) for i in range(n) if number[order[i]] == i and not waits[i]]
    ready += [(first[g], n + g) for g in range(len(groups)) if not waits[n + g]]
    heapq.heapify(ready)
    done: dict[Node, Node] = {}
    left = len(groups)
    with collector_paused(), attributed_to() as made:
        while ready:
            _, i = heapq.heappop(ready)
            if i < n:
                node = order[i]
                done[node] = _rebuilt(node, done)
            else:
                left -= 1
                members = groups[i - n]
                rebuilt = [_rebuilt(m, done) for m in members]
                made.model = members[0]
                done.update(zip(members, build(rebuilt), strict=True))
            for j in then[i]:
                waits[j] -= 1
                if not waits[j]:
                    heapq.heappush(ready, (j if j < n else first[j - n], j))
    stuck = [g for g in range(len(groups)) if waits[n + g]] if left else []
    return done, stuck


def _rebuilt(node: Node, done: Mapping[Node, Node]) -> Node:
    inputs = tuple([done[source] for source in node.inputs])
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    return node.replace_inputs(inputs)
