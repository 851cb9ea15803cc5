"""Eigenvalues of a symmetric matrix given by its products: the leading ones, and the density of all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphnet.errors import GraphnetError, UsageError
from graphnet.graph.node import Array
from graphnet.operators.estimates import products_with, square_operator
from graphnet.operators.linear_operator import scipy_linalg
from graphnet.settings import amount, one_of, shown, whole_number

#: `which` -> SciPy's name.
_WHICH = {"largest": "LA", "smallest": "SA", "magnitude": "LM"}
#: Matrices up to this size are computed as dense ones.
_DENSE = 64


class Eigenvalues(NamedTuple):
    """Eigenvalues and eigenvectors, the leading one first.

    values: (k,). vectors: (n, k), a column of length 1 for each eigenvalue.

    >>> found = gn.eigenvalues(np.diag([1.0, 2.0, 3.0]), k=2)
    >>> found.values.shape, found.vectors.shape
    ((2,), (3, 2))
    """

    values: Array
    vectors: Array


class SpectralDensity(NamedTuple):
    """Density of the eigenvalues of a matrix.

    points: eigenvalues at which the density is estimated, (points,). density: the density there; its integral is 1.
    error: its standard error.

    >>> found = gn.spectral_density(np.diag([1.0, 2.0, 3.0]), points=100)
    >>> found.points.shape, found.density.shape, found.error.shape
    ((100,), (100,), (100,))
    """

    points: Array
    density: Array
    error: Array


def eigenvalues(
    op: Any,
    k: int = 10,
    which: str = "largest",
    tolerance: float = 0.0,
    iterations: int | None = None,
    seed: int = 0,
) -> Eigenvalues:
    """A v_i = λ_i v_i for the k leading λ: (values, vectors), by Lanczos' method, restarted (SciPy's eigsh, ARPACK)

    op: a symmetric gn.linear_operator, SciPy LinearOperator or matrix.
    k: number of eigenvalues, at most n; 10 by default. which: "largest" (default) for the largest first; "smallest" for
    the most negative first; "magnitude" for the largest |λ| first.
    tolerance: relative error of the λ; 0 (default) for the rounding of the operator's dtype. iterations: maximum number
    of restarts; None (default) for 10 n. seed: random seed of the initial vector, 0 by default.
    Raises UsageError without SciPy (pip install scipy), for an operator that is not square, and for an array that is
    not symmetric; GraphnetError if fewer than k have converged.
    Source: Lanczos 1950; Sorensen 1992 (the restarts).

    >>> gn.eigenvalues(np.diag([1.0, 2.0, 3.0]), k=2).values.round(3).tolist()
    [3.0, 2.0]
    """
    n = _symmetric_operator("eigenvalues", op)
    k = whole_number("eigenvalues: k", k, most=n)
    one_of("eigenvalues: which", which, tuple(_WHICH))
    tolerance = amount("eigenvalues: tolerance", tolerance)
    if iterations is not None:
        iterations = whole_number("eigenvalues: iterations", iterations)
    generator = np.random.default_rng(whole_number("eigenvalues: seed", seed, least=0))
    if n <= max(_DENSE, k + 1):
        dense = products_with("eigenvalues", op, np.eye(n))
        values, vectors = np.linalg.eigh((dense + dense.T) / 2)
    else:
        linalg = scipy_linalg("eigenvalues")
        dtype = np.dtype(getattr(op, "dtype", None) or np.float64)
        checked = linalg.LinearOperator(
            (n, n),
            lambda v: products_with("eigenvalues", op, v.reshape(n, 1))[:, 0].astype(dtype),
            dtype=dtype,
        )
        start = generator.standard_normal(n).astype(dtype)
        if not checked.matvec(start).any():  # A = 0, which ARPACK refuses
            return Eigenvalues(np.zeros(k, dtype), np.eye(n, k, dtype=dtype))
        try:
            values, vectors = linalg.eigsh(
                checked, k, which=_WHICH[which], v0=start, maxiter=iterations, tol=tolerance
            )
        except linalg.ArpackNoConvergence as error:
            raise GraphnetError(
                f"eigenvalues: only {len(error.eigenvalues)} of {k} have converged; set iterations to more than "
                f"{10 * n if iterations is None else iterations}, or tolerance to more than {tolerance:g}"
            ) from None
    keys = {"largest": -values, "smallest": values, "magnitude": -np.abs(values)}
    order = np.argsort(keys[which], kind="stable")[:k]
    return Eigenvalues(values[order], vectors[:, order])


def spectral_density(
    op: Any,
    points: int | Array = 400,
    steps: int = 80,
    samples: int = 10,
    width: float | None = None,
    seed: int = 0,
) -> SpectralDensity:
    """φ(t) = 1/n Σ_i N(t; λ_i, σ²) ≈ mean over random v of Σ_m ω_m N(t; θ_m, σ²): (points, density, error)

    Stochastic Lanczos quadrature: θ and ω are the nodes and weights of Gauss' quadrature for the spectral measure of v.
    θ are the eigenvalues of Lanczos' tridiagonal matrix, and ω the squares of its eigenvectors' first entries. Each
    vector is orthogonalized against all before it, since otherwise copies of eigenvalues would appear.
    op: a symmetric gn.linear_operator, SciPy LinearOperator or matrix. points: an array of places t, or the number of
    points of a grid over all θ, 400 by default. steps: number of Lanczos steps, 80 by default; each is a product, and
    its vector is kept (steps · n numbers of 8 bytes). Outer eigenvalues become exact first. samples: number of random
    vectors v, at least 2, 10 by default.
    width: σ, the broadening; None (default) for a hundredth of the range of θ, or of |θ| if all are equal. seed: random
    seed, 0 by default. error: the standard error of the mean over v.
    Raises UsageError for an operator that is not square, an array that is not symmetric, and invalid settings.
    Source: Ubaru, Chen & Saad 2017, algorithm 1; Lin, Saad & Yang 2016 (the broadening); Ghorbani, Krishnan & Xiao
    2019.

    >>> t, density, error = gn.spectral_density(np.diag([1.0, 2.0, 3.0]))
    >>> round(float(np.trapezoid(density, t)), 2)
    1.0
    """
    n = _symmetric_operator("spectral_density", op)
    steps = whole_number("spectral_density: steps", steps)
    samples = whole_number("spectral_density: samples", samples, least=2)
    sigma = None if width is None else amount("spectral_density: width", width, above_zero=True)
    where = _points(points)
    generator = np.random.default_rng(whole_number("spectral_density: seed", seed, least=0))
    rules = [_quadrature(op, generator.standard_normal(n), min(steps, n)) for _ in range(samples)]
    low, high = min(nodes.min() for nodes, _ in rules), max(nodes.max() for nodes, _ in rules)
    if sigma is None:
        size, dtype = max(abs(low), abs(high)), np.dtype(getattr(op, "dtype", None) or np.float64)
        rounding = 1e3 * np.finfo(dtype if dtype.kind == "f" else np.float64).eps * size
        sigma = 0.01 * (high - low if high - low > rounding else size or 1e-30)
    if isinstance(where, int):
        where = np.linspace(low - 5 * sigma, high + 5 * sigma, where)
    seen = np.array([_broadened(where, nodes, weights, sigma) for nodes, weights in rules])
    return SpectralDensity(where, seen.mean(axis=0), seen.std(axis=0, ddof=1) / np.sqrt(samples))


def _symmetric_operator(function: str, op: Any) -> int:
    """Returns the number of rows; raises UsageError for an array that is not symmetric. Operators are trusted."""
    n = square_operator(function, op)
    if isinstance(op, np.ndarray) and np.abs(op - op.T).max() > 1e-3 * np.abs(op).max():
        raise UsageError(f"{function}: op must be symmetric; pass (A + A.T) / 2 for the symmetric part")
    return n


def _points(points: Any) -> int | Array:
    if isinstance(points, (bool, int, np.integer)):
        return whole_number("spectral_density: points", points, least=2)
    try:
        where = np.asarray(points, np.float64)
    except (TypeError, ValueError):
        where = np.zeros(0)
    if where.ndim != 1 or not where.size or not np.isfinite(where).all():
        raise UsageError(
            f"spectral_density: points must be a whole number or a list of finite numbers, not {shown(points)}"
        )
    return where


def _quadrature(op: Any, start: Array, steps: int) -> tuple[Array, Array]:
    """Returns nodes and weights by Lanczos' method from a random vector, with full reorthogonalization."""
    basis = np.zeros((steps, len(start)))
    along, between = [], []
    v = start / np.linalg.norm(start)
    for m in range(steps):
        basis[m] = v
        w = products_with("spectral_density", op, v[:, None])[:, 0]
        along.append(float(v @ w))
        reach = float(np.linalg.norm(w))
        for _ in range(2):  # once leaves rounding errors: "twice is enough" (Parlett 1980)
            w = w - basis[: m + 1].T @ (basis[: m + 1] @ w)
        beta = float(np.linalg.norm(w))
        if m + 1 == steps or beta <= 1e-12 * max(reach, 1e-300) or not reach:
            break  # the subspace is invariant: the quadrature is exact
        between.append(beta)
        v = w / beta
    size = len(along)
    tridiagonal = np.diag(along) + np.diag(between[: size - 1], 1) + np.diag(between[: size - 1], -1)
    nodes, vectors = np.linalg.eigh(tridiagonal)
    return nodes, vectors[0] ** 2


def _broadened(points: Array, nodes: Array, weights: Array, sigma: float) -> Array:
    """Returns Σ_m ω_m N(t; θ_m, σ²) at the points t."""
    apart = (points[:, None] - nodes) / sigma
    found: Array = np.exp(-0.5 * apart * apart) @ weights / (sigma * np.sqrt(2 * np.pi))
    return found
