"""One time step of any cell in another engine's arrays: its graph, after our passes, node by node.

So every engine computes the same equations, with the gates' products merged as a competent user would merge them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import graphnet_rnn as rnn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.elementwise import Elementwise

Tensor = Any


@dataclass(frozen=True)
class Engine:
    """Operations of an engine; `functions`: tanh, sigmoid, exp, ... by name."""

    name: str
    functions: Mapping[str, Callable[..., Tensor]]
    constant: Callable[[Any], Tensor]
    take: Callable[[Tensor, Tensor, int], Tensor]
    scatter_add: Callable[[Tensor, Tensor, int, int], Tensor]
    concatenate: Callable[[list[Tensor], int], Tensor]
    stack: Callable[[list[Tensor], int], Tensor]
    broadcast: Callable[[Tensor, tuple[int, ...]], Tensor]
    transpose: Callable[[Tensor, tuple[int, ...]], Tensor]


@dataclass(frozen=True)
class Step:
    """A time step as a graph: (symbols [1, batch], states) -> (input of the readout, states)."""

    graph: Graph
    parameters: Mapping[str, Node]
    inputs: tuple[Node, ...]

    def function(self, engine: Engine) -> Callable[..., tuple[Tensor, tuple[Tensor, ...]]]:
        """(weights by name, symbols [batch], states) -> (hidden, states), as straight code that compilers can read."""
        scope: dict[str, Any] = {**engine.functions, "engine": engine}
        names: dict[Node, str] = {node: f"weights[{name!r}]" for name, node in self.parameters.items()}
        for i, node in enumerate(self.inputs):
            names[node] = f"states[{i - 1}]" if i else "symbols[None]"
        lines = ["def step(weights, symbols, states):"]
        for i, node in enumerate(self.graph.order):
            if node in names:
                continue
            op: Any = node.op
            if op.name == "Constant":
                scope[f"k{i}"] = engine.constant(op.value)
                names[node] = f"k{i}"
                continue
            names[node] = f"v{i}"
            lines.append(f"    v{i} = {_code(node, [names[x] for x in node.inputs])}")
        hidden, *after = (names[node] for node in self.graph.outputs)
        lines.append(f"    return {hidden}[0], ({', '.join(after)},)")
        exec("\n".join(lines), scope)
        made: Callable[..., tuple[Tensor, tuple[Tensor, ...]]] = scope["step"]
        return made


def step_of(network: rnn.Network, batch: int) -> Step:
    u = network.unroll(1, batch)
    graph = Graph([*u.hidden, *u.final], [u.inputs, *u.initial])
    for step in (
        passes.prune, passes.merge, passes.simplify, passes.stack_columns, passes.fold, passes.merge, passes.prune,
    ):  # fmt: skip
        graph = step(graph)
    return Step(graph, network.parameters, (u.inputs, *u.initial))


def _code(node: Node, x: list[str]) -> str:
    op: Any = node.op
    name = op.name
    if name == "Fill":
        return repr(op.number)
    if name == "Slice":
        key = ", ".join(str(k) if isinstance(k, int) else f"{k[0]}:{k[1]}:{k[2]}" for k in op.key)
        return f"{x[0]}[{key}]"
    if name == "Reshape":
        return f"{x[0]}.reshape({op.to})"
    if name in ("Transpose", "BroadcastTo"):
        function, setting = ("transpose", op.axes) if name == "Transpose" else ("broadcast", op.to)
        return f"engine.{function}({x[0]}, {setting})"
    if name == "MatMul":
        return f"{x[0]} @ {x[1]}"
    if name == "Take":
        return f"engine.take({x[0]}, {x[1]}, {op.axis})"
    if name == "ScatterAdd":
        return f"engine.scatter_add({x[0]}, {x[1]}, {op.size}, {op.axis})"
    if name in ("Concatenate", "Stack"):
        return f"engine.{name.lower()}([{', '.join(x)}], {op.axis})"
    if name == "Add":
        return " + ".join(x)
    if isinstance(op, Elementwise):
        return re.sub(r"\b[xyz]\b", lambda match: f"({x['xyz'.index(match[0])]})", op.kernel)
    raise NotImplementedError(f"{name} has no translation")
