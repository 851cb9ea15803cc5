"""Every kind of kernel = NumPy, also where several threads share the work on one result."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.cuda import building
from graphnet.backends.cuda.device import SIMULATED
from graphnet.backends.cuda.division import Division, Tile
from tests.graphnet.backends.cuda.programs import PROGRAMS, Program
from tests.tables import case

pytestmark = pytest.mark.cuda

#: Few threads, so that a simulator is done in time, but everything in more than one block, lane and part.
FEW = Division(
    threads=4, lanes=2, blocks=4, least=8, tiles=(Tile(2, 2, 2, 1, 2), Tile(1, 2, 1, 2, 3)), most=(2, 2, 65535)
)  # fmt: skip


def require_same(program: Program, dtype: str) -> None:
    nodes, inputs, arrays = program.nodes(dtype)
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())(*arrays)
    function = gn.compile(nodes, inputs, backend="cuda")
    tolerance = 1e-12 if dtype == "float64" else 3e-5
    # The second call of a GPU is captured, and the third replays it.
    for _ in range(1 if SIMULATED else 3):
        for found, right in zip(function(*arrays), expected, strict=True):
            assert (found.shape, found.dtype) == (right.shape, right.dtype)
            np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernel_is_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in ("float32", "float64"):
        require_same(PROGRAMS[name], dtype)
    monkeypatch.setattr(building, "ONE_THREAD" if SIMULATED else "GPU", FEW)
    with case("threads share the work"):
        require_same(PROGRAMS[name], "float64")
