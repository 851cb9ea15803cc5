"""Changes that a reader makes in the page: a node held at a value, an input of an operator cut.

The page computes a second graph. In it, each operator's value goes through a switch to a value of the reader's, and
each input of an operator through a switch to zero. Gradients and tangents of this graph are those of the changed one,
by the rules of the ops.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops.elementwise import Where
from graphnet.ops.leaf import Fill
from graphnet.passes import DEFAULT, optimize
from graphnet.plan import lower
from graphnet.plan.instructions import Loop, MatrixProduct, Scatter
from viz.explorer.program import PageProgram

#: Maximum number of nodes of a graph, and of elements of all its values, that the page computes.
NODES, ELEMENTS = 500, 1_000_000
_PASSES = tuple(step for step in DEFAULT if step.name in ("prune", "merge", "simplify", "expand"))


@dataclass
class Switched:
    """Graph with switches.

    free: operator -> (True for its own value, other value). joined: (operator, position of an input) -> False to cut
    it. of: node -> its node in this graph, for values and gradients. moved: likewise, for tangents.
    """

    free: dict[Node, tuple[Node, Node]] = field(default_factory=dict)
    joined: dict[tuple[Node, int], Node] = field(default_factory=dict)
    of: dict[Node, Node] = field(default_factory=dict)
    moved: dict[Node, Node] = field(default_factory=dict)


def switched(graph: Graph, cost: Node | None = None, moving: Iterable[Node] = ()) -> Switched:
    """The graph with a switch after each operator, and at each of its inputs.

    cost: of the gradients. moving: nodes with a direction. A derivative along a path that a switch cuts is 0, even if
    the derivative of an operator on the path is infinite.
    """
    made = Switched()
    for node in graph.order:
        if node.inputs and is_float(node.dtype):
            made.free[node] = gn.input((), "bool"), gn.input((), node.dtype)
            floats = (slot for slot, source in enumerate(node.inputs) if is_float(source.dtype))
            made.joined |= {(node, slot): gn.input((), "bool") for slot in floats}
    made.of = _copies(graph, made, before=_read(graph, made, cost))
    made.moved = _copies(graph, made, after=_moved(graph, made, moving))
    return made


def _copies(
    graph: Graph,
    made: Switched,
    before: Mapping[Node, Node] | None = None,
    after: Mapping[Node, Node] | None = None,
) -> dict[Node, Node]:
    """Nodes with the switches. before, after: flags of operators whose inputs, or own value, have derivatives."""
    of: dict[Node, Node] = {}
    for node in graph.order:
        inputs = []
        for slot, source in enumerate(node.inputs):
            value = of[source]
            if (node, slot) in made.joined:
                value = gn.where(made.joined[node, slot], value, gn.fill(0, (), source.dtype))
                value = _gated(value, node, before)
            inputs.append(value)
        of[node] = node.replace_inputs(tuple(inputs)) if inputs else node
        if node in made.free:
            own, other = made.free[node]
            of[node] = gn.where(own, _gated(of[node], node, after), other)
    return of


def _gated(value: Node, node: Node, flags: Mapping[Node, Node] | None) -> Node:
    """The value, without derivatives if the flag is False; `_without_gates` removes this."""
    if flags is None or node not in flags:
        return value
    with gn.scope(gate=True):
        return gn.where(flags[node], value, gn.stop_gradient(value))


def _read(graph: Graph, made: Switched, cost: Node | None) -> dict[Node, Node]:
    """For each operator a flag: it has its own value, and the cost depends on it."""
    flags: dict[Node, Node] = {}
    read = {} if cost is None else {cost: gn.constant(True)}
    for node in reversed(graph.order):
        if node not in read or node not in made.free:
            continue
        flags[node] = read[node] & made.free[node][0]
        for slot, source in enumerate(node.inputs):
            if (node, slot) in made.joined:
                flag = flags[node] & made.joined[node, slot]
                read[source] = read[source] | flag if source in read else flag
    return flags


def _moved(graph: Graph, made: Switched, moving: Iterable[Node]) -> dict[Node, Node]:
    """For each operator a flag: it depends on a node with a direction."""
    flags: dict[Node, Node] = {}
    moved = {node: gn.constant(True) for node in moving}
    for node in graph.order:
        for slot, source in enumerate(node.inputs):
            if source in moved and (node, slot) in made.joined:
                flag = moved[source] & made.joined[node, slot]
                flags[node] = flags[node] | flag if node in flags else flag
        if node in flags:
            moved.setdefault(node, flags[node] & made.free[node][0])
    return flags


def _without_gates(graph: Graph) -> Graph:
    def replace(node: Node) -> Node:
        if isinstance(node.op, Where) and node.scope.get("gate") and node.inputs[2].op.stops_gradient:
            return node.inputs[1]
        return node

    return graph.rewrite(replace)


def program_of(
    graph: Graph, given: Mapping[Node, Array], ids: Mapping[Node, int], cost: Node | None, wrt: Iterable[Node],
    tangents: Mapping[Node, Any], rop: Iterable[Node],
) -> dict[str, Any] | None:  # fmt: skip
    """Data from which the page computes values, ∂cost/∂node of `wrt`, and R{node} of `rop`; None if it cannot.

    It cannot if an op runs in Python only, or if the graph is large.
    """
    if len(graph) > NODES:
        return None
    made = switched(graph, cost, tangents)
    kinds = {"forward": list(graph.order), "backward": list(wrt), "rop": list(rop)}
    outputs = [made.of[node] for node in graph.order]
    if cost is not None and kinds["backward"]:
        seed = {made.of[cost]: gn.fill(1, (), cost.dtype)}
        outputs += gn.backward(seed, [made.of[node] for node in kinds["backward"]])
    if kinds["rop"]:
        directions = {made.moved[node]: tangent for node, tangent in tangents.items()}
        outputs += gn.rop([made.moved[node] for node in kinds["rop"]], directions)
    if sum(node.size for node in outputs) > ELEMENTS:
        return None
    lowered = lower(optimize(_without_gates(Graph(outputs)), _PASSES, {"loops"})[0])
    if not all(isinstance(each, (Loop, MatrixProduct, Scatter)) for each in lowered.instructions):
        return None
    program = PageProgram(lowered.instructions)
    places = iter(lowered.results)
    results = {
        kind: [[ids[node], program.view(next(places))] for node in nodes] for kind, nodes in kinds.items()
    }
    views = {
        n: program.view(v) for n, v in lowered.views.items() if not n.inputs and not isinstance(n.op, Fill)
    }
    own = {node: node.value for node in views if not node.op.is_input}
    arrays = {node: array for node, array in (own | dict(given)).items() if node in views}
    return {
        "results": results,
        "leaves": [
            [ids[node] if _is_free(node) else -1, views[node], _encoded(array)]
            for node, array in arrays.items()
        ],
        "free": [
            [ids[n], views[a], views[b]] for n, (a, b) in made.free.items() if a in views and b in views
        ],
        "joined": [[ids[n], slot, views[x]] for (n, slot), x in made.joined.items() if x in views],
        "buffers": program.buffers,
        "forms": program.forms,
        "calls": program.calls,
    }


def _is_free(node: Node) -> bool:
    """True for a leaf that a reader can change: not for constants, which passes may join, and not for indices."""
    return (node.op.is_input or node.op.is_parameter) and is_float(node.dtype)


def _encoded(array: Array) -> str:
    """Base64 of its elements in row order, in the format of the page's arrays."""
    kept = array if array.dtype.kind == "f" and array.dtype.itemsize > 2 else array.astype("float64")
    return base64.b64encode(np.ascontiguousarray(kept, kept.dtype.newbyteorder("<")).tobytes()).decode()
