"""Differentiable: y = f(x), Jv, Jᵀu and their derivatives, compiled on first use."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from graphnet.call.function import Function, compile
from graphnet.derivatives.gradient import backward, rop
from graphnet.errors import DifferentiationError, ShapeError, UsageError
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import Graph, Nodes, as_nodes, substitute
from graphnet.graph.node import Array, Node
from graphnet.ops.leaf import input

#: Maximum number of calls that keep their values until their cotangents arrive; further calls compute them again.
PROGRAMS = 4


def require_count(inputs: Sequence[Node], given: Sequence[Any], kind: str) -> None:
    """Raises ShapeError unless there is one of that kind for each input."""
    if len(given) != len(inputs):
        listed = ", ".join(node.describe() for node in inputs) or "none"
        raise ShapeError(
            f"this function takes {len(inputs)} {kind}(s) ({listed}), but {len(given)} were given"
        )


class Differentiable:
    """y = f(x), with Jv and Jᵀu

    outputs: nodes. inputs: Inputs, or parameters, which become arguments like other inputs.
    backend, threads: see gn.compile.
    Between a call and its backward pass, do not change parameters that are not inputs.
    Raises UsageError for an input that is neither, or listed twice, and for random values, which another draw could
    change in between; GraphnetError for an Input that is missing.

    >>> x = gn.input(2, "float64", name="x")
    >>> f = gn.inside.Differentiable(x**2, [x], backend="numpy")
    >>> f.value([3.0, 5.0])[0].tolist(), f.tangent.value([3.0, 5.0], [1.0, 0.0])[0].tolist()
    ([9.0, 25.0], [6.0, 0.0])
    >>> f.derivative.value([3.0, 5.0], [1.0, 1.0])[0].tolist()
    [6.0, 10.0]
    >>> started = f.begin([[3.0, 5.0]])
    >>> started.outputs[0].tolist(), started.gradients([[3.0, 5.0]], [[1.0, 1.0]])[0].tolist()
    ([9.0, 25.0], [6.0, 10.0])
    """

    def __init__(
        self, outputs: Nodes, inputs: Iterable[Node], backend: str = "numba", threads: int | None = None
    ) -> None:
        given = as_nodes(list(inputs), "inside: inputs")
        for node in given:
            if not (node.op.is_input or node.op.is_parameter):
                raise UsageError(
                    f"inside: {node.describe()} (made at {node.origin}) is neither an Input nor a parameter; "
                    "list only Inputs and parameters"
                )
            if given.count(node) > 1:
                raise UsageError(f"inside: inputs lists {node.describe()} twice; list each input once")
        fed = [input(node.shape, node.dtype, name=node.name) for node in given]
        found = substitute(list(as_nodes(outputs, "inside: outputs")), dict(zip(given, fed, strict=True)))
        graph = Graph(found, fed)  # raises if an Input is missing
        for node in graph.order:
            if node.is_leaf and node.op.is_fed and not node.op.is_input:
                raise UsageError(
                    f"inside: the outputs depend on {node.describe()} (made at {node.origin}), whose values change "
                    "outside of the function; make it an input, and pass its values"
                )
        self.outputs, self.inputs = list(found), fed
        self.backend, self.threads = backend, threads
        #: Positions of inputs and outputs with derivatives.
        self.float_inputs = [i for i, node in enumerate(fed) if is_float(node.dtype)]
        self.float_outputs = [i for i, node in enumerate(found) if is_float(node.dtype)]
        self._free: list[Function] = []
        self._made = 0
        self._lock = threading.Lock()

    def _compiled(self, outputs: Sequence[Node], inputs: Sequence[Node]) -> Function:
        return compile(outputs, inputs, backend=self.backend, threads=self.threads)

    @cached_property
    def value(self) -> Function:
        """x -> y"""
        return self._compiled(self.outputs, self.inputs)

    @cached_property
    def tangent(self) -> Differentiable:
        """(x, v) -> Jv for the float outputs, itself Differentiable; v: a tangent for each float input."""
        tangents = {self.inputs[i]: self._like(self.inputs[i]) for i in self.float_inputs}
        ends = [self.outputs[i] for i in self.float_outputs]
        moved = rop(ends, tangents)
        return Differentiable(moved, [*self.inputs, *tangents.values()], self.backend, self.threads)

    @cached_property
    def derivative(self) -> Differentiable:
        """(x, u) -> Jᵀu, itself Differentiable; u: a cotangent for each float output."""
        cotangents, gradients = self._pulled(False)
        return Differentiable(gradients, [*self.inputs, *cotangents], self.backend, self.threads)

    def begin(self, arrays: Sequence[Any]) -> Begun:
        """Returns a started call with its `outputs`; its method `gradients` takes their cotangents.

        arrays: one array for each input, of its shape and dtype.
        """
        return Begun(self, arrays, self._taken())

    def _pulled(self, varying: bool) -> tuple[list[Node], list[Node]]:
        ends = [self.outputs[i] for i in self.float_outputs]
        if not ends or not self.float_inputs:
            raise DifferentiationError(
                "inside: there is nothing to differentiate; at least one input and one output must be floats"
            )
        cotangents = [self._like(node, varying) for node in ends]
        # An output that is listed twice has two cotangents.
        seeds: dict[Node, Node] = {}
        for node, u in zip(ends, cotangents, strict=True):
            seeds[node] = seeds[node] + u if node in seeds else u
        return cotangents, backward(seeds, [self.inputs[i] for i in self.float_inputs])

    @staticmethod
    def _like(node: Node, varying: bool = False) -> Node:
        return input(node.shape, node.dtype, varying=varying)

    def _taken(self) -> Function | None:
        """Returns an unused program; None if the maximum is in use."""
        with self._lock:
            if self._free:
                return self._free.pop()
            if self._made == PROGRAMS:
                return None
            self._made += 1
        try:
            cotangents, gradients = self._pulled(True)
            return self._compiled([*self.outputs, *gradients], [*self.inputs, *cotangents])
        except BaseException:
            with self._lock:
                self._made -= 1
            raise

    def _give_back(self, program: Function) -> None:
        with self._lock:
            self._free.append(program)


class Begun:
    """A call before its backward pass. outputs: its values."""

    def __init__(self, of: Differentiable, arrays: Sequence[Any], program: Function | None) -> None:
        self._of, self._program = of, program
        self._lock = threading.Lock()
        #: Gradients that depend on no cotangent follow the outputs in what `begin` returns.
        begun = of.value(*arrays) if program is None else program.begin(*arrays)
        self.outputs: tuple[Array, ...] = begun[: len(of.outputs)]

    def gradients(self, arrays: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Array, ...]:
        """Returns Jᵀu for the float inputs.

        arrays: those of `begin`, since another call may have taken the program, and all is then computed again.
        """
        with self._lock:
            program, self._program = self._program, None
        if program is None:
            return self._of.derivative.value(*arrays, *cotangents)
        try:
            return program.again(*cotangents)[len(self._of.outputs) :]
        finally:
            self._of._give_back(program)

    def __del__(self) -> None:
        program = vars(self).get("_program")
        if program is not None:
            self._of._give_back(program)
