"""The compiled program: an image put to work over one arena, by as many threads as it has tapes for."""

from __future__ import annotations

import mmap
import os
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.backends.base import OUT_OF_RANGE, Program, stored_parameters
from graphnet.backends.numba.image import HEADER, LESS, RUN, Image, Place
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.threads import run_together
from graphnet.backends.numpy import NumpyProgram, call_forward
from graphnet.errors import BackendError, GraphnetError, NotEnoughMemoryError
from graphnet.graph import Graph
from graphnet.memory import readable_bytes, require_memory
from graphnet.node import Array, Node
from graphnet.plan.arena import ALIGNMENT

__all__ = ["Arena", "NumbaProgram"]


class NumbaProgram(Program):
    """source: the graph that the user gave, which tells what went wrong; None for one that comes from a file.

    kernels: addresses. leaves: the arrays that are read where they are. brought: what gives those that are
    copied before each run. All in the image's order.
    """

    def __init__(
        self,
        image: Image,
        source: Graph | None,
        check: bool,
        kernels: Sequence[int],
        leaves: Sequence[Array],
        brought: Sequence[Callable[[], Array]],
    ) -> None:
        self.image, self.source, self.check = image, source, check
        self.memory = image.memory
        self.leaves = list(leaves)
        self._arena = Arena(image.arena_bytes)
        # Piece 0 is nothing, 1 the arena, then the leaves.
        pieces = np.array([0, self._arena.address, *(a.ctypes.data for a in self.leaves)], np.int64)
        self._tapes: list[list[tuple[Array, Array]]] = []
        for tapes, _ in image.segments:
            located = [tape.located(pieces, np.array(kernels, np.int64)) for tape in tapes]
            self._tapes.append(
                [(t, np.array([t.ctypes.data, t.ctypes.data + t.nbytes], np.int64)) for t in located]
            )
        self._starts = [[bounds.ctypes.data for _, bounds in tapes] for tapes in self._tapes]
        self._given = [None if p is None else self._array(p) for p in image.given]
        self._results = [self._array(p) for p in image.results]
        self._brought = [(self._array(p), get) for p, get in zip(image.brought, brought, strict=True)]
        self._lock = threading.Lock()
        _programs.add(self)

    def _array(self, place: Place) -> Array:
        if place.piece > 1:
            return place.array(self.leaves[place.piece - 2].reshape(-1).view(np.uint8))
        return place.array(self._arena.bytes)

    # -- storing ----------------------------------------------------------------------------------------

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        for _, host in self.image.segments:
            if host is not None:
                node = host[0]
                raise BackendError(
                    f"this function cannot be stored: {node.describe()} (made at {node.origin}) runs the Python rule "
                    f"of {node.op.name}, which no file can hold. Give the op a `kernel`, or leave it out."
                )
        if self.check:
            raise BackendError("a function compiled with check=True cannot be stored: errors need its graph")
        machine = this_machine()
        header, arrays = self.image.stored()
        keys = machine.keys(self.image.kernels)
        codes = [machine.machine_code(k, t) for k, t in zip(keys, self.image.kernels, strict=True)]
        header |= {
            "machine": machine.fingerprint,
            "kernels": keys,
            "leaves": len(self.leaves),
            "parameters": stored_parameters(self.image.leaves, self.image.brought_from),
        }
        arrays |= {f"kernel.{i}": np.frombuffer(code, np.uint8) for i, code in enumerate(codes)}
        arrays |= {f"leaf.{i}": array for i, array in enumerate(self.leaves)}
        arrays |= {f"brought.{i}": np.array(get()) for i, (_, get) in enumerate(self._brought)}
        return header, arrays

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> NumbaProgram:
        """BackendError for a program of another machine or version of LLVM."""
        machine = this_machine()
        if header["machine"] != machine.fingerprint:
            raise BackendError(
                "this stored function was compiled for another processor or version of LLVM "
                f"({header['machine'].split()[1]}, here {machine.processor}); compile and save it again here."
            )
        keys = header["kernels"]
        code_of = {key: arrays[f"kernel.{i}"].tobytes() for i, key in enumerate(keys)}
        leaves = [arrays[f"leaf.{i}"] for i in range(header["leaves"])]
        brought = [arrays[f"brought.{i}"] for i in range(len(header["brought"]))]
        addresses = machine.load(keys, code_of.__getitem__)
        return cls(Image.restored(header, arrays), None, False, addresses, leaves, [a.copy for a in brought])

    # -- running -----------------------------------------------------------------------------------------

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        # Loops look at what they read; a NaN may also stand where nobody reads.
        if self.check and not all(map(_is_finite, (*arrays, *self.leaves))):
            return self._explain(arrays)
        with self._lock:
            self._bring(arrays)
            self._execute()
            if not self._arena.header[0]:
                return list(map(np.ndarray.copy, self._results))
        return self._explain(arrays)

    def again(self, arrays: Sequence[Array]) -> list[Array]:
        if not self.image.fixed or (self.check and not all(map(_is_finite, arrays))):
            return self.run(arrays)
        with self._lock:
            for place, array, varies in zip(self._given, arrays, self.image.varying, strict=True):
                # What all else is copied to may have been given to others since.
                if varies and place is not None:
                    place[...] = array
            self._execute(self.image.fixed)
            if not self._arena.header[0]:
                return list(map(np.ndarray.copy, self._results))
        return self._explain(arrays)

    def _explain(self, arrays: Sequence[Array]) -> list[Array]:
        """An index was out of range, or a value not finite: the NumPy back end says which, in its words."""
        if self.source is None:
            raise GraphnetError(OUT_OF_RANGE)
        return NumpyProgram(self.source, None, self.check).run(arrays)

    def _bring(self, arrays: Sequence[Array]) -> None:
        for place, array in zip(self._given, arrays, strict=True):
            if place is not None:
                place[...] = array
        for place, get in self._brought:
            place[...] = get()

    def _execute(self, first: int = 0) -> None:
        """Runs the segments from `first` on."""
        header = self._arena.header
        header.fill(0)
        for i in range(first, len(self._starts)):
            if i == self.image.fixed:
                header[8] = 0  # meetings are counted anew from here, so that a run can begin here
            run_together(self._starts[i], self._give_up)
            host = self.image.segments[i][1]
            if host is not None:
                self._run_host(*host)

    def _give_up(self) -> None:
        """No barrier holds any more: whoever waits goes on to the end of its tape."""
        self._arena.header[9] = 1

    def _run_host(self, node: Node, sources: Sequence[Place], target: Place) -> None:
        self._array(target)[...] = call_forward(node, [self._array(p) for p in sources])

    def timed(self, arrays: Sequence[Array]) -> dict[Node, float]:
        """Seconds of each node: its records' time, shared among the nodes that one record works for."""
        spent: dict[Node, float] = defaultdict(float)
        with self._lock:
            self._bring(arrays)
            self._arena.header[:] = 0
            for tapes, (_, host), owners in zip(
                self._tapes, self.image.segments, self.image.owners, strict=True
            ):
                self._time_segment([bounds for _, bounds in tapes], owners, spent)
                if host is not None:
                    start = time.perf_counter()
                    self._run_host(*host)
                    spent[host[0]] += time.perf_counter() - start
        return spent

    def _time_segment(
        self, bounds: Sequence[Array], owners: Sequence[Sequence[tuple[Node, ...]]], spent: dict[Node, float]
    ) -> None:
        ticks = [np.zeros(len(owner), np.int64) for owner in owners]
        extended = [np.append(b, t.ctypes.data) for b, t in zip(bounds, ticks, strict=True)]
        start = time.perf_counter()
        run_together([b.ctypes.data for b in extended], self._give_up, timed=True)
        elapsed = time.perf_counter() - start
        longest = max((int(t.sum()) for t in ticks), default=0)
        for counted, owner in zip(ticks, owners, strict=True):
            for count, nodes in zip(counted.tolist(), owner, strict=True):
                share = count * elapsed / max(longest, 1) / len(nodes) / len(ticks)
                for node in nodes:
                    spent[node] += share


def _is_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


_programs: weakref.WeakSet[NumbaProgram] = weakref.WeakSet()


def _after_fork() -> None:
    """In the child no other thread is left that could give back a lock."""
    for program in _programs:
        program._lock = threading.Lock()


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
