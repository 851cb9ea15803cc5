"""compile: from outputs and inputs to a Function that runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from graphnet import passes as passes_module
from graphnet.backends import load_backend
from graphnet.display import ShowsItself
from graphnet.errors import BackendError, DtypeError, ShapeError
from graphnet.graph import Graph
from graphnet.node import Array, Node
from graphnet.passes import Pass, PassReport
from graphnet.plan import Memory
from graphnet.profile import Profile

__all__ = ["Function", "compile"]


def compile(
    outputs: Node | Iterable[Node],
    inputs: Iterable[Node] | None = None,
    backend: str = "numba",
    passes: Sequence[Pass | Callable[[Graph], Graph]] = passes_module.DEFAULT,
    check: bool = False,
    threads: int | None = None,
) -> Function:
    """A function from the inputs' arrays to a tuple of the outputs' arrays.

    inputs: Input nodes in the order of the arguments; None takes all that the outputs depend on, in the
    order of their creation. `check=True`: NonFiniteError names the first node that makes a NaN or an
    infinity. `threads`: at most so many (NumPy: in its BLAS); None leaves the choice to it.
    Raises GraphnetError for an Input that is missing.
    """
    source = Graph(outputs, inputs)
    return Function(source, backend, passes, check, threads)


class Function(ShowsItself):
    """A compiled graph: call it with one array for each input; it returns a tuple of arrays."""

    def __init__(
        self,
        source: Graph,
        backend: str,
        passes: Sequence[Pass | Callable[[Graph], Graph]],
        check: bool,
        threads: int | None,
    ) -> None:
        if threads is not None and threads < 1:
            raise BackendError(f"threads must be at least 1, not {threads}")
        self.source = source
        self.backend = backend
        self.check = check
        self.graph: Graph
        self.reports: list[PassReport]
        maker = load_backend(backend)
        self.graph, self.reports = passes_module.optimize(source, passes, maker.compiled)
        self._program = maker.build(self.graph, source, threads, check)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.source.inputs

    @property
    def outputs(self) -> tuple[Node, ...]:
        return self.source.outputs

    @property
    def memory(self) -> Memory:
        """Bytes that a run needs, known before running."""
        return self._program.memory

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        """The outputs, as arrays that belong to the caller.

        Raises ShapeError or DtypeError, naming the input, before anything runs.
        """
        return tuple(self._program.run(self._checked(arrays)))

    def _checked(self, arrays: Sequence[Any]) -> list[Array]:
        if len(arrays) != len(self.inputs):
            listed = ", ".join(node.describe() for node in self.inputs) or "none"
            raise ShapeError(
                f"this function takes {len(self.inputs)} array(s) ({listed}), but {len(arrays)} were given."
            )
        return [as_input(node, array) for node, array in zip(self.inputs, arrays, strict=True)]

    # -- diagnosis ---------------------------------------------------------------------------

    def profile(self, *arrays: Any, repeats: int = 5) -> Profile:
        """Seconds by node, the median of `repeats` runs.

        Without arrays, it runs on standard normal numbers (zeros for integers and booleans).
        """
        if arrays:
            given = self._checked(arrays)
        else:
            generator = np.random.default_rng(0)
            given = [
                generator.standard_normal(n.shape).astype(n.dtype)
                if n.dtype.kind == "f"
                else np.zeros(n.shape, n.dtype)
                for n in self.inputs
            ]
        samples = [self._program.timed(given) for _ in range(max(1, repeats))]
        order = self.graph.order
        return Profile(order, tuple(statistics.median(s.get(node, 0.0) for s in samples) for node in order))

    def explain(self) -> str:
        """What compilation did: each pass with node counts and time, the ops that are left, memory."""
        lines = [f"{'pass':<14}{'nodes before':>14}{'after':>8}{'ms':>9}"]
        for name, before, after, seconds in self.reports:
            lines.append(f"{name:<14}{before:>14}{after:>8}{seconds * 1e3:>9.2f}")
        counts: dict[str, int] = {}
        for node in self.graph.order:
            counts[node.op.name] = counts.get(node.op.name, 0) + 1
        listed = ", ".join(f"{n} {op}" for op, n in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
        lines += ["", f"back end {self.backend}: {listed}", f"memory: {self.memory}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Function {self.source!r} on {self.backend}, {len(self.graph)} nodes after passes>"


def as_input(node: Node, array: Any) -> Array:
    """The array given for an Input node; ShapeError or DtypeError if it does not fit.

    Python numbers and lists take the node's dtype; an array is converted only where no value can change.
    """
    is_array = isinstance(array, (np.ndarray, np.generic))
    if isinstance(array, Node):
        raise DtypeError(f"input {node.describe()}: a node was given where an array is needed")
    try:
        value = np.asarray(array)
    except ValueError as error:
        raise ShapeError(f"input {node.describe()}: this is not an array: {error}") from None
    if value.shape != node.shape:
        raise ShapeError(
            f"input {node.describe()} (made at {node.origin}) was given an array of shape "
            f"{list(value.shape)}."
        )
    if value.dtype == node.dtype:
        return value
    same_kind = np.can_cast(value.dtype, node.dtype, "same_kind")
    if np.can_cast(value.dtype, node.dtype, "safe") or (same_kind and not is_array):
        return value.astype(node.dtype)
    if value.dtype.kind in "iu" and node.dtype.kind in "iu":
        converted = value.astype(node.dtype)
        if np.array_equal(converted, value):
            return converted
    raise DtypeError(
        f"input {node.describe()} (made at {node.origin}) is {node.dtype}, but was given an array of "
        f"{value.dtype}; convert it: array.astype({node.dtype.name!r})."
    )
