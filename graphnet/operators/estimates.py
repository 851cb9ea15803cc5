"""Trace and diagonal of a matrix, estimated from its products with random vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphnet.errors import GraphnetError, UsageError
from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array, Node
from graphnet.settings import one_of, shown, whole_number


class Estimate(NamedTuple):
    """An estimate and its standard error, that of the mean over samples.

    value: the estimate. error: its standard error, of the same shape.

    >>> gn.Estimate(6.0, 0.5).value
    6.0
    """

    value: Any
    error: Any


def trace(op: Any, samples: int = 100, method: str = "hutch++", seed: int = 0) -> Estimate:
    """tr A ≈ mean of zᵀAz, z random signs: (value, error), error the standard error of the value

    op: a square gn.linear_operator, any SciPy LinearOperator, or a matrix. samples: number of products with A, 100 by
    default.
    method: "hutchinson", or "hutch++" (default): the exact trace on the subspace found by a third of the products, plus
    Hutchinson's estimate of the rest. For a matrix with few large eigenvalues, such as most Hessians, its error is much
    smaller for the same work; for a nearly flat spectrum it is √3 times Hutchinson's.
    seed: random seed, 0 by default; the same seed gives the same numbers. The error is an estimate, too: from samples
    values, or a third of them with hutch++; do not rely on it below ten values.
    Raises UsageError for an operator that is not square, and for fewer samples than an error needs: 2, for hutch++ 6.
    Source: Hutchinson 1990; Meyer, Musco, Musco & Woodruff 2021, algorithm 1 (Hutch++).

    >>> estimate = gn.trace(np.diag([1.0, 2.0, 3.0]), samples=9)
    >>> round(estimate.value, 3)
    6.0
    """
    n = square_operator("trace", op)
    one_of("trace: method", method, ("hutch++", "hutchinson"))
    samples = whole_number("trace: samples", samples, least=2 if method == "hutchinson" else 6)
    generator = np.random.default_rng(whole_number("trace: seed", seed, least=0))
    if method == "hutchinson":
        z = _signs(generator, n, samples)
        return Estimate(*map(float, _mean(np.einsum("ns,ns->s", z, products_with("trace", op, z)))))
    third = min(samples // 3, n)
    sketch = products_with("trace", op, _signs(generator, n, third))
    basis, _ = np.linalg.qr(sketch)
    found = float(np.sum(basis * products_with("trace", op, basis)))
    z = _signs(generator, n, samples - 2 * third)
    z -= basis @ (basis.T @ z)
    left, error = _mean(np.einsum("ns,ns->s", z, products_with("trace", op, z)))
    return Estimate(found + float(left), float(error))


def diagonal(op: Any, samples: int = 100, seed: int = 0) -> Estimate:
    """diag A ≈ mean of z ∘ Az, z random signs: (value, error), both (n,)

    op: a square gn.linear_operator, any SciPy LinearOperator, or a matrix. samples: number of products with A, at least
    2, 100 by default. seed: random seed, 0 by default. The error of entry i is the standard error of its mean; its
    square is about Σ_{j≠i} A_ij² / samples.
    Raises UsageError for an operator that is not square.
    Source: Bekas, Kokiopoulou & Saad 2007.

    >>> gn.diagonal(np.diag([1.0, 2.0, 3.0]), samples=5).value.round(3).tolist()
    [1.0, 2.0, 3.0]
    """
    n = square_operator("diagonal", op)
    samples = whole_number("diagonal: samples", samples, least=2)
    generator = np.random.default_rng(whole_number("diagonal: seed", seed, least=0))
    mean, squares = np.zeros(n), np.zeros(n)
    for count in range(1, samples + 1):  # Welford: one vector for each sample would need samples · n numbers
        z = _signs(generator, n, 1)
        value = (z * products_with("diagonal", op, z))[:, 0]
        change = value - mean
        mean += change / count
        squares += change * (value - mean)
    return Estimate(mean, np.sqrt(squares / (samples - 1) / samples))


def _signs(generator: np.random.Generator, n: int, count: int) -> Array:
    return generator.integers(0, 2, (count, n)).T * 2.0 - 1.0


def _mean(values: Array) -> tuple[Any, Any]:
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def square_operator(function: str, op: Any) -> int:
    """Returns the number of rows; raises UsageError unless op is a square matrix that can be multiplied."""
    if isinstance(op, Node):
        raise UsageError(
            f"{function}: op is the node {op.describe()} (made at {op.origin}); pass an operator of its derivatives, "
            "gn.linear_operator(kind, node, parameters, feed)"
        )
    require_unmasked(f"{function}: op", op)
    shape, dtype = getattr(op, "shape", None), getattr(op, "dtype", None)
    if dtype is not None and np.dtype(dtype).kind == "c":
        raise UsageError(f"{function}: op must be of real numbers, not {dtype}")
    if not isinstance(shape, tuple) or len(shape) != 2 or not hasattr(op, "__matmul__"):
        raise UsageError(
            f"{function}: op must be an operator that gn.linear_operator returns, or a matrix, not {shown(op)}"
        )
    if shape[0] != shape[1] or not shape[0]:
        raise UsageError(
            f"{function}: op must be square, but it is {shape[0]} × {shape[1]}; for a Jacobian J use J.H @ J"
        )
    return int(shape[0])


def products_with(function: str, op: Any, columns: Array) -> Array:
    """Returns A times each column, in float64; raises GraphnetError for NaN and infinities."""
    dtype = getattr(op, "dtype", None)
    given = columns if dtype is None or np.dtype(dtype).kind != "f" else columns.astype(dtype, copy=False)
    found = np.asarray(op @ given, np.float64)
    if not np.isfinite(found).all():
        raise GraphnetError(
            f"{function}: a product with the operator contains NaN or infinities. To find the node that causes them, "
            "compile the cost and its gradient with gn.compile(..., check=True)"
        )
    return found
