"""Matrix products by cuBLAS, where it is installed.

Called by ctypes: CuPy's functions set CuPy's own stream first, and cannot be captured.
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import c_int, c_longlong, c_size_t, c_void_p
from functools import cache
from typing import Any

import numpy as np
from cuda.pathfinder import load_nvidia_dynamic_lib

from graphnet.backends.cuda.device import SIMULATED, this_device
from graphnet.backends.cuda.products import orientation
from graphnet.backends.cuda.schedule import LibraryProduct, StridedBatch
from graphnet.errors import BackendError

#: cublasOperation_t and cublasMath_t.
AS_STORED, TURNED = 0, 1
SINGLE, TF32 = 0, 3


#: Bytes that cuBLAS may use besides; without memory of its own it would allocate within a captured graph.
WORKSPACE = 32 << 20

_MATRICES = (c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p)


class Library:
    """The functions of cuBLAS that are used, from the library at this path. BackendError where one fails."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        single = (*_MATRICES, c_void_p, c_int, c_void_p, c_int, c_void_p, c_void_p, c_int)
        batched = (
            *_MATRICES, c_void_p, c_int, c_longlong, c_void_p, c_int, c_longlong, c_void_p, c_void_p, c_int, c_longlong,
            c_int,
        )  # fmt: skip
        self.set_stream = self._function("cublasSetStream_v2", c_void_p, c_void_p)
        self.set_math_mode = self._function("cublasSetMathMode", c_void_p, c_int)
        self.set_workspace = self._function("cublasSetWorkspace_v2", c_void_p, c_void_p, c_size_t)
        self.sgemm = self._function("cublasSgemm_v2", *single)
        self.dgemm = self._function("cublasDgemm_v2", *single)
        self.sgemm_batched = self._function("cublasSgemmStridedBatched", *batched)
        self.dgemm_batched = self._function("cublasDgemmStridedBatched", *batched)

    def create(self) -> int:
        handle = c_void_p()
        self._function("cublasCreate_v2", c_void_p)(ctypes.addressof(handle))
        return handle.value or 0

    def _function(self, name: str, *arguments: Any) -> Any:
        function = getattr(self._library, name)
        function.argtypes, function.restype = arguments, c_int

        def called(*given: Any) -> None:
            status = function(*given)
            if status:
                raise BackendError(f"{name} failed: cuBLAS status {status}")

        return called


class Cublas:
    """c = a b in the arena, on a stream. tf32: products of float32 round their operands to ten bits.

    workspace: the address of WORKSPACE bytes of the GPU.
    """

    def __init__(self, library: Any, workspace: int, tf32: bool) -> None:
        self._library, self._workspace = library, workspace
        self._lock = threading.Lock()
        self._handle = library.create()
        library.set_math_mode(self._handle, TF32 if tf32 else SINGLE)
        self._functions = {
            np.dtype("float32"): (library.sgemm, library.sgemm_batched),
            np.dtype("float64"): (library.dgemm, library.dgemm_batched),
        }
        # α and β.
        self._numbers = {dtype: (np.ones(1, dtype), np.zeros(1, dtype)) for dtype in self._functions}

    def __call__(self, address: int, product: LibraryProduct, stream: Any) -> None:
        """address: of the arena."""
        with self._lock:  # the stream belongs to the handle, which all threads share
            self._library.set_stream(self._handle, 0 if SIMULATED else int(stream))
            self._library.set_workspace(self._handle, self._workspace, WORKSPACE)
            self._multiply(address, product)

    def _multiply(self, address: int, product: LibraryProduct) -> None:
        a, b, c = product.a, product.b, product.c
        if _by_rows(c):
            # cuBLAS reads matrices by columns. A matrix by rows is the transpose of one by columns: cᵀ = bᵀ aᵀ.
            a, b, c = (_transposed(batch) for batch in (b, a, c))
        (left, left_pitch), (right, right_pitch) = (_stored(batch) for batch in (a, b))
        (rows, columns), inner = c.shape[1:], a.shape[2]
        one, zero = (number.ctypes.data for number in self._numbers[product.dtype])
        item = product.dtype.itemsize
        at = [address + batch.start * item for batch in (a, b, c)]
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


def _by_rows(batch: StridedBatch) -> bool:
    found = orientation(batch.shape[1:], batch.strides[1:])
    assert found is not None
    return found[0]


def _stored(batch: StridedBatch) -> tuple[int, int]:
    found = orientation(batch.shape[1:], batch.strides[1:])
    assert found is not None
    by_rows, pitch = found
    return TURNED if by_rows else AS_STORED, pitch


def _transposed(batch: StridedBatch) -> StridedBatch:
    (count, rows, columns), (step, down, across) = batch.shape, batch.strides
    return StridedBatch(batch.start, (count, columns, rows), (step, across, down))


@cache
def cublas(tf32: bool) -> Cublas | None:
    """The library, or None if it is not installed. BackendError for TF32 without it."""
    try:
        library = None if SIMULATED else Library(str(load_nvidia_dynamic_lib("cublas").abs_path))
    except (ImportError, RuntimeError, OSError, AttributeError):  # not found, or too old
        library = None
    if library is None:
        if tf32:
            raise BackendError("backend='cuda-tf32' needs cuBLAS: pip install 'graphnet-rnn[cublas]'")
        return None
    device = this_device()
    memory = _workspaces.setdefault(tf32, device.memory(WORKSPACE))
    return Cublas(library, device.address(memory), tf32)


#: Held as long as the handles that use them.
_workspaces: dict[bool, Any] = {}
