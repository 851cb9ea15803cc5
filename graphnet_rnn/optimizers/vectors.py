"""Inner products of long vectors, without BLAS.

From some ten thousand numbers on, OpenBLAS divides a dot product among threads of its own, which then keep spinning for
the next one. Between two runs of a compiled function that has all cores, they cost more than the function.
"""

from __future__ import annotations

import numpy as np

from graphnet.node import Array

__all__ = ["inner", "norm"]


def inner(a: Array, b: Array) -> float:
    """aᵀb, in the dtype of both"""
    return float(np.einsum("i,i->", a, b))


def norm(a: Array) -> float:
    """‖a‖₂, summed in float64; infinite where that overflows."""
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.sum(np.square(a, dtype=np.float64))))
