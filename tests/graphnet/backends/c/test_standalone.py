"""Standalone C agrees with the NumPy back end for every op and kind of instruction, and compiles without a warning."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.c.unit import unit_of
from graphnet.errors import BackendError
from graphnet.graph.node import Node
from tests.graphnet.backends.c.compiled import COMPILER, Exported, library, require_same
from tests.graphnet.backends.cuda.programs import PROGRAMS
from tests.graphnet.ops.op_cases import CASES

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on PATH")


def is_refused(outputs: Sequence[Node], inputs: Sequence[Node]) -> bool:
    """Whether only Python runs it, which is said in one sentence."""
    try:
        unit_of(gn.Graph(outputs, inputs), gn.passes.DEFAULT, gn.passes.EVERYTHING, "f")
    except BackendError as error:
        return "no C can be written" in str(error)
    return False


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_op_and_kind_of_instruction_agrees(dtype: str, tmp_path: Path) -> None:
    """All ops that have native code, in one function; and all programs of kernels, in another."""
    outputs, inputs, given, refused = [], [], [], []
    for case in CASES:
        arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in map(np.asarray, case.arrays)]
        nodes = [gn.input(a.shape, a.dtype) for a in arrays]
        made = case.op(*nodes)
        results = [made] if isinstance(made, Node) else list(made)
        if is_refused(results, nodes):
            refused.append(case.id)
            continue
        outputs += results
        inputs += nodes
        given += arrays
    assert len(refused) < len(CASES) / 10, refused
    parts = [program.nodes(dtype) for program in PROGRAMS.values()]
    programs = Exported("programs", *([x for part in parts for x in part[k]] for k in range(3)))
    ops = Exported("ops", outputs, inputs, given)
    made = library([ops, programs], tmp_path)
    for each in (ops, programs):
        require_same(each, made)


def sample() -> gn.Function:
    x, i = gn.input((2, 5), name="a */ b\n\u03b1"), gn.input((2,), "int64", name="int")
    W = gn.parameter(np.ones((5, 3), "float32"), name="/* W */")
    table = gn.parameter(np.arange(12, dtype="float32").reshape(4, 3), name="/home/somebody/table")
    return gn.compile([gn.tanh(x @ W) + gn.take(table, i), x], [x, i])


@needs_compiler
def test_a_folder_tests_itself(tmp_path: Path) -> None:
    sample().save(f"{tmp_path}/my-net 2/")
    folder = tmp_path / "my-net 2"
    subprocess.run(["make", "-s", "test", f"CC={COMPILER}"], cwd=folder, check=True, capture_output=True)
    test = folder / "my_net_2_test.c"
    text = test.read_text(encoding="ascii")
    changed = re.sub(r"(wanted_out0\[6\] = \{\n\s+)\S+,", r"\g<1>99.0f,", text)
    assert changed != text
    test.write_text(changed, encoding="ascii")
    assert subprocess.run(["make", "-s", "test"], cwd=folder, capture_output=True, check=False).returncode


@needs_compiler
def test_an_index_out_of_range_leaves_outputs_alone(tmp_path: Path) -> None:
    x, i = gn.input((4, 3)), gn.input((2,), "int64")
    for bad in (-1, 4):
        f = Exported("taken", [gn.take(x, i) * 2.0], [x, i], [np.ones((4, 3), "float32"), np.array([0, bad])])
        status, (result,) = f.run(library([f], tmp_path))
        assert status == 1
        assert (result == 77).all()


@needs_compiler
def test_an_output_may_be_the_array_of_an_input(tmp_path: Path) -> None:
    x, h = gn.input((1, 3), name="x"), gn.input((1, 3), name="h")
    f = Exported("step", [gn.tanh(x + h), x * h], [x, h], [])
    loaded = library([f], tmp_path)
    a, b = np.full((1, 3), 0.5, "float32"), np.full((1, 3), 0.25, "float32")
    arena = ctypes.create_string_buffer(1 << 16)
    loaded.step_run(*(ctypes.c_void_p(v.ctypes.data) for v in (a, b, b, a)), arena)
    np.testing.assert_allclose(b, np.tanh(0.75), rtol=1e-6)
    np.testing.assert_allclose(a, 0.125, rtol=1e-6)


def test_the_same_function_gives_the_same_bytes(tmp_path: Path) -> None:
    """In processes that hash differently; no folder of this machine, and nothing but ASCII, is in them."""
    code = (
        "import sys; from tests.graphnet.backends.c.test_standalone import sample; sample().save(sys.argv[1])"
    )
    for seed in "12":
        how = {**os.environ, "PYTHONHASHSEED": seed}
        (tmp_path / seed).mkdir()
        subprocess.run([sys.executable, "-c", code, f"{tmp_path}/{seed}/net/"], env=how, check=True)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / seed / "net").iterdir()} for seed in "12")
    assert one == two
    assert len(one) == 5
    assert b"/home" not in b"".join(one.values())
    assert str(Path(__file__).parent).encode() not in b"".join(one.values())


class Backwards(gn.Op):
    """y = x, backwards"""

    signature = "n -> n"

    def forward(self, x: np.ndarray) -> np.ndarray:
        return x[::-1].copy()


def test_what_cannot_be_said_in_c_is_refused(tmp_path: Path) -> None:
    x = gn.input((4,), name="x")
    with pytest.raises(BackendError, match=r"no C can be written.*Backwards.*test_standalone.*`expanded`"):
        gn.compile([Backwards()(x)], [x]).save(tmp_path / "f.c")
    drawn = gn.RandomSource(0).normal(1.0, (4,))
    with pytest.raises(BackendError, match=r"draws random numbers.*training=False"):
        gn.compile([x + drawn], [x]).save(tmp_path / "f.c")
    with pytest.raises(BackendError, match="check=True"):
        gn.compile([gn.tanh(x)], [x], check=True).save(tmp_path / "f.c")
    (tmp_path / "Makefile").write_text("all:\n", encoding="ascii")
    with pytest.raises(BackendError, match="not made by graphnet"):
        gn.compile([gn.tanh(x)], [x]).save(f"{tmp_path}/")
