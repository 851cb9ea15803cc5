"""Standalone C matches the NumPy back end for every op and instruction, and compiles without warnings."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Node
from tests.graphnet.backends.conftest import output_of
from tests.graphnet.backends.cuda.programs import PROGRAMS
from tests.graphnet.backends.test_native import Reversed
from tests.graphnet.ops.op_cases import CASES
from tests.graphnet.standalone_c.compiled import COMPILER, Exported, library, require_same
from tests.tables import some_quick

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on PATH")


@needs_compiler
@pytest.mark.parametrize("dtype", some_quick(["float32", "float64"], ["float32"]))
def test_every_op_and_kind_of_instruction_agrees(dtype: str, tmp_path: Path) -> None:
    """All ops that have native code, in one function; and all programs of kernels, in another."""
    outputs, inputs, given = [], [], []
    for case in CASES:
        arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in map(np.asarray, case.arrays)]
        nodes = [gn.input(a.shape, a.dtype) for a in arrays]
        made = case.op(*nodes)
        results = [made] if isinstance(made, Node) else list(made)
        outputs, inputs, given = outputs + results, inputs + nodes, given + arrays
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
    y = gn.tanh(x @ W) + gn.take(table, i)
    return gn.compile([y, x, gn.cast(gn.exp(y), "float64")], [x, i])


@needs_compiler
def test_exported_folder_has_a_working_test(tmp_path: Path) -> None:
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
def test_wrong_index_changes_no_output_and_outputs_may_be_inputs(tmp_path: Path) -> None:
    x, i, h = gn.input((4, 3)), gn.input((2,), "int64"), gn.input((4, 3))
    ones = np.ones((4, 3), "float32")
    nodes = [gn.take(x, i) * 2.0]
    taken = [Exported(f"taken{at % 9}", nodes, [x, i], [ones, np.array([0, at])]) for at in (-1, 4)]
    loaded = library([*taken, Exported("step", [gn.tanh(x + h), x * h], [x, h], [])], tmp_path)
    for wrong in taken:
        status, (result,) = wrong.run(loaded)
        assert status == 1
        assert (result == 77).all()
    a, b, arena = ones / 2, ones / 4, ctypes.create_string_buffer(1 << 16)
    loaded.step_run(*(ctypes.c_void_p(v.ctypes.data) for v in (a, b, b, a)), arena)
    np.testing.assert_allclose(b, np.tanh(0.75), rtol=1e-6)
    np.testing.assert_allclose(a, 0.125, rtol=1e-6)


def test_exported_files_are_reproducible(tmp_path: Path) -> None:
    """With different hash seeds; files contain no local paths and only ASCII."""
    module = "tests.graphnet.standalone_c.test_standalone"
    for seed in "12":
        (tmp_path / seed).mkdir()
        code = f"from {module} import sample; sample().save({str(tmp_path / seed / 'net')!r} + '/')"
        output_of("-c", code, PYTHONHASHSEED=seed)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / seed / "net").iterdir()} for seed in "12")
    assert one == two
    assert len(one) == 5
    for folder in (b"/home", str(Path(__file__).parent).encode()):
        assert folder not in b"".join(one.values())


@needs_compiler
def test_inputs_may_have_names_of_generated_code(tmp_path: Path) -> None:
    names = (
        "own_w0",
        "own_arena",
        "own_run",
        "loop_0",
        "w",
        "tanh",
        "HUGE_VAL",
        "FP_NAN",
        "M_PI",
        "math_errhandling",
    )
    inputs = [gn.input((3,), "float64", name=name) for name in names]
    total = gn.tanh(gn.parameter([1.0, 2.0, 3.0]) * gn.add(*inputs))
    rows = np.random.default_rng(0).standard_normal((len(names), 3)) / 9
    own = Exported("own", [total], inputs, list(rows))
    status, (result,) = own.run(library([own], tmp_path))
    assert not status
    np.testing.assert_allclose(result, np.tanh([1, 2, 3] * rows.sum(axis=0)), rtol=1e-12)


def test_each_c_file_has_its_own_header(tmp_path: Path) -> None:
    """Also if the names of their C functions are the same."""
    names = ["a-b", "a.b", "a b", "a_b", "int", "int_"]
    for n, name in enumerate(names):
        x = gn.input((n + 1,), name="x")
        gn.compile([x * 2], [x]).save(tmp_path / f"{name}.c")
    assert len(list(tmp_path.iterdir())) == 2 * len(names)
    assert len({(tmp_path / f"{name}.h").read_text("utf-8") for name in names}) == len(names)
    for name in names:
        assert f'#include "{name}.h"' in (tmp_path / f"{name}.c").read_text("utf-8")


def test_files_of_an_earlier_export_are_replaced(tmp_path: Path) -> None:
    x = gn.input((4,), name="x")
    function = gn.compile([gn.tanh(x) * gn.parameter(np.ones(4, np.float32))], [x])
    (tmp_path / "empty.c").touch()
    for _ in range(2):
        function.save(f"{tmp_path}/folder/")
        function.save(tmp_path / "empty.c")
    assert (tmp_path / "empty.c").stat().st_size
    (tmp_path / "folder" / "folder_weights.c").write_text("mine", encoding="ascii")
    with pytest.raises(gn.BackendError, match=r"folder_weights\.c was not made by graphnet"):
        function.save(f"{tmp_path}/folder/")


def test_functions_without_c_code_are_rejected(tmp_path: Path) -> None:
    x = gn.input((4,), name="x")
    drawn = gn.RandomSource(0).normal(1.0, (4,))
    for name in ("Makefile", "notes.h", "own.c"):
        (tmp_path / name).write_text("mine", encoding="ascii")
    for node, how, name, part in (
        (Reversed()(x), {}, "f.c", "cannot be exported to C.*Reversed.*test_standalone.*`expanded`"),
        (x + drawn, {}, "f.c", "draws random numbers.*training=False"),
        (gn.tanh(x), {"check": True}, "f.c", "check=True"),
        (gn.tanh(x), {}, "", "not made by graphnet"),
        (gn.tanh(x), {}, "notes.c", "notes.h was not made by graphnet"),
        (gn.tanh(x), {}, "own.c", "own.c was not made by graphnet"),
    ):
        with pytest.raises(gn.BackendError, match=part):
            gn.compile([node], [x], **how).save(f"{tmp_path}/{name}")
    assert {path.read_text(encoding="ascii") for path in tmp_path.iterdir()} == {"mine"}
