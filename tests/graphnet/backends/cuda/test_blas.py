"""What is asked of cuBLAS, by a library of the same functions that multiplies with NumPy where it is told to."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.cuda import blas, building
from graphnet.backends.cuda.blas import Cublas
from graphnet.backends.cuda.device import SIMULATED
from graphnet.errors import BackendError
from graphnet.graph.node import Array
from tests.graphnet.backends.cuda.programs import PROGRAMS, Program, floats
from tests.graphnet.backends.cuda.test_kernels import require_same
from tests.tables import case

pytestmark = pytest.mark.skipif(
    not SIMULATED, reason="on a GPU, cuBLAS itself is tested, by all tests of kernels"
)


class Library:
    """cublas<t>gemm and its kin as the manual has them: matrices by columns; α and β behind pointers."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.mode = -1
        for letter, kind in (("s", ctypes.c_float), ("d", ctypes.c_double)):
            setattr(self, f"{letter}gemm", self._single(kind))
            setattr(self, f"{letter}gemm_batched", self._batched(kind))

    def create(self) -> int:
        return 7

    def set_stream(self, handle: int, stream: int) -> None:
        assert handle == 7

    def set_workspace(self, handle: int, memory: int, nbytes: int) -> None:
        assert (handle, memory, nbytes) == (7, 4096, blas.WORKSPACE)

    def set_math_mode(self, handle: int, mode: int) -> None:
        self.mode = mode

    def _matrix(self, kind: Any, address: int, rows: int, columns: int, pitch: int) -> Array:
        assert pitch >= max(1, rows), "the leading dimension"
        flat = np.ctypeslib.as_array((kind * (pitch * (columns - 1) + rows)).from_address(address))
        item = flat.itemsize
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (item, item * pitch))

    def _single(self, kind: Any) -> Any:
        def gemm(
            handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, b: int,
            ldb: int, beta: int, c: int, ldc: int,
        ) -> None:  # fmt: skip
            self.calls.append("single")
            assert kind.from_address(alpha).value == 1
            assert kind.from_address(beta).value == 0
            left = self._matrix(kind, a, *((k, m) if transa else (m, k)), lda)
            right = self._matrix(kind, b, *((n, k) if transb else (k, n)), ldb)
            into = self._matrix(kind, c, m, n, ldc)
            into[...] = (left.T if transa else left) @ (right.T if transb else right)

        return gemm

    def _batched(self, kind: Any) -> Any:
        single = self._single(kind)

        def gemm(
            handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, stride_a: int,
            b: int, ldb: int, stride_b: int, beta: int, c: int, ldc: int, stride_c: int, count: int,
        ) -> None:  # fmt: skip
            item = ctypes.sizeof(kind)
            for i in range(count):
                single(
                    handle, transa, transb, m, n, k, alpha, a + i * stride_a * item, lda, b + i * stride_b * item, ldb,
                    beta, c + i * stride_c * item, ldc,
                )  # fmt: skip
            self.calls[-count:] = ["batched"]

        return gemm


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setattr(building, "cublas", lambda tf32: Cublas(found, 4096, tf32))
    return found


OTHERS = {
    "one row of many": Program(lambda a, b: a @ b, (floats(1, 5), floats(5, 4))),
    "one term": Program(lambda a, b: a @ b, (floats(4, 1), floats(1, 5))),
    "one term, turned": Program(lambda a, b: a.T @ b.T, (floats(1, 4), floats(5, 1))),
    "a part of a matrix": Program(lambda a, b: a[1:4, 2:] @ b[2:, 1:3], (floats(6, 6), floats(6, 5))),
    "a part of a turned one": Program(lambda a, b: a.T[1:4, 2:] @ b.T[2:, 1:3], (floats(6, 6), floats(5, 6))),
    "one row for all": Program(
        lambda a, b: gn.broadcast_to(a, (3, 4)) @ b + 1.0, (floats(1, 4), floats(4, 5))
    ),
    "a join of products": Program(
        lambda a, b: gn.concatenate([a @ b, (b.T @ a.T).T], axis=1) * 2.0, (floats(4, 3), floats(3, 5))
    ),
}
ALL = {name: p for name, p in PROGRAMS.items() if "product" in name} | OTHERS


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_by_the_library(dtype: str, library: Library) -> None:
    for name, program in ALL.items():
        with case(name):
            require_same(program, dtype)


def test_the_library_is_used(library: Library) -> None:
    for name, calls in (("product", ["single"]), ("products", ["batched"]), ("product with a vector", [])):
        nodes, inputs, arrays = PROGRAMS[name].nodes()
        library.calls.clear()
        gn.compile(nodes, inputs, backend="cuda")(*arrays)
        assert library.calls == calls, name


def test_tf32_only_when_asked(library: Library) -> None:
    a, b = (gn.input((4, 4)) for _ in range(2))
    gn.compile([a @ b], [a, b], backend="cuda")
    assert library.mode == blas.SINGLE
    building.build(gn.Graph([a @ b], [a, b]), gn.Graph([a @ b], [a, b]), check=False, tf32=True)
    assert library.mode == blas.TF32


def test_tf32_needs_the_library() -> None:
    a, b = (gn.input((4, 4)) for _ in range(2))
    with pytest.raises(BackendError, match=r"cuda-tf32.*pip install 'graphnet\[cublas\]'"):
        gn.compile([a @ b], [a, b], backend="cuda-tf32")
