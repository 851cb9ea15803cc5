"""Jobs: instructions as kernels and records, divided among the cores.

Every job is divided by rows, by columns, or not at all. Where a core reads only rows that it wrote itself, the
next job needs no waiting: a recurrence runs from the first time step to the last without one, unless its weights are
so large that cores divide their columns.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from graphnet.backends.compiled.schedule import remembered
from graphnet.backends.numba.code.loop import LoopKernel
from graphnet.backends.numba.code.operands import LoadForm, Reduced, Stored, lanes_for
from graphnet.backends.numba.code.reduction import CHUNK
from graphnet.backends.numba.code.rowwise import KernelParameter, RowwiseKernel, words_of
from graphnet.backends.numba.code.scatter import ColumnScatterKernel, ScatterKernel
from graphnet.errors import BackendError, table_of_inputs
from graphnet.graph.dtypes import FLOAT64, INT64
from graphnet.graph.node import Node
from graphnet.ops.kernel_content import content_of
from graphnet.ops.rowwise import Rowwise
from graphnet.plan.arena import ALIGNMENT
from graphnet.plan.axes import is_along_reduced, joined, operand_strides
from graphnet.plan.instructions import Access, KernelCall, Load, Loop, LoopReduction, Scatter
from graphnet.plan.views import Buffer, View

#: Row axis of an operand that all rows read.
NO_ROWS = 1 << 30
#: Estimated cost of a user-defined kernel for each number that it touches, in operations of a loop.
WORK = 64
#: Numbers of a vector that make a tile.
VECTOR_TILE = 1 << 14
#: Maximum size of a scatter's table in a core's own memory: a fraction of the core's second cache.
OWN_BYTES = 128 << 10


class CoreDivision(NamedTuple):
    """Division of work into parts, one for each core. Work smaller than `least` (elements, multiply-adds / 100) is not
    divided, unless its operand is. tile: rows of a tile; columns: minimum number of columns of a part.
    """

    parts: int
    least: int = 256
    tile: int = 64
    columns: int = 16

    def tiles(self, rows: int) -> int:
        """Number of tiles of a core's rows; the results of one tile stay in its second cache."""
        return max(1, rows // self.parts // self.tile)

    def rows_of(self, count: int, share: int, shares: int) -> tuple[int, int]:
        """A share of the rows, in whole tiles of products if there are many rows."""
        if count < shares * self.tile:
            return share_of(count, share, shares)
        start, stop = share_of(-(-count // 8), share, shares)
        return start * 8, min(stop * 8, count)


class Record(NamedTuple):
    """A kernel's text, and the words of its record after the first two."""

    text: str
    words: tuple[int, ...]


class RecordContext(NamedTuple):
    """Context for records: symbolic addresses of the arena, which begins with the error flag, of leaves and of the
    cores' own memory (`scratch_stride` bytes apart); and the machine's vectors and registers.
    """

    arena: int
    leaves: Mapping[Node, int]
    scratch: int
    scratch_stride: int
    vector_bytes: int
    registers: int
    check: bool
    avx512: bool

    def address(self, view: View) -> int:
        buffer = view.buffer
        base = self.arena + buffer.offset if buffer.leaf is None else self.leaves[buffer.leaf]
        return base + view.offset * view.dtype.itemsize


class KernelForm(Protocol):
    """Form of a kernel; equal forms share one text."""

    def text(self) -> str: ...

    def __hash__(self) -> int: ...


@lru_cache(maxsize=1024)
def text_of(kernel: KernelForm) -> str:
    """The kernel's text, made once for a program: not for all that a process ever compiles."""
    return kernel.text()


def share_of(count: int, part: int, parts: int) -> tuple[int, int]:
    return count * part // parts, count * (part + 1) // parts


class InstructionJob(ABC):
    """Job of the cores. split: "rows" (of `count`), "columns", or "" for a job of one core.

    tiles: number of tiles of each core's rows. Between two barriers a core does all jobs for one tile, then all for
    the next.
    """

    def __init__(
        self, division: CoreDivision, nodes: tuple[Node, ...], reads: list[Access], writes: list[Access]
    ) -> None:
        self.division = division
        self.nodes, self.reads, self.writes = nodes, reads, writes
        self.split, self.count, self.tiles = "", 1, 1

    @property
    def shares(self) -> int:
        """Into how many it is divided: the tiles of all parts."""
        return self.division.parts * self.tiles

    @property
    def key(self) -> tuple[str, int, int]:
        """Jobs of one key divide their rows at the same places."""
        return (self.split, self.count if self.split else 0, self.tiles)

    @property
    def buffers(self) -> list[Buffer]:
        return [access.view.buffer for access in (*self.reads, *self.writes)]

    @abstractmethod
    def records(self, context: RecordContext, share: int) -> list[Record]:
        """Records of one part of the work."""

    def scratch(self, vector_bytes: int) -> int:
        """Bytes of memory that each core needs for itself while it runs."""
        return 0

    def rows_of(self, share: int) -> tuple[int, int]:
        return self.division.rows_of(self.count, share, self.shares)


# -- loops ---------------------------------------------------------------------------------------


class LoopJob(InstructionJob):
    def __init__(self, loop: Loop, division: CoreDivision, follows: bool = False) -> None:
        super().__init__(division, loop.nodes, loop.reads, loop.writes)
        self.loop = loop
        shape = loop.shape
        kept = [i for i in range(len(shape)) if i not in loop.reduced]
        rows = shape[kept[0]] if kept else 1
        # The address of a looked-up or one-hot row is that of its first column.
        divisible = bool(kept) and not (loop.looks_up and kept[0] == len(shape) - 1)
        large = follows or math.prod(shape) >= division.least
        if divisible and rows >= division.parts and large:
            self.split, self.count = "rows", rows
            self.tiles = rows // VECTOR_TILE if _is_long_vector(shape, division) else division.tiles(rows)

    def records(self, context: RecordContext, share: int) -> list[Record]:
        if self.split:
            start, stop = self.rows_of(share)
            if start == stop:
                return []
        elif share == 0:
            start, stop = 0, -1
        else:
            return []
        return [loop_record(self.loop, context, start, stop)]


def _is_long_vector(shape: Sequence[int], division: CoreDivision) -> bool:
    """True if rows are single numbers; a tile then takes many more rows."""
    return len(shape) == 1 and shape[0] // division.parts >= 2 * VECTOR_TILE


def part_of(view: View, axis: int, start: int, stop: int) -> View:
    if stop < 0:
        return view
    key: list[int | tuple[int, int, int]] = [(0, n, 1) for n in view.shape]
    key[axis] = (start, stop, 1)
    return view.sliced(key)


def loop_record(loop: Loop, context: RecordContext, start: int, stop: int) -> Record:
    """Rows start ... stop - 1 of the loop (all where stop < 0)."""
    text, words, places = _layout_of(loop, stop - start, context)
    found = list(words)
    found[0] = context.arena
    views = loop.views
    for at, number, pitch in places:
        found[at] = context.address(views[number]) + pitch * start
    return Record(text, tuple(found))


class RecordLayout(NamedTuple):
    """Shared part of the records of equal loops: the kernel, the words without addresses, and for each address its
    position, its view's number and the stride to the next row in bytes.
    """

    text: str
    words: tuple[int, ...]
    places: tuple[tuple[int, int, int], ...]


_layouts: dict[Hashable, RecordLayout] = {}


def _layout_of(loop: Loop, rows: int, context: RecordContext) -> RecordLayout:
    """Cached, since loops of all time steps have the same layout."""
    key = (rows, context.vector_bytes, context.check, context.avx512, loop.form)
    return _layouts.get(key) or remembered(_layouts, key, _layout(loop, rows, context))


class Axes(NamedTuple):
    """A loop's axes, joined if all operands allow: sizes, strides of each operand along each (None: none), numbers of
    kept and of reduced axes, and True if vectors run along a reduced one."""

    sizes: list[int]
    columns: list[list[int | None]]
    kept: int
    reduced: int
    vector_axis_reduced: bool


def _axes(loop: Loop, shape: Sequence[int], kept_axes: Sequence[int]) -> Axes:
    tables = operand_strides(loop)
    none: list[int | None] = [0] * len(tables)
    kept = [(n, list(c)) for n, c in joined(kept_axes, shape, tables)]
    reduced = [(n, list(c)) for n, c in joined(loop.reduced, shape, tables)]
    by_rows = False
    if loop.reductions:
        reduced = reduced or [(1, none)]
        # As for the whole loop: the order of sums must not depend on the division.
        outside = joined(kept_axes, loop.shape, tables)
        by_rows = not outside or loop.looks_up or is_along_reduced(loop, outside[-1][1], reduced[-1][1])
        if loop.looks_up:
            kept = kept or [(1, none)]
        elif not by_rows:
            kept = kept or [(1, [strides[kept_axes[-1]] for strides in tables])]
    else:
        while len(kept) < (2 if loop.looks_up else 1):
            kept.insert(0, (1, none))
    # Vectors run along the last axis.
    order = [*kept, *reduced] if by_rows or not reduced else [*kept[:-1], *reduced, kept[-1]]
    return Axes([n for n, _ in order], [c for _, c in order], len(kept), len(reduced), by_rows)


class _Form:
    """A record after its sizes: distinct strides, then numbers, then addresses of views."""

    def __init__(self, loop: Loop, axes: Axes, row_axis: int) -> None:
        self.loop, self.axes, self.row_axis = loop, axes, row_axis
        self.strides: dict[tuple[int, ...], int] = {}
        self.last: list[int | tuple[int, int]] = []  # numbers; views, with the axis of their rows
        self._which = itertools.count()

    def numbered(self, strides: Iterable[int | None]) -> int:
        """Operands with the same strides share the words of the record that hold them."""
        return self.strides.setdefault(tuple(s or 0 for s in strides), len(self.strides))

    def address(self, axis: int) -> None:
        self.last.append((next(self._which), axis))

    def own(self, k: int) -> list[int | None]:
        return [column[k] for column in self.axes.columns]

    # -- in the order of the loop's views --------------------------------------------------------

    def load(self, k: int, load: Load, twin: int) -> LoadForm:
        own = self.own(k)
        if load.kind == "plain":
            self.address(self.row_axis)
            return LoadForm("plain", load.dtype, _move(own[-1]), self.numbered(own))
        assert load.at is not None
        if load.kind == "columns":
            assert load.data is not None
            step = load.at.strides[0]
            self.address(self.row_axis)
            self.address(NO_ROWS)
            self.last.append(load.depth)
            return LoadForm(
                "columns", load.dtype, "strided", self.numbered([*own[:-1], load.data.strides[1]]), load.at.dtype,
                _move(step), self.numbered([*[0] * (len(own) - 1), step]),
            )  # fmt: skip
        row, step = (0, 1) if load.data is None else load.data.strides
        if load.data is None:
            self.last.append(0)
        else:
            self.address(NO_ROWS)
        index = next(self._which)
        if twin < 0:
            self.last += [(index, self.row_axis), load.depth]
        return LoadForm(
            load.kind, load.dtype, _move(step), self.numbered([row, *[0] * (len(own) - 2), step]), load.at.dtype,
            "", self.numbered(own), twin,
        )  # fmt: skip

    def store(self, k: int, number: int) -> Stored:
        own = self.own(k)
        self.address(self.row_axis)
        return Stored(number, _move(own[-1]), self.numbered(own))

    def reduction(self, k: int, reduction: LoopReduction) -> Reduced:
        own, by_rows = self.own(k), self.axes.vector_axis_reduced
        outer = own[: self.axes.kept - (0 if by_rows else 1)]
        moved = [stride or 0 for stride in (outer if by_rows else [*outer, own[-1]])]
        self.address(0)
        place = self.numbered([*moved, *[0] * (len(own) - len(moved))])
        move = _move(moved[-1]) if moved else "same"
        return Reduced(reduction.how, reduction.number, reduction.view.dtype, move, place)


def _layout(loop: Loop, rows: int, context: RecordContext) -> RecordLayout:
    """rows: number of rows along the first kept axis; all if negative."""
    kept_axes = [i for i in range(len(loop.shape)) if i not in loop.reduced]
    row_axis = kept_axes[0] if kept_axes else 0
    shape = list(loop.shape)
    if rows >= 0:
        shape[row_axis] = rows
    axes = _axes(loop, shape, kept_axes)
    sizes, by_rows = axes.sizes, axes.vector_axis_reduced
    form = _Form(loop, axes, row_axis)
    first_store = len(loop.loads)
    first_reduction = first_store + len(loop.stores)
    twins = loop.twins
    operands = [form.load(k, load, twins[k]) for k, load in enumerate(loop.loads)]
    stores = [form.store(k, number) for k, (number, _) in enumerate(loop.stores, first_store)]
    reductions = [form.reduction(k, r) for k, r in enumerate(loop.reductions, first_reduction)]
    lanes = lanes_for(context.vector_bytes, [o.dtype for o in operands] + [s.dtype for s in loop.steps])
    short = sizes[-1] if (by_rows or not axes.reduced) and sizes[-1] <= lanes else 0
    kernel = LoopKernel(
        context.vector_bytes, len(sizes), len(form.strides), tuple(operands), tuple(loop.steps), tuple(stores),
        tuple(reductions), axes.reduced, by_rows, short, _is_long(loop, sizes, axes.kept, by_rows, lanes),
        context.check, context.avx512,
    )  # fmt: skip
    words = [0, *sizes, *(stride for strides in form.strides for stride in strides)]
    places = []
    views = loop.views
    for word in form.last:
        if isinstance(word, int):
            words.append(word)
            continue
        number, axis = word
        view = views[number]
        moves = rows >= 0 and axis < len(view.strides)
        places.append((len(words), number, view.strides[axis] * view.dtype.itemsize if moves else 0))
        words.append(0)
    return RecordLayout(text_of(kernel), tuple(words), tuple(places))


def _is_long(loop: Loop, sizes: Sequence[int], kept: int, by_rows: bool, lanes: int) -> bool:
    """True if a sum of float64 has more terms per lane than a chunk holds."""
    reduced = sizes[kept:] if by_rows else sizes[kept - 1 : -1]
    terms = math.prod(reduced[:-1]) * -(-reduced[-1] // (lanes if by_rows else 1)) if reduced else 0
    sums = any(r.how == "sum" and loop.dtype_of(r.number) == FLOAT64 for r in loop.reductions)
    return sums and terms > CHUNK


def _move(stride: int | None) -> str:
    return "vector" if stride == 1 else "same" if stride == 0 else "strided"


# -- scatters --------------------------------------------------------------------------------------


class ScatterJob(InstructionJob):
    """Rows that an index sends to rows are added up column by column; columns to columns, row by row."""

    def __init__(self, scatter: Scatter, division: CoreDivision, follows: bool = False) -> None:
        super().__init__(division, scatter.nodes, scatter.reads, scatter.writes)
        self.scatter = scatter
        rows, columns = scatter.y.shape
        large = scatter.x.size >= division.least
        if scatter.by_columns:
            if rows >= division.parts and (large or follows):
                self.split, self.count, self.tiles = "rows", rows, division.tiles(rows)
        elif columns >= division.columns * division.parts and large:
            self.split, self.count = "columns", columns
        wide = -(-columns // (division.parts if self.split else 1))
        #: Size of a core's own memory for adding many rows to few, in numbers; 0 if it adds them in place.
        self.own = 0
        if not scatter.by_columns and scatter.x.shape[0] >= 4 * rows and columns >= 16:
            self.own = rows * -(-wide // 16) * 16
            if self.own * scatter.y.dtype.itemsize > OWN_BYTES:
                self.own = 0

    def scratch(self, vector_bytes: int) -> int:
        return self.own * self.scatter.y.dtype.itemsize

    def records(self, context: RecordContext, share: int) -> list[Record]:
        x, index, y = self.scatter.x, self.scatter.index, self.scatter.y
        if self.split:
            rows = self.split == "rows"
            start, stop = self.rows_of(share) if rows else share_of(self.count, share, self.shares)
            x, y = (part_of(view, 0 if rows else 1, start, stop) for view in (x, y))
        elif share:
            return []
        step = index.strides[0] if index.shape else 1
        words: tuple[int, ...] = (
            context.arena, context.address(x), context.address(index), context.address(y), x.shape[0], x.shape[1]
        )  # fmt: skip
        if self.scatter.by_columns:
            kernel: KernelForm = ColumnScatterKernel(x.dtype, index.dtype, context.vector_bytes)
            words += (y.shape[1], *x.strides, step, *y.strides)
        else:
            kernel = ScatterKernel(x.dtype, index.dtype, context.vector_bytes, bool(self.own))
            words += (y.shape[0], x.strides[0], step, y.strides[0])
            if self.own:
                words += (context.scratch + share * context.scratch_stride,)
        return [Record(text_of(kernel), words)]


# -- kernels that users write ----------------------------------------------------------------------


class KernelCallJob(InstructionJob):
    """An op's own kernel, for each row. Without rows, one core runs it."""

    def __init__(self, call: KernelCall, division: CoreDivision, follows: bool = False) -> None:
        super().__init__(division, call.nodes, call.reads, call.writes)
        self.call = call
        layout = call.layout
        large = (
            follows or WORK * sum(math.prod(core) for core in layout.cores) * layout.rows >= division.least
        )
        if layout.by_rows[0] and layout.rows >= division.parts and large:
            self.split, self.count = "rows", layout.rows
            self.tiles = division.tiles(layout.rows)

    def scratch(self, vector_bytes: int) -> int:
        return sum(self._scratch_sizes())

    def _scratch_sizes(self) -> list[int]:
        item = self.call.target.dtype.itemsize
        shapes = [held for held in self.call.layout.more if isinstance(held, tuple)]
        return [-(-math.prod(shape) * item // ALIGNMENT) * ALIGNMENT for shape in shapes]

    def records(self, context: RecordContext, share: int) -> list[Record]:
        layout = self.call.layout
        start, stop = self.rows_of(share) if self.split else (0, 0 if share else layout.rows)
        if start == stop:
            return []
        parameters: list[KernelParameter] = []
        words = [context.arena, stop - start]
        for i, (view, own) in enumerate(zip(self.call.operands, layout.by_rows, strict=True)):
            parameters.append(KernelParameter("input" if i else "output", view.dtype, len(view.shape) - 1))
            address = context.address(part_of(view, 0, start, stop))
            core = view.shape[1:]
            words += [address, view.strides[0] if own else 0, math.prod(core), *core]
        free = context.scratch + share // self.tiles * context.scratch_stride
        sizes = iter(self._scratch_sizes())
        for held in layout.more:
            if isinstance(held, tuple):
                parameters.append(KernelParameter("scratch", self.call.target.dtype, len(held)))
                words += [free, 0, math.prod(held), *held]
                free += next(sizes)
            else:
                parameters.append(
                    KernelParameter("setting", FLOAT64 if isinstance(held, float) else INT64, 0)
                )
                words += words_of(held)
        op = self.call.node.op
        assert isinstance(op, Rowwise)
        function = op.python_kernel
        kernel = RowwiseKernel(
            op.name, function, tuple(parameters), context.vector_bytes, content_of(function)
        )
        try:
            text = text_of(kernel)
        except BackendError as error:
            node = self.call.node
            place = f"\n    node made at {node.origin}{table_of_inputs(node.inputs)}"
            raise BackendError(f"{error}{place}") from error.__cause__
        return [Record(text, tuple(words))]
