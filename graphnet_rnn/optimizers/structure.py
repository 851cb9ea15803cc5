"""The hidden units of a cost, whose change structural damping penalises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.ops.broadcast import BroadcastTo
from graphnet.ops.elementwise import Sigmoid, Tanh, Where
from graphnet.passes.merge import values_of

__all__ = ["ENDED", "hidden_units"]

#: The scope's composite of a choice between what a step makes of a state and, where a case has ended, what it was.
ENDED = "case has ended"


def hidden_units(outputs: Node | Iterable[Node]) -> list[tuple[Node, Node]]:
    """(a, h = e(a)) for each tanh and σ that the equations of cells have put into the outputs.

    Each unit is there once, however often the equations write it; h is 0 where a case has ended.
    Source: Sutskever 2013, 4.2.3.
    """
    graph = gn.Graph(outputs)
    squashed = [node for node in graph.order if isinstance(node.op, (Tanh, Sigmoid)) and "cell" in node.scope]
    value = values_of(graph)
    units: dict[Node, Node] = {}
    for node in squashed:
        units.setdefault(value[node], node)
    inside = dict(_cases_inside(graph))
    return [(h.inputs[0], gn.where(inside[h], h, 0) if h in inside else h) for h in units.values()]


def _cases_inside(graph: gn.Graph) -> Iterator[tuple[Node, Node]]:
    """(node, which cases have its step) for all nodes of steps that some cases have not."""
    seen: set[Node] = set()
    for choice in graph.order:
        if isinstance(choice.op, Where) and choice.scope.get("composite") == ENDED:
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
    """The layer and step of a node: what a step makes is connected within them."""
    return tuple(node.scope.get(label) for label in ("layer", "time"))
