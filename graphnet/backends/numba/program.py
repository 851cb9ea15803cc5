"""The compiled program: runs tapes over one arena, with up to one thread for each tape of a section."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.backends.cache import open_cache
from graphnet.backends.compiled.files import restored_schedule
from graphnet.backends.compiled.host import HostProgram
from graphnet.backends.compiled.locations import ARENA
from graphnet.backends.numba.cores.pace import Pace
from graphnet.backends.numba.cores.threads import Team
from graphnet.backends.numba.machine import Kernel, this_machine
from graphnet.backends.numba.schedule import TapeSchedule
from graphnet.backends.numba.tape import Tape, runner
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node

#: The arrays of a tape.
TAPE = ("words", "heads", "kernels", "ends")


class NumbaProgram(HostProgram[TapeSchedule]):
    """kernels: in the order of their numbers, held as long as the program is."""

    def __init__(
        self, schedule: TapeSchedule, source: Graph | None, check: bool, kernels: Sequence[Kernel]
    ) -> None:
        super().__init__(schedule, source, check)
        self._kernels = list(kernels)
        # Piece 0 is unused; then come the arena, the leaves, and borrowed inputs.
        first = ARENA + 1 + len(self.leaves)
        pieces = np.zeros(first + len(schedule.borrowed), np.int64)
        pieces[ARENA:first] = [self._arena.address, *(a.ctypes.data for a in self.leaves)]
        addresses = np.array([kernel.address for kernel in kernels], np.int64)
        self._sections = [
            _Section([tape.located(pieces, addresses) for tape in section.work], section.work)
            for section in schedule.sections
        ]
        self.updates_in_place = bool(schedule.written)
        self._borrowed = [_Borrowed(i, first + k, self._sections) for k, i in enumerate(schedule.borrowed)]
        self._team = Team(schedule.parts)
        self._threads = schedule.parts
        #: By the section that a run begins with, and the one before which it ends.
        self._paces: dict[tuple[int, int | None], Pace] = {
            ends: Pace(schedule.parts) for ends in ((0, None), (schedule.fixed, None), (0, schedule.fixed))
        }

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        if self._borrowed:  # in one piece, for as long as it runs
            arrays = list(map(np.ascontiguousarray, arrays))
        return super().run(arrays)

    def launch(self, number: int) -> None:
        self._sections[number].run(self._team, self._threads)

    def timed_launch(self, number: int, spent: dict[Node, float]) -> None:
        self._sections[number].time(self._team, self.schedule.parts, spent)

    def run_alone(self, arrays: Sequence[Array], parts: Sequence[int]) -> Iterator[tuple[str, list[Array]]]:
        """As `run`, then, where something varies, as `again`: one thread alone, which does the parts of each superstep
        in this order, over memory that was full of NaN.
        """
        with self._turns.lock:
            self._turns.begin(self)
            self._arena.bytes.fill(0xFF)
            self._bring(arrays)
            for name, first in (("", 0), (", again", self.schedule.fixed)):
                if name and not first:
                    break
                self.lower_flag()
                sections = zip(self._sections[first:], self.schedule.sections[first:], strict=True)
                for section, (_, host) in sections:
                    section.run_alone(parts)
                    if host is not None:
                        self._call(host)
                outputs = self.fetch(arrays)
                yield name, self._explained(arrays) if outputs is None else outputs

    def stored_work(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """With the machine code of the kernels."""
        schedule, machine, kept = self.schedule, this_machine(), open_cache()
        arrays: dict[str, Array] = {}
        for i, section in enumerate(schedule.sections):
            for k, tape in enumerate(section.work):
                arrays |= {f"{part}.{i}.{k}": getattr(tape, part) for part in TAPE}
        keys = machine.keys(schedule.kernels)
        for i, (key, text) in enumerate(zip(keys, schedule.kernels, strict=True)):
            arrays[f"kernel.{i}"] = np.frombuffer(machine.machine_code(key, text, kept), np.uint8)
        header = {
            "parts": schedule.parts,
            "sections": len(schedule.sections),
            "machine": machine.processor_key,
            "kernels": keys,
        }
        return header, arrays

    def bring(self, arrays: Sequence[Array]) -> None:
        """Writes the addresses of the arrays into the tapes."""
        for borrowed in self._borrowed:
            borrowed.bring(arrays[borrowed.position])

    def _execute(self, first: int, end: int | None = None) -> None:
        pace, start = self._paces[first, end], time.perf_counter()
        self._threads = pace.threads
        super()._execute(first, end)
        pace.took(time.perf_counter() - start)


def restored(
    header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
) -> NumbaProgram:
    """The stored program; source: see Backend.restore.

    BackendError if it was compiled for another machine or version of LLVM.
    """
    machine, made_for, parts = this_machine(), header["machine"], header["parts"]
    if made_for != machine.processor_key:
        raise BackendError(
            "this stored function was compiled for another processor or version of LLVM "
            f"({' '.join(made_for.split()[1:2])}; this machine: {machine.processor}). Compile and save it again "
            "on this machine."
        )
    works = [
        [Tape(**{part: arrays[f"{part}.{i}.{k}"] for part in TAPE}, owners=[]) for k in range(parts)]
        for i in range(header["sections"])
    ]
    common = restored_schedule(header, arrays, works, source)
    codes = {key: arrays[f"kernel.{i}"].tobytes() for i, key in enumerate(header["kernels"])}
    schedule = TapeSchedule(**vars(common), parts=parts, kernels=[], borrowed=[], written=[])
    return NumbaProgram(schedule, source, False, machine.load(list(codes), codes.__getitem__))


class _Borrowed:
    """An input that is read in place: the words of the tapes that are addresses in it."""

    def __init__(self, position: int, piece: int, sections: Sequence[_Section]) -> None:
        self.position = position
        self._address = 0
        self._places = [
            (words, at, words[at].copy())
            for section in sections
            for words, tape in zip(section.words, section.tapes, strict=True)
            for at in (tape.of_piece(piece),)
        ]

    def bring(self, array: Array) -> None:
        address: int = array.__array_interface__["data"][0]
        if address != self._address:
            for words, at, offsets in self._places:
                words[at] = offsets + address
            self._address = address


class _Section:
    def __init__(self, words: Sequence[Array], tapes: Sequence[Tape]) -> None:
        self.words, self.tapes = words, tapes
        #: How many records of each part end with each superstep.
        self._records = np.array([np.searchsorted(tape.heads, tape.ends) for tape in tapes])
        ends = np.array([w.ctypes.data + 8 * tape.ends for w, tape in zip(words, tapes, strict=True)])
        starts = np.array([[w.ctypes.data, *row[:-1]] for w, row in zip(words, ends, strict=True)])
        #: For each superstep and part: the address of its first record, of their end, and where times go.
        self.table = np.ascontiguousarray(np.stack([starts, ends, 0 * ends], -1).transpose(1, 0, 2), np.int64)
        self._busy = [part for part, w in enumerate(words) if len(w)]
        #: By superstep, the place of each part's row in the table, as Python's numbers: NumPy's are slower to read.
        first, (across, along, _) = self.table.ctypes.data, self.table.strides
        self._rows = [
            [first + s * across + p * along for p in range(len(words))] for s in range(len(self.table))
        ]

    def run(self, team: Team, threads: int) -> None:
        if len(self._busy) > 1:
            team.run(self.table, threads)
        else:
            self.run_alone(self._busy)

    def run_alone(self, parts: Iterable[int]) -> None:
        order = list(parts)
        run = runner()
        for row in self._rows:
            for part in order:
                run(row[part])

    def time(self, team: Team, threads: int, spent: dict[Node, float]) -> None:
        """Adds each node's seconds: the time of its records, shared among the nodes of a record."""
        owners = [tape.owners for tape in self.tapes]
        ticks = [np.zeros(len(owner), np.int64) for owner in owners]
        table = self.table.copy()
        for part, (ends, counted) in enumerate(zip(self._records, ticks, strict=True)):
            table[:, part, 2] = counted.ctypes.data + 8 * np.array([0, *ends[:-1]])
        start = time.perf_counter()
        team.run(table, threads if len(self._busy) > 1 else 1, timed=True)
        elapsed = time.perf_counter() - start
        longest = max((int(t.sum()) for t in ticks), default=0)
        for counted, owner in zip(ticks, owners, strict=True):
            for count, nodes in zip(counted.tolist(), owner, strict=True):
                share = count * elapsed / max(longest, 1) / len(nodes) / max(len(self._busy), 1)
                for node in nodes:
                    spent[node] += share
