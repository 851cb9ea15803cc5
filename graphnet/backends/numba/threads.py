"""The threads that run tapes side by side: made when first needed, looking for more work for a moment, then asleep."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import numpy as np

from graphnet.backends.numba.tape import IDLE, address_of_runner, mail, runner

__all__ = ["run_together"]


class _Worker:
    """A thread with a mailbox. It looks there, in native code, and sleeps when nothing has come for a while."""

    def __init__(self) -> None:
        # A line of its own, or two workers' boxes would slow each other down.
        self._memory = np.full(32, IDLE, np.int64)
        start = -self._memory.ctypes.data % 128 // 8
        self.box = self._memory[start : start + 16]
        self.box[3] = 1  # nothing is under way
        self.address = self.box.ctypes.data
        self._wake = threading.Semaphore(0)
        threading.Thread(target=self._serve, daemon=True, name="graphnet").start()

    def start(self, run: int, tape: int) -> None:
        """Hands it the bounds of a tape, and the native loop that runs it."""
        _, post, _ = mail()
        self.box[1], self.box[2] = tape, run
        post(self.address)
        if self.box[4]:
            self.wake()

    def wake(self) -> None:
        """Makes it look into its mailbox. Once too often does no harm."""
        self._wake.release()

    def join(self) -> None:
        _, _, join = mail()
        join(self.address)

    def _serve(self) -> None:
        serve, _, _ = mail()
        while True:
            serve(self.address)
            self._wake.acquire()


class _Pool:
    """Idle workers. A program takes as many as it needs and gives them back; a fork starts with none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._process = os.getpid()

    def take(self, count: int) -> list[_Worker]:
        if self._process != os.getpid():  # threads do not survive a fork
            self._lock, self._idle, self._process = threading.Lock(), [], os.getpid()
        # No comprehension in there: from Python 3.12 on, an interrupt at its end would leave the lock taken.
        with self._lock:
            kept = max(0, len(self._idle) - count)
            taken = self._idle[kept:]
            del self._idle[kept:]
        return taken + [_Worker() for _ in range(count - len(taken))]

    def give(self, workers: Sequence[_Worker]) -> None:
        with self._lock:
            self._idle.extend(workers)


_pool = _Pool()


def run_together(tapes: Sequence[int], give_up: Callable[[], None], timed: bool = False) -> None:
    """Runs all tapes at once, the first one here, and returns when all have ended.

    Ctrl-C is let through then; `give_up` makes sure that nobody waits for a tape that was never started.
    """
    run = runner(timed)
    if len(tapes) < 2:
        for tape in tapes:
            run(tape)
        return
    native = address_of_runner(timed)
    workers = _pool.take(len(tapes) - 1)
    interrupted: BaseException | None = None
    started = 0
    try:
        for worker, tape in zip(workers, tapes[1:], strict=True):
            started += 1
            worker.start(native, tape)
        run(tapes[0])
    except BaseException as error:
        interrupted = error
        give_up()
        for worker in workers[:started]:
            worker.wake()
    for worker in workers[:started]:
        while True:
            try:
                worker.join()
                break
            except BaseException as error:
                interrupted = error
                give_up()
    _pool.give(workers)
    if interrupted is not None:
        raise interrupted
