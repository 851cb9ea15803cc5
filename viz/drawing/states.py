"""States of a layer: passed from time step to time step, their initial values and names.

The steps of a layer have the same equations. So a slot (node of the step, number of the input) that holds the initial
state in the first step holds that state in every later one.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from graphnet.graph.dtypes import is_float
from graphnet.graph.node import Node
from viz.drawing.condense import Groups, StepGroup, leaf_behind

_FIRST = re.compile(r"(?P<state>.+)_0(\^.*)?")
_LEARNED = re.compile(r"initial\.(?P<state>.+?)\d*")

Slot = tuple[int, int]


@dataclass
class States:
    """States of one row: initial nodes, and the slots in which a step reads them."""

    initial: list[Node] = field(default_factory=list)
    slots: dict[Slot, int] = field(default_factory=dict)
    first: StepGroup | None = None

    def name(self, index: int) -> str:
        """`h`; "" if the name is unknown."""
        return _state_name(self.initial[index])

    def read_by(self, group: StepGroup) -> Iterator[tuple[Node, str]]:
        """Nodes of earlier steps that a later step reads, state by state, each with its name."""
        # The last step may lack the last nodes, such as a state that nothing reads.
        if self.first is None or not _same_equations(self.first, group, len(group.nodes)):
            return
        found: dict[int, Node] = {}
        for (i, slot), index in self.slots.items():
            if i < len(group.nodes):
                found.setdefault(index, group.nodes[i].inputs[slot])
        for index in sorted(found):
            yield found[index], self.name(index)


def states_of(row: Hashable, groups: Groups) -> States:
    """States of a row."""
    steps = groups.steps(row)
    states = States()
    if not steps:
        return states
    outside = [
        (i, slot, node)
        for i, member in enumerate(steps[0].nodes)
        for slot, node in enumerate(member.inputs)
        if node not in groups.of
    ]
    if len(steps) > 1 and _same_equations(steps[0], steps[1]):
        states.first = steps[0]
        # A delay of d steps has d initial states, so later steps tell nothing more.
        few = steps[: len(outside) + 2]
        starts = [each for each in outside if _reads_the_past(few, *each[:2], groups)]
    else:
        starts = [(i, slot, node) for i, slot, node in outside if _looks_initial(node)]
    # Serials, unlike slots, are in the order in which the cell declares its states.
    states.initial = sorted({node for _, _, node in starts}, key=lambda node: node.serial)
    place = {node: index for index, node in enumerate(states.initial)}
    states.slots = {(i, slot): place[node] for i, slot, node in starts}
    return states


def _reads_the_past(steps: Sequence[StepGroup], i: int, slot: int, groups: Groups) -> bool:
    """True if some step reads an earlier one in this slot: the second, or a later one for a delay of several steps.

    Also if there are fewer steps, and they read several initial states in turn.
    """
    held = {leaf_behind(steps[0].nodes[i].inputs[slot])}
    for step in steps[1:]:
        if _same_equations(steps[0], step, i + 1) and i < len(step.nodes):
            held.add(leaf_behind(step.nodes[i].inputs[slot]))
            source = groups.of.get(step.nodes[i].inputs[slot])
            if source is not None:
                return source.column != step.column
    return len(held) > 1 and all(map(_state_name, held))


def _same_equations(a: StepGroup, b: StepGroup, count: int | None = None) -> bool:
    """True if the first `count` nodes are alike; by default all."""
    first, second = a.nodes[:count], b.nodes[:count]
    return len(first) == len(second) and all(
        type(x.op) is type(y.op) and len(x.inputs) == len(y.inputs)
        for x, y in zip(first, second, strict=True)
    )


def _looks_initial(node: Node) -> bool:
    """True if a node outside of all steps looks like an initial state, when there is only one step."""
    if _state_name(node):
        return True
    leaf = leaf_behind(node)
    # Weights have their layer in their scope, and a mask of time steps is no state.
    made_before = node.scope.get("time") is None and not leaf.scope and is_float(node.dtype)
    return made_before and bool(node.inputs or (node.op.everywhere is not None and node.shape))


def _state_name(node: Node) -> str:
    name = node.name or leaf_behind(node).name or ""
    match = _FIRST.fullmatch(name) or _LEARNED.fullmatch(name)
    return match["state"] if match else ""
