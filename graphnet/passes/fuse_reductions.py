"""Fuse reductions: a sum or maximum runs in the loop that computes what it reads, which then need not be stored."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.collector import collector_paused
from graphnet.graph import Graph, Group
from graphnet.node import Node
from graphnet.ops.broadcast import Sum
from graphnet.ops.reduce import Max, Min

__all__ = ["LONG", "REDUCTIONS", "fuse_reductions"]

#: The reductions that loops know, by their op.
REDUCTIONS: dict[type, str] = {Sum: "sum", Max: "max", Min: "min"}
#: Elements of a vector that is reduced a stretch at a time (see plan.stretches), so that there are rows to divide.
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
    for node in (n for n in group.outputs if type(n.op) not in REDUCTIONS):
        for reader in graph.consumers[node]:
            if _is_by_rows(reader) and (not found or reader.op.axes == found[0].op.axes):  # type: ignore[attr-defined]
                found.append(reader)
    if not found:
        return group
    inside = {*group.nodes, *found}
    kept = set(graph.outputs)
    stored = [n for n in group.outputs if n in kept or any(r not in inside for r in graph.consumers[n])]
    return Group((*group.nodes, *found), (*stored, *found))


def _is_by_rows(node: Node) -> bool:
    if type(node.op) not in REDUCTIONS:
        return False
    axes: Sequence[int] = node.op.axes  # type: ignore[attr-defined]
    ndim = node.inputs[0].ndim
    if ndim == 1:
        return len(axes) == 1 and node.inputs[0].size >= LONG
    return 0 < len(axes) < ndim and tuple(axes) == tuple(range(ndim - len(axes), ndim))
