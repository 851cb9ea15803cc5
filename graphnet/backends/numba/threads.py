"""The threads that run tapes side by side: made when first needed, waiting without work in between."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

__all__ = ["run_together"]


class _Worker:
    """A thread that runs what it is given. `done` is released when it has."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Callable[[int], None], int]] = SimpleQueue()
        self.done = threading.Semaphore(0)
        threading.Thread(target=self._serve, daemon=True, name="graphnet").start()

    def start(self, run: Callable[[int], None], tape: int) -> None:
        self._work.put((run, tape))

    def _serve(self) -> None:
        while True:
            run, tape = self._work.get()
            run(tape)
            self.done.release()


class _Pool:
    """Idle workers. A program takes as many as it needs and gives them back; a fork starts with none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._process = os.getpid()

    def take(self, count: int) -> list[_Worker]:
        if self._process != os.getpid():  # threads do not survive a fork
            self._lock, self._idle, self._process = threading.Lock(), [], os.getpid()
        with self._lock:
            taken = [self._idle.pop() for _ in range(min(count, len(self._idle)))]
        return taken + [_Worker() for _ in range(count - len(taken))]

    def give(self, workers: Sequence[_Worker]) -> None:
        with self._lock:
            self._idle.extend(workers)


_pool = _Pool()


def run_together(run: Callable[[int], None], tapes: Sequence[int], give_up: Callable[[], None]) -> None:
    """Runs all tapes at once, the first one here, and returns when all have ended.

    Ctrl-C is let through then; `give_up` makes sure that nobody waits for a tape that was never started.
    """
    if not tapes:
        return
    if len(tapes) == 1:
        run(tapes[0])
        return
    workers = _pool.take(len(tapes) - 1)
    interrupted: BaseException | None = None
    started = 0
    try:
        for worker, tape in zip(workers, tapes[1:], strict=True):
            started += 1
            worker.start(run, tape)
        run(tapes[0])
    except BaseException as error:
        interrupted = error
        give_up()
    for worker in workers[:started]:
        while True:
            try:
                worker.done.acquire()
                break
            except BaseException as error:
                interrupted = error
                give_up()
    _pool.give(workers)
    if interrupted is not None:
        raise interrupted
