"""Exported files are correct for any batch size, or rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from tests.tables import case

onnxruntime = pytest.importorskip("onnxruntime")

#: What is not a + k n: the number of pairs, squares, even numbers, a list of the cases.
REFUSED: dict[str, Callable[[gn.Node, int], gn.Node]] = {
    "pairs": lambda x, n: gn.sum(x) / (n * (n - 1)),
    "a square": lambda x, n: gn.fill(n * n, (), "int64") + 0,
    "a square of floats": lambda x, n: gn.sum(x) + float(n * n),
    "a square of rows": lambda x, n: gn.reshape(x @ x.T, (n * n,))[1:],
    "even": lambda x, n: x[: n - n % 2],
    "only where there are few": lambda x, n: gn.tanh(x) if n < 100 else x,
    "diagonal": lambda x, n: gn.einsum("ii->i", x @ x.T),
    "a power of a square": lambda x, n: gn.power(x, n * n),
    "numbers": lambda x, n: gn.reshape(gn.constant(np.arange(n) / n), (n, 1)) * x,
}
#: Right for many cases, but not for a few.
WRONG_FOR_FEW: dict[str, Callable[[gn.Node, int], gn.Node]] = {
    "the last five": lambda x, n: x[-5:],
    "slopes of the first five": lambda x, n: gn.gradient(gn.sum(x[:5] ** 2), [x])[0],
    "all but three, at least one": lambda x, n: x[: max(1, n - 3)],
    "neighbours": lambda x, n: gn.gradient(gn.sum(gn.tanh(x[2:] * x[:-2])), [x])[0],
}
REFUSED |= {
    "new parameters": lambda x, n: (
        x * gn.parameter(np.random.default_rng().normal(size=3).astype("f4"), name="w")
    ),
    "slopes from the third": lambda x, n: gn.gradient(gn.sum(x[2:9] ** 2), [x])[0],
    "at most fifty": lambda x, n: x[: min(n, 50)],
    "every n-th": lambda x, n: x[::n],
    "slopes of every second": lambda x, n: gn.gradient(gn.sum(x[::2] ** 2), [x])[0],
}
RIGHT: dict[str, Callable[[gn.Node, int], gn.Node]] = {
    "mean": lambda x, n: gn.mean(x),
    "neighbours": lambda x, n: x[1:] - x[:-1],
    "backwards": lambda x, n: x[::-1],
    "one more": lambda x, n: gn.sum(x) / (n + 1),
    "the first five": lambda x, n: x[:5],
    "slopes of neighbours": lambda x, n: gn.gradient(gn.sum(gn.tanh(x[1:] * x[:-1])), [x])[0],
    "slopes backwards": lambda x, n: gn.gradient(gn.sum(gn.tanh(x[::-1] * x)), [x])[0],
    "slopes of some, backwards": lambda x, n: gn.gradient(gn.sum(gn.tanh(x[:0:-1] * x[1:])), [x])[0],
    "a power": lambda x, n: gn.power(gn.absolute(x) / 2 + 0.5, n),
    "its slope": lambda x, n: gn.gradient(gn.sum(gn.power(x / 3, 2 * n + 1)), [x])[0],
    "one-hot of n": lambda x, n: gn.one_hot(gn.argmax(x, 0), n),
    "of nothing": lambda x, n: gn.gradient(gn.sin(gn.sum(x[:, :0])), [x])[0],
    "nothing": lambda x, n: x[:, :0] * 2,
    "numbered": lambda x, n: gn.cast(gn.reshape(gn.constant(np.arange(2, n + 2)), (n, 1)), "float32") * x,
}


def equations(of: Callable[[gn.Node, int], gn.Node], n: int) -> tuple[Any, Any]:
    x = gn.input((n, 3), name="x")
    return {"y": of(x, n)}, {"x": x}


def test_sizes_not_linear_in_the_batch_are_rejected(tmp_path: Path) -> None:
    for name, of in REFUSED.items():
        with case(name), pytest.raises(gn.UsageError, match=r"export_onnx: .*test_cases.py"):
            gn.export_onnx(lambda n, of=of: equations(of, n), tmp_path / "f.onnx")


def test_files_wrong_for_small_batches_are_rejected(tmp_path: Path) -> None:
    for name, of in WRONG_FOR_FEW.items():
        with (
            case(name),
            pytest.raises(gn.UsageError, match=r"export_onnx: for a batch size of \d+, the file does not"),
        ):
            gn.export_onnx(lambda n, of=of: equations(of, n), tmp_path / "f.onnx")
    for least in (5, 6, 20):
        gn.export_onnx(lambda n, k=least: equations(lambda x, n: x[-k:], n), tmp_path / "f.onnx", least=least)
        session = onnxruntime.InferenceSession(tmp_path / "f.onnx")
        for n in (least, least + 1, 30):
            x = np.random.default_rng(0).standard_normal((n, 3)).astype(np.float32)
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], x[-least:])
    with pytest.raises(gn.UsageError, match="set least=5 if no batch is smaller"):
        gn.export_onnx(lambda n: equations(lambda x, n: x[-5:], n), tmp_path / "f.onnx")


def test_exported_files_are_correct_for_any_number_of_cases(tmp_path: Path) -> None:
    for name, of in RIGHT.items():
        gn.export_onnx(lambda n, of=of: equations(of, n), tmp_path / "f.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "f.onnx")
        for n in (1, 2, 5, 6, 20):
            with case(name, n):
                outputs, inputs = equations(of, n)
                x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
                (expected,) = gn.compile([outputs["y"]], [inputs["x"]], backend="numpy")(x)
                np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)


def test_functions_that_return_more_for_some_sizes_are_refused(tmp_path: Path) -> None:
    def more_outputs(n: int) -> tuple[Any, Any]:
        x = gn.input((n, 3), name="x")
        return {"y": x * 2, **({"z": x} if n < 4 else {})}, {"x": x}

    with pytest.raises(gn.UsageError, match="return the same for every batch size"):
        gn.export_onnx(more_outputs, tmp_path / "f.onnx")
