"""Programs whose memory is the host's: an arena, and leaves that are read where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from graphnet.backends.compiled.arena import Arena
from graphnet.backends.compiled.locations import ARENA, Location
from graphnet.backends.compiled.program import CompiledProgram, is_finite
from graphnet.backends.compiled.schedule import ProgramSchedule
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array

__all__ = ["HostProgram"]

S = TypeVar("S", bound=ProgramSchedule[Any])


class HostProgram(CompiledProgram[S]):
    """The memory of a location is an array."""

    def __init__(self, schedule: S, source: Graph | None, check: bool) -> None:
        self.leaves = [node.value for node in schedule.leaves]  # held: work may have their addresses
        self._arena = Arena(schedule.arena_bytes)
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
        self._arena.header[0] = 0

    def begin(self, arrays: Sequence[Array], wanted: Sequence[int]) -> list[Array] | None:
        """By the sections before those that depend on what varies."""
        if not self.schedule.fixed or (self.check and not all(map(is_finite, (*arrays, *self.all_leaves())))):
            return None
        with self._turns.lock:
            self._turns.begin(self)
            self.lower_flag()
            self._bring(arrays)
            self._execute(0, self.schedule.fixed)
            found = None if self._arena.header[0] else [self._results[i].copy() for i in wanted]
            self._turns.end()
        return found

    def fetch(self, arrays: Sequence[Array]) -> list[Array] | None:
        return None if self._arena.header[0] else list(map(np.ndarray.copy, self._results))
