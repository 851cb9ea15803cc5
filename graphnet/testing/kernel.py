"""Checks of kernels, run as Python: the scalar expression of an elementwise op; and rowwise kernels (see ops.rowwise),
compared with forward and checked for their bounds and memory.
"""

from __future__ import annotations

import linecache
import math
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphnet.call.function import compile as compile_graph
from graphnet.graph.dtypes import FLOAT32, is_float
from graphnet.graph.node import Array, Node
from graphnet.graph.provenance import Origin
from graphnet.ops.leaf import input
from graphnet.ops.rowwise import Rowwise, run_rows
from graphnet.ops.shape import slice_along, transpose
from graphnet.testing.laws import TOLERANCES, LawError


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _mod(x: float, y: float) -> float:
    return x % y if y else math.nan if isinstance(x, float) else 0


#: Functions of kernels, besides arithmetic, comparisons and `a if c else b`.
MATHEMATICS: dict[str, Callable[..., Any]] = {
    "abs": abs, "ceil": np.ceil, "cos": math.cos, "erf": math.erf, "exp": math.exp, "floor": np.floor, "log": math.log,
    "log1p": math.log1p, "max": max, "min": min, "mod": _mod, "round": round, "sigmoid": _sigmoid, "sin": math.sin,
    "sqrt": math.sqrt, "tanh": math.tanh,
}  # fmt: skip


def evaluate_kernel(kernel: str, arrays: Sequence[Array], like: Array) -> Array:
    """Returns the kernel's value at each element of the arrays (of one shape), in an array like `like`.

    Raises SyntaxError for an invalid expression, NameError for unknown names.
    """
    code = compile(kernel.strip(), "kernel", "eval")
    result = np.empty(like.shape, like.dtype)
    for index in np.ndindex(like.shape):
        numbers = {name: a[index].item() for name, a in zip("xyz", arrays, strict=False)}
        result[index] = eval(code, {"__builtins__": {}, **MATHEMATICS}, numbers)
    return result


# -- of rows ----------------------------------------------------------------------------------

#: Initial contents of memory, of floats and of others; no result of a kernel may depend on them.
UNKNOWN = {True: (np.nan, 77.0), False: (0, 77)}
#: Raised by Python's functions where compiled code gives NaN or an infinity; such cases are not compared.
OTHER_IN_PYTHON = (ArithmeticError, ValueError)


def check_rows(op: Rowwise, arrays: Sequence[Array]) -> None:
    """Raises LawError if the kernel, run as Python, leaves its arrays, depends on memory that it has not written, or
    writes an input; if `forward` differs from it; or if native code does, also in float32.

    Cases that Python cannot compute (math.exp(1000)) are left to the laws.
    """
    y = op(*(input(a.shape, a.dtype) for a in arrays))
    if not y.size or not y.inputs:
        return
    values = [a.astype(x.dtype) for a, x in zip(arrays, y.inputs, strict=True)]
    unknown = UNKNOWN[is_float(y.dtype)]
    first, second = (_by_python(op, y, values, number) for number in unknown)
    if first is not None and second is not None:
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        if not same.all():
            at = [int(i) for i in np.argwhere(~same)[0]]
            raise LawError(
                f"{op.name}: the kernel ({_place(op)}) leaves y{at} unwritten, or computes it from memory that it has "
                f"not written: it is {first[tuple(at)]} if memory was filled with {unknown[0]}, and "
                f"{second[tuple(at)]} if with {unknown[1]}. Write each element of y, and scratch memory "
                "before reading it; an index below 0 counts from the end."
            )
        _require_same(op, "forward", np.asarray(op.forward(*values)), "the kernel in Python", first)
    for dtype in (None, FLOAT32):
        given = [a if dtype is None or a.dtype.kind != "f" else a.astype(dtype) for a in values]
        leaves = [input(a.shape, a.dtype) for a in given]
        node = op(*leaves)
        native, plain = (
            compile_graph([node], leaves, backend=backend)(*given)[0] for backend in ("numba", "numpy")
        )
        _require_same(op, f"native code ({node.dtype})", native, "forward", plain)


def _by_python(op: Rowwise, y: Node, arrays: Sequence[Array], unknown: float) -> Array | None:
    with np.errstate(all="ignore"):
        result = np.full(y.shape, unknown, y.dtype)
        try:
            run_rows(op, op.python_kernel, result, arrays, unknown)
        except IndexError as error:
            raise LawError(
                f"{op.name}: the kernel uses an index outside of an array: {error}, {_line_of(op, error)}. "
                "Indices go from 0 to the size - 1."
            ) from None
        except OTHER_IN_PYTHON as error:
            if "read-only" in str(error):
                raise LawError(
                    f"{op.name}: the kernel writes an input, {_line_of(op, error)}. It may write only its output and "
                    "scratch memory."
                ) from None
            return None
    return result


def _line_of(op: Rowwise, error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    assert frame.lineno is not None
    return f"at {Origin(frame.filename, frame.lineno)}: {linecache.getline(frame.filename, frame.lineno).strip()}"


def _place(op: Rowwise) -> Origin:
    code = op.python_kernel.__code__
    return Origin(code.co_filename, code.co_firstlineno)


def _require_same(op: Rowwise, what: str, found: Array, other: str, expected: Array) -> None:
    kind = "float32" if expected.dtype == FLOAT32 else "float64"
    tolerance = TOLERANCES[kind]["exact"]
    fits = found.shape == expected.shape and found.dtype == expected.dtype
    if not fits or not np.allclose(found, expected, tolerance, tolerance, equal_nan=True):
        wrong = ~np.isclose(found, expected, tolerance, tolerance, equal_nan=True) if fits else None
        at = [] if wrong is None else [int(i) for i in np.argwhere(wrong)[0]]
        raise LawError(
            f"{op.name}: {what} differs from {other}, for the kernel at {_place(op)}: "
            + (
                f"{found[tuple(at)]} and {expected[tuple(at)]} at {at}"
                if fits
                else f"{found.dtype}{found.shape}"
            )
        )


def seen_otherwise(op: Rowwise, arrays: Sequence[Array]) -> tuple[Callable[..., Node], list[Array]]:
    """Returns the op as a function of arrays of other shapes, applied to views that are not contiguous: transposes, or
    every other element of a vector.
    """

    def view(x: Node) -> Node:
        return transpose(x) if x.ndim > 1 else slice_along(x, 0, (0, x.shape[0], 2)) if x.ndim else x

    def held(a: Array) -> Array:
        return np.ascontiguousarray(a.T) if a.ndim > 1 else np.repeat(a, 2) if a.ndim else a

    def seen(*nodes: Any) -> Node:
        return op(*map(view, nodes))

    return seen, list(map(held, arrays))
