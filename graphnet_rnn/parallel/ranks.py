"""Ranks: the processes that share a run, numbered from 0; here, one process alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from graphnet.graph.node import Array

T = TypeVar("T")


class Ranks:
    """One process alone: rank 0 of 1. With more processes, all call each method, in the same order.

    rank, size: number of this process, and their total. threads: cores per process, if several share a machine.
    """

    rank: int = 0
    size: int = 1
    threads: int | None = None

    @property
    def is_first(self) -> bool:
        """True for the process that writes files and prints."""
        return self.rank == 0

    def own(self, count: int, rank: int | None = None) -> range:
        """Returns the consecutive parts of this rank, of `count` parts; ranks have equal numbers, or one more."""
        rank = self.rank if rank is None else rank
        return range(rank * count // self.size, (rank + 1) * count // self.size)

    def sum(self, count: int, parts: Iterable[Array], length: int) -> Array:
        """Σ of `count` vectors of this length, on all ranks, with the same bits for any number of ranks

        parts: those of `own(count)`, in order, float64.
        """
        return summed(iter(parts), 0, count)

    def sum_numbers(self, count: int, parts: Iterable[float]) -> float:
        """Σ of `count` numbers, likewise"""
        return float(self.sum(count, (np.array([part], np.float64) for part in parts), 1)[0])

    def any(self, flags: int) -> int:
        """Returns the bitwise or of the flags of all ranks."""
        return flags

    def of_first(self, make: Callable[[], T]) -> T:
        """Calls `make` on rank 0 only; returns its result, or raises its error, on all."""
        return make()

    def gather(self, value: T) -> list[T]:
        """Returns the values of all ranks, in order, on all."""
        return [value]

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Context in which an error of one rank ends all, so that none waits."""
        yield

    @contextlib.contextmanager
    def witnessed(self, sentence: str) -> Iterator[None]:
        """Context that prints the sentence if a rank is killed."""
        yield


#: One process.
ALONE = Ranks()


#: Range of summed parts, [first, end).
Branch = tuple[int, int]


def _middle(low: int, high: int) -> int:
    return low + (1 << (high - low - 1).bit_length() - 1)


def branches(first: int, end: int, count: int) -> list[Branch]:
    """Returns the largest branches of the summation tree over `count` parts within [first, end), in order."""

    def within(low: int, high: int) -> Iterator[Branch]:
        if first <= low and high <= end:
            yield low, high
        elif low < end and first < high:
            middle = _middle(low, high)
            yield from within(low, middle)
            yield from within(middle, high)

    return list(within(0, count)) if first < end else []


def summed(parts: Iterator[Array], low: int, high: int) -> Array:
    """Sums a branch of parts that arrive in order; memory grows with the depth of the tree only."""
    if high - low == 1:
        return next(parts)
    middle = _middle(low, high)
    left = summed(parts, low, middle)
    return left + summed(parts, middle, high)


def joined(known: Mapping[Branch, Array], low: int, high: int) -> Array:
    """Sums a branch from known branches."""
    if (low, high) in known:
        return known[low, high]
    middle = _middle(low, high)
    return joined(known, low, middle) + joined(known, middle, high)
