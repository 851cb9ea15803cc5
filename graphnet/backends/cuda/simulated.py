"""NumPy counterparts of CUDA functions, for kernels that run as Python in Numba's simulator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ceil, copysign, cos, exp, float32, float64, floor, fmod, log, log1p, rint, sin, sqrt, tanh

__all__ = [
    "ceil", "ceilf", "copysign", "copysignf", "cos", "erf", "erff", "exp", "float32", "float64", "floor", "floorf",
    "fmod", "fmodf", "int8", "int16", "int32", "int64", "log", "log1p", "quiet", "rint", "rintf", "sin", "slot", "sqrt",
    "tanh", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

#: CUDA's own functions have an f behind their name where they take float32; NumPy's take both.
ceilf, copysignf, floorf, fmodf, rintf = ceil, copysign, floor, fmod, rint


def erf(x: float64) -> float64:
    return float64(math.erf(x))


def erff(x: float32) -> float32:
    return float32(math.erf(x))


def quiet() -> None:
    """Silences NumPy's warnings of NaN and infinities, in each thread of a kernel."""
    np.seterr(all="ignore")


def slot(index: int) -> int:
    """On a GPU an unsigned number; a negative one would be far outside there, so it is an error here."""
    if index < 0:
        raise IndexError(f"a kernel uses the negative index {index}")
    return index


def _cast(name: str) -> Callable[[Any], Any]:
    """Conversion to an integer, also of a NaN or a number out of range, for which NumPy's scalars raise an error."""
    return lambda x: np.asarray(x).astype(name)[()]


int8, int16, int32, int64 = map(_cast, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(_cast, ("uint8", "uint16", "uint32", "uint64"))
