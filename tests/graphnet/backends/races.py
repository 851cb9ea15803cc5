"""An oracle for races: finds conflicting reads and writes of the shares of each job.

It knows only which rows or columns of their views kernels touch: two shares of one superstep that may run at once, or
in another order than the program's, must not touch the same byte if one of them writes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from graphnet.backends.numba.jobs import InstructionJob, KernelCallJob, LoopJob, ScatterJob, share_of
from graphnet.backends.numba.product_jobs import BlockedProductJob, PackedProductJob, PackJob
from graphnet.backends.numba.schedule import TapeScheduler
from graphnet.plan.instructions import Host
from graphnet.plan.views import View

Views = list[View]


class Planned(NamedTuple):
    """Jobs with their memory; barriers before jobs; number of jobs that are launched before the others."""

    jobs: Sequence[InstructionJob | Host]
    barriers: set[int]
    fixed: int
    parts: int
    vector_bytes: int


def planned(build) -> Planned:
    """The jobs and barriers of the program that `build` compiles."""
    found, real = [], TapeScheduler.place_values

    def placed(scheduler: TapeScheduler, start: int) -> int:
        end, parts, width = real(scheduler, start), scheduler.division.parts, scheduler.machine.vector_bytes
        found.append(Planned(scheduler.jobs, set(scheduler.barriers), scheduler.fixed, parts, width))
        return end

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TapeScheduler, "place_values", placed)
        build()
    (only,) = found
    return only


def races(plan: Planned, without: int = -1) -> Iterator[tuple[int, int]]:
    """Pairs of jobs that race. without: index of a barrier to ignore."""
    step: list[int] = []
    for i, job in enumerate(plan.jobs):
        if (i in plan.barriers and i != without) or i == plan.fixed or isinstance(job, Host):
            yield from _races_in(plan, step)
            step = []
        if not isinstance(job, Host):
            step.append(i)
    yield from _races_in(plan, step)


def _races_in(plan: Planned, step: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields pairs of jobs that race. The order is fixed only within a tile and among the tiles of a core."""
    rows = []
    unit = min((access.view.dtype.itemsize for job in plan.jobs for access in job.writes), default=1)
    for i in step:
        job = plan.jobs[i]
        for share in range(plan.parts * job.tiles):
            for writes, views in enumerate(_touched(job, share, plan.vector_bytes)):
                touched = _bytes(views, unit)
                who = np.array([share // job.tiles, share % job.tiles, i, writes])
                rows.append(np.column_stack([touched, np.broadcast_to(who, (len(touched), 4))]))
    if not rows:
        return
    table = np.concatenate(rows)
    table = table[np.lexsort((table[:, 4], table[:, 0]))]  # by byte; readers first
    starts = np.flatnonzero(np.diff(table[:, 0], prepend=-1))
    ends = np.append(starts[1:], len(table))
    written = table[ends - 1, 4] == 1
    shared = (np.minimum.reduceat(table, starts) != np.maximum.reduceat(table, starts))[:, 1:4].any(1)
    found: set[tuple[int, int]] = set()
    for start, end in zip(starts[written & shared], ends[written & shared], strict=True):
        group = [tuple(row) for row in np.unique(table[start:end, 1:], axis=0).tolist()]
        for a, b in itertools.combinations(group, 2):
            in_order = a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) >= 0
            if (a[3] or b[3]) and not in_order:
                found.add((min(a[2], b[2]), max(a[2], b[2])))
    yield from sorted(found)


def _bytes(views: Views, unit: int):
    """Units (of `unit` bytes) of the arena that the views cover, without leaves, which are only read."""
    places = [
        _places(view.offset, view.shape, view.strides, view.dtype.itemsize, unit) + view.buffer.offset // unit
        for view in views
        if view.buffer.leaf is None and view.size
    ]
    return np.concatenate(places) if places else np.zeros(0, int)


@cache
def _places(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int, unit: int):
    """Places of the elements of a view, from the start of its buffer."""
    at = np.array(offset * item // unit)
    for size, stride in zip(shape, strides, strict=True):
        at = at[..., None] + stride * item // unit * np.arange(size)
    return np.ravel(at[..., None] + np.arange(item // unit))


def _cut(view: View | None, axis: int, start: int, stop: int) -> Views:
    """Rows start ... stop of the view, or the whole view if it has no such axis."""
    if view is None or start >= stop:
        return []
    if axis >= len(view.shape):
        return [view]
    key = [(0, n, 1) for n in view.shape]
    key[axis] = (start, stop, 1)
    return [view.sliced(key)]


def _touched(job: InstructionJob, share: int, vector_bytes: int) -> tuple[Views, Views]:
    if isinstance(job, BlockedProductJob):
        return _of_blocks(job, share, vector_bytes)
    kinds = {LoopJob: _of_loop, ScatterJob: _of_scatter, PackJob: _of_packing, KernelCallJob: _of_kernel_call}
    return kinds.get(type(job), _of_panels)(job, share)


def _rows(job: InstructionJob, share: int, rows: int) -> tuple[int, int]:
    """Rows of a share: its own if rows are divided; else all for share 0, and none for the others."""
    return job.rows_of(share) if job.split else (0, 0 if share else rows)


def _of_panels(job: PackedProductJob, share: int) -> tuple[Views, Views]:
    a, c = job.product.a, job.product.c
    if job.split == "columns":
        own = share_of(job.count, share, job.shares)
        start, stop = (min(n * job.packed.width, c.shape[1]) for n in own)
        return [a, job.packed.view] if start < stop else [], _cut(c, 1, start, stop)
    start, stop = _rows(job, share, a.shape[0])
    panels = [job.packed.view] if start < stop else []
    return [*_cut(a, 0, start, stop), *panels], _cut(c, 0, start, stop)


def _of_loop(job: LoopJob, share: int) -> tuple[Views, Views]:
    loop = job.loop
    kept = [axis for axis in range(len(loop.shape)) if axis not in loop.reduced]
    start, stop = _rows(job, share, 1)
    axis = kept[0] if job.split else len(loop.shape)  # beyond all axes: nothing is cut
    reads: Views = []
    for load in loop.loads:
        reads += _cut(load.data, len(loop.shape) if load.kind == "rows" else axis, start, stop)
        whole = load.kind == "columns" or load.at is None or axis >= len(load.at.shape)
        reads += _cut(load.at, len(loop.shape) if whole else axis, start, stop)
    writes = [view for _, store in loop.stores for view in _cut(store, axis, start, stop)]
    for reduction in loop.reductions:
        writes += _cut(reduction.view, 0 if job.split else len(loop.shape), start, stop)
    return reads, writes


def _of_scatter(job: ScatterJob, share: int) -> tuple[Views, Views]:
    scatter, axis = job.scatter, {"rows": 0, "columns": 1}.get(job.split, 2)
    columns = share_of(job.count, share, job.shares) if axis == 1 else None
    start, stop = columns or _rows(job, share, 1)
    reads = [*_cut(scatter.x, axis, start, stop), *_cut(scatter.index, 2, start, stop)]
    return reads, _cut(scatter.y, axis, start, stop)


def _of_kernel_call(job: KernelCallJob, share: int) -> tuple[Views, Views]:
    """Returns the reads and writes of a share. Each row reads all of an input that is not divided by rows."""
    call, all_rows = job.call, job.call.layout.rows
    start, stop = _rows(job, share, all_rows)
    reads: Views = []

    def by_rows(view: View) -> View:
        rows = view.reshaped((all_rows, -(-view.size // max(all_rows, 1))))
        assert rows is not None
        return rows

    for source, own in zip(call.sources, call.layout.by_rows[1:], strict=True):
        reads += _cut(by_rows(source) if own else source, 0 if own else len(source.shape), start, stop)
    return reads, _cut(by_rows(call.target), 0, start, stop)


def _of_packing(job: PackJob, share: int) -> tuple[Views, Views]:
    packed = job.packed
    reads: Views = []
    writes: Views = []
    rows = packed.source.shape[0]
    for source, row, column in packed.blocks:
        panels = -(-source.shape[1] // packed.width)
        start, stop = share_of(panels, share, job.shares) if job.split else (0, 0 if share else panels)
        if start < stop:
            columns = min(stop * packed.width, source.shape[1])
            reads += _cut(source, 1, start * packed.width, columns)
            for panel in range(start, stop):
                begin = (column + panel * packed.width) * rows + row * packed.width
                length = source.shape[0] * packed.width
                writes.append(View(packed.view.buffer, begin, (length,), (1,)))
    return reads, writes


def _of_blocks(job: BlockedProductJob, share: int, vector_bytes: int) -> tuple[Views, Views]:
    a, b, c = job.product.a, job.product.b, job.product.c
    if job.split == "rows":
        start, stop = job.rows_of(share)
        return [*_cut(a, 0, start, stop), *_cut(b, 2, start, stop)], _cut(c, 0, start, stop)
    if job.split == "columns":
        unit = 2 * vector_bytes // c.dtype.itemsize
        start, stop = (min(n * unit, job.count) for n in share_of(-(-job.count // unit), share, job.shares))
        return [*_cut(a, 2, start, stop), *_cut(b, 1, start, stop)], _cut(c, 1, start, stop)
    return ([], []) if share else ([a, b], [c])
