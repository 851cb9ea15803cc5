"""The NumPy back end: calls `forward` node by node. It defines the meaning of a graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np

from graphnet.backends.base import Backend, Program
from graphnet.errors import BackendError, GraphnetError, NonFiniteError, NotEnoughMemoryError, table_of_inputs
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.plan import make_plan
from graphnet.system.memory import readable_bytes

#: Called with (position of the node in the plan, its value, seconds) after each node.
Observer = Callable[[int, Array, float], None]


class NumpyBackend(Backend):
    name = "numpy"
    has: Set[str] = frozenset()
    deterministic = False

    def build(
        self,
        graph: Graph,
        source: Graph,
        threads: int | None,
        check: bool,
        updated: Sequence[int] | None = None,
    ) -> Program:
        return NumpyProgram(graph, threads, check)


class NumpyProgram(Program):
    def __init__(self, graph: Graph, threads: int | None, check: bool) -> None:
        self.plan = make_plan(graph)
        self.memory, self.check = self.plan.memory, check
        position = self.plan.position
        self.inputs = [position.get(node, -1) for node in graph.inputs]
        self.outputs = [position[node] for node in graph.outputs]
        self.limit = blas_limit(threads)
        fed = set(self.inputs)
        #: (position, rule, positions of inputs, positions to free) for each node that is not fed.
        self.steps: list[tuple[int, Callable[..., Array], tuple[int, ...], tuple[int, ...]]] = [
            (i, _rule(node), tuple(position[x] for x in node.inputs), self.plan.freed[i])
            for i, node in enumerate(self.plan.order)
            if i not in fed
        ]
        self.leaves = [i for i, node in enumerate(self.plan.order) if not node.inputs]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        values = self._given(arrays)
        # NaN and infinities propagate without warnings, as in NumPy; check=True finds them.
        with self.limit(), np.errstate(all="ignore"):
            if self.check:
                self._run_observed(values, self._find_non_finite())
            else:
                i = 0
                try:
                    for i, forward, sources, freed in self.steps:
                        values[i] = forward(*[values[s] for s in sources])
                        for s in freed:
                            values[s] = None
                except Exception as error:
                    raise _failure(self.plan.order[i], error) from error
        return self._owned(values)

    def timed(self, arrays: Sequence[Array]) -> Mapping[Node, float]:
        spent: dict[Node, float] = {}

        def observe(i: int, value: Array, seconds: float) -> None:
            spent[self.plan.order[i]] = seconds

        self.observed(arrays, observe)
        return spent

    def observed(self, arrays: Sequence[Array], observer: Observer) -> None:
        """Runs, and shows each node's value once it is computed."""
        with self.limit(), np.errstate(all="ignore"):
            self._run_observed(self._given(arrays), observer)

    def _given(self, arrays: Sequence[Array]) -> list[Array | None]:
        values: list[Array | None] = [None] * len(self.plan.order)
        for position, array in zip(self.inputs, arrays, strict=True):
            if position >= 0:
                values[position] = array
        return values

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

    def _find_non_finite(self) -> Observer:
        order, position = self.plan.order, self.plan.position
        finite = [True] * len(order)

        def observe(i: int, value: Array, seconds: float) -> None:
            node = order[i]
            if value.dtype.kind != "f" or np.isfinite(value).all():
                return
            finite[i] = False
            if all(finite[position[source]] for source in node.inputs):
                kind = "NaN" if np.isnan(value).any() else "an infinity"
                where = ", ".join(f"{label} {x}" for label, x in node.scope.items())
                made = "holds" if node.is_leaf else "makes"
                raise NonFiniteError(
                    f"{node.op.name}: {node.describe()} {made} {kind}"
                    + (f" ({where})" if where else "")
                    + f".\n    node made at {node.origin}"
                    + table_of_inputs(node.inputs)
                )

        return observe

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


def call_forward(node: Node, arrays: Sequence[Array]) -> Array:
    """The node's value by its op's own rule; an error names the node."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(_rule(node)(*arrays))
    except Exception as error:
        raise _failure(node, error) from error


def _rule(node: Node) -> Callable[..., Array]:
    """The forward rule; the result of an op of a user is checked."""
    forward = node.op.forward
    if type(node.op).__module__.startswith("graphnet."):
        return forward

    def checked(*arrays: Array) -> Array:
        found = np.asarray(forward(*arrays))
        fits = found.shape == node.shape and np.can_cast(found.dtype, node.dtype, "same_kind")
        result = found.astype(node.dtype, copy=False) if fits else found
        if not fits or (found.dtype != node.dtype and node.dtype.kind in "iu" and (result != found).any()):
            raise BackendError(
                f"{node.op.name}.forward returned {found.dtype} of shape {list(found.shape)} for {node.describe()}, "
                f"which is {node.dtype}; return an array of this shape and dtype" + _place(node)
            )
        return result

    return checked


def blas_limit(threads: int | None) -> Callable[[], AbstractContextManager[object]]:
    """A context that limits the threads of NumPy's BLAS; no limit if None.

    The limit is that of the whole process: two threads that run functions with different limits share one.
    """
    if threads is None:
        return nullcontext
    from threadpoolctl import ThreadpoolController

    return partial(ThreadpoolController().limit, limits=threads, user_api="blas")


def _failure(node: Node, error: Exception) -> Exception:
    if isinstance(error, GraphnetError):
        return type(error)(f"{error}" + _place(node))
    if isinstance(error, MemoryError):
        return NotEnoughMemoryError(
            f"{node.op.name}: {node.describe()} needs {readable_bytes(node.nbytes)} of memory, which is not available "
            f"(made at {node.origin}); use a smaller batch or fewer time steps"
        )
    return BackendError(
        f"{node.op.name}.forward failed at {node.describe()}: {type(error).__name__}: {error}" + _place(node)
    )


def _place(node: Node) -> str:
    return f"\n    node made at {node.origin}" + table_of_inputs(node.inputs)
