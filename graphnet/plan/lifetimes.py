"""Lifetimes: from when to when each piece of memory is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphnet.plan.lowering import Lowered
from graphnet.plan.views import Buffer

__all__ = ["lifetimes"]


def lifetimes(
    lowered: Lowered, touched: Sequence[Iterable[Buffer]], fixed: int
) -> tuple[dict[Buffer, int], dict[Buffer, int]]:
    """The first and the last step that needs each buffer; touched: for each step, what it reads and writes.

    What is brought in is there before step 0, and results outlive the last step. What the steps from `fixed` on read of
    those before lives to the end, for they may run again.
    """
    graph, end = lowered.graph, len(touched)
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for i, buffers in enumerate(touched):
        for buffer in buffers:
            first.setdefault(buffer, i)
            last[buffer] = i
    for node in (*graph.inputs, *lowered.copied_leaves):
        if node in lowered.views:
            buffer = lowered.views[node].buffer
            first[buffer] = -1
            last.setdefault(buffer, -1)
    for view in lowered.results:
        last[view.buffer] = end
        first.setdefault(view.buffer, end)
    if fixed:
        last |= {buffer: end for buffer in first if first[buffer] < fixed <= last[buffer]}
        again = (node for node in graph.inputs if node.op.varying)
        last |= {lowered.views[node].buffer: end for node in again if node in lowered.views}
    return first, last
