"""All kernels match NumPy, including shared sums and cuBLAS, and can be assembled."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends import Backend
from graphnet.backends.cuda import blas, building
from graphnet.backends.cuda.blas import Cublas
from graphnet.backends.cuda.device import SIMULATED
from graphnet.backends.cuda.launch import ThreadDivision, Tile
from graphnet.graph.expression import is_compilable
from graphnet.ops import all_ops
from graphnet.ops.elementwise import Elementwise
from graphnet.passes import optimize
from graphnet.plan import lower
from graphnet.plan.instructions import Loop
from tests.graphnet.backends.conftest import output_of
from tests.graphnet.backends.cuda.programs import PROGRAMS, Program, floats
from tests.tables import case, require_rows

#: Few threads, so that the simulator is fast, but more than one block, lane and part of everything.
FEW = ThreadDivision(
    threads=4, lanes=2, blocks=4, least=8, tiles=(Tile(2, 2, 2, 1, 2), Tile(1, 2, 1, 2, 3)), most=(2, 2, 65535)
)  # fmt: skip


def require_same(program, dtype: str) -> None:
    nodes, inputs, arrays = program.nodes(dtype)
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())(*arrays)
    function = gn.compile(nodes, inputs, backend="cuda")
    tolerance = 1e-12 if dtype == "float64" else 3e-5
    # On a GPU, the second call is captured and the third one replays it.
    for _ in range(1 if SIMULATED else 3):
        for found, right in zip(function(*arrays), expected, strict=True):
            assert (found.shape, found.dtype) == (right.shape, right.dtype)
            np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.cuda
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_match_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in ("float32",) if SIMULATED else ("float32", "float64"):
        require_same(PROGRAMS[name], dtype)
    monkeypatch.setattr(building, "ONE_THREAD" if SIMULATED else "GPU", FEW)
    with case("threads share the work"):
        require_same(PROGRAMS[name], "float64")


@pytest.mark.slow
def test_kernels_assemble() -> None:
    module = "tests.graphnet.backends.cuda.assemble"
    words = output_of("-m", module, "7.5", "8.0", "9.0", "12.0", without=("NUMBA_ENABLE_CUDASIM",))
    assert int(words.split()[-2]) > 180, "kernels"


def test_every_elementwise_kernel_is_assembled() -> None:
    """The assembled kernels include the expressions of all elementwise ops."""
    nodes, inputs, _ = PROGRAMS["every function"].nodes()
    graph, _ = optimize(gn.Graph(nodes, inputs), has=Backend.has)
    used = {s.kernel for loop in lower(graph).instructions if isinstance(loop, Loop) for s in loop.steps}
    wanted = {op.kernel for op in all_ops() if issubclass(op, Elementwise) and isinstance(op.kernel, str)}
    missing = {kernel for kernel in wanted if is_compilable(kernel)} - used - {"x"}
    require_rows(
        missing, "every_function in tests/graphnet/backends/cuda/programs.py", "the op with this kernel"
    )


class Library:
    """cublas<t>gemm and its batched form, as in the manual: column-major; α and β behind pointers."""

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

    def _matrix(self, kind, address: int, rows: int, columns: int, pitch: int):
        assert pitch >= max(1, rows), "the leading dimension"
        flat = np.ctypeslib.as_array((kind * (pitch * (columns - 1) + rows)).from_address(address))
        item = flat.itemsize
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (item, item * pitch))

    def _single(self, kind):
        def gemm(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) -> None:
            self.calls.append("single")
            assert kind.from_address(alpha).value == 1
            assert kind.from_address(beta).value == 0
            left = self._matrix(kind, a, *((k, m) if transa else (m, k)), lda)
            right = self._matrix(kind, b, *((n, k) if transb else (k, n)), ldb)
            into = self._matrix(kind, c, m, n, ldc)
            into[...] = (left.T if transa else left) @ (right.T if transb else right)

        return gemm

    def _batched(self, kind):
        single, item = self._single(kind), ctypes.sizeof(kind)

        def gemm(
            handle, transa, transb, m, n, k, alpha, a, lda, step_a, b, ldb, step_b, beta, c, ldc, step_c, count
        ) -> None:  # fmt: skip
            for i in range(count):
                at = [p + i * step * item for p, step in ((a, step_a), (b, step_b), (c, step_c))]
                single(handle, transa, transb, m, n, k, alpha, at[0], lda, at[1], ldb, beta, at[2], ldc)
            self.calls[-count:] = ["batched"]

        return gemm


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Replaces cuBLAS and records its calls. Skipped with a GPU, where other tests call cuBLAS itself."""
    if not SIMULATED:
        pytest.skip("there is a GPU")
    found = Library()
    monkeypatch.setattr(building, "cublas", lambda tf32: Cublas(found, 4096, tf32))
    return found


ALL = {name: p for name, p in PROGRAMS.items() if "product" in name} | {
    "one row of many": Program(lambda a, b: a @ b, (floats(1, 5), floats(5, 4))),
    "one term": Program(lambda a, b: a @ b, (floats(4, 1), floats(1, 5))),
    "one term, turned": Program(lambda a, b: a.T @ b.T, (floats(1, 4), floats(5, 1))),
    "a part of a matrix": Program(lambda a, b: a[1:4, 2:] @ b[2:, 1:3], (floats(6, 6), floats(6, 5))),
    "a part of a turned one": Program(lambda a, b: a.T[1:4, 2:] @ b.T[2:, 1:3], (floats(6, 6), floats(5, 6))),
    "one row for all": Program(lambda a, b: gn.broadcast_to(a, (3, 4)) @ b + 1.0, (floats(1, 4), floats(4, 5))),
    "a join of products": Program(
        lambda a, b: gn.concatenate([a @ b, (b.T @ a.T).T], 1) * 2.0, (floats(4, 3), floats(3, 5))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_library_products_match_numpy(dtype: str, library: Library) -> None:
    for name, program in ALL.items():
        with case(name):
            require_same(program, dtype)


def test_products_use_the_library_and_tf32_is_opt_in(monkeypatch, library: Library) -> None:
    for name, calls in (("product", ["single"]), ("products", ["batched"]), ("product with a vector", [])):
        nodes, inputs, arrays = PROGRAMS[name].nodes()
        library.calls.clear()
        gn.compile(nodes, inputs, backend="cuda")(*arrays)
        assert library.calls == calls, name
    graph = gn.Graph(*PROGRAMS["product"].nodes("float32")[:2])
    for tf32, mode in ((False, blas.SINGLE), (True, blas.TF32)):
        building.build(graph, graph, check=False, tf32=tf32)
        assert library.mode == mode
    monkeypatch.undo()
    with pytest.raises(gn.BackendError, match=r"cuda-tf32.*pip install 'graphnet-rnn\[cublas\]'"):
        gn.compile(graph.outputs, graph.inputs, backend="cuda-tf32")
