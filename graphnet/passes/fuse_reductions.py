"""Fuse reductions: a sum or maximum runs in the loop that computes what it reads, which then need not be stored."""

from __future__ import annotations

from graphnet.graph.graph import Graph, Group
from graphnet.graph.node import Node
from graphnet.ops.broadcast import Reduction
from graphnet.system.collector import collector_paused

__all__ = ["LONG", "fuse_reductions"]

#: Elements of a vector that is reduced a chunk at a time (see plan.chunks), so that there are rows to divide.
LONG = 1 << 15


def fuse_reductions(graph: Graph) -> Graph:
    """The same groups, with the reductions of what they compute, where these are over the last axes and not the first,
    or over a long vector.

    Cores divide loops by the first axis, and a reduction adds nothing to what a group reads, so no group comes to wait
    for more than before. All reductions of a group are over the same axes, those of its first one.
    """
    with collector_paused():
        return graph.with_groups([_with_reductions(graph, group) for group in graph.groups])


def _with_reductions(graph: Graph, group: Group) -> Group:
    found: list[Node] = []
    over: tuple[int, ...] = ()
    for node in (n for n in group.outputs if not _last_axes(n)):
        for reader in graph.consumers[node]:
            axes = _last_axes(reader)
            if axes and axes == (over or axes):
                over = axes
                found.append(reader)
    if not found:
        return group
    inside = {*group.nodes, *found}
    kept = set(graph.outputs)
    stored = [n for n in group.outputs if n in kept or any(r not in inside for r in graph.consumers[n])]
    return Group((*group.nodes, *found), (*stored, *found))


def _last_axes(node: Node) -> tuple[int, ...]:
    """The axes of a reduction that loops know, if it is over the last ones and not the first, or of a long vector."""
    match node.op:
        case Reduction(axes=axes, how=how) if how:
            ndim = node.inputs[0].ndim
            if ndim == 1:
                return axes if len(axes) == 1 and node.inputs[0].size >= LONG else ()
            return axes if len(axes) < ndim and axes == tuple(range(ndim - len(axes), ndim)) else ()
    return ()
