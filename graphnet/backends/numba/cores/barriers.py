"""Barriers: the jobs before which all cores must synchronize.

A core runs without waiting while it touches only memory that no other core has written since the last barrier. Jobs
that divide their rows at the same places, and whose rows are in the same regions of memory, are safe: each core reads
its own rows. Other cases depend on the memory that views cover, never on the meaning of nodes.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from graphnet.backends.numba.jobs import InstructionJob
from graphnet.plan.instructions import Access, Host
from graphnet.plan.views import Buffer

_start = attrgetter("start")


def barriers_of(jobs: Sequence[InstructionJob | Host], fixed: int) -> set[int]:
    """Numbers of the jobs that need a barrier: those that touch memory which another core may have written since the
    last barrier, and the first job that varies.

    Writers need not wait for readers, except for inputs that are updated in place: a value is written once, memory that
    is overwritten within a buffer (a sum over several jobs) is only read by the job that writes it, and plan.arena
    respects the barriers when it reuses memory.
    """
    barriers: set[int] = set()
    written: defaultdict[Buffer, _Touched] = defaultdict(_Touched)
    read: defaultdict[Buffer, _Touched] = defaultdict(_Touched)
    updated = {a.view.buffer for job in jobs for a in job.writes if a.view.buffer.leaf is not None}
    for i, job in enumerate(jobs):
        if isinstance(job, Host):
            barriers.add(i)
            written.clear()
            read.clear()
            continue
        if (
            (fixed > 0 and i == fixed)
            or any(_clashes(job, access, written) for access in (*job.reads, *job.writes))
            or any(_clashes(job, access, read) for access in job.writes)
        ):
            barriers.add(i)
            written.clear()
            read.clear()
        for access in job.writes:
            if access.view.size:
                written[access.view.buffer].add(_Region.of(job, access))
        for access in job.reads if updated else ():
            if access.view.buffer in updated and access.view.size:
                read[access.view.buffer].add(_Region.of(job, access))
    return barriers


class _Region(NamedTuple):
    """Memory of a job: row 0 is first ... end - 1; each next row starts `pitch` elements later.

    start, stop: bounds of the region. who: jobs with equal values divide their rows at the same places; None: any core
    may access any part.
    """

    who: Hashable
    pitch: int
    first: int
    end: int
    start: int
    stop: int

    @classmethod
    def of(cls, job: InstructionJob, access: Access) -> _Region:
        view = access.view
        pitch = view.strides[0] if view.shape else 0
        across = (view.shape[0] - 1) * pitch if pitch else 0
        first, end = view.row_extent
        who: Hashable = None
        if not job.split:
            who = "one core"
        elif job.split == "rows" and access.by_rows:
            who = job.key
        return cls(who, pitch, first, end, first + min(across, 0), end + max(across, 0))

    def is_beside(self, other: _Region) -> bool:
        """True if two interleaved regions share no element: different columns of rows of one length."""
        pitch = abs(self.pitch)
        if pitch != abs(other.pitch):
            return False
        a, b = self.first % pitch if pitch else 0, other.first % pitch if pitch else 0
        a_end, b_end = a + self.end - self.first, b + other.end - other.first
        return a_end <= pitch and b_end <= pitch and (a_end <= b or b_end <= a)


def _clashes(job: InstructionJob, access: Access, touched: Mapping[Buffer, _Touched]) -> bool:
    buffer = access.view.buffer
    return buffer in touched and touched[buffer].clashes(_Region.of(job, access))


class _Touched:
    """Regions of a buffer that were written or read since the last barrier."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Hashable, int], _Group] = {}

    def add(self, region: _Region) -> None:
        key = region.who, region.pitch
        if key not in self._groups:
            self._groups[key] = _Group()
        self._groups[key].add(region)

    def clashes(self, region: _Region) -> bool:
        for (who, pitch), group in self._groups.items():
            same = who is not None and who == region.who
            if same and (who == "one core" or pitch == region.pitch):
                # Each core accesses only its own rows, if no row overlaps the next one.
                if who == "one core" or group.rows_with(region) <= abs(pitch):
                    continue
                if all(
                    max(region.end, other.end) - min(region.first, other.first) <= abs(pitch)
                    or region.is_beside(other)
                    for other in group.near(region)
                ):
                    continue
                return True
            if any(not region.is_beside(other) for other in group.near(region)):
                return True
        return False


class _Group:
    def __init__(self) -> None:
        self._regions: list[_Region] = []
        self._longest = 0
        self._first, self._end = 0, 0

    def add(self, region: _Region) -> None:
        if not self._regions:
            self._first, self._end = region.first, region.end
        self._first, self._end = min(self._first, region.first), max(self._end, region.end)
        self._longest = max(self._longest, region.stop - region.start)
        bisect.insort(self._regions, region, key=_start)

    def rows_with(self, region: _Region) -> int:
        """Extent of all first rows together, this one included, in elements."""
        return max(self._end, region.end) - min(self._first, region.first)

    def near(self, region: _Region) -> list[_Region]:
        at = bisect.bisect_right(self._regions, region.start - self._longest, key=_start)
        upto = bisect.bisect_left(self._regions, region.stop, key=_start)
        return [other for other in self._regions[at:upto] if other.stop > region.start]
