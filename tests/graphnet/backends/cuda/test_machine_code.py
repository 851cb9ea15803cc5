"""Every kernel becomes machine code for every kind of GPU, also where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphnet.backends import Backend
from graphnet.graph.expression import is_compilable
from graphnet.graph.graph import Graph
from graphnet.ops import all_ops
from graphnet.ops.elementwise import Elementwise
from graphnet.passes import optimize
from graphnet.plan import lower
from graphnet.plan.instructions import Loop
from tests.graphnet.backends.cuda.programs import PROGRAMS

ROOT = Path(__file__).parents[4]


def assembled(folder: Path, *arguments: str) -> int:
    """How many kernels were."""
    without = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.graphnet.backends.cuda.assemble", *arguments],
        cwd=ROOT, env={**without, "GRAPHNET_CACHE": str(folder)}, capture_output=True, text=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout.splitlines()[-1].split()[0])


def test_a_kernel_of_each_kind_assembles(tmp_path: Path) -> None:
    assert assembled(tmp_path, "9.0", "--few") > 9


@pytest.mark.slow
@pytest.mark.parametrize("part", ["1/2", "2/2"])
def test_every_kernel_assembles(part: str, tmp_path: Path) -> None:
    """For all kinds of GPUs."""
    assert assembled(tmp_path, "7.5", "8.0", "9.0", "12.0", "--part", part) > 90


def test_no_function_is_forgotten() -> None:
    """The expressions of all elementwise ops are among those that are assembled."""
    nodes, inputs, _ = PROGRAMS["every function"].nodes()
    graph, _ = optimize(Graph(nodes, inputs), has=Backend.has)
    used = {s.kernel for loop in lower(graph).instructions if isinstance(loop, Loop) for s in loop.steps}
    wanted = {op.kernel for op in all_ops() if issubclass(op, Elementwise) and isinstance(op.kernel, str)}
    assert {kernel for kernel in wanted if is_compilable(kernel)} <= used | {"x"}
