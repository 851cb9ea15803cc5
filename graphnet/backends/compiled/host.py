"""Programs in the host's memory: an arena, and leaves that are read in place."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from graphnet.backends.compiled.locations import ARENA, HEADER, Location
from graphnet.backends.compiled.program import CompiledProgram, is_finite
from graphnet.backends.compiled.schedule import ProgramSchedule
from graphnet.errors import NotEnoughMemoryError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array
from graphnet.plan.arena import ALIGNMENT
from graphnet.system.memory import readable_bytes, require_memory

#: The subject and the remedy of the error for too little memory.
RUN = "a run of this function"
LESS = "use a smaller batch, fewer time steps, or gn.compile(..., memory='sqrt') (--memory sqrt on the command line)"


def require_arena(nbytes: int) -> None:
    """Raises NotEnoughMemoryError if less memory is available."""
    require_memory(nbytes, RUN, LESS)


class Arena:
    """Zeroed memory that starts on a cache line, on huge pages where the system has them.

    Raises NotEnoughMemoryError if less memory is available.
    """

    def __init__(self, nbytes: int) -> None:
        require_arena(nbytes)
        self._raw = _fresh(nbytes + PAGE) if nbytes >= PAGE else np.zeros(nbytes + ALIGNMENT, np.uint8)
        step = PAGE if nbytes >= PAGE else ALIGNMENT
        start = -self._raw.ctypes.data % step
        self.bytes = self._raw[start : start + nbytes]
        self.address = self.bytes.ctypes.data


#: Bytes of a huge page.
PAGE = 1 << 21


def _fresh(nbytes: int) -> Array:
    """Zeroed memory, new to the process: reused memory of an allocator would stay on small pages."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # not supported here: ordinary pages are used
        return np.zeros(nbytes, np.uint8)
    # Private, so that a forked child works on its own copy.
    try:
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):  # the system may provide less than it reports
        raise NotEnoughMemoryError(
            f"{RUN} needs {readable_bytes(nbytes)} of memory, which the system does not provide; {LESS}"
        ) from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


S = TypeVar("S", bound=ProgramSchedule[Any])


class HostProgram(CompiledProgram[S]):
    """The memory of a location is an array."""

    def __init__(self, schedule: S, source: Graph | None, check: bool) -> None:
        self.leaves = [node.value for node in schedule.leaves]  # held: work may have their addresses
        self._arena = Arena(schedule.arena_bytes)
        #: A kernel that finds an error sets its first element to 1.
        self.flag = self._arena.bytes[:HEADER].view(np.int64)
        self._copies: dict[int, Array] = {}
        super().__init__(schedule, source, check)

    def at(self, location: Location) -> Array:
        if location.piece == ARENA:
            return location.array(self._arena.bytes)
        return location.array(self.leaves[location.piece - ARENA - 1].reshape(-1).view(np.uint8))

    def write(self, array: Array, at: Array) -> None:
        at[...] = array

    def read(self, locations: Sequence[Location]) -> list[Array]:
        return list(map(self.at, locations))

    def lower_flag(self) -> None:
        self.flag[0] = 0

    def begin(self, arrays: Sequence[Array], wanted: Sequence[int]) -> list[Array] | None:
        """Runs the sections before those that vary."""
        if not self.schedule.fixed or (self.check and not all(map(is_finite, (*arrays, *self.all_leaves())))):
            return None
        with self._turns.lock:
            self._turns.begin(self)
            self.lower_flag()
            self._bring(arrays)
            self._execute(0, self.schedule.fixed)
            found = None if self.flag[0] else [self._results[i].copy() for i in wanted]
            self._turns.end()
        return found

    def fetch(self, arrays: Sequence[Array]) -> list[Array] | None:
        return None if self.flag[0] else list(map(self._copy, range(len(self._results))))

    def _copy(self, i: int) -> Array:
        """A copy of output i; in the array of an earlier copy that nothing refers to any more, since the pages of fresh
        memory take longer than the copy.
        """
        result = self._results[i]
        if not LEAST_REUSED <= result.nbytes <= MOST_REUSED:
            return result.copy()
        free = i in self._copies and references(self._copies, i) == references(PROBE, 0)
        if not free or not _is_like(self._copies[i], result):
            self._copies[i] = result.copy()
        else:
            np.copyto(self._copies[i], result)
        return self._copies[i]


#: Bytes of outputs whose memory is reused.
LEAST_REUSED, MOST_REUSED = 1 << 16, 1 << 26


def references(arrays: dict[int, Array], i: int) -> int:
    """Number of references to an array, with those of this function: they depend on Python, and on debuggers."""
    array = arrays[i]
    return sys.getrefcount(array)


#: An array that only a dict holds.
PROBE = {0: np.empty(0)}


def _is_like(array: Array, other: Array) -> bool:
    """False if somebody has changed the shape, dtype or flags of the array."""
    return array.flags.carray and array.shape == other.shape and array.dtype == other.dtype
