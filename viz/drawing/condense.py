"""Groups of the nodes of a graph by time step and layer.

Rows are layers, or parts of a layer, such as the two directions of a bidirectional one; columns are time steps. Nodes
before all time steps (initial states) and after them (the cost) belong to no group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from viz.errors import DrawingError

#: Row of nodes between networks.
BETWEEN = "between"


@dataclass(eq=False)
class StepGroup:
    """Nodes of one row at one time step, inputs first."""

    column: int
    row: Hashable
    nodes: list[Node] = field(default_factory=list)

    @property
    def label(self) -> dict[str, Any]:
        """Scope of its nodes."""
        return {key: value for node in self.nodes for key, value in node.scope.items()}


@dataclass(frozen=True)
class Groups:
    """All groups, the nodes after them, and the rows from bottom to top.

    parts: columns of each network, if one runs after the other, as encoder and decoder; a free column is between them.
    numbers: column -> number of the time step, in its network.
    reversed: rows that run from the last time step to the first.
    """

    parts: tuple[range, ...]
    numbers: dict[int, Any]
    every: list[StepGroup]
    of: dict[Node, StepGroup]
    after: list[Node]
    inputs: list[Hashable]
    rows: list[Hashable]
    cells: set[Hashable]
    reversed: set[Hashable]

    def steps(self, row: Hashable) -> list[StepGroup]:
        """Time steps of a row, in the order in which the row runs."""
        found = (group for group in self.every if group.row == row)
        return sorted(found, key=lambda group: group.column, reverse=row in self.reversed)

    def part_of(self, row: Hashable) -> range:
        """Columns of the network of a row."""
        column = self.steps(row)[0].column
        return next(part for part in self.parts if column in part)


def times_of(graph: Graph) -> list[Any]:
    """Time steps of a graph: sorted if they are numbers, else in order of appearance."""
    found = {n.scope["time"]: None for n in graph.order if n.inputs and n.scope.get("time") is not None}
    return sorted(found) if all(isinstance(time, (int, float)) for time in found) else list(found)


def condense(graph: Graph) -> Groups:
    """Groups of a graph; raises DrawingError if it has no time steps, or if values flow back in time."""
    times = times_of(graph)
    if not times:
        raise DrawingError("closed: there are no time steps in this graph; draw it with closed=False.")
    column = {time: i for i, time in enumerate(times)}
    at: dict[tuple[int, Hashable], StepGroup] = {}
    of: dict[Node, StepGroup] = {}
    after: dict[Node, None] = {}
    weights: set[Node] = set()
    between = _between(graph, column)
    flow = _Flow()
    for node in graph.order:
        place = column.get(node.scope.get("time"), between.get(node))
        own = node.op.is_parameter or node.op.everywhere is not None
        if own or (node.op.moves and weights.issuperset(node.inputs)):
            weights.add(node)  # an optimized graph shares these among time steps: they carry no state
        elif node.inputs and place is not None:
            row = BETWEEN if node in between else _row(node)
            group = of[node] = at.setdefault((place, row), StepGroup(place, row))
            group.nodes.append(node)
            if any(x in after for x in node.inputs):
                raise _backwards(node)
            flow.add(node, group, (of[x] for x in node.inputs if x in of))
        elif any(x in of or x in after for x in node.inputs):
            after[node] = None
    every = list(at.values())
    inputs, rows, cells = _rows(every, of)
    parts, numbers = _parts(times, every)
    ends = _ends(every)
    rows.sort(key=lambda row: next(i for i, part in enumerate(parts) if ends[row] in part))
    return Groups(parts, numbers, every, of, list(after), inputs, rows, cells, flow.reversed)


def _ends(every: list[StepGroup]) -> dict[Hashable, int]:
    """Last column of each row."""
    found: dict[Hashable, int] = {}
    for group in every:
        found[group.row] = max(group.column, found.get(group.row, 0))
    return found


def _parts(times: list[Any], every: list[StepGroup]) -> tuple[tuple[range, ...], dict[int, Any]]:
    """Parts and numbers of Groups; moves the groups of later parts to the right."""
    ends = _ends(every)
    last = [0] * len(times)  # of all rows with a step in this column
    for group in every:
        if group.row != BETWEEN:
            last[group.column] = max(last[group.column], ends[group.row])
    begins = [0, *(c for c, reach in enumerate(accumulate(last[:-1], max), start=1) if reach < c)]
    if 2 * len(begins) > len(times):  # layers of one step
        begins = [0]
    parts, numbers = [], {}
    for shift, (begin, end) in enumerate(pairwise([*begins, len(times)])):
        parts.append(range(begin + shift, end + shift))
        for c in range(begin, end):
            counted = shift > 0 and isinstance(times[c], int)
            numbers[c + shift] = c - begin + 1 if counted else times[c]
    for group in every:
        group.column += sum(begin <= group.column for begin in begins[1:])
    return tuple(parts), numbers


def _between(graph: Graph, column: dict[Any, int]) -> dict[Node, int]:
    """Nodes between steps, outside of all of them -> column of the last step that each depends on."""
    latest: dict[Node, int] = {}
    found: dict[Node, int] = {}
    for node in graph.order:
        place = column.get(node.scope.get("time"))
        if place is None:
            made_of = [column.get(x.scope.get("time"), latest.get(x)) for x in node.inputs if x.inputs]
            if columns := [c for c in made_of if c is not None]:
                latest[node] = max(columns)
            continue
        pending = [x for x in node.inputs if latest.get(x, place + 1) <= place]
        while pending:
            x = pending.pop()
            if x in latest and x not in found:
                found[x] = latest[x]
                pending.extend(x.inputs)
    return found


class _Flow:
    """Direction of each row; no row reads a later step of another, as derivatives do."""

    def __init__(self) -> None:
        self.onward: set[Hashable] = set()
        self.reversed: set[Hashable] = set()

    def add(self, node: Node, group: StepGroup, sources: Iterable[StepGroup]) -> None:
        for source in sources:
            if source.column < group.column and source.row == group.row:
                self.onward.add(group.row)
            elif source.column > group.column:
                self.reversed.add(group.row)
                if source.row != group.row:
                    raise _backwards(node)
        if group.row in self.onward & self.reversed:
            raise _backwards(node)


def _row(node: Node) -> Hashable:
    layer, part = node.scope.get("layer"), node.scope.get("part")
    found = node.scope.get("cell") if layer is None else layer
    row = found if part is None else (found, part)
    return row if isinstance(row, Hashable) else str(row)


def _backwards(node: Node) -> DrawingError:
    return DrawingError(
        f"closed: {node.describe()} (made at {node.origin}) at t={node.scope.get('time')} reads a value "
        "of a later step, as derivatives do; draw this graph with closed=False."
    )


def _rows(
    every: list[StepGroup], of: dict[Node, StepGroup]
) -> tuple[list[Hashable], list[Hashable], set[Hashable]]:
    """Rows that read no group; the others from bottom to top; rows with states."""
    level: dict[Hashable, int] = {group.row: 0 for group in every}
    upwards: set[tuple[Hashable, Hashable]] = set()
    cells = {group.row for group in every if group.label.get("cell") is not None}
    reads: set[Hashable] = set(cells)
    for group in every:
        for source in (of[x] for node in group.nodes for x in node.inputs if x in of):
            if source is not group:
                reads.add(group.row)
            if source.column == group.column and source.row != group.row:
                upwards.add((source.row, group.row))
            elif source.column != group.column and source.row == group.row:
                cells.add(group.row)
    for _ in level:
        for below, above in upwards:
            level[above] = max(level[above], level[below] + 1)
    if any(level[above] <= level[below] for below, above in upwards):
        raise DrawingError("closed: two layers read each other in one time step; draw with closed=False.")
    order = sorted(level, key=lambda row: level[row])  # stable: rows of one level as they appear
    return [r for r in order if r not in reads], [r for r in order if r in reads], cells


def leaf_behind(node: Node) -> Node:
    """Leaf from which a node is made by broadcasts and the like."""
    while node.inputs:
        node = node.inputs[0]
    return node


def data_behind(node: Node, groups: Groups) -> list[Node]:
    """Data that a node outside of all groups is computed from, without weights, numbers and masks."""
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if current not in groups.of and current not in seen:
            seen.add(current)
            pending.extend(reversed(current.inputs))
            if not current.inputs and not _is_inside(current):
                found[current] = None
    return list(found)


def _is_inside(leaf: Node) -> bool:
    if "ends" in leaf.scope:  # how many steps each case has
        return True
    if leaf.op.is_constant and leaf.op.everywhere is None:
        return leaf.name is None or "cell" in leaf.scope  # a cell's own, as its weights are
    return not leaf.op.is_input
