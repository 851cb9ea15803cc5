"""The threads that share programs: made when first needed, looking for more work for a moment, then asleep."""

from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from graphnet.backends.numba.cores.team import CLAIMS, LINE, run_program, serve
from graphnet.backends.numba.tape import address_of_runner
from graphnet.graph.node import Array


def _on_a_line(words: int) -> Array:
    memory = np.zeros(words + LINE, np.int64)
    start = -memory.ctypes.data % (8 * LINE) // 8
    return memory[start : start + words]


class _Worker:
    """A thread with a mailbox, always in native code: it takes no lock of Python, and gets no interrupt."""

    def __init__(self) -> None:
        self._box = _on_a_line(LINE)
        self.address = self._box.ctypes.data
        threading.Thread(target=self._serve, daemon=True, name="graphnet").start()

    def _serve(self) -> None:
        serve()(self.address)


class _Pool:
    """Idle workers, and blocks of memory that no program uses now. A fork starts with none."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._workers: list[_Worker] = []
        self._blocks: defaultdict[int, list[Array]] = defaultdict(list)

    def _look_for_fork(self) -> None:
        # Threads do not survive it, and blocks may be in the middle of a run.
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]

    def take(self, count: int) -> list[_Worker]:
        """Takes `count` workers, or fewer if no more threads start. No lock, which a fork could leave held."""
        self._look_for_fork()
        taken: list[_Worker] = []
        while len(taken) < count:
            try:
                taken.append(self._workers.pop())
            except IndexError:
                try:
                    taken.append(_Worker())
                except RuntimeError:  # a limit on processes: the existing workers do all the work
                    break
        return taken

    def give(self, workers: Sequence[_Worker]) -> None:
        """Returns workers. `take` returns them in the same order, since their caches hold their parts of the arrays."""
        self._workers.extend(reversed(workers))

    def take_block(self, parts: int) -> Array:
        self._look_for_fork()
        try:
            return self._blocks[parts].pop()
        except IndexError:
            block = _on_a_line(CLAIMS + LINE * parts)
            block[4] = parts
            return block

    def give_block(self, process: int, parts: int, block: Array) -> None:
        """Keeps a control block for reuse. It is never freed, since a late thread may still read it."""
        if process == os.getpid():
            self._blocks[parts].append(block)


_pool = _Pool()


class Team:
    """State shared by the threads of one program. One run at a time."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self._process = os.getpid()
        self._block = _pool.take_block(parts)
        weakref.finalize(self, _pool.give_block, self._process, parts, self._block).atexit = False

    def run(self, table: Array, threads: int, timed: bool = False) -> None:
        """Runs all parts of all supersteps. threads: maximum number of threads, including this one.

        table[superstep, part]: addresses of the first record, of the end of the records, and of the times.
        """
        if self._process != os.getpid():  # a fork in the middle of a run would leave the block as it was
            self.__init__(self.parts)  # type: ignore[misc]
        workers: list[_Worker] = []
        try:
            workers = _pool.take(threads - 1)
            request = np.array(
                [
                    self._block.ctypes.data, table.shape[0], 1 + len(workers), table.ctypes.data,
                    address_of_runner(timed), *(worker.address for worker in workers),
                ],
                np.int64,
            )  # fmt: skip
            run_program()(request.ctypes.data)
        finally:
            _pool.give(workers)
