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
from graphnet.ops.leaf import Fill
from graphnet.passes import DEFAULT, optimize
from graphnet.plan import lower
from graphnet.plan.instructions import Loop, MatrixProduct, Scatter
from viz.explorer.program import PageProgram

__all__ = ["Switched", "program_of", "switched"]

#: Maximum number of nodes of a graph, and of elements of all its values, that the page computes.
NODES, ELEMENTS = 500, 1_000_000
_PASSES = tuple(step for step in DEFAULT if step.name in ("prune", "merge", "simplify", "expand"))


@dataclass
class Switched:
    """Graph with switches.

    of: node -> its node in this graph. free: operator -> (True for its own value, other value). joined: (operator,
    position of an input) -> False to cut it.
    """

    of: dict[Node, Node] = field(default_factory=dict)
    free: dict[Node, tuple[Node, Node]] = field(default_factory=dict)
    joined: dict[tuple[Node, int], Node] = field(default_factory=dict)


def switched(graph: Graph) -> Switched:
    """The graph with a switch after each operator, and at each of its inputs."""
    made = Switched()
    for node in graph.order:
        if not node.inputs:
            made.of[node] = node
            continue
        inputs = []
        for slot, source in enumerate(node.inputs):
            value = made.of[source]
            if is_float(source.dtype) and is_float(node.dtype):
                switch = made.joined[node, slot] = gn.input((), "bool")
                value = gn.where(switch, value, gn.fill(0, (), source.dtype))
            inputs.append(value)
        copy = node.replace_inputs(tuple(inputs))
        if is_float(node.dtype):
            made.free[node] = switch, value = gn.input((), "bool"), gn.input((), node.dtype)
            copy = gn.where(switch, copy, value)
        made.of[node] = copy
    return made


def program_of(
    graph: Graph, given: Mapping[Node, Array], ids: Mapping[Node, int], cost: Node | None, wrt: Iterable[Node],
    tangents: Mapping[Node, Any], rop: Iterable[Node],
) -> dict[str, Any] | None:  # fmt: skip
    """Data from which the page computes values, ∂cost/∂node of `wrt`, and R{node} of `rop`; None if it cannot.

    It cannot if an op runs in Python only, or if the graph is large.
    """
    if len(graph) > NODES:
        return None
    made = switched(graph)
    kinds = {"forward": list(graph.order), "backward": list(wrt), "rop": list(rop)}
    outputs = [made.of[node] for node in graph.order]
    if cost is not None and kinds["backward"]:
        seed = {made.of[cost]: gn.fill(1, (), cost.dtype)}
        outputs += gn.backward(seed, [made.of[node] for node in kinds["backward"]])
    if kinds["rop"]:
        directions = {made.of[node]: tangent for node, tangent in tangents.items()}
        outputs += gn.rop([made.of[node] for node in kinds["rop"]], directions)
    if sum(node.size for node in outputs) > ELEMENTS:
        return None
    lowered = lower(optimize(Graph(outputs), _PASSES, {"loops"})[0])
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
