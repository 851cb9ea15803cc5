"""The NumPy back end: node by node, `forward` by `forward`. It is the definition of what a graph means."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np

from graphnet.backends.base import Backend, Observer, Program
from graphnet.errors import BackendError, GraphnetError, table_of_inputs
from graphnet.node import Array, Node
from graphnet.plan import Plan

__all__ = ["NumpyBackend"]


class NumpyBackend(Backend):
    name = "numpy"

    def build(
        self, plan: Plan, inputs: Sequence[int], outputs: Sequence[int], threads: int | None
    ) -> Program:
        return NumpyProgram(plan, inputs, outputs, threads)


class NumpyProgram(Program):
    def __init__(
        self, plan: Plan, inputs: Sequence[int], outputs: Sequence[int], threads: int | None
    ) -> None:
        self.plan, self.inputs, self.outputs = plan, inputs, outputs
        self.limit = blas_limit(threads)
        fed = set(inputs)
        #: (position, rule, positions of inputs, positions to free) for each node that is not fed.
        self.steps: list[tuple[int, Callable[..., Array], tuple[int, ...], tuple[int, ...]]] = [
            (i, node.op.forward, tuple(plan.position[x] for x in node.inputs), plan.freed[i])
            for i, node in enumerate(plan.order)
            if i not in fed
        ]
        self.leaves = [i for i, node in enumerate(plan.order) if not node.inputs]

    def run(self, arrays: Sequence[Array], observer: Observer | None = None) -> list[Array]:
        values: list[Array | None] = [None] * len(self.plan.order)
        for position, array in zip(self.inputs, arrays, strict=True):
            if position >= 0:
                values[position] = array
        # NaN and infinities flow as in NumPy, silently; check=True is how to find them.
        with self.limit(), np.errstate(all="ignore"):
            if observer is None:
                i = 0
                try:
                    for i, forward, sources, freed in self.steps:
                        values[i] = forward(*[values[s] for s in sources])
                        for s in freed:
                            values[s] = None
                except Exception as error:
                    raise _failure(self.plan.order[i], error) from error
            else:
                self._run_observed(values, observer)
        return self._owned(values)

    def _run_observed(self, values: list[Array | None], observer: Observer) -> None:
        for position in self.inputs:
            if position >= 0:
                observer(position, values[position], 0.0)  # type: ignore[arg-type]
        for i, forward, sources, _ in self.steps:
            arrays = [values[s] for s in sources]
            start = time.perf_counter()
            try:
                value = values[i] = forward(*arrays)
            except Exception as error:
                raise _failure(self.plan.order[i], error) from error
            observer(i, value, time.perf_counter() - start)

    def _owned(self, values: list[Array | None]) -> list[Array]:
        """Results that belong to the caller: no views, no leaves' arrays, no array twice."""
        taken = {id(values[position]) for position in self.leaves}
        results = []
        for position in self.outputs:
            value = values[position]
            assert value is not None
            shared = not isinstance(value, np.ndarray) or value.base is not None or id(value) in taken
            result = np.array(value) if shared or not value.flags.writeable else value
            taken.add(id(result))
            results.append(result)
        return results


def blas_limit(threads: int | None) -> Callable[[], AbstractContextManager[object]]:
    """A context in which the BLAS behind NumPy uses so many threads; its own choice where None.

    The limit is the whole process's: two threads that run functions with different limits share one.
    """
    if threads is None:
        return nullcontext
    from threadpoolctl import ThreadpoolController

    return partial(ThreadpoolController().limit, limits=threads, user_api="blas")


def _failure(node: Node, error: Exception) -> Exception:
    """The error, worded with the node at which it happened."""
    if isinstance(error, GraphnetError):
        return type(error)(f"{error}" + _place(node))
    return BackendError(
        f"{node.op.name}.forward failed at {node.describe()}: {type(error).__name__}: {error}" + _place(node)
    )


def _place(node: Node) -> str:
    return f"\n    node made at {node.origin}" + table_of_inputs(node.inputs)
