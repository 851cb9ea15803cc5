"""Analyses of a graph for passes: dependence on data, varying nodes, groups that can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphnet.graph.graph import Graph, dependents
from graphnet.graph.node import Node
from graphnet.graph.provenance import attributed_to
from graphnet.ops.leaf import Input
from graphnet.system.process import collector_paused


def data_dependent(order: Sequence[Node]) -> set[Node]:
    """Nodes that depend on inputs (other than weights) or random draws; all others depend on parameters and constants
    alone.

    To wait for something (see After) is not to depend on it.
    """
    found: set[Node] = set()
    for node in order:
        match node.op:
            case Input(weights=True):
                continue
        sources = node.inputs[:1] if node.op.is_view else node.inputs
        fed = not sources and node.op.is_fed
        if fed or not found.isdisjoint(sources):
            found.add(node)
    return found


def varying_nodes(graph: Graph) -> set[Node]:
    """Nodes that depend on, or wait for, varying inputs (see Function.again).

    Passes never join varying nodes with constant ones: `again` could not skip the constant ones.
    """
    return dependents(graph.order, [x for x in graph.inputs if x.op.varying])


def independent_groups(order: Sequence[Node], groups: Sequence[list[Node]]) -> list[list[Node]]:
    """The groups of two and more of which no member depends on another."""
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return []
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
    while chosen:
        done = _replaced(graph, chosen, build)
        if done is not None:
            return graph.rewritten(done)
        stuck = _stuck(graph, chosen)
        least = min(len(chosen[g]) for g in stuck)
        dropped = {g for g in stuck if len(chosen[g]) == least}
        chosen = [group for g, group in enumerate(chosen) if g not in dropped]
    return graph


def _replaced(
    graph: Graph, groups: Sequence[list[Node]], build: Callable[[list[Node]], Sequence[Node]]
) -> Mapping[Node, Node] | None:
    """Maps each node to its replacement, in the order of the graph; nodes on which a group depends come first.

    None if groups depend on each other.
    """
    group_of = {node: group for group in groups for node in group}
    done: dict[Node, Node] = {}
    waiting: set[Node] = set()  # first members of groups whose inputs are under way
    with collector_paused(), attributed_to() as made:
        for node in graph.order:
            if node in done:
                continue
            if node not in group_of:
                try:
                    done[node] = _rebuilt(node, done)
                    continue
                except KeyError:  # it reads a group's member that comes later
                    pass
            pending = [node]
            while pending:
                top = pending.pop()
                if top in done:
                    continue
                group = group_of.get(top)
                members = (top,) if group is None else group
                missing = [source for m in members for source in m.inputs if source not in done]
                if missing:
                    if group is not None:
                        if group[0] in waiting:
                            return None
                        waiting.add(group[0])
                    pending += [top, *missing]
                elif group is None:
                    done[top] = _rebuilt(top, done)
                else:
                    made.model = group[0]
                    done.update(zip(group, build([_rebuilt(m, done) for m in group]), strict=True))
    return done


def _stuck(graph: Graph, groups: Sequence[list[Node]]) -> list[int]:
    """Indices of groups that depend on each other, or on such groups."""
    group_of = {node: g for g, group in enumerate(groups) for node in group}
    order = graph.order
    # Units by number: groups first, then nodes.
    unit = {node: group_of.get(node, len(groups) + i) for i, node in enumerate(order)}
    waits = [0] * (len(groups) + len(order))
    then: list[list[int]] = [[] for _ in waits]
    for node in order:
        for source in node.inputs:
            then[unit[source]].append(unit[node])
            waits[unit[node]] += 1
    ready = [i for i in {*unit.values()} if not waits[i]]
    while ready:
        for i in then[ready.pop()]:
            waits[i] -= 1
            if not waits[i]:
                ready.append(i)
    return [g for g in range(len(groups)) if waits[g]]


def _rebuilt(node: Node, done: Mapping[Node, Node]) -> Node:
    inputs = tuple([done[source] for source in node.inputs])
    return node if inputs == node.inputs else node.replace_inputs(inputs)
