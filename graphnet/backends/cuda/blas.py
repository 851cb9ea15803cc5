"""Matrix products by cuBLAS, where CuPy is installed, which knows how to call it."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np

from graphnet.backends.cuda.device import SIMULATED, this_device
from graphnet.backends.cuda.products import orientation
from graphnet.backends.cuda.schedule import LibraryProduct, Part
from graphnet.errors import BackendError

__all__ = ["Cublas", "cublas"]

#: cublasOperation_t and cublasMath_t.
AS_STORED, TURNED = 0, 1
SINGLE, TF32 = 0, 3


class Cublas:
    """c = a b in the arena, on one stream. tf32: products of float32 round their operands to ten bits.

    library: cuBLAS as CuPy calls it.
    """

    def __init__(self, library: Any, stream: int, tf32: bool) -> None:
        self._library = library
        self._handle = library.create()
        library.setStream(self._handle, stream)
        library.setMathMode(self._handle, TF32 if tf32 else SINGLE)
        self._functions = {
            np.dtype("float32"): (library.sgemm, library.sgemmStridedBatched),
            np.dtype("float64"): (library.dgemm, library.dgemmStridedBatched),
        }
        # What the library reads when a product is launched, which may be long after this call.
        self._numbers = {dtype: (np.ones(1, dtype), np.zeros(1, dtype)) for dtype in self._functions}

    def __call__(self, address: int, product: LibraryProduct) -> None:
        """address: of the arena."""
        a, b, c = product.a, product.b, product.c
        if _by_rows(c):
            # cuBLAS takes matrices by columns. What lies by rows is, by columns, the transpose: cᵀ = bᵀ aᵀ.
            a, b, c = (_transposed(part) for part in (b, a, c))
        (left, left_pitch), (right, right_pitch) = (_stored(part) for part in (a, b))
        (rows, columns), inner = c.shape[1:], a.shape[2]
        one, zero = (number.ctypes.data for number in self._numbers[product.dtype])
        item = product.dtype.itemsize
        at = [address + part.start * item for part in (a, b, c)]
        single, batched = self._functions[product.dtype]
        pitch = max(c.strides[2], 1)
        if c.shape[0] == 1:
            single(
                self._handle, left, right, rows, columns, inner, one, at[0], left_pitch, at[1], right_pitch, zero,
                at[2], pitch,
            )  # fmt: skip
        else:
            batched(
                self._handle, left, right, rows, columns, inner, one, at[0], left_pitch, a.strides[0], at[1],
                right_pitch, b.strides[0], zero, at[2], pitch, c.strides[0], c.shape[0],
            )  # fmt: skip


def _by_rows(part: Part) -> bool:
    found = orientation(part.shape[1:], part.strides[1:])
    assert found is not None
    return found[0]


def _stored(part: Part) -> tuple[int, int]:
    """Whether the library must turn the matrix that it finds, and how far apart that one's columns are."""
    found = orientation(part.shape[1:], part.strides[1:])
    assert found is not None
    by_rows, pitch = found
    return TURNED if by_rows else AS_STORED, pitch


def _transposed(part: Part) -> Part:
    (count, rows, columns), (step, down, across) = part.shape, part.strides
    return Part(part.start, (count, columns, rows), (step, across, down))


@cache
def cublas(tf32: bool) -> Cublas | None:
    """The library, or None where it is not installed. BackendError if TF32 is wanted, which nothing else can do."""
    try:
        library = None
        if not SIMULATED:
            importlib.import_module("cupy")  # finds the libraries
            library = importlib.import_module("cupy_backends.cuda.libs.cublas")
    except ImportError:
        library = None
    if library is None:
        if tf32:
            raise BackendError("backend='cuda-tf32' needs cuBLAS, by CuPy: pip install 'graphnet[cublas]'")
        return None
    return Cublas(library, int(this_device().stream), tf32)
