"""The hidden units of a cost, for structural damping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.ops.broadcast import BroadcastTo
from graphnet.ops.elementwise import Sigmoid, Tanh, Where
from graphnet.passes.merge import values_of
from graphnet_rnn.errors import UsageError

#: Scope of the choice between a new state and, for cases that have ended, the old one.
ENDED = "case has ended"


def hidden_units(outputs: Node | Iterable[Node]) -> list[tuple[Node, Node]]:
    """Returns (a, h = e(a)) for each tanh and σ of cells in the outputs.

    Each unit is listed once, even if the equations repeat it; h is 0 after the end of a case. Raises UsageError for a
    unit whose first axis is not that of the cases, so that ended cases cannot be excluded.
    Source: Sutskever 2013, 4.2.3.
    """
    graph = gn.Graph(outputs)
    squashed = [node for node in graph.order if isinstance(node.op, (Tanh, Sigmoid)) and "cell" in node.scope]
    # A case that has this step also has the one before, so this choice is the new state there.
    value = values_of(graph, _is_choice)
    units: dict[Node, Node] = {}
    for node in sorted(squashed, key=lambda node: node.serial):  # the first step with a unit has most cases
        units.setdefault(value[node], node)
    inside = dict(_cases_inside(graph))
    return [(h.inputs[0], _cut(h, inside[h]) if h in inside else h) for h in units.values()]


def _is_choice(node: Node) -> bool:
    return isinstance(node.op, Where) and node.scope.get("composite") == ENDED


def _cut(h: Node, inside: Node) -> Node:
    cases = inside.shape[0]
    if h.shape[:1] != (cases,):
        raise UsageError(
            f"structural damping: the first axis of {h.describe()} (made at {h.origin}) must be the {cases} "
            "cases, so that cases that have ended can be left out; put cases first in the cell's equations"
        )
    return gn.where(gn.reshape(inside, (cases,) + (1,) * (len(h.shape) - 1)), h, 0)


def _cases_inside(graph: gn.Graph) -> Iterator[tuple[Node, Node]]:
    """Yields (node, mask of cases) for all nodes of time steps that some cases do not have."""
    seen: set[Node] = set()
    for choice in graph.order:
        if _is_choice(choice):
            condition, new, _ = choice.inputs
            (inside,) = condition.inputs if isinstance(condition.op, BroadcastTo) else (condition,)
            pending = [new]
            while pending:
                node = pending.pop()
                if node not in seen and _place(node) == _place(choice):
                    seen.add(node)
                    yield node, inside
                    pending.extend(node.inputs)


def _place(node: Node) -> tuple[object, ...]:
    return tuple(node.scope.get(label) for label in ("layer", "time"))
