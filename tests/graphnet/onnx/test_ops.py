"""Every op in ONNX: onnxruntime computes what NumPy does, and no op is forgotten."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import graphnet as gn
from graphnet.errors import BackendError, GraphnetError, UsageError
from graphnet.graph.node import Array, Node, Op
from graphnet.onnx.arrays import ARRAYS, LOOSE
from graphnet.onnx.elementwise import ELEMENTWISE
from graphnet.onnx.table import FED, REFUSED, WRITTEN_OUT
from graphnet.ops import all_ops
from graphnet.ops.elementwise import Cast, Erf
from tests.graphnet.ops.op_cases import CASES
from tests.tables import case, require_rows


@pytest.fixture
def runtime() -> Any:
    pytest.importorskip("onnx")
    found = pytest.importorskip("onnxruntime")
    found.set_default_logger_severity(4)
    return found


def test_each_op_is_said_in_one_way_or_refused_with_a_reason() -> None:
    rows = [*ELEMENTWISE, *ARRAYS, *LOOSE, *FED, *WRITTEN_OUT, *REFUSED]
    assert len(rows) == len(set(rows))
    require_rows(
        set(all_ops()) - set(rows),
        "ELEMENTWISE (graphnet/onnx/elementwise.py) or ARRAYS (graphnet/onnx/arrays.py)",
        "the operator of ONNX that computes it, or a function that writes it with several. If the op gives `expanded`, "
        "add it to WRITTEN_OUT instead; if no file can hold it, to REFUSED, with the reason (graphnet/onnx/table.py)",
    )
    assert set(rows) - {gn.Rowwise} <= set(all_ops()), "rows of ops that are no more"
    assert all(op.expanded is not Op.expanded for op in WRITTEN_OUT)
    assert not any(op.expanded is not Op.expanded for op in REFUSED)


def as_dtype(array: Array, dtype: str) -> Array:
    """Floats as this dtype; as integers they are small, and of one sign where there is only one."""
    if array.dtype.kind != "f":
        return array
    return np.asarray(np.abs(np.rint(2 * array)) if dtype in ("uint8", "bool") else array).astype(dtype)


#: Ops whose operator onnxruntime does not have in float64, though ONNX does.
IN_FLOAT32_ALONE = (Erf,)


def test_onnxruntime_computes_every_case_of_every_op(runtime: Any, tmp_path: Path) -> None:
    for dtype in ("float32", "float64", "int8", "uint8", "bool", "int32"):
        with case(dtype):
            require_numpys_numbers(runtime, tmp_path, dtype)


def require_numpys_numbers(runtime: Any, tmp_path: Path, dtype: str) -> None:
    """All cases in one file: starting a session is what takes time."""
    outputs: dict[str, Node] = {}
    inputs: dict[str, Node] = {}
    arrays: dict[str, Array] = {}
    for each in CASES:
        given = {f"{each.id}.{i}": as_dtype(a, dtype) for i, a in enumerate(each.arrays)}
        nodes = {name: gn.input(a.shape, a.dtype) for name, a in given.items()}
        if dtype == "float64" and isinstance(each.op, IN_FLOAT32_ALONE):
            continue
        try:
            found = each.op(*nodes.values())
        except GraphnetError:
            assert "float" not in dtype  # what is of floats alone
            continue
        if "float" not in dtype and found.dtype.kind == "f":
            continue  # it was made a float at once
        if found.dtype == "uint64":
            continue  # onnxruntime's sums have none
        outputs[each.id] = found
        inputs |= nodes
        arrays |= given
    assert len(outputs) > (120 if "float" in dtype else 60)
    gn.export_onnx(outputs, tmp_path / "ops.onnx", inputs)
    try:
        session = runtime.InferenceSession(tmp_path / "ops.onnx")
    except Exception as error:
        remedy = "Write the op with operators that onnxruntime has, in its row of graphnet/onnx/, as _softplus is; or "
        raise AssertionError(f"{error}\n{remedy}add it to IN_FLOAT32_ALONE in {__file__}") from error
    got = dict(zip(outputs, session.run(None, arrays), strict=True))
    wanted = gn.compile(list(outputs.values()), list(inputs.values()), backend="numpy")(*arrays.values())
    for (name, value), want in zip(got.items(), wanted, strict=True):
        assert (value.dtype, value.shape) == (want.dtype, want.shape), name
        np.testing.assert_allclose(
            value.astype(float), want.astype(float), 1e-5, 1e-5 if dtype == "float32" else 1e-12, err_msg=name
        )


def equations(batch: int) -> tuple[dict[str, Node], dict[str, Node]]:
    """A graph whose sizes depend on the batch in every way that there is."""
    x = gn.input((3, batch, 4), name="x")
    row = gn.constant(np.ones((batch, 1), "float32"))
    flat = gn.reshape(x, (3 * batch, 4))
    both = gn.concatenate([x[0], x[2], gn.fill(2, (batch, 4), "float32")], axis=0)
    y = gn.take(flat, np.arange(batch) + 0)[:, None] * gn.broadcast_to(x[1][:, :1], (2, batch, 4))[1][:, None]
    outer = gn.reshape(x[1], (batch, 4, 1)) @ gn.reshape(x[2], (batch, 1, 4))
    summed = gn.scatter_add(x[0], gn.constant([1, 0, 1, 1]), 3, axis=1)
    outputs = {
        "flat": gn.tanh(flat),
        "both": both * 1,
        "y": y,
        "outer": outer + row[:, None],
        "summed": summed,
    }
    padded = gn.pad(x, ((0, 0), (0, 0), (1, 2))) + gn.pad(x[:, :, ::-1], ((0, 0), (0, 0), (2, 1)))
    outputs |= {"mean": gn.mean(x, axis=1), "counted": x[0, :, 0] * batch + (3 * batch - 1)}
    return outputs | {"padded": padded, "ones": gn.broadcast_to(gn.constant(np.float32(1)), (batch, 2))}, {
        "x": x
    }


def test_a_function_of_the_number_of_cases_makes_a_file_for_any(runtime: Any, tmp_path: Path) -> None:
    gn.export_onnx(equations, tmp_path / "any.onnx")
    session = runtime.InferenceSession(tmp_path / "any.onnx")
    assert session.get_inputs()[0].shape == [3, "batch", 4]
    assert session.get_outputs()[3].shape == ["batch", 4, 4]
    for batch in (1, 5):
        x = np.random.default_rng(batch).standard_normal((3, batch, 4)).astype("float32")
        outputs, inputs = equations(batch)
        wanted = gn.compile(list(outputs.values()), list(inputs.values()), backend="numpy")(x)
        for name, got, want in zip(outputs, session.run(None, {"x": x}), wanted, strict=True):
            np.testing.assert_allclose(got, want, 1e-6, 1e-6, err_msg=f"{name} of {batch}")


def test_names_dtypes_parameters_and_metadata(runtime: Any, tmp_path: Path) -> None:
    import onnx

    x, W = gn.input((2, 3), name="x"), gn.parameter(np.ones((3, 4), "float32"), name="layer.W")
    y = gn.label(x @ W, "y")
    hidden = gn.tanh(y)
    gn.export_onnx([y, hidden, hidden], tmp_path / "n.onnx", metadata={"what": "a test"})
    file = onnx.load(tmp_path / "n.onnx")
    onnx.checker.check_model(file, full_check=True)
    assert [i.name for i in file.graph.input] == ["x"]
    assert [o.name for o in file.graph.output] == ["y", "output", "output.2"]
    assert "layer.W" in [i.name for i in file.graph.initializer]
    assert {p.key: p.value for p in file.metadata_props} == {"what": "a test"}
    before = (tmp_path / "n.onnx").read_bytes()
    gn.export_onnx([y, hidden, hidden], tmp_path / "n.onnx", metadata={"what": "a test"})
    assert (tmp_path / "n.onnx").read_bytes() == before


class Doubled(gn.Elementwise):
    """y = 2 x"""

    kernel, domain = "2 * x", "float"

    def forward(self, x: Array) -> Array:
        return 2 * x


class SaysWhatItIs(Doubled):
    """y = 2 x, said in other ops"""

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        return inputs[0] + inputs[0]


class Copied(gn.Rowwise):
    """y = x, by a loop"""

    signature: ClassVar[str] = "... n -> ... n"

    @staticmethod
    def kernel(y: Array, x: Array) -> None:
        for i in range(x.shape[0]):
            y[i] = x[i]


def test_a_users_op_that_says_what_it_is_in_others(runtime: Any, tmp_path: Path) -> None:
    gn.export_onnx({"y": SaysWhatItIs()(gn.input((3,), name="x"))}, tmp_path / "n.onnx")
    x = np.arange(3, dtype="float32")
    (y,) = runtime.InferenceSession(tmp_path / "n.onnx").run(None, {"x": x})
    np.testing.assert_array_equal(y, 2 * x)


def of_batch(make: Any) -> Any:
    """A function of the number of cases, of one input."""

    def made(batch: int) -> tuple[list[Node], list[Node]]:
        x = gn.input((batch, 2), name="x")
        return [make(x)], [x]

    return made


def batch_norm(x: Node) -> Node:
    """A constant of one number, which depends on how many cases there are."""
    return gn.constant(np.float32(np.log(x.shape[0])))


X = gn.input((3, 2), name="x")


#: What no file can say, and what is told of it.
UNSAID: list[tuple[Any, tuple[str, ...]]] = [
    (lambda p: gn.export_onnx(Doubled()(X), p), ("Doubled[3, 2] (made at", "test_ops.py:", "`expanded`")),
    (lambda p: gn.export_onnx(Copied()(X), p), ("Copied[3, 2]", "a loop in Python", "`expanded`")),
    (
        lambda p: gn.export_onnx(X * gn.RandomSource().normal(1, (3, 2), name="noise"), p),
        ("noise[3, 2] (made at", "training=False"),
    ),
    (
        lambda p: gn.export_onnx(of_batch(lambda x: x + np.random.default_rng(0).random(x.shape, "float32")), p),
        ("the constant Constant[10007, 2]", "depends on the number of cases"),
    ),
    (
        lambda p: gn.export_onnx(of_batch(lambda x: gn.tanh(x) if len(x.shape) + x.shape[0] % 4 == 5 else x), p),
        ("computed otherwise", "fixed"),
    ),
    (
        lambda p: gn.export_onnx(of_batch(lambda x: x * batch_norm(x)), p),
        ("Constant", "depends on the number of cases"),
    ),
    (lambda p: gn.export_onnx(of_batch(lambda x: x ** (x.shape[0] / 2)), p), ("5003.5 with 10,007",)),
    (lambda p: gn.export_onnx(of_batch(lambda x: x[-1]), p), ("the case of a number that depends",)),
    (lambda p: gn.export_onnx(lambda batch: ([X], [X]), p), ("no input has an axis of them",)),
    (lambda p: gn.export_onnx(lambda batch: X, p), ("must return outputs and inputs",)),
    (lambda p: gn.export_onnx(of_batch(gn.tanh), p, [X]), ("leave inputs= out",)),
    (lambda p: gn.export_onnx({3: X}, p), ("a name among outputs must be a text, not 3",)),
    (lambda p: gn.export_onnx(X, 3), ("path must be the name of a file, not 3",)),
    (lambda p: gn.export_onnx(3, p), ("outputs: 3 of type int is not a node",)),
]  # fmt: skip


def test_what_cannot_be_said(runtime: Any, tmp_path: Path) -> None:
    for ask, sentence in UNSAID:
        with case(sentence), pytest.raises(GraphnetError, match=".*".join(map(re.escape, sentence))):
            ask(tmp_path / "n.onnx")
        assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(runtime: Any, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot write"):
        gn.export_onnx(X, tmp_path)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'onnx>=1.16'")):
        gn.export_onnx(Cast(np.dtype("float64"))(X), tmp_path / "n.onnx")
