"""Ranks: the processes that share the work of a run, each with a number from 0 on; here, one alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from graphnet.graph.node import Array

__all__ = ["ALONE", "Branch", "Ranks", "branches", "joined", "summed"]

T = TypeVar("T")


class Ranks:
    """One process alone: rank 0 of 1. With more of them each method is called by all, in the same order.

    rank, size: which this one is, of how many. threads: the cores that each has, where several share a machine.
    """

    rank: int = 0
    size: int = 1
    threads: int | None = None

    @property
    def is_first(self) -> bool:
        """Whether it is the one that writes files, and speaks."""
        return self.rank == 0

    def own(self, count: int, rank: int | None = None) -> range:
        """Which of so many parts this rank makes: consecutive ones, of all ranks as many, or one more."""
        rank = self.rank if rank is None else rank
        return range(rank * count // self.size, (rank + 1) * count // self.size)

    def sum(self, count: int, parts: Iterable[Array], length: int) -> Array:
        """Σ of so many vectors of this length, the same bits for any number of ranks, on all of them

        parts: those of `own(count)`, in their order, float64.
        """
        return summed(iter(parts), 0, count)

    def sum_numbers(self, count: int, parts: Iterable[float]) -> float:
        """Σ of so many numbers, likewise"""
        return float(self.sum(count, (np.array([part], np.float64) for part in parts), 1)[0])

    def any(self, flags: int) -> int:
        """The bits that some rank has set."""
        return flags

    def of_first(self, make: Callable[[], T]) -> T:
        """What rank 0 makes, on all; what it raises, too."""
        return make()

    def gather(self, value: T) -> list[T]:
        """What each has, by rank, on all."""
        return [value]

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Within it an error of one ends all: nobody waits for a rank that is gone."""
        yield

    @contextlib.contextmanager
    def witnessed(self, sentence: str) -> Iterator[None]:
        """Within it, if a rank is killed, and with it all others, the sentence is said."""
        yield


#: For all that is not shared.
ALONE = Ranks()


#: The parts that it is the sum of: from the first to before the last.
Branch = tuple[int, int]


def _middle(low: int, high: int) -> int:
    return low + (1 << (high - low - 1).bit_length() - 1)


def branches(first: int, end: int, count: int) -> list[Branch]:
    """The largest branches of the tree over so many parts that lie within [first, end), in their order."""

    def within(low: int, high: int) -> Iterator[Branch]:
        if first <= low and high <= end:
            yield low, high
        elif low < end and first < high:
            middle = _middle(low, high)
            yield from within(low, middle)
            yield from within(middle, high)

    return list(within(0, count)) if first < end else []


def summed(parts: Iterator[Array], low: int, high: int) -> Array:
    """A branch, of parts that come in their order. At no time are there more of them than it has levels."""
    if high - low == 1:
        return next(parts)
    middle = _middle(low, high)
    left = summed(parts, low, middle)
    return left + summed(parts, middle, high)


def joined(known: Mapping[Branch, Array], low: int, high: int) -> Array:
    """A branch, of branches that are known."""
    if (low, high) in known:
        return known[low, high]
    middle = _middle(low, high)
    return joined(known, low, middle) + joined(known, middle, high)
