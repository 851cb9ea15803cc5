"""Plant and costs of nodes, as functions of arrays with all derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import shown, whole_number


@dataclass(frozen=True)
class LinearisedPlant:
    """f_x, f_u of the plant, and ℓ to second order, at each step of a trajectory: (time, batch, ...)."""

    f_x: Array
    f_u: Array
    l_x: Array
    l_u: Array
    l_xx: Array
    l_ux: Array
    l_uu: Array
    final_x: Array
    final_xx: Array


class Plant:
    """x' = f(x, u, c), ℓ(x, u, c) and ℓ_T(x, c) for rows of states, commands and contexts; see ILQR."""

    def __init__(
        self,
        step: Callable[..., Node],
        running: Callable[..., Node],
        final: Callable[..., Node],
        states: int,
        commands: int,
        context: int,
        threads: int | None,
    ) -> None:
        self.states = whole_number("ILQR: states", states)
        self.commands = whole_number("ILQR: commands", commands)
        self.context = whole_number("ILQR: context", context, least=0)
        self.threads = None if threads is None else whole_number("ILQR: threads", threads)
        for name, function in (("step", step), ("running", running), ("final", final)):
            if not callable(function):
                raise UsageError(f"ILQR: {name} must be a function of nodes, not {shown(function)}")
        self._step, self._running, self._final = step, running, final
        self._functions: dict[tuple[str, int], gn.Function] = {}
        (
            self._moved(self._nodes(2)),
            self._ended(self._nodes(2)),
        )  # raises an error for functions that do not fit

    def arrays(self, start: Any, commands: Any, context: Any) -> tuple[Array, Array, Array | None]:
        """Converted x_0, û and c; raises UsageError for other shapes."""
        x0, u = (_array(name, value) for name, value in (("start", start), ("commands", commands)))
        if x0.ndim != 2 or x0.shape[1] != self.states or not len(x0):
            raise UsageError(f"ILQR.plan: start must be (batch, {self.states}), not {list(x0.shape)}")
        batch = len(x0)
        if u.ndim != 3 or u.shape[1:] != (batch, self.commands) or not len(u):
            raise UsageError(
                f"ILQR.plan: commands must be (time, {batch}, {self.commands}), not {list(u.shape)}"
            )
        if not self.context:
            if context is not None:
                raise UsageError(
                    "ILQR.plan: context is given, but this plant reads none; create it with ILQR(context=...)"
                )
            return x0, u, None
        if context is None:
            raise UsageError(f"ILQR.plan: context is missing; this plant reads {self.context} numbers of it")
        c = _array("context", context)
        whole = (len(u) + 1, batch, self.context)
        if c.shape not in (whole, whole[1:]):
            raise UsageError(
                f"ILQR.plan: context must be {list(whole)} or {list(whole[1:])}, not {list(c.shape)}"
            )
        return x0, u, np.array(np.broadcast_to(c, whole))

    # -- as functions of arrays --------------------------------------------------------------

    def step(self, x: Array, u: Array, c: Array | None) -> tuple[Array, Array]:
        """x' (rows, states) and ℓ (rows,)."""
        found = self._function("step", len(x))(*_given(x, u, c))
        return found[0], found[1]

    def final(self, x: Array, c: Array | None) -> Array:
        """ℓ_T, (rows,)"""
        return self._function("final", len(x))(*_given(x, c))[0]

    def linearised(self, x: Array, u: Array, c: Array | None) -> LinearisedPlant:
        """All derivatives along trajectories (time + 1, batch, states)."""
        time, batch, _ = u.shape
        rows = [None if a is None else a[:time].reshape(time * batch, a.shape[2]) for a in (x, u, c)]
        found = self._function("derivatives", time * batch)(*_given(*rows))
        ends = self._function("final derivatives", batch)(*_given(x[time], None if c is None else c[time]))
        return LinearisedPlant(*(a.reshape(time, batch, *a.shape[1:]) for a in found), *ends)

    def _function(self, what: str, rows: int) -> gn.Function:
        if (what, rows) not in self._functions:
            nodes = self._nodes(rows)
            make = {
                "step": self._moved,
                "final": self._ended,
                "derivatives": self._derivatives,
                "final derivatives": self._final_derivatives,
            }
            inputs = [nodes[0], *nodes[2:]] if what.startswith("final") else nodes
            self._functions[what, rows] = gn.compile(make[what](nodes), inputs, threads=self.threads)
        return self._functions[what, rows]

    # -- as nodes ----------------------------------------------------------------------------

    def _nodes(self, rows: int) -> list[Node]:
        widths = {"x": self.states, "u": self.commands, **({"c": self.context} if self.context else {})}
        return [gn.input((rows, width), "float64", name=name) for name, width in widths.items()]

    def _moved(self, nodes: Sequence[Node]) -> list[Node]:
        """x' and ℓ"""
        rows = nodes[0].shape[0]
        after = _of_shape("step", self._step(*nodes), (rows, self.states))
        return [after, _of_shape("running", self._running(*nodes), (rows,))]

    def _ended(self, nodes: Sequence[Node]) -> list[Node]:
        """ℓ_T"""
        return [_of_shape("final", self._final(nodes[0], *nodes[2:]), (nodes[0].shape[0],))]

    def _derivatives(self, nodes: Sequence[Node]) -> list[Node]:
        """f_x, f_u, ℓ_x, ℓ_u, ℓ_xx, ℓ_ux, ℓ_uu"""
        (after, cost), (x, u) = self._moved(nodes), nodes[:2]
        l_x, l_u = gn.gradient(gn.sum(cost), [x, u])
        by_x, by_u = ([_by_columns(y, z) for y, z in pairs] for pairs in (
            ((after, x), (l_x, x), (l_u, x)), ((after, u), (l_u, u)),
        ))  # fmt: skip
        return [by_x[0], by_u[0], l_x, l_u, by_x[1], by_x[2], by_u[1]]

    def _final_derivatives(self, nodes: Sequence[Node]) -> list[Node]:
        """∂ℓ_T/∂x, ∂²ℓ_T/∂x²"""
        (slope,) = gn.gradient(gn.sum(self._ended(nodes)[0]), [nodes[0]])
        return [slope, _by_columns(slope, nodes[0])]


def _by_columns(y: Node, x: Node) -> Node:
    """∂y_ri/∂x_rj, (rows, i, j), by a forward pass for each column of x; rows are independent."""
    columns = []
    for j in range(x.shape[1]):
        unit = np.zeros(x.shape)
        unit[:, j] = 1
        columns += gn.rop([y], {x: gn.constant(unit)})
    return gn.stack(columns, axis=2)


def _of_shape(name: str, node: Any, shape: tuple[int, ...]) -> Node:
    if not isinstance(node, Node):
        raise UsageError(f"ILQR: {name} must return a node, not {shown(node)}")
    if node.shape != shape:
        raise UsageError(
            f"ILQR: {name} must return ({', '.join(map(str, ('batch', *shape[1:])))}) numbers, here {list(shape)}, but "
            f"{node.describe()} (made at {node.origin}) has the shape {list(node.shape)}"
        )
    return node


def _array(name: str, value: Any) -> Array:
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"ILQR.plan: {name} must be an array of numbers: {error}") from None
    if not np.isfinite(array).all():
        raise UsageError(f"ILQR.plan: {name} must be finite")
    return array


def _given(*arrays: Array | None) -> list[Array]:
    return [array for array in arrays if array is not None]
