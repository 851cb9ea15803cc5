"""The compiled program, which runs a schedule. A back end adds its memory, and its way to launch a section."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from graphnet.backends.base import Program
from graphnet.backends.compiled.files import leaves_by_key, require_storable, stored_schedule
from graphnet.backends.compiled.locations import Location
from graphnet.backends.compiled.schedule import HostCall, ProgramSchedule
from graphnet.backends.compiled.turns import Turns
from graphnet.backends.numpy import NumpyProgram, call_forward
from graphnet.errors import GraphnetError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node

S = TypeVar("S", bound=ProgramSchedule[Any])
#: Error of a program without a graph, which would give details.
OUT_OF_RANGE = (
    "an index is out of range in this stored function, or a user-defined kernel raised an error. (Usual causes: a "
    "symbol or label that the network does not have, a sequence length of 0 or beyond the last step, or a size that "
    "does not fit the data.)"
)


class CompiledProgram(Program, Generic[S]):
    """Program that runs a schedule. source: the user's graph, for errors; None for a program from a file.

    A back end allocates its memory before it calls `__init__`. `at` is its type for the memory of a location.
    """

    def __init__(self, schedule: S, source: Graph | None, check: bool) -> None:
        self.schedule, self.source, self.check = schedule, source, check
        self.memory = schedule.memory
        self._turns = Turns()
        #: (position, memory) of the inputs that are copied to memory, and of those among them that vary.
        places = enumerate(schedule.copied_inputs)
        self._copied_inputs = [(i, self.at(place)) for i, place in places if place is not None]
        self._varying = [(i, at) for i, at in self._copied_inputs if schedule.varying[i]]
        self._copied_leaves = [(node, self.at(location)) for node, location in schedule.copied_leaves]
        self._results = list(map(self.at, schedule.results))

    # -- defined by back ends ----------------------------------------------------------------------------------------

    @abstractmethod
    def at(self, location: Location) -> Any:
        """The memory there."""

    @abstractmethod
    def write(self, array: Any, at: Any) -> None:
        """Copies an array to memory."""

    @abstractmethod
    def read(self, locations: Sequence[Location]) -> list[Array]:
        """The arrays at these locations, for immediate use in Python."""

    @abstractmethod
    def launch(self, number: int) -> None:
        """Does the work of the section of this number."""

    @abstractmethod
    def lower_flag(self) -> None:
        """Before a run."""

    @abstractmethod
    def fetch(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Copies of the outputs, before another call may change them; None if the flag was raised."""

    @abstractmethod
    def timed_launch(self, number: int, spent: dict[Node, float]) -> None:
        """As `launch`; adds each node's seconds."""

    @abstractmethod
    def stored_work(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Other parts of the schedule that a file must hold, such as the sections' work."""

    def bring(self, arrays: Sequence[Array]) -> None:
        """Prepares a run: copies leaves that may have changed; sets addresses of inputs read in place."""

    # -- shared by all -----------------------------------------------------------------------------------------------

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        require_storable(self.schedule, self.check)
        (header, arrays), (work, more) = stored_schedule(self.schedule), self.stored_work()
        return header | work, arrays | more

    def leaves_by_key(self) -> Mapping[str, Node]:
        return leaves_by_key(self.schedule)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        # Kernels check the values that they read; a NaN may also be in an unread place.
        if self.check and not all(map(is_finite, (*arrays, *self.all_leaves()))):
            return self._explained(arrays)
        return self._outputs(arrays, 0)

    def again(self, arrays: Sequence[Array]) -> list[Array]:
        if not self.schedule.fixed or (self.check and not all(map(is_finite, arrays))):
            return self.run(arrays)
        return self._outputs(arrays, self.schedule.fixed)

    def _outputs(self, arrays: Sequence[Array], first: int) -> list[Array]:
        with self._turns.lock:
            self._turns.begin(self)
            self.lower_flag()
            if first:
                for i, at in self._varying:  # memory of the other copies may have been reused since
                    self.write(arrays[i], at)
            else:
                self._bring(arrays)
            self._execute(first)
            outputs = self.fetch(arrays)
            self._turns.end()
        return self._explained(arrays) if outputs is None else outputs

    def timed(self, arrays: Sequence[Array]) -> dict[Node, float]:
        spent: dict[Node, float] = defaultdict(float)
        with self._turns.lock:
            self._turns.begin(self)
            self.lower_flag()
            self._bring(arrays)
            for number, section in enumerate(self.schedule.sections):
                self.timed_launch(number, spent)
                if section.host is not None:
                    start = time.perf_counter()
                    self._call(section.host)
                    spent[section.host.node] += time.perf_counter() - start
            self._turns.end()
        return spent

    def all_leaves(self) -> list[Array]:
        """The current arrays of parameters and constants."""
        return [
            node.value for node in (*self.schedule.leaves, *(node for node, _ in self.schedule.copied_leaves))
        ]

    def _bring(self, arrays: Sequence[Array]) -> None:
        for i, at in self._copied_inputs:
            self.write(arrays[i], at)
        self.bring(arrays)
        for node, at in self._copied_leaves:
            self.write(node.value, at)

    def _execute(self, first: int, end: int | None = None) -> None:
        sections = self.schedule.sections
        for number in range(first, len(sections) if end is None else end):
            self.launch(number)
            host = sections[number].host
            if host is not None:
                self._call(host)

    def _call(self, host: HostCall) -> None:
        self.write(call_forward(host.node, self.read(host.sources)), self.at(host.target))

    def _explained(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the graph on the NumPy back end, which raises the error: an index out of range, a value not finite."""
        if self.source is None:
            raise GraphnetError(OUT_OF_RANGE)
        return NumpyProgram(self.source, None, self.check).run([np.asarray(array) for array in arrays])


def is_finite(array: Array) -> bool:
    """True if the array has no NaN and no infinity."""
    return array.dtype.kind != "f" or bool(np.all(np.isfinite(array)))
