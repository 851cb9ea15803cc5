"""The plan of a run: in which order nodes run, when each value is last read, how much memory lives at once.

No back end is in it. Ops that only look at their input's memory (reshape, transpose, slice, broadcast)
keep that input alive and take no memory of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.leaf import Fill
from graphnet.system.memory import readable_bytes
from graphnet.system.process import collector_paused


class RunMemory(int):
    """Bytes of a run: `leaves` hold data, and intermediate values take at most `peak` at one time."""

    leaves: int
    peak: int

    def __new__(cls, leaves: int, peak: int) -> RunMemory:
        self = super().__new__(cls, leaves + peak)
        self.leaves, self.peak = leaves, peak
        return self

    def __str__(self) -> str:
        return f"{readable_bytes(self.leaves)} of leaves + {readable_bytes(self.peak)} at the peak of a run"


@dataclass(frozen=True)
class RunPlan:
    """`order`: the nodes as they run. `freed[i]`: positions of values that nothing reads after step i."""

    order: tuple[Node, ...]
    position: dict[Node, int]
    freed: tuple[tuple[int, ...], ...]
    memory: RunMemory


def make_plan(graph: Graph) -> RunPlan:
    """Order, lifetimes and memory; linear in the number of nodes."""
    with collector_paused():
        return _planned(graph)


# Running every node as late as possible, with the loss in chunks, is not faster (1,000 steps; also 50 steps
# of 1,000 sequences).
def _planned(graph: Graph) -> RunPlan:
    order = graph.order
    position = {node: i for i, node in enumerate(order)}
    last_read = list(range(len(order)))
    for i, node in enumerate(order):
        for source in node.inputs:
            last_read[position[source]] = i
    for node in graph.outputs:
        last_read[position[node]] = len(order)
    freed: list[list[int]] = [[] for _ in order]
    for i, last in enumerate(last_read):
        if last < len(order) and order[i].inputs:
            freed[last].append(i)
    return RunPlan(order, position, tuple(map(tuple, freed)), _memory(graph, position))


def _memory(graph: Graph, position: dict[Node, int]) -> RunMemory:
    owner: dict[Node, Node] = {}
    last_use: dict[Node, int] = {}
    end = len(graph.order)
    for i, node in enumerate(graph.order):
        owner[node] = owner[node.inputs[0]] if node.op.is_view else node
        last_use[owner[node]] = i
        for source in node.inputs:
            last_use[owner[source]] = i
    for node in graph.outputs:
        last_use[owner[node]] = end
    change = [0] * (end + 2)
    leaves = 0
    for node, last in last_use.items():
        if node.inputs:
            change[position[node]] += node.nbytes
            change[last + 1] -= node.nbytes
        elif not isinstance(node.op, Fill):
            leaves += node.nbytes
    live = peak = 0
    for delta in change:
        live += delta
        peak = max(peak, live)
    return RunMemory(leaves, peak)
