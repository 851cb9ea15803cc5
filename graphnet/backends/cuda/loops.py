"""Loops as kernels: elementwise work, a thread for each point; and reductions, in a fixed order, without atomics."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from graphnet.backends.compiled.expressions import Fold
from graphnet.backends.compiled.schedule import remembered
from graphnet.backends.cuda.expressions import PythonEmitter, convert, evaluate
from graphnet.backends.cuda.launch import Launch, LaunchLayout, ThreadDivision, power_of_two
from graphnet.backends.cuda.source import INDEX, KernelSource, Offset, TypedName
from graphnet.graph.dtypes import BOOL
from graphnet.plan.axes import is_along_reduced, joined, operand_strides
from graphnet.plan.instructions import Load, Loop, LoopReduction
from graphnet.plan.views import Buffer, View, contiguous_strides

Stride = int | None

#: Number of float64 terms that are added without compensation.
CHUNK = 16


def loop_launches(loop: Loop, division: ThreadDivision, check: bool) -> list[Launch]:
    """check: the flag is raised where a value that is loaded or computed is not finite."""
    if not loop.reductions:
        return [_layout_of(loop, division, check).launch(loop.nodes, loop.views)]
    return reduction_launches(loop, division, check)


_layouts: dict[Hashable, LaunchLayout] = {}


def _layout_of(loop: Loop, division: ThreadDivision, check: bool) -> LaunchLayout:
    """Cached, since loops of all time steps have the same layout."""
    key = (division, check, loop.form)
    return _layouts.get(key) or remembered(_layouts, key, _elementwise(loop, division, check))


# -- shared by all loops ---------------------------------------------------------------------------------------------


class _Operands:
    def __init__(
        self, source: KernelSource, loop: Loop, columns: Sequence[Sequence[Stride]], check: bool
    ) -> None:
        """columns: for each axis, the stride of every load."""
        self.source, self.loop, self.check = source, loop, check
        self.starts: list[Moved] = []
        self.indices: list[Moved | None] = []
        number = 0
        for k, load in enumerate(loop.loads):
            own = [column[k] for column in columns]
            if load.kind == "plain":
                self.starts.append(Moved(source, f"a{k}", Offset(number), own))
                self.indices.append(None)
                number += 1
                continue
            last = len(own) - 1
            row: list[Stride] = [None] * last
            if load.data is not None:
                inner = load.data.strides[1] if load.kind == "rows" else 0
                outer = own[:last] if load.kind == "columns" else row
                self.starts.append(Moved(source, f"a{k}", Offset(number), [*outer, inner]))
                source.number(f"a{k}_row", load.data.strides[0 if load.kind == "rows" else 1])
                number += 1
            else:
                self.starts.append(Moved(source, "", 0, []))
            assert load.at is not None
            along = [*row, load.at.strides[0]] if load.kind == "columns" else own
            self.indices.append(Moved(source, f"at{k}", Offset(number), along))
            source.number(f"depth{k}", load.depth)
            number += 1
        #: How many views the loads have.
        self.count = number

    def values(self, indices: Sequence[str]) -> list[TypedName]:
        source = self.source
        values = [self._load(k, load, indices) for k, load in enumerate(self.loop.loads)]
        for step in self.loop.steps:
            values.append(evaluate(source, step, [values[s] for s in step.sources]))
        if self.check:
            for value in values:
                if value.dtype.kind == "f":
                    with source.block(f"if not ({value} - {value} == {value.dtype.name}(0))"):
                        source.raise_flag()
        return values

    def _load(self, k: int, load: Load, indices: Sequence[str]) -> TypedName:
        source, at = self.source, self.indices[k]
        if at is None:
            return source.load(load.dtype, self.starts[k].at(indices))
        assert load.at is not None
        index = source.assign(str(source.load(load.at.dtype, at.at(indices))))
        with source.block(f"if {index} < 0 or {index} >= depth{k}"):
            source.raise_flag()
            source.line(f"{index} = {INDEX.name}(0)")
        if load.kind == "one_hot":
            hit = source.assign(f"{index} == {indices[-1]}", BOOL)
            return convert(source, hit, load.dtype)
        return source.load(load.dtype, f"{self.starts[k].at(indices)} + {index} * a{k}_row")


class Moved:
    """Address of a view's element: a start, and a stride for each index. Strides 0 and 1 are written into the code."""

    def __init__(
        self, source: KernelSource, name: str, start: int | Offset, strides: Sequence[Stride]
    ) -> None:
        self.terms: list[str | None] = []
        self.name = source.number(name, start) if name else "0"
        for axis, stride in enumerate(strides):
            if not stride:
                self.terms.append(None)
            elif stride == 1:
                self.terms.append("")
            else:
                self.terms.append(source.number(f"{name}_{axis}", stride))

    def at(self, indices: Sequence[str]) -> str:
        parts = [self.name]
        for index, term in zip(indices, self.terms, strict=False):
            if term is not None:
                parts.append(f"{index} * {term}" if term else index)
        return " + ".join(parts)


@contextmanager
def stepping(source: KernelSource, name: str, start: str, stop: str, step: str) -> Iterator[None]:
    """Lines for each of start, start + step, ... below stop."""
    source.line(f"{name} = {INDEX.name}({start})")
    with source.block(f"while {name} < {stop}"):
        yield
        source.line(f"{name} += {step}")


def divided(source: KernelSource, index: str, sizes: Sequence[str], names: str) -> list[str]:
    """The indices of several axes, the last one fastest, from one that counts through all."""
    if len(sizes) < 2:
        return [index] if sizes else []
    found = []
    rest = index
    for axis in reversed(range(1, len(sizes))):
        source.line(f"{names}{axis} = {rest} % {sizes[axis]}")
        source.line(f"{names}_{axis} = {rest} // {sizes[axis]}")
        found.append(f"{names}{axis}")
        rest = f"{names}_{axis}"
    return [rest, *reversed(found)]


# -- elementwise -----------------------------------------------------------------------------------------------------


def _elementwise(loop: Loop, division: ThreadDivision, check: bool) -> LaunchLayout:
    tables = operand_strides(loop)
    axes = joined(range(len(loop.shape)), loop.shape, tables)
    while len(axes) < (2 if loop.looks_up else 1):
        axes.insert(0, (1, (0,) * len(tables)))
    sizes, columns = [size for size, _ in axes], [strides for _, strides in axes]
    source = KernelSource()
    names = [source.number(f"n{i}", size) for i, size in enumerate(sizes)]
    operands = _Operands(source, loop, columns, check)
    first = len(loop.loads)
    stores = [
        Moved(source, f"to{k}", Offset(operands.count + k), [column[first + k] for column in columns])
        for k in range(len(loop.stores))
    ]

    def body(indices: Sequence[str]) -> None:
        values = operands.values(indices)
        for (number, view), store in zip(loop.stores, stores, strict=True):
            source.store(convert(source, values[number], view.dtype), store.at(indices))

    # The last axis along x, the one before it along y, all others along z.
    def over(axis: int, indices: list[str]) -> None:
        if axis == len(sizes):
            body(indices)
            return
        if axis < len(sizes) - 2:
            outer = names[: len(sizes) - 2]
            total = " * ".join(outer)
            with stepping(source, "z", "cuda.blockIdx.z", total, "cuda.gridDim.z"):
                over(len(sizes) - 2, divided(source, "z", outer, "z"))
            return
        along = "x" if axis == len(sizes) - 1 else "y"
        start = f"cuda.blockIdx.{along} * cuda.blockDim.{along} + cuda.threadIdx.{along}"
        with stepping(source, along, start, names[axis], f"cuda.blockDim.{along} * cuda.gridDim.{along}"):
            over(axis + 1, [*indices, along])

    over(0, [])
    width, height = sizes[-1], sizes[-2] if len(sizes) > 1 else 1
    across = min(power_of_two(width), division.threads)
    down = min(power_of_two(height), division.threads // across)
    grid = (-(-width // across), -(-height // down), math.prod(sizes[:-2]))
    return LaunchLayout.of(source, grid, (across, down, 1), division)


# -- reductions ------------------------------------------------------------------------------------------------------


def reduction_launches(loop: Loop, division: ThreadDivision, check: bool) -> list[Launch]:
    """One launch, or two where few results are made of many numbers: parts first, then their sum."""
    assert not loop.stores, "this back end does not support fused reductions"
    ((how, number, result),), axes = loop.reductions, loop.reduced
    assert not loop.looks_up
    kept_axes = [i for i in range(len(loop.shape)) if i not in axes]
    tables = operand_strides(loop)
    kept = joined(kept_axes, loop.shape, tables)
    reduced = joined(axes, loop.shape, tables)
    # Adjacent threads read adjacent numbers: along the reduced axis if more operands are contiguous there.
    along = reduced[-1][1] if reduced else [0] * len(tables)
    by_rows = not kept or is_along_reduced(loop, kept[-1][1], along)
    fold = Fold(how, loop.dtype_of(number))
    total = math.prod(size for size, _ in reduced)
    results = math.prod(size for size, _ in kept)
    if by_rows:
        lanes = division.lanes if total <= 4 * division.threads else division.threads
        others = division.threads // lanes
        blocks = -(-results // others)
    else:
        lanes, others = division.lanes, division.threads // division.lanes
        blocks = -(-kept[-1][0] // lanes) * math.prod(size for size, _ in kept[:-1])
    parts = max(1, min(-(-division.blocks // max(blocks, 1)), total // division.least))
    views = loop.views
    if parts == 1:
        source = _Reduction(loop, kept, reduced, fold, by_rows, (lanes, others), None, check).source
        return [
            LaunchLayout.of(
                source, _grid(blocks, kept, by_rows, lanes, 1), (lanes, others, 1), division
            ).launch(loop.nodes, views)
        ]
    scratch = Buffer(parts * results, fold.kept)
    partial = scratch.whole((parts, results))
    source = _Reduction(loop, kept, reduced, fold, by_rows, (lanes, others), -(-total // parts), check).source
    first = LaunchLayout.of(
        source, _grid(blocks, kept, by_rows, lanes, parts), (lanes, others, 1), division
    ).launch(loop.nodes, [*views[:-1], partial])
    # The parts side by side, with the axes of the result.
    shape = tuple(size for size, _ in kept)
    whole = View(scratch, 0, (parts, *shape), (results, *contiguous_strides(shape)))
    whole_result = View(result.buffer, result.offset, shape, tuple(strides[-1] or 0 for _, strides in kept))
    summed = Loop(
        loop.nodes, whole.shape, [Load("plain", whole, None, fold.kept)], [], [],
        (0,), [LoopReduction(how, 0, whole_result)],
    )  # fmt: skip
    return [first, *reduction_launches(summed, division, False)]


Axes = Sequence[tuple[int, tuple[Stride, ...]]]


def _grid(blocks: int, kept: Axes, by_rows: bool, lanes: int, parts: int) -> tuple[int, int, int]:
    if by_rows:
        return (blocks, 1, parts)
    return (-(-kept[-1][0] // lanes), math.prod(size for size, _ in kept[:-1]), parts)


class _Reduction:
    """The kernel. threads: (x, y) of a block. chunk: number of terms that each block along z sums; its parts are
    adjacent.

    by_rows: threads along x share the terms of one result, and threads along y compute different results; else threads
    along x compute adjacent results, and threads along y share the terms of each.
    """

    def __init__(
        self, loop: Loop, kept: Axes, reduced: Axes, fold: Fold, by_rows: bool, threads: tuple[int, int],
        chunk: int | None, check: bool,
    ) -> None:  # fmt: skip
        ((_, self.number, self.result),) = loop.reductions
        self.kept, self.fold, self.by_rows, self.chunk = kept, fold, by_rows, chunk
        self.lanes, self.others = threads
        self.sharing = self.lanes if by_rows else self.others
        source = self.source = KernelSource()
        self.kept_names = [source.number(f"n{i}", size) for i, (size, _) in enumerate(kept)]
        self.reduced_names = [source.number(f"m{i}", size) for i, (size, _) in enumerate(reduced)]
        terms = math.prod(size for size, _ in reduced)
        self.terms = terms if chunk is None else chunk
        self.begin, self.end = "0", source.number("total", terms)
        self.operands = _Operands(source, loop, [strides for _, strides in (*kept, *reduced)], check)
        if chunk is None:
            to: Sequence[Stride] = [strides[-1] for _, strides in kept]
        else:
            to = contiguous_strides(tuple(size for size, _ in kept))
        self.to = Moved(source, "to", Offset(self.operands.count), to)
        if chunk is not None:
            source.number("results", math.prod(size for size, _ in kept))
            source.line(f"begin = {INDEX.name}(cuda.blockIdx.z) * {source.number('chunk', chunk)}")
            source.line("end = begin + chunk if begin + chunk < total else total")
            self.begin, self.end = "begin", "end"
        source.line("tx = cuda.threadIdx.x")
        source.line("ty = cuda.threadIdx.y")
        if self.sharing > 1:
            source.shared("shared", str(self.lanes * self.others), fold.kept)
        # All threads of a block run all iterations, also idle ones, since they synchronize in between.
        if by_rows:
            self._over_rows()
        else:
            self._over_columns()

    def _over_rows(self) -> None:
        source, others = self.source, self.others
        count = source.number("count", math.prod(size for size, _ in self.kept))
        with stepping(source, "first", f"cuda.blockIdx.x * {others}", count, f"cuda.gridDim.x * {others}"):
            source.line("o = first + ty")
            self._work(divided(source, "o", self.kept_names, "o"), f"o < {count}")

    def _over_columns(self) -> None:
        source, lanes = self.source, self.lanes
        *outer, columns = self.kept_names
        count = source.number("count", math.prod(size for size, _ in self.kept[:-1]))
        with stepping(source, "o", "cuda.blockIdx.y", count, "cuda.gridDim.y"):
            found = divided(source, "o", outer, "o")
            with stepping(
                source, "first", f"cuda.blockIdx.x * {lanes}", columns, f"cuda.gridDim.x * {lanes}"
            ):
                source.line("c = first + tx")
                self._work([*found, "c"], f"c < {columns}")

    def _work(self, indices: Sequence[str], inside: str) -> None:
        source, fold, sharing = self.source, self.fold, self.sharing
        source.line(f"sum = {PythonEmitter(source).number(fold.identity, fold.kept)}")
        share = "tx" if self.by_rows else "ty"

        def add_to(sum_: str, first: str, end: str) -> None:
            with stepping(source, "r", first, end, str(sharing)):
                at = [*indices, *divided(source, "r", self.reduced_names, "r")]
                value = convert(source, self.operands.values(at)[self.number], fold.kept)
                source.line(f"{sum_} = {_combined(source, fold, sum_, str(value))}")

        with source.block(f"if {inside}"):
            if fold.is_rounded and self.terms > CHUNK * sharing:
                _in_chunks(source, f"{self.begin} + {share}", self.end, sharing, add_to)
            else:
                add_to("sum", f"{self.begin} + {share}", self.end)
        if sharing > 1:
            _tree(source, fold, self.lanes, sharing, self.by_rows)
        with source.block(f"if {inside}" + (f" and {share} == 0" if sharing > 1 else "")):
            moved, total = self.to.at(indices), TypedName("sum", fold.kept)
            if self.chunk is None:
                source.store(convert(source, total, self.result.dtype), moved)
            else:
                source.store(total, f"{moved} + cuda.blockIdx.z * results")
        if sharing > 1:
            source.line("cuda.syncthreads()")


def _in_chunks(
    source: KernelSource, first: str, end: str, step: int, add_to: Callable[[str, str, str], None]
) -> None:
    """`sum` of every step-th term, with the rounding errors of the sums of CHUNK terms each.

    add_to(sum, first, end) adds one by one. An infinite sum is not corrected. Source: Knuth 1969, 4.2.2.
    """
    source.line("lost = float64(0)")
    with stepping(source, "chunk", first, end, str(CHUNK * step)):
        source.line(f"stop = chunk + {CHUNK * step} if chunk + {CHUNK * step} < {end} else {end}")
        source.line("part = float64(0)")
        add_to("part", "chunk", "stop")
        source.line("whole = float64(sum + part)")
        source.line("rest = float64(whole - sum)")
        source.line("lost = float64(lost + ((sum - (whole - rest)) + (part - rest)))")
        source.line("sum = whole")
    source.line("sum = float64(sum + lost) if lost == lost else sum")


def _combined(source: KernelSource, fold: Fold, total: str, x: str) -> TypedName:
    a, b = TypedName(total, fold.kept), TypedName(x, fold.kept)
    return fold.combined(PythonEmitter(source), a, b, fold.kept)


def _tree(source: KernelSource, fold: Fold, lanes: int, sharing: int, by_rows: bool) -> None:
    """Adds `sum` of the threads that share a result, by halves, in the first thread."""
    me = f"ty * {lanes} + tx"
    source.line(f"shared[{me}] = sum")
    source.line("cuda.syncthreads()")
    half = sharing // 2
    share, apart = ("tx", 1) if by_rows else ("ty", lanes)
    while half:
        with source.block(f"if {share} < {half}"):
            source.line(f"other = shared[{me} + {half * apart}]")
            source.line(f"sum = {_combined(source, fold, 'sum', 'other')}")
            source.line(f"shared[{me}] = sum")
        source.line("cuda.syncthreads()")
        half //= 2
