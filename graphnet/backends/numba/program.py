"""The compiled program: an image put to work over one arena, by as many threads as it has tapes for."""

from __future__ import annotations

import mmap
import os
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from graphnet.backends import contents
from graphnet.backends.base import OUT_OF_RANGE, Program, runs_in_python, stored_parameters
from graphnet.backends.cache import open_cache
from graphnet.backends.numba.image import ARENA, HEADER, LESS, RUN, Image, Place, Tape
from graphnet.backends.numba.machine import Kernel, symbol_of, this_machine
from graphnet.backends.numba.pace import Pace
from graphnet.backends.numba.reach import arena_end
from graphnet.backends.numba.records import RecordForm, form_of, from_told
from graphnet.backends.numba.tape import runner
from graphnet.backends.numba.threads import Team
from graphnet.backends.numpy import NumpyProgram, call_forward
from graphnet.backends.turns import Turns
from graphnet.errors import BackendError, GraphnetError, NotEnoughMemoryError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.plan.arena import ALIGNMENT
from graphnet.system.memory import readable_bytes, require_memory

__all__ = ["Arena", "NumbaProgram"]


class NumbaProgram(Program):
    """source: the graph that the user gave, which tells what went wrong; None for one that comes from a file.

    kernels: held as long as the program is. leaves: the arrays that are read where they are. brought: what gives those
    that are copied before each run. All in the image's order.
    """

    def __init__(
        self,
        image: Image,
        source: Graph | None,
        check: bool,
        kernels: Sequence[Kernel],
        leaves: Sequence[Array],
        brought: Sequence[Callable[[], Array]],
    ) -> None:
        self.image, self.source, self.check = image, source, check
        self.memory = image.memory
        self.leaves = list(leaves)
        self._kernels = list(kernels)
        self._arena = Arena(image.arena_bytes)
        # Piece 0 is nothing, 1 the arena, then the leaves.
        first = ARENA + 1 + len(self.leaves)
        pieces = np.zeros(first + len(image.lent), np.int64)
        pieces[ARENA:first] = [self._arena.address, *(a.ctypes.data for a in self.leaves)]
        addresses = np.array([kernel.address for kernel in kernels], np.int64)
        self._segments = [
            _Segment([tape.located(pieces, addresses) for tape in tapes], tapes)
            for tapes, _ in image.segments
        ]
        self.updates_in_place = bool(image.written)
        self._lent = [
            _Lent(i, i in image.written, first + k, self._segments) for k, i in enumerate(image.lent)
        ]
        self._team = Team(image.parts)
        #: By the segment that a run begins with.
        self._paces = {first: Pace(image.parts) for first in (0, image.fixed)}
        self._given = [None if p is None else self._array(p) for p in image.given]
        self._results = [self._array(p) for p in image.results]
        self._brought = [(self._array(p), get) for p, get in zip(image.brought, brought, strict=True)]
        self._turns = Turns()
        _programs.add(self)

    def _array(self, place: Place) -> Array:
        if place.piece > 1:
            return place.array(self.leaves[place.piece - 2].reshape(-1).view(np.uint8))
        return place.array(self._arena.bytes)

    # -- storing ----------------------------------------------------------------------------------------

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        for _, host in self.image.segments:
            if host is not None:
                raise runs_in_python(host[0])
        if self.check:
            raise BackendError("a function compiled with check=True cannot be stored: errors need its graph")
        machine = this_machine()
        header, arrays = self.image.stored()
        texts = self.image.kernels
        keys, forms = machine.keys(texts), [form_of(text) for text in texts]
        kept = open_cache()
        kernels = []
        for i, (key, text, form) in enumerate(zip(keys, texts, forms, strict=True)):
            code = machine.machine_code(key, text, kept)
            arrays[f"kernel.{i}"] = np.frombuffer(code, np.uint8)
            kernels.append([_seal(symbol_of(key), form, code), symbol_of(key), form])
        header |= {
            "machine": machine.fingerprint,
            "kernels": kernels,
            "arena_bytes": arena_end(self.image, forms, self.leaves),
            "leaves": len(self.leaves),
            "parameters": stored_parameters(self.image.leaves, self.image.brought_from),
        }
        arrays |= {f"leaf.{i}": array for i, array in enumerate(self.leaves)}
        arrays |= {f"brought.{i}": np.array(get()) for i, (_, get) in enumerate(self._brought)}
        return header, arrays

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> NumbaProgram:
        """BackendError for a program of another machine or version of LLVM, and for what is none."""
        machine = this_machine()
        made_for = contents.text(contents.entry(header, "machine"), "its machine")
        if made_for != machine.fingerprint:
            raise BackendError(
                "this stored function was compiled for another processor or version of LLVM "
                f"({' '.join(made_for.split()[1:2])}, here {machine.processor}); compile and save it again here."
            )
        count = contents.whole(contents.entry(header, "leaves"), "the number of its leaves", len(arrays))
        leaves = [contents.array(arrays, f"leaf.{i}") for i in range(count)]
        image = Image.restored(header, arrays, count)
        brought = [contents.array(arrays, f"brought.{i}") for i in range(len(image.brought))]
        for place, array in zip(image.brought, brought, strict=True):
            if (place.shape, place.dtype) != (array.shape, array.dtype):
                contents.refuse("an array does not fit its place")
        forms, kernels = _stored_kernels(header, arrays)
        if arena_end(image, forms, leaves) != image.arena_bytes:
            contents.refuse("its arena is of another size than what it uses")
        loaded = machine.load(list(kernels), lambda key: kernels[key][0], lambda key: kernels[key][1])
        return cls(image, None, False, loaded, leaves, [array.copy for array in brought])

    # -- running -----------------------------------------------------------------------------------------

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        # Loops look at what they read; a NaN may also stand where nobody reads.
        if self.check and not all(map(_is_finite, (*arrays, *self.leaves))):
            return self._explain(arrays)
        if self._lent:  # in one piece, for as long as it runs
            arrays = list(map(np.ascontiguousarray, arrays))
        with self._turns.lock:
            self._turns.begin(self)
            self._bring(arrays)
            self._execute()
            if not self._arena.header[0]:
                return self._taken()
        return self._explain(arrays)

    def again(self, arrays: Sequence[Array]) -> list[Array]:
        if not self.image.fixed or (self.check and not all(map(_is_finite, arrays))):
            return self.run(arrays)
        with self._turns.lock:
            self._turns.begin(self)
            for place, array, varies in zip(self._given, arrays, self.image.varying, strict=True):
                # What all else is copied to may have been given to others since.
                if varies and place is not None:
                    place[...] = array
            self._execute(self.image.fixed)
            if not self._arena.header[0]:
                return self._taken()
        return self._explain(arrays)

    def run_alone(self, arrays: Sequence[Array], parts: Sequence[int]) -> Iterator[tuple[str, list[Array]]]:
        """As `run`, then, where something varies, as `again`: one thread alone, which does the parts of each superstep
        in this order, over memory that was full of NaN.
        """
        with self._turns.lock:
            self._turns.begin(self)
            self._arena.bytes.fill(0xFF)
            self._bring(arrays)
            for name, first in (("", 0), (", again", self.image.fixed)):
                if name and not first:
                    break
                self._arena.header[0] = 0
                for segment, (_, host) in zip(
                    self._segments[first:], self.image.segments[first:], strict=True
                ):
                    segment.run_alone(parts)
                    if host is not None:
                        self._run_host(*host)
                yield (
                    name,
                    self._explain(arrays) if self._arena.header[0] else [r.copy() for r in self._results],
                )

    def _taken(self) -> list[Array]:
        """Copies of the outputs, before another call may change them."""
        results = list(map(np.ndarray.copy, self._results))
        self._turns.end()
        return results

    def _explain(self, arrays: Sequence[Array]) -> list[Array]:
        """An index was out of range, or a value not finite: the NumPy back end says which, in its words."""
        if self.source is None:
            raise GraphnetError(OUT_OF_RANGE)
        return NumpyProgram(self.source, None, self.check).run(arrays)

    def _bring(self, arrays: Sequence[Array]) -> None:
        for place, array in zip(self._given, arrays, strict=True):
            if place is not None:
                place[...] = array
        if self._lent:
            self._lend(arrays)
        for place, get in self._brought:
            place[...] = get()

    def _lend(self, arrays: Sequence[Array]) -> None:
        """Tells the tapes where the arrays lie. BackendError where one that is written reaches into another."""
        spans = sorted((*lent.lend(arrays[lent.position]), lent) for lent in self._lent)
        for (_, end, a), (start, _, b) in pairwise(spans):
            if start < end and (a.written or b.written):
                raise BackendError(
                    f"the arrays of inputs {a.position} and {b.position} of this function share memory, and it updates "
                    "one of them; give it a copy of the other"
                )

    def _execute(self, first: int = 0) -> None:
        """Runs the segments from `first` on."""
        self._arena.header[0] = 0
        pace, start = self._paces[first], time.perf_counter()
        for segment, (_, host) in zip(self._segments[first:], self.image.segments[first:], strict=True):
            segment.run(self._team, pace.threads)
            if host is not None:
                self._run_host(*host)
        pace.took(time.perf_counter() - start)

    def _run_host(self, node: Node, sources: Sequence[Place], target: Place) -> None:
        self._array(target)[...] = call_forward(node, [self._array(p) for p in sources])

    def timed(self, arrays: Sequence[Array]) -> dict[Node, float]:
        """Seconds of each node: its records' time, shared among the nodes that one record works for."""
        spent: dict[Node, float] = defaultdict(float)
        with self._turns.lock:
            self._turns.begin(self)
            self._bring(arrays)
            self._arena.header[0] = 0
            for segment, (_, host), owners in zip(
                self._segments, self.image.segments, self.image.owners, strict=True
            ):
                segment.time(self._team, self.image.parts, owners, spent)
                if host is not None:
                    start = time.perf_counter()
                    self._run_host(*host)
                    spent[host[0]] += time.perf_counter() - start
        return spent


class _Lent:
    """An input that is read where it lies: the words of the tapes that are addresses in it."""

    def __init__(self, position: int, written: bool, piece: int, segments: Sequence[_Segment]) -> None:
        self.position, self.written = position, written
        self._address = 0
        self._places = [
            (words, at, words[at].copy())
            for segment in segments
            for words, tape in zip(segment.words, segment.tapes, strict=True)
            for at in (tape.of_piece(piece),)
        ]

    def lend(self, array: Array) -> tuple[int, int]:
        """From which address to which it lies."""
        address: int = array.__array_interface__["data"][0]
        if address != self._address:
            for words, at, offsets in self._places:
                words[at] = offsets + address
            self._address = address
        return address, address + array.nbytes

    def __lt__(self, other: _Lent) -> bool:
        return self.position < other.position


class _Segment:
    """A stretch of native code: the tapes of all parts, with real addresses."""

    def __init__(self, words: Sequence[Array], tapes: Sequence[Tape]) -> None:
        self.words, self.tapes = words, tapes
        #: How many records of each part end with each superstep.
        self._records = np.array([np.searchsorted(tape.heads, tape.ends) for tape in tapes])
        ends = np.array([w.ctypes.data + 8 * tape.ends for w, tape in zip(words, tapes, strict=True)])
        starts = np.array([[w.ctypes.data, *row[:-1]] for w, row in zip(words, ends, strict=True)])
        #: For each superstep and part: the address of its first record, of their end, and where times go.
        self.table = np.ascontiguousarray(np.stack([starts, ends, 0 * ends], -1).transpose(1, 0, 2), np.int64)
        self._busy = [part for part, w in enumerate(words) if len(w)]

    def run(self, team: Team, threads: int) -> None:
        if len(self._busy) > 1:
            team.run(self.table, threads)
        else:
            self.run_alone(self._busy)

    def run_alone(self, parts: Iterable[int]) -> None:
        """Superstep by superstep, the parts one after the other, in this order."""
        order = list(parts)
        run = runner()
        for row in self.table:
            for part in order:
                run(row[part].ctypes.data)

    def time(
        self, team: Team, threads: int, owners: Sequence[Sequence[tuple[Node, ...]]], spent: dict[Node, float]
    ) -> None:
        """Adds each node's seconds."""
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


def _seal(symbol: str, form: RecordForm, code: bytes) -> str:
    """The code is not looked into, so what is told of it is sealed with it. By their seals kernels of files are known:
    what a file calls by the name of another kernel is never taken for that."""
    return contents.seal([symbol.encode(), form.line().encode(), code])


def _stored_kernels(
    header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[list[RecordForm], dict[str, tuple[str, bytes]]]:
    """The forms of their records; seal -> (symbol, code)."""
    forms: list[RecordForm] = []
    kernels: dict[str, tuple[str, bytes]] = {}
    for i, told in enumerate(contents.listed(contents.entry(header, "kernels"), "its kernels")):
        seal, symbol, form = contents.listed(told, "a kernel", 3)
        forms.append(from_told(form))
        code = contents.array(arrays, f"kernel.{i}", np.dtype(np.uint8)).tobytes()
        name = contents.code(symbol, f"the name of its kernel {i}")
        if _seal(name, forms[-1], code) != seal or seal in kernels:
            contents.refuse(f"the code of its kernel {i} is not what was sealed")
        kernels[seal] = name, code
    return forms, kernels


def _is_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


_programs: weakref.WeakSet[NumbaProgram] = weakref.WeakSet()


def _after_fork() -> None:
    """In the child no other thread is left that could give back a lock."""
    for program in _programs:
        program._turns = Turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Arena:
    """Zeroed memory that starts on a cache line, on huge pages where the system has them.

    Raises NotEnoughMemoryError where there is less.
    """

    def __init__(self, nbytes: int) -> None:
        require_memory(nbytes, RUN, LESS)
        self._raw = _fresh(nbytes + PAGE) if nbytes >= PAGE else np.zeros(nbytes + ALIGNMENT, np.uint8)
        step = PAGE if nbytes >= PAGE else ALIGNMENT
        start = -self._raw.ctypes.data % step
        self.bytes = self._raw[start : start + nbytes]
        self.address = self.bytes.ctypes.data
        self.header = self.bytes[:HEADER].view(np.int64)


#: Bytes of a huge page.
PAGE = 1 << 21


def _fresh(nbytes: int) -> Array:
    """Zeroed memory that nobody has touched: what an allocator hands out again lies on small pages for good."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # another system: ordinary pages do
        return np.zeros(nbytes, np.uint8)
    # Private, so that a forked child works on a copy of its own.
    try:
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):  # the system grants less than it says is there
        raise NotEnoughMemoryError(
            f"the system refuses the {readable_bytes(nbytes)} of memory that {RUN} takes; {LESS}"
        ) from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
