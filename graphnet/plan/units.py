"""Units of work, and the order in which they run."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from graphnet.graph.graph import Graph, Group, dependents
from graphnet.graph.node import Node
from graphnet.ops.broadcast import Sum
from graphnet.ops.elementwise import Add
from graphnet.ops.index import ScatterAdd
from graphnet.ops.linear import MatMul
from graphnet.ops.shape import Join, Transpose
from graphnet.passes.analysis import varying_nodes


@dataclass(eq=False)
class WorkUnit:
    """Unit of scheduling: a group, or one node."""

    nodes: tuple[Node, ...]
    group: Group | None
    position: int
    #: 0: depends on parameters and constants alone; 1: on no input that varies; 2: on one.
    phase: int = 0
    #: False: runs as soon as it can instead of in its turn.
    waits: bool = True
    before: int = 0
    then: list[WorkUnit] = field(default_factory=list)

    @property
    def turn(self) -> tuple[int, bool, int, int]:
        """Priority among units that can run; no two are equal. A product has the priority of its first reader."""
        product = self.waits and isinstance(self.nodes[0].op, MatMul)
        return self.phase, self.waits, self._first_read() if product else self.position, self.position

    def _first_read(self) -> int:
        first, pending = None, list(self.then)
        while pending:
            reader = pending.pop()
            if reader.nodes[0].op.is_view:
                pending += reader.then
            elif first is None or reader.position < first:
                first = reader.position
        return self.position if first is None else first


def units_of(graph: Graph) -> dict[Node, WorkUnit]:
    """The unit of each node that computes something, except nodes that are only read within their group."""
    home: dict[Node, WorkUnit] = {}
    position = {node: i for i, node in enumerate(graph.order)}
    inside: set[Node] = set()
    for group in graph.groups:
        unit = WorkUnit(group.nodes, group, max(position[n] for n in group.outputs))
        home |= dict.fromkeys(group.outputs, unit)
        inside.update(group.nodes)
    for i, node in enumerate(graph.order):
        if node.inputs and node not in inside:
            home[node] = WorkUnit((node,), None, i)
    return home


def in_order(graph: Graph, home: Mapping[Node, WorkUnit]) -> list[WorkUnit]:
    """The units as they run."""
    units = list(dict.fromkeys(home.values()))
    for unit in units:
        own = set(unit.nodes)
        seen: set[WorkUnit] = set()
        for node in unit.nodes:
            for source in node.inputs:
                other = home.get(source) if source not in own else None
                if other is not None and other is not unit and other not in seen:
                    seen.add(other)
                    other.then.append(unit)
                    unit.before += 1
    ready = []
    fed = [node for node in graph.order if not node.inputs and node.op.is_fed]
    fed_nodes = dependents(graph.order, fed)
    varying = varying_nodes(graph)
    for unit in units:
        unit.phase = 0 if fed_nodes.isdisjoint(unit.nodes) else 1 if varying.isdisjoint(unit.nodes) else 2
        unit.waits = not all(_adds_up(node) for node in unit.nodes)
        if not unit.before:
            ready.append((*unit.turn, unit))
    heapq.heapify(ready)
    ordered = []
    while ready:
        unit = heapq.heappop(ready)[-1]
        ordered.append(unit)
        for other in unit.then:
            other.before -= 1
            if not other.before:
                heapq.heappush(ready, (*other.turn, other))
    assert len(ordered) == len(units), "groups form a cycle"
    return ordered


def _adds_up(node: Node) -> bool:
    """True for sums and joins, which run as early as possible, while their operands are cached."""
    match node.op:
        case MatMul():
            return isinstance(node.inputs[0].op, Transpose)
        case Add() | Join() | ScatterAdd() | Sum():
            return True
    return node.op.is_view
