"""Every op in ONNX: onnxruntime matches NumPy, and no op is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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
from tests.graphnet.ops.lattices import PathSums
from tests.graphnet.ops.op_cases import CASES
from tests.tables import case, require_rows


@pytest.fixture
def runtime() -> Any:
    pytest.importorskip("onnx")
    found = pytest.importorskip("onnxruntime")
    found.set_default_logger_severity(4)
    return found


def test_each_op_has_one_onnx_form_or_a_reason_for_none() -> None:
    rows = [*ELEMENTWISE, *ARRAYS, *LOOSE, *FED, *WRITTEN_OUT, *REFUSED]
    assert len(rows) == len(set(rows))
    where = "ELEMENTWISE (graphnet/onnx/elementwise.py) or ARRAYS (graphnet/onnx/arrays.py)"
    what = "what of ONNX computes it; if it gives `expanded`, to WRITTEN_OUT, or with the reason to REFUSED"
    require_rows(set(all_ops()) - set(rows), where, what)
    assert set(rows) - {gn.Rowwise} <= set(all_ops()), "rows of ops that are no more"
    assert all(op.expanded is not Op.expanded for op in WRITTEN_OUT)
    assert not any(op.expanded is not Op.expanded for op in REFUSED)


def as_dtype(array: Array, dtype: str) -> Array:
    """Floats as this dtype; as integers they are small, and of one sign where there is only one."""
    if array.dtype.kind != "f":
        return array
    return np.asarray(np.abs(np.rint(2 * array)) if dtype in ("uint8", "bool") else array).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "bool", "int32"])
def test_onnxruntime_computes_every_case_of_every_op(runtime: Any, tmp_path: Path, dtype: str) -> None:
    """All cases are in one file, since starting sessions is slow."""
    outputs, inputs, arrays = {}, {}, {}
    for each in CASES:
        given = {f"{each.id}.{i}": as_dtype(a, dtype) for i, a in enumerate(each.arrays)}
        nodes = {name: gn.input(a.shape, a.dtype) for name, a in given.items()}
        try:
            found = each.op(*nodes.values())
        except GraphnetError:
            assert "float" not in dtype  # what is of floats alone
            continue
        made_a_float = "float" not in dtype and found.dtype.kind == "f"
        if found.dtype == "uint64" and not made_a_float:
            with case(each.id), pytest.raises(UsageError, match="computes with uint64"):
                gn.export_onnx([found], tmp_path / "u.onnx")
            continue
        lacking = dtype == "float64" and isinstance(each.op, Erf)  # in onnxruntime
        if not made_a_float and not lacking:
            outputs[each.id] = found
            inputs |= nodes
            arrays |= given
    assert len(outputs) > (120 if "float" in dtype else 60)
    gn.export_onnx(outputs, tmp_path / "ops.onnx", inputs)
    session = runtime.InferenceSession(tmp_path / "ops.onnx")
    got = dict(zip(outputs, session.run(None, arrays), strict=True))
    wanted = gn.compile(list(outputs.values()), list(inputs.values()), backend="numpy")(*arrays.values())
    for (name, value), want in zip(got.items(), wanted, strict=True):
        assert (value.dtype, value.shape) == (want.dtype, want.shape), name
        atol = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(value.astype(float), want.astype(float), 1e-5, atol, err_msg=name)


def test_max_min_and_argmax_of_nan(runtime: Any, tmp_path: Path) -> None:
    """Rows with one NaN, two, none, and one after an infinity."""
    rows = [[1, np.nan, 3], [np.nan, -1, np.nan], [3, 1, 2], [np.inf, np.nan, -np.inf]]
    for dtype in ("float32", "float64"):
        x = gn.input((4, 3), dtype)
        outputs = {
            "max": gn.max(x, axis=1),
            "min": gn.min(x, axis=1),
            "argmax": gn.argmax(x, axis=1),
            "of all": gn.max(x),
        }
        gn.export_onnx(outputs, tmp_path / "nan.onnx", {"x": x})
        given = np.array(rows, dtype)
        found = runtime.InferenceSession(tmp_path / "nan.onnx").run(None, {"x": given})
        expected = given.max(axis=1), given.min(axis=1), given.argmax(axis=1), given.max()
        for name, value, right in zip(outputs, found, expected, strict=True):
            np.testing.assert_array_equal(value, right, f"{name}, {dtype}")


def equations(batch: int) -> tuple[dict[str, Node], dict[str, Node]]:
    """A graph whose sizes depend on the batch in every way that there is."""
    x = gn.input((3, batch, 4), name="x")
    row = gn.constant(np.ones((batch, 1), "float32"))
    flat = gn.reshape(x, (3 * batch, 4))
    both = gn.concatenate([x[0], x[2], gn.fill(2, (batch, 4), "float32")], axis=0)
    y = gn.take(flat, np.arange(batch) + 0)[:, None] * gn.broadcast_to(x[1][:, :1], (2, batch, 4))[1][:, None]
    outer = gn.reshape(x[1], (batch, 4, 1)) @ gn.reshape(x[2], (batch, 1, 4))
    summed = gn.scatter_add(x[0], gn.constant([1, 0, 1, 1]), 3, axis=1)
    padded = gn.pad(x, ((0, 0), (0, 0), (1, 2))) + gn.pad(x[:, :, ::-1], ((0, 0), (0, 0), (2, 1)))
    counted, ones = (
        x[0, :, 0] * batch + (3 * batch - 1),
        gn.broadcast_to(gn.constant(np.float32(1)), (batch, 2)),
    )
    outputs = [
        gn.tanh(flat),
        both * 1,
        y,
        outer + row[:, None],
        summed,
        padded,
        gn.mean(x, axis=1),
        counted,
        ones,
    ]
    return {f"y{i}": node for i, node in enumerate(outputs)}, {"x": x}


def test_function_of_batch_size_exports_a_dynamic_batch(runtime: Any, tmp_path: Path) -> None:
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


def test_names_parameters_metadata_and_expanded_op(runtime: Any, tmp_path: Path) -> None:
    import onnx

    x, W = gn.input((2, 3), name="x"), gn.parameter(np.ones((3, 4), "float32"), name="layer.W")
    y = gn.label(x @ W, "y")
    hidden = gn.tanh(y)
    path, written = tmp_path / "n.onnx", []
    for _ in range(2):
        gn.export_onnx([y, hidden, hidden], path, metadata={"what": "a test"})
        written.append(path.read_bytes())
    assert written[0] == written[1]
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    assert [i.name for i in file.graph.input] == ["x"]
    assert [o.name for o in file.graph.output] == ["y", "output", "output.2"]
    assert "layer.W" in [i.name for i in file.graph.initializer]
    assert {p.key: p.value for p in file.metadata_props} == {"what": "a test"}
    for odd in ({"epochs": 3}, {3: "epochs"}, ["epochs"]):
        with pytest.raises(UsageError, match="export_onnx: metadata must be"):
            gn.export_onnx(y, path, metadata=odd)  # type: ignore[arg-type]
    gn.export_onnx({"y": SaysWhatItIs()(gn.input((3,), name="x"))}, path)
    (found,) = runtime.InferenceSession(path).run(None, {"x": np.arange(3, dtype="float32")})
    np.testing.assert_array_equal(found, [0, 2, 4])


class Doubled(gn.Elementwise):
    """y = 2 x"""

    kernel, domain = "2 * x", "float"

    def forward(self, x):
        return 2 * x


class SaysWhatItIs(Doubled):
    """y = 2 x, said in other ops"""

    def expanded(self, y, x):
        return x + x


def of_batch(make: Any) -> Any:
    """A function of the number of cases, of one input."""

    def made(batch: int) -> tuple[list[Node], list[Node]]:
        x = gn.input((batch, 2), name="x")
        return [make(x)], [x]

    return made


X = gn.input((3, 2), name="x")


#: What no file can hold: outputs, inputs, and what is told of it.
UNSAID: list[tuple[Any, Any, str]] = [
    (Doubled()(X), None, r"Doubled\[3, 2\] \(made at .*test_ops.py:.*`expanded`"),
    (PathSums()(gn.input((3, 4, 2))), None, r"PathSums\[4, 2\].*`expanded`"),
    (X * gn.RandomSource().normal(1, (3, 2), name="noise"), None, r"noise\[3, 2\] \(made at.*training=False"),
    (of_batch(lambda x: x + np.random.default_rng(0).random(x.shape, "float32")), None, r"Constant\[10007, 2\]"),
    (of_batch(lambda x: x * gn.constant(np.float32(np.log(x.shape[0])))), None, "depends on the batch size"),
    (of_batch(lambda x: gn.tanh(x) if x.shape[0] % 4 == 3 else x), None, "computed in another way"),
    (of_batch(lambda x: x ** (x.shape[0] / 2)), None, r"5003\.5 for 10,007"),
    (of_batch(lambda x: x[-1]), None, "reads a case whose position depends"),
    (lambda batch: ([X], [X]), None, "no input has an axis of that size"),
    (lambda batch: X, None, "must return a tuple of outputs and inputs"),
    (of_batch(gn.tanh), [X], "leave inputs= out"),
    ({3: X}, None, "names in outputs must be str, not 3"),
    ({"\ud800": X}, None, r"'\\ud800' is not valid Unicode"),
    (3, None, "outputs: 3 of type int is not a node"),
]  # fmt: skip


def test_unsupported_graphs_and_invalid_paths_are_rejected(
    runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for outputs, inputs, named in UNSAID:
        with case(named), pytest.raises(GraphnetError, match=named):
            gn.export_onnx(outputs, tmp_path / "n.onnx", inputs)
        assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="path must be the name of a file, not 3"):
        gn.export_onnx(X, 3)  # type: ignore[arg-type]
    with pytest.raises(BackendError, match="cannot write"):
        gn.export_onnx(X, tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"pip install 'onnx>=1\.16'"):
        gn.export_onnx(Cast(np.dtype("float64"))(X), tmp_path / "n.onnx")


def test_scatters_of_empty_arrays(runtime: Any, tmp_path: Path) -> None:
    for shape in ((3, 0), (0, 2)):
        x = gn.input(shape, name="x")
        summed = gn.scatter_add(x, gn.constant(np.zeros(shape[0], int)), 4, axis=0)
        gn.export_onnx([summed], tmp_path / "empty.onnx", [x])
        (found,) = runtime.InferenceSession(tmp_path / "empty.onnx").run(
            None, {"x": np.zeros(shape, "float32")}
        )
        np.testing.assert_array_equal(found, np.zeros((4, shape[1]), "float32"))


def test_softplus_and_powers_keep_all_digits(runtime: Any, tmp_path: Path) -> None:
    x, i = gn.input((3,), "float64", name="x"), gn.input((1,), "int64", name="i")
    powers = gn.concatenate([gn.power(i, k) for k in (3, 4, 5, 6)], 0)
    gn.export_onnx({"y": gn.softplus(x), "z": powers}, tmp_path / "f.onnx", {"x": x, "i": i})
    session = runtime.InferenceSession(tmp_path / "f.onnx")
    at = np.array([-40.0, -20.0, 3.0])
    y, z = session.run(None, {"x": at, "i": np.array([1201])})
    np.testing.assert_allclose(y, np.log1p(np.exp(at)), rtol=1e-14)
    assert z.tolist() == [1201**k for k in (3, 4, 5, 6)]
    small = gn.input((2,), "int32", name="i")
    gn.export_onnx({"z": gn.power(small, 5)}, tmp_path / "f.onnx", {"i": small})
    (z,) = runtime.InferenceSession(tmp_path / "f.onnx").run(None, {"i": np.array([1201, -1203], np.int32)})
    np.testing.assert_array_equal(z, np.array([1201**5, -(1203**5)]).astype(np.int32))
