"""compile: from outputs and inputs to a Function that runs."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

import graphnet.passes as passes_module
from graphnet.backends import load_backend
from graphnet.backends.base import Program
from graphnet.call import kept
from graphnet.call.arguments import checked_inputs, sample_inputs
from graphnet.call.profile import Profile
from graphnet.call.running import CompiledCallable, Running
from graphnet.call.standalone import c_files, folder_files, is_folder, name_of, write_files
from graphnet.call.stored import store_function
from graphnet.errors import BackendError, GraphnetError, UsageError
from graphnet.graph.display import ShowsItself
from graphnet.graph.graph import Graph, ancestors, dependents
from graphnet.graph.node import Array, Node
from graphnet.passes import Pass, PassReport, Stage
from graphnet.plan import RunMemory, listing, lower
from graphnet.settings import has_items, path as named_file, shown, whole_number, yes_or_no
from graphnet.standalone_c.unit import unit_of
from graphnet.system.memory import readable_bytes
from graphnet.system.process import cached_property, collector_paused

#: Upper bound of threads: more than any machine has, and accepted by every library.
MOST_THREADS = 1 << 16


def compile(
    outputs: Node | Iterable[Node],
    inputs: Iterable[Node] | None = None,
    backend: str = "numba",
    passes: Sequence[Pass | Callable[[Graph], Graph]] = passes_module.DEFAULT,
    check: bool = False,
    threads: int | None = None,
    deterministic: bool = False,
    memory: str | int | None = None,
    updates: Mapping[Node, Node] | None = None,
) -> Function:
    """A function from the inputs' arrays to a tuple of the outputs' arrays.

    outputs: a node or several. inputs: Input nodes in the order of the arguments; None (default) takes all that the
    outputs depend on, in the order of their creation.
    backend: "numba" (default), "numpy", "cuda" or "cuda-tf32". passes: graph transformations, gn.passes.DEFAULT by
    default; () for none.
    check: True raises NonFiniteError, naming the first node that makes a NaN or an infinity; False by default.
    threads: maximum number of threads (NumPy: of its BLAS); None (default) leaves the choice to the back end.
    deterministic: True gives the same bits at any number of threads; False by default. The numba back end always does;
    NumPy then limits its BLAS to one thread.
    memory: None (default) keeps all values from forward to backward. "sqrt" keeps few of them and recomputes the
    others: memory grows as √T with the number of time steps T, and the time usually by an eighth to a third. A number
    of bytes is the maximum of `function.memory`, reached with as little recomputation as possible.
    updates: {input: node}. After a call, the array given for the input holds the node's value. The array must be
    writable, contiguous, and of the input's dtype. All nodes see the arrays as they were before the call. With updates
    (also with updates={}), the numba back end reads all inputs in place and, where nothing reads the old values later,
    writes in place.
    Raises GraphnetError for an Input that is missing, and for an update that does not fit its input; BackendError if
    the given number of bytes is not enough.

    >>> x = gn.input((3,), "float64", name="x")
    >>> f = gn.compile([gn.sum(x), 2 * x], [x])
    >>> total, double = f(np.array([1.0, 2.0, 3.0]))
    >>> total.item(), double.tolist()
    (6.0, [2.0, 4.0, 6.0])
    """
    results = outputs if updates is None else Graph(outputs).outputs
    updated = _checked_updates({} if updates is None else updates)
    source = Graph([*results, *updated.values()], inputs) if updated else Graph(results, inputs)
    targets = None if updates is None else _positions(source.inputs, updated)
    passes = _checked_passes(passes)
    check = yes_or_no("compile: check", check)
    deterministic = yes_or_no("compile: deterministic", deterministic)

    def function(more_passes: Sequence[Pass] = ()) -> Function:
        return Function(source, backend, (*more_passes, *passes), check, threads, deterministic, targets)

    if memory is None:
        return function()
    if isinstance(memory, str) and memory == "sqrt":
        return function(passes_module.recomputing())
    if not _is_count(memory):
        raise BackendError(f"memory must be None, 'sqrt', or a number of bytes, not {shown(memory)}")
    return _within(int(memory), function)


def _checked_updates(updates: Mapping[Node, Node]) -> dict[Node, Node]:
    if not isinstance(updates, Mapping):
        raise GraphnetError(f"updates must be a dict {{input: node}}, not {shown(updates)}")
    for target, value in updates.items():
        if not (isinstance(target, Node) and target.op.is_input):
            raise GraphnetError(
                f"updates: {shown(target)} is not an Input, so there is no array to update; make it with gn.input"
            )
        if not isinstance(value, Node) or (value.shape, value.dtype) != (target.shape, target.dtype):
            found = f"{value.describe()} of {value.dtype}" if isinstance(value, Node) else f"{shown(value)}"
            raise GraphnetError(
                f"updates: {target.describe()} (made at {target.origin}) is {target.dtype}, and cannot become {found}; "
                "an update must have the shape and dtype of its input (use gn.broadcast_to, gn.cast)"
            )
    return dict(updates)


def _positions(inputs: Sequence[Node], updates: Mapping[Node, Node]) -> tuple[int, ...]:
    for node in updates:
        if node not in inputs:
            raise GraphnetError(
                f"updates: {node.describe()} (made at {node.origin}) is not among the inputs; add it to inputs=[...]"
            )
    if any(node.op.varying for node in inputs):
        raise GraphnetError(
            "updates: a function with updates has no `again`; create its inputs without varying=True"
        )
    return tuple(inputs.index(node) for node in updates)


def _checked_passes(passes: Any) -> list[Pass | Callable[[Graph], Graph]]:
    remedy = (
        "; passes are functions from graph to graph, e.g. gn.passes.DEFAULT, gn.passes.without('fuse'), or ()"
    )
    if isinstance(passes, str) or not has_items(passes):
        raise UsageError(f"compile: passes must be a list, not {shown(passes)}{remedy}")
    checked = list(passes)
    for step in checked:
        if not callable(step):
            raise UsageError(f"compile: passes must hold functions, not {shown(step)}{remedy}")
    return checked


def _is_count(number: object) -> bool:
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool) and bool(number >= 1)


def _within(budget: int, function: Callable[[Sequence[Pass]], Function]) -> Function:
    """Returns a function with recomputed segments whose memory fits the budget."""
    whole = function(())
    if whole.memory <= budget:
        return whole
    made: dict[int, Function] = {}

    def fitting(first: int, patience: int) -> Function | None:
        """Tries numbers of segments from `first`, until `patience` of them in a row need no less memory."""
        least, idle = whole.memory, 0
        for segments in _numbers_of_segments():
            if segments < first:
                continue
            if segments not in made:
                made[segments] = function(passes_module.recomputing(segments))
            found = made[segments]
            if found.memory <= budget:
                return found
            idle = 0 if found.memory < least else idle + 1
            if idle == patience:
                return None
            least = min(least, found.memory)
        return None

    # Most often, the first number fits. Otherwise, from the smallest, so that the limit that works is the same for all.
    found = fitting(-(-whole.memory // budget), 1)
    if found is None:
        found = fitting(2, 3)
    if found is None:
        least = min(int(f.memory) for f in made.values())
        raise BackendError(
            f"memory={budget}: {readable_bytes(budget)} are not enough; with recomputation the function needs "
            f"{readable_bytes(least)}. Set memory={least}, or use a smaller batch."
        )
    return found


def _numbers_of_segments() -> Iterator[int]:
    """2, 3, 4, 6, 9, 13, 19, ..."""
    segments = 2
    while True:
        yield segments
        segments += max(1, segments // 2)


def _not_varying(source: Graph) -> tuple[int, ...]:
    """Returns the positions of the outputs that depend on no varying input."""
    vary = dependents(source.order, [node for node in source.inputs if node.op.varying])
    return tuple(i for i, node in enumerate(source.outputs) if node not in vary)


class _Optimized:
    """The result of the passes, computed on first use."""

    def __init__(
        self, source: Graph, passes: Sequence[Pass | Callable[[Graph], Graph]], has: Set[str]
    ) -> None:
        self._of = source, passes, has

    @cached_property
    def _made(self) -> tuple[Graph, list[PassReport]]:
        with collector_paused():
            return passes_module.optimize(*self._of)

    @property
    def graph(self) -> Graph:
        return self._made[0]

    @property
    def reports(self) -> list[PassReport]:
        return self._made[1]


class Function(CompiledCallable, ShowsItself):
    """A compiled graph, made by gn.compile: call it with one array for each input; it returns a tuple of arrays.

    source: the Graph before passes. backend, passes, check, threads, deterministic: see gn.compile. updated: positions
    of the inputs whose arrays take the values of the last outputs of the source.

    >>> x = gn.input((3,), "float64", name="x")
    >>> f = gn.compile(gn.sum(x * x), [x])
    >>> f(np.array([1.0, 2.0, 3.0]))[0].item()
    14.0
    >>> [node.describe() for node in f.inputs]
    ['x[3]']
    >>> [stage.name for stage in f.stages()][:3], f.explain().split()[:4]
    (['prune', 'merge', 'simplify'], ['pass', 'nodes', 'before', 'after'])
    >>> [line.split()[1] for line in f.instructions().splitlines()]
    ['loop', 'sum']
    >>> sorted(f.profile(repeats=2).by_op())
    ['Input', 'Multiply', 'Sum']
    >>> f.save("squares.fn")
    >>> v = gn.input((3,), "float64", name="v", varying=True)
    >>> derivative = gn.compile([x * x, gn.sum(2 * x * v)], [x, v])
    >>> derivative.begin(np.array([1.0, 2.0, 3.0]))[0].tolist()  # the outputs that do not depend on v
    [1.0, 4.0, 9.0]
    >>> derivative.again(np.array([1.0, 0.0, 0.0]))[1].item()
    2.0
    """

    def __init__(
        self,
        source: Graph,
        backend: str,
        passes: Sequence[Pass | Callable[[Graph], Graph]],
        check: bool,
        threads: int | None,
        deterministic: bool,
        updated: Sequence[int] | None = None,
    ) -> None:
        if threads is not None:
            if not _is_count(threads):
                raise BackendError(
                    f"threads must be a whole number, at least 1, or None, not {shown(threads)}"
                )
            threads = min(int(threads), MOST_THREADS)
        self.source = source
        maker = load_backend(backend)
        self.backend = maker.name
        self.passes = tuple(passes)
        self.check = check
        if deterministic and not maker.deterministic:
            threads = 1
        self._has, self._threads = maker.has, threads
        optimized = self._optimized = _Optimized(source, self.passes, maker.has)
        name = "" if check or updated is not None else kept.name_of(source, self.passes, maker, threads)
        found = kept.recall(name, source, maker)
        self._was_kept = found is not None
        if found is not None:
            self._program, self._nodes = found
        else:
            with collector_paused():
                self._program = maker.build(optimized.graph, source, threads, check, updated)
            self._nodes = len(optimized.graph)
            kept.keep(name, self._program, optimized.graph, source)
        parameters = [node for node in source.order if node.op.is_parameter] if updated else ()
        begun = _not_varying(source) if any(node.op.varying for node in source.inputs) else ()

        # These do not hold the function, whose memory a cycle would keep.
        def waits() -> bool:
            ends = [optimized.graph.outputs[i] for i in begun]
            return any(node.op.is_input and node.op.varying for node in ancestors(ends))

        def beginning() -> Program:
            inputs = [node for node in source.inputs if not node.op.varying]
            own = Graph([source.outputs[i] for i in begun], inputs)
            if waits():
                first = _Optimized(own, passes, maker.has).graph
            else:
                first = Graph([optimized.graph.outputs[i] for i in begun], inputs)
            return maker.build(first, own, threads, check)

        usual = self.passes == tuple(passes_module.DEFAULT)
        self._running = Running(
            self.inputs, self._program, updated, parameters, begun, beginning, None if usual else waits
        )

    @property
    def graph(self) -> Graph:
        """The graph after the passes."""
        return self._optimized.graph

    @property
    def reports(self) -> list[PassReport]:
        """Node counts and time of each pass."""
        return self._optimized.reports

    @cached_property
    def _whole_program(self) -> Program:
        """Program with the parts that are not cached on disk: nodes and code of its kernels."""
        if not self._was_kept:
            return self._program
        with collector_paused():
            return load_backend(self.backend).build(self.graph, self.source, self._threads, self.check)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.source.inputs

    @property
    def outputs(self) -> tuple[Node, ...]:
        """Nodes whose values a call returns."""
        return self.source.outputs[: len(self.source.outputs) - len(self._running.updated or ())]

    @property
    def updates(self) -> dict[Node, Node]:
        """{input: node whose value its array takes}."""
        targets = self._running.updated or ()
        values = self.source.outputs[len(self.outputs) :]
        return {self.inputs[i]: value for i, value in zip(targets, values, strict=True)}

    @property
    def memory(self) -> RunMemory:
        """Number of bytes that a run needs, known before running."""
        return self._program.memory

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        """Returns the outputs, as arrays that belong to the caller.

        arrays: one for each input, in order.
        Raises ShapeError or DtypeError, naming the input, before anything runs.
        """
        return self._running(arrays)

    def begin(self, *arrays: Any) -> tuple[Array, ...]:
        """Returns the outputs that depend on no input made with `varying=True`, in order; `again` then returns all.

        arrays: one for each other input. Nodes that depend on varying inputs are computed by `again`, which takes their
        arrays. So `begin` returns values, and `again`, once cotangents are known, gradients. The numba back end
        computes nothing twice; other back ends compute nodes that do not vary once more.
        Raises BackendError if no input varies, ShapeError or DtypeError as a call does.
        """
        return self._running.begin(arrays)

    def again(self, *arrays: Any) -> tuple[Array, ...]:
        """Returns the outputs for new arrays of the inputs made with `varying=True`; all else is as in the last call.

        arrays: one for each varying input. Nodes that do not depend on them are not computed again. So parameters,
        random draws and the arrays of the last call must not have changed since, or results mix both states. Use it
        from one thread, with no other call of this function in between.
        Raises BackendError if no input varies or nothing was called, ShapeError or DtypeError as a call does.
        """
        return self._running.again(arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the function, with the current values of its parameters, to a file for `gn.load_function`.

        path: the file. A path that ends in .c gets standalone C11 instead, with its header in the same folder. A path
        that ends in a slash becomes a folder with source, header, weights, a Makefile, and a test with stored results.
        Raises BackendError for a function that cannot be stored: of the NumPy back end, with check=True, with an op
        that runs in Python, or with updates. For C, compile with backend="numba": some ops of other back ends, such
        as softmax of the NumPy back end, have no C code.
        """
        folder, path = is_folder(path), named_file("save: path", path)
        if self._running.updated is not None:
            raise BackendError("a function with updates cannot be stored; return the new values instead")
        if folder or os.fspath(path).endswith(".c"):
            if self.check:
                raise BackendError(
                    "check=True is not available in C: compile the function without it to save it as C"
                )
            unit = unit_of(self.source, self.passes, self._has, name_of(path))
            write_files(folder_files(unit, self.source, path) if folder else c_files(unit, path))
            return
        store_function(path, self.backend, self.inputs, self._whole_program)

    # -- diagnosis ---------------------------------------------------------------------------

    def profile(self, *arrays: Any, repeats: int = 5) -> Profile:
        """Returns seconds by node, the median of several runs.

        arrays: one for each input. Without arrays, the function runs on standard normal numbers; integers are valid
        indices, or zeros. repeats: number of runs, 5 by default.
        """
        given = checked_inputs(self.inputs, arrays) if arrays else sample_inputs(self.inputs, self.graph)
        repeats = whole_number("profile: repeats", repeats)
        if self._running.updated:
            given = [np.array(array) for array in given]
        samples = [self._whole_program.timed(given) for _ in range(repeats)]
        self._running.restart()
        order = self.graph.order
        return Profile(order, tuple(statistics.median(s.get(node, 0.0) for s in samples) for node in order))

    def explain(self) -> str:
        """Returns a text about compilation: node counts and time of each pass, remaining ops, memory."""
        lines = [f"{'pass':<18}{'nodes before':>14}{'after':>8}{'ms':>9}"]
        for name, before, after, seconds in self.reports:
            lines.append(f"{name:<18}{before:>14}{after:>8}{seconds * 1e3:>9.2f}")
        counts: dict[str, int] = {}
        for node in self.graph.order:
            counts[node.op.name] = counts.get(node.op.name, 0) + 1
        listed = ", ".join(f"{n} {op}" for op, n in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
        lines += ["", f"back end {self.backend}: {listed}", f"memory: {self.memory}"]
        if self._was_kept:
            lines.append("The program was loaded from the cache; the passes were run again for this text.")
        return "\n".join(lines)

    def stages(self) -> Iterator[Stage]:
        """Yields the graph before and after each pass; the passes are applied again, one at a time."""
        return passes_module.stages(self.source, self.passes, self._has)

    def instructions(self) -> str:
        """Returns a listing of a run on a compiled back end: reads, writes and nodes of each instruction."""
        return "\n".join(listing(lower(self.graph, self._running.updated)))

    def __repr__(self) -> str:
        return f"<Function {self.source!r} on {self.backend}, {self._nodes} nodes after passes>"
