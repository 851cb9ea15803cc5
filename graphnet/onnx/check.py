"""Comparison of a file for any number of cases with graphs for single numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from graphnet.backends.numpy import blas_limit
from graphnet.call.function import compile
from graphnet.errors import UsageError
from graphnet.graph.dtypes import is_float
from graphnet.graph.node import Array, Node
from graphnet.onnx.sizes import REMEDY
from graphnet.onnx.writer import require_onnx

#: Numbers of cases to compare, added to the smallest. ONNX's own implementation must be able to compute the first.
MORE = (9, 6, 4, 3, 2, 1, 0)
#: Relative to the largest value. Other results differ by more, or in their shapes.
ROUNDING = 1e-3

Graphs = Callable[[int], tuple[Sequence[Node], Sequence[Node]]]


def require_right(content: bytes, equations: Graphs, least: int) -> None:
    """Raises UsageError if the file computes something else than the graph for `least` cases, or for some more.

    Without an error if onnx cannot compute the file, and for numbers without a graph or without a value.
    """
    onnx = require_onnx()
    from onnx.reference import ReferenceEvaluator

    file = onnx.load_model_from_string(content)
    names = [value.name for value in file.graph.input]
    with blas_limit(1)(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = ReferenceEvaluator(file)
        for more in MORE:
            try:
                outputs, inputs = equations(least + more)
                given = [_numbers(node) for node in inputs]
                expected = compile(outputs, inputs, backend="numpy")(*given)
            except UsageError:
                raise
            except Exception:  # the user's function may raise anything
                continue
            try:
                found = evaluator.run(None, dict(zip(names, given, strict=True)))
            except Exception:  # an op that onnx has not implemented, or sizes that do not fit
                if more == MORE[0]:
                    return
                found = [None] * len(outputs)
            for value, one, other in zip(file.graph.output, found, expected, strict=True):
                if one is None or not _equal(one, other):
                    hint = f", or set least={least + more + 1} if no batch is smaller"
                    raise UsageError(
                        f"export_onnx: for a batch size of {least + more}, the file does not compute {value.name!r} "
                        f"as the function does, {REMEDY}{'' if more == MORE[0] else hint}"
                    )


def _numbers(node: Node) -> Array:
    """Normal numbers; zeros for symbols and lengths."""
    if not is_float(node.dtype):
        return np.zeros(node.shape, node.dtype)
    return np.random.default_rng(0).standard_normal(node.shape).astype(node.dtype)


def _equal(one: Array, other: Array) -> bool:
    if one.shape != other.shape or not one.size:
        return one.shape == other.shape
    scale = np.max(np.abs(other), initial=0, where=np.isfinite(other))
    return np.allclose(one, other, rtol=ROUNDING, atol=ROUNDING * float(scale), equal_nan=True)
