"""The trace and the diagonal of a matrix, from its products with random vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphnet.errors import GraphnetError, UsageError
from graphnet.graph.node import Array, Node
from graphnet.settings import one_of, shown, whole_number

__all__ = ["Estimate", "diagonal", "products_with", "square_operator", "trace"]


class Estimate(NamedTuple):
    """An estimate and its standard error, that of the mean over samples."""

    value: Any
    error: Any


def trace(op: Any, samples: int = 100, method: str = "hutch++", seed: int = 0) -> Estimate:
    """tr A ≈ mean of zᵀAz, z random signs: (value, error), error the standard error of the value

    op: a square gn.linear_operator, or any LinearOperator of SciPy's or matrix. samples: how many products with A.
    method: "hutchinson", or "hutch++": the trace on the subspace that a third of the products find, without error, and
    Hutchinson's estimate of what is left. Of a matrix with few large eigenvalues, as of every Hessian, that has a much
    smaller error for the same work; of a nearly flat spectrum √3 times Hutchinson's.
    seed: the same seed gives the same numbers.
    Raises UsageError for an operator that is not square, and for fewer samples than an error needs: 2, for hutch++ 6.
    Source: Hutchinson 1990; Meyer, Musco, Musco & Woodruff 2021, algorithm 1 (Hutch++).
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

    op: a square gn.linear_operator, or any LinearOperator of SciPy's or matrix. samples: how many products with A, at
    least 2. The error of entry i is the standard error of its mean; its square is about Σ_{j≠i} A_ij² / samples.
    Raises UsageError for an operator that is not square.
    Source: Bekas, Kokiopoulou & Saad 2007.
    """
    n = square_operator("diagonal", op)
    samples = whole_number("diagonal: samples", samples, least=2)
    generator = np.random.default_rng(whole_number("diagonal: seed", seed, least=0))
    mean, squares = np.zeros(n), np.zeros(n)
    for count in range(1, samples + 1):  # Welford: a vector of each sample would be of samples · n numbers
        z = _signs(generator, n, 1)
        value = (z * products_with("diagonal", op, z))[:, 0]
        change = value - mean
        mean += change / count
        squares += change * (value - mean)
    return Estimate(mean, np.sqrt(squares / (samples - 1) / samples))


def _signs(generator: np.random.Generator, n: int, count: int) -> Array:
    """(n, count) signs, each column with equal chances"""
    return generator.integers(0, 2, (count, n)).T * 2.0 - 1.0


def _mean(values: Array) -> tuple[Any, Any]:
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def square_operator(function: str, op: Any) -> int:
    """How many rows and columns it has; UsageError for what is no square matrix that can be multiplied by."""
    if isinstance(op, Node):
        raise UsageError(
            f"{function}: op is the node {op.describe()} (made at {op.origin}); give the operator of its derivatives, "
            "gn.linear_operator(kind, node, parameters, feed)"
        )
    shape = getattr(op, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2 or not hasattr(op, "__matmul__"):
        raise UsageError(
            f"{function}: op must be an operator, as gn.linear_operator gives, or a matrix, not {shown(op)}"
        )
    if shape[0] != shape[1] or not shape[0]:
        raise UsageError(
            f"{function}: op must be square, but it is {shape[0]} × {shape[1]}; of a Jacobian J there is J.H @ J"
        )
    return int(shape[0])


def products_with(function: str, op: Any, columns: Array) -> Array:
    """A times each column, in float64; GraphnetError where that is no number."""
    dtype = getattr(op, "dtype", None)
    given = columns if dtype is None or np.dtype(dtype).kind != "f" else columns.astype(dtype, copy=False)
    found = np.asarray(op @ given, np.float64)
    if not np.isfinite(found).all():
        raise GraphnetError(
            f"{function}: a product with the operator holds NaN or infinities; gn.compile(..., check=True) of the cost "
            "and its gradient names the node that makes them"
        )
    return found
