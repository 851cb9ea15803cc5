"""Helpers: ranks as threads of one process, without mpiexec."""

from __future__ import annotations

import functools
import operator
import pickle
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from graphnet.graph.node import Array
from graphnet_rnn.parallel import Ranks
from graphnet_rnn.parallel.ranks import branches, joined, summed

T = TypeVar("T")


class Threads(Ranks):
    """One of `size` ranks, which exchange values in `shared`."""

    def __init__(self, rank: int, size: int, shared: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size = rank, size
        self._shared, self._barrier = shared, barrier

    def gather(self, value: T) -> list[T]:
        self._shared[self.rank] = value
        self._barrier.wait(600)  # timeout in seconds
        found = list(self._shared)
        self._barrier.wait(600)
        return found

    def sum(self, count: int, parts: Iterable[Array], length: int) -> Array:
        own, given = self.own(count), iter(parts)
        known = self.gather({each: summed(given, *each) for each in branches(own.start, own.stop, count)})
        return joined({branch: vector for each in known for branch, vector in each.items()}, 0, count).copy()

    def any(self, flags: int) -> int:
        return functools.reduce(operator.or_, self.gather(flags))

    def of_first(self, make: Callable[[], T]) -> T:
        found: Any = None
        if self.is_first:
            try:
                found = make()
            except Exception as error:
                found = error
        result = pickle.loads(pickle.dumps(self.gather(found)[0]))  # ranks share no objects
        if isinstance(result, Exception):
            raise result
        return result


def by_threads(size: int, work: Callable[[Ranks], T]) -> list[T]:
    """Results of `work` on each of `size` ranks, which are threads."""
    shared, barrier = [None] * size, threading.Barrier(size)

    def one(rank: int) -> T:
        try:
            return work(Threads(rank, size, shared, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
    errors = [error for error in (future.exception() for future in futures) if error is not None]
    # Other ranks then raise BrokenBarrierError; the error that caused it is raised first.
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]
