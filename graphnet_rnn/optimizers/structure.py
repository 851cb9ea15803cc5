"""The hidden units of a cost, whose change structural damping penalises."""

from __future__ import annotations

from collections.abc import Iterable

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.ops.elementwise import Sigmoid, Tanh
from graphnet.passes.merge import values_of

__all__ = ["hidden_units"]


def hidden_units(outputs: Node | Iterable[Node]) -> list[tuple[Node, Node]]:
    """(a, h = e(a)) for each tanh and σ that the equations of cells have put into the outputs.

    Each unit is there once, however often the equations write it. Source: Sutskever 2013, 4.2.3.
    """
    graph = gn.Graph(outputs)
    squashed = [node for node in graph.order if isinstance(node.op, (Tanh, Sigmoid)) and "cell" in node.scope]
    value = values_of(graph)
    units: dict[Node, Node] = {}
    for node in squashed:
        units.setdefault(value[node], node)
    return [(node.inputs[0], node) for node in units.values()]
