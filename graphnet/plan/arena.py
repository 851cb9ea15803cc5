"""Arena: one piece of memory for all values of a run, reused as they die."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from graphnet.plan.lowering import Lowered
from graphnet.plan.views import Buffer

#: Bytes: a cache line, and the widest vector.
ALIGNMENT = 64
#: Buffers of at least this size in bytes start at different offsets in a page, or their rows would fall on the same
#: few lines of the cache.
STAGGERED = 4096


class Life(NamedTuple):
    """A buffer lives from step `first` to step `last`, both included.

    epoch: (of first, of last). Steps of one epoch may run at different speeds on different cores, so memory
    that dies in an epoch is free only in the next one, or at once for a buffer of the same `rows`: then each
    core meets its own part again. None: the buffer is not read and written by rows alone.
    """

    buffer: Buffer
    first: int
    last: int
    epoch: tuple[int, int]
    rows: Hashable


def give_places(lives: Sequence[Life]) -> int:
    """Sets `offset` of every buffer; returns the bytes that the arena needs. Nearly linear."""
    births = sorted((life for life in lives if life.buffer.nbytes), key=lambda life: life.first)
    deaths = sorted(births, key=lambda life: life.last)
    dead = 0
    matching: dict[tuple[int, int, Hashable], list[int]] = defaultdict(
        list
    )  # (epoch, bytes, rows) -> offsets
    waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)  # epoch -> (offset, bytes)
    retaken: dict[tuple[int, int], int] = defaultdict(int)  # (epoch, offset) -> times taken by equal rows
    free = _FreeList()
    released = -1
    end = 0
    for life in births:
        while dead < len(deaths) and deaths[dead].last < life.first:
            gone = deaths[dead]
            dead += 1
            epoch, size = gone.epoch[1], _rounded(gone.buffer.nbytes)
            waiting[epoch].append((gone.buffer.offset, size))
            if gone.rows is not None:
                matching[epoch, gone.buffer.nbytes, gone.rows].append(gone.buffer.offset)
        while released < life.epoch[0] - 1:
            released += 1
            for offset, size in waiting.pop(released, ()):
                if retaken[released, offset]:
                    retaken[released, offset] -= 1
                else:
                    free.add(offset, size)
        size = _rounded(life.buffer.nbytes)
        same = matching.get((life.epoch[0], life.buffer.nbytes, life.rows)) if life.rows is not None else None
        if same:
            life.buffer.offset = same.pop()
            retaken[life.epoch[0], life.buffer.offset] += 1
            continue
        hole = free.take(size)
        if hole is None:
            if size >= STAGGERED:
                end += ALIGNMENT * 5
            hole, end = end, end + size
        life.buffer.offset = hole
    return end


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class _FreeList:
    """Free memory by size; adjacent pieces are merged."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}  # start -> size
        self._ends: dict[int, int] = {}  # end -> start
        self._sizes: list[tuple[int, int]] = []  # (size, start), sorted; stale entries are skipped

    def add(self, start: int, size: int) -> None:
        end = start + size
        if start in self._ends:
            before = self._ends.pop(start)
            size += self._starts.pop(before)
            start = before
        if end in self._starts:
            size += self._starts.pop(end)
            end = start + size
        self._starts[start], self._ends[end] = size, start
        bisect.insort(self._sizes, (size, start))

    def take(self, size: int) -> int | None:
        at = bisect.bisect_left(self._sizes, (size, -1))
        while at < len(self._sizes):
            held, start = self._sizes.pop(at)
            if self._starts.get(start) != held:
                continue
            del self._starts[start]
            del self._ends[start + held]
            if held > size:
                self.add(start + size, held - size)
            return start
        return None


def lifetimes(
    lowered: Lowered, touched: Sequence[Iterable[Buffer]], fixed: int
) -> tuple[dict[Buffer, int], dict[Buffer, int]]:
    """First and last step of each buffer's life. touched: the buffers that each step reads or writes.

    Inputs exist before step 0, and results outlive the last step. Buffers that the steps from `fixed` on read from
    earlier steps live to the end, since those steps may run again.
    """
    graph, end = lowered.graph, len(touched)
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for i, buffers in enumerate(touched):
        for buffer in buffers:
            first.setdefault(buffer, i)
            last[buffer] = i
    for node in (*graph.inputs, *lowered.copied_leaves):
        if node in lowered.views:
            buffer = lowered.views[node].buffer
            first[buffer] = -1
            last.setdefault(buffer, -1)
    for view in lowered.results:
        last[view.buffer] = end
        first.setdefault(view.buffer, end)
    if fixed:
        last |= {buffer: end for buffer in first if first[buffer] < fixed <= last[buffer]}
        again = (node for node in graph.inputs if node.op.varying)
        last |= {lowered.views[node].buffer: end for node in again if node in lowered.views}
    return first, last
