"""The smallest input that still breaks a law: first fewer elements, then rounder numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from graphnet.graph.node import Array

__all__ = ["shrink"]

Arrays = list[Array]


def shrink(arrays: Sequence[Array], fails: Callable[[Arrays], bool], most: int = 60) -> Arrays:
    """Smaller and rounder arrays for which `fails` still holds; tries at most `most` candidates."""
    best = [np.asarray(a) for a in arrays]
    tries = 0
    improved = True
    while improved:
        improved = False
        for candidate in _candidates(best):
            tries += 1
            if tries > most:
                return best
            if fails(candidate):
                best, improved = candidate, True
                break
    return best


def _candidates(arrays: Arrays) -> Iterator[Arrays]:
    # Axes of one size are cut together: they most likely are the same axis of the signature.
    for size in sorted({n for a in arrays for n in a.shape if n > 1}, reverse=True):
        for smaller in (1, size // 2):
            if smaller < size:
                yield [a[tuple(slice(0, smaller if n == size else n) for n in a.shape)] for a in arrays]
    for i, a in enumerate(arrays):
        if a.dtype.kind == "f" and a.size:
            for rounder in (np.ones_like(a), np.round(a), np.round(a, 1)):
                if not np.array_equal(rounder, a) and _simpler(rounder, a):
                    yield [*arrays[:i], rounder, *arrays[i + 1 :]]


def _simpler(new: Array, old: Array) -> bool:
    return len(np.array2string(new)) < len(np.array2string(old))
