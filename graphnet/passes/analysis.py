"""What passes want to know of a graph: which products may run side by side."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from graphnet.collector import collector_paused
from graphnet.graph import Graph
from graphnet.node import Node
from graphnet.ops.leaf import After, Input
from graphnet.ops.random import Random
from graphnet.provenance import attributed_to

__all__ = ["dynamic_nodes", "independent_groups", "replace_groups"]


def dynamic_nodes(order: Sequence[Node]) -> set[Node]:
    """What depends on inputs or random draws; all else depends on parameters and constants alone.

    To wait for something (see After) is not to depend on it.
    """
    found: set[Node] = set()
    for node in order:
        sources = node.inputs[:1] if isinstance(node.op, After) else node.inputs
        if isinstance(node.op, (Input, Random)) or not found.isdisjoint(sources):
            found.add(node)
    return found


def independent_groups(order: Sequence[Node], groups: Sequence[list[Node]]) -> list[list[Node]]:
    """The groups of two and more of which no member depends on another."""
    groups = [group for group in groups if len(group) > 1]
    bit = {node: 1 << g for g, group in enumerate(groups) for node in group}
    behind: dict[Node, int] = {}  # the groups that have a member behind a node, as bits
    tied = 0
    for node in order:
        mask = 0
        for source in node.inputs:
            mask |= behind[source]
        own = bit.get(node, 0)
        tied |= mask & own
        behind[node] = mask | own
    return [group for g, group in enumerate(groups) if not tied >> g & 1]


def replace_groups(
    graph: Graph, groups: Sequence[list[Node]], build: Callable[[list[Node]], Sequence[Node]]
) -> Graph:
    """The graph in which each group's members, with rewritten inputs, are replaced by build(members).

    Of groups that would wait for each other in a circle the smallest are dropped.
    """
    chosen = list(groups)
    if chosen and _in_order(graph.order, chosen):
        return _replaced_in_order(graph, chosen, build)
    while chosen:
        done, stuck = _replaced(graph, chosen, build)
        if not stuck:
            return Graph([done[node] for node in graph.outputs], graph.inputs)
        least = min(len(chosen[g]) for g in stuck)
        dropped = {g for g in stuck if len(chosen[g]) == least}
        chosen = [group for g, group in enumerate(chosen) if g not in dropped]
    return graph


def _in_order(order: Sequence[Node], groups: Sequence[list[Node]]) -> bool:
    """True if all that a group reads stands before its first member: no order must be found then."""
    place = {node: i for i, node in enumerate(order)}
    return all(
        max(place[source] for node in group for source in node.inputs) < min(place[node] for node in group)
        for group in groups
    )


def _replaced_in_order(
    graph: Graph, groups: Sequence[list[Node]], build: Callable[[list[Node]], Sequence[Node]]
) -> Graph:
    group_of = {node: group for group in groups for node in group}
    now: dict[Node, Node] = {}
    originals = iter(graph.order)

    def replace(node: Node) -> Node:
        original = next(originals)
        group = group_of.get(original)
        if group is None:
            now[original] = node
        elif original not in now:
            now.update(zip(group, build([_rebuilt(member, now) for member in group]), strict=True))
        return now[original]

    return graph.rewrite(replace)


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
