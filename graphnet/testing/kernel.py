"""A kernel, the scalar expression of an elementwise op, read as Python: the oracle for what it means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphnet.graph.node import Array

__all__ = ["MATHEMATICS", "evaluate_kernel"]


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _mod(x: float, y: float) -> float:
    return x % y if y else math.nan if isinstance(x, float) else 0


#: What a kernel may use besides x, y, z, arithmetic, comparisons and `a if c else b`.
MATHEMATICS: dict[str, Callable[..., Any]] = {
    "abs": abs, "ceil": np.ceil, "cos": math.cos, "erf": math.erf, "exp": math.exp, "floor": np.floor, "log": math.log,
    "log1p": math.log1p, "max": max, "min": min, "mod": _mod, "round": round, "sigmoid": _sigmoid, "sin": math.sin,
    "sqrt": math.sqrt, "tanh": math.tanh,
}  # fmt: skip


def evaluate_kernel(kernel: str, arrays: Sequence[Array], like: Array) -> Array:
    """The kernel at each element of the arrays (of one shape), in an array like `like`.

    Raises SyntaxError for what is no expression, NameError for names that a kernel does not know.
    """
    code = compile(kernel.strip(), "kernel", "eval")
    result = np.empty(like.shape, like.dtype)
    for index in np.ndindex(like.shape):
        numbers = {name: a[index].item() for name, a in zip("xyz", arrays, strict=False)}
        result[index] = eval(code, {"__builtins__": {}, **MATHEMATICS}, numbers)
    return result
