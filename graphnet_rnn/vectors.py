"""Long vectors: inner products without BLAS, and what works on NumPy's arrays as on those of a GPU.

From some ten thousand numbers on, OpenBLAS divides a dot product among threads of its own, which then keep spinning for
the next one. Between two runs of a compiled function that has all cores, they cost more than the function.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from graphnet.node import Array

__all__ = ["double", "inner", "mean", "norm"]


def double(a: Array) -> Array:
    """The vector in float64: itself if it is so already."""
    return a.astype(np.float64, copy=False)


def mean(vectors: Iterable[Array]) -> Array:
    """The mean, summed in float64."""
    total, count = None, 0
    for vector in vectors:
        total = double(vector) if total is None else total + vector
        count += 1
    assert total is not None, "the mean of at least one vector"
    return total / count


def inner(a: Array, b: Array) -> float:
    """aᵀb, in the dtype of both"""
    return float(np.einsum("i,i->", a, b))


def norm(a: Array) -> float:
    """‖a‖₂, summed in float64; infinite where that overflows."""
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.sum(np.square(a, dtype=np.float64))))
