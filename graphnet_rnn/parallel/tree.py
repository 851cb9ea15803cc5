"""Sums of numbered parts in a fixed order, so that they have the same bits whoever made which part.

The sum over [a, b) is that over its first p parts plus that over the others, p the largest power of two below b - a.
Whoever has consecutive parts adds them up as far as whole branches go, and whoever gets these adds them in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphnet.graph.node import Array

__all__ = ["Branch", "branches", "joined", "summed"]

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
