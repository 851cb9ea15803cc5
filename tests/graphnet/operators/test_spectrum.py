"""Traces, diagonals, eigenvalues and densities are those of the dense matrix, within their standard errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import graphnet as gn
from graphnet.errors import GraphnetError, UsageError
from graphnet.graph.node import Array
from tests.graphnet.operators.test_linear_operator import both
from tests.tables import case

N = 120


def symmetric(values: Array, seed: int = 0) -> Array:
    """A matrix with these eigenvalues."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))
    return Q @ np.diag(values) @ Q.T


#: Few large eigenvalues and many small ones, of both signs, as Hessians have.
VALUES = np.concatenate([[50.0, 20.0, 8.0, -3.0], np.random.default_rng(1).normal(0.1, 0.1, N - 4)])
A = symmetric(VALUES)


# -- estimates ------------------------------------------------------------------------------------


def test_the_trace_within_its_standard_error() -> None:
    """Of 40 seeds nearly all are within 2 standard errors, so these are neither too small nor too large."""
    for method in ("hutch++", "hutchinson"):
        with case(method):
            found = [gn.trace(A, 60, method, seed) for seed in range(40)]
            apart = np.array([(value - VALUES.sum()) / error for value, error in found])
            assert np.mean(np.abs(apart) < 2) >= 0.85
            assert 0.6 < np.std(apart) < 1.5


def test_hutchpp_gains_from_few_large_eigenvalues() -> None:
    assert gn.trace(A, 60).error < 0.1 * gn.trace(A, 60, "hutchinson").error


def test_hutchpp_is_exact_once_it_has_all() -> None:
    value, error = gn.trace(A, 3 * N)
    assert value == pytest.approx(VALUES.sum(), rel=1e-10)
    assert error < 1e-10


def test_the_diagonal_within_its_standard_error() -> None:
    value, error = gn.diagonal(A, 400)
    apart = (value - np.diag(A)) / error
    assert 0.8 < np.std(apart) < 1.25
    assert np.abs(apart).max() < 4.5
    exact = gn.diagonal(np.diag(VALUES), 2)
    np.testing.assert_array_equal(exact.value, VALUES)
    assert not exact.error.any()


def test_of_recurrent_nets() -> None:
    for kind in ("hessian", "gauss-newton", "fisher"):
        dense, op = both("LSTM", kind)
        for method in ("hutch++", "hutchinson"):
            value, error = gn.trace(op, 90, method)
            assert abs(value - np.trace(dense)) < 4 * error + 1e-6
        value, error = gn.diagonal(op, 100)
        assert np.mean(np.abs(value - np.diag(dense)) < 3 * error + 1e-6) > 0.95
        values, vectors = gn.eigenvalues(op, 5)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(dense)[::-1][:5], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(op @ vectors, vectors * values, atol=1e-7)
        density = gn.spectral_density(op, steps=30, width=0.01)
        exact = broadened(density.points, np.linalg.eigvalsh(dense), 0.01)
        assert np.all(np.abs(density.density - exact) < 6 * density.error + 0.05 * exact.max())


# -- eigenvalues ----------------------------------------------------------------------------------

ORDERS = {
    "largest": np.sort(VALUES)[::-1],
    "smallest": np.sort(VALUES),
    "magnitude": VALUES[np.argsort(-np.abs(VALUES))],
}


def test_leading_eigenvalues() -> None:
    for k in (1, 4, N - 1, N):
        for which in ORDERS:
            with case(which, k):
                values, vectors = gn.eigenvalues(A, k, which)
                np.testing.assert_allclose(values, ORDERS[which][:k], rtol=1e-8, atol=1e-9)
                np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-7)
                np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-8)


def test_of_single_precision() -> None:
    found = gn.eigenvalues(aslinearoperator(A.astype("float32")), 3)
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(found.values, [50, 20, 8], rtol=1e-5)


def test_what_does_not_converge_is_told() -> None:
    flat = symmetric(np.linspace(0, 1, 400))
    with pytest.raises(GraphnetError, match=r"of 5 have converged.*iterations than 1\b.*tolerance than 0"):
        gn.eigenvalues(flat, 5, iterations=1)
    rough = gn.eigenvalues(flat, 1, tolerance=0.1)
    assert rough.values[0] == pytest.approx(1, abs=0.1)


# -- the density ----------------------------------------------------------------------------------


def broadened(points: Array, values: Array, sigma: float) -> Array:
    apart = (points[:, None] - values) / sigma
    return np.exp(-0.5 * apart**2).mean(axis=1) / (sigma * np.sqrt(2 * np.pi))


def test_the_density_of_all_eigenvalues() -> None:
    points, density, error = gn.spectral_density(A, points=1000, steps=80, samples=40, width=0.2)
    assert np.trapezoid(density, points) == pytest.approx(1, abs=1e-3)
    exact = broadened(points, VALUES, 0.2)
    # Where hardly any eigenvalue is, few of the random vectors see it.
    assert np.all(np.abs(density - exact) < 4 * error + 0.02 * exact.max())
    assert np.mean(np.abs(density - exact) < 2 * error + 1e-3 * exact.max()) > 0.9


def test_the_density_is_exact_for_matrices_that_all_vectors_see_alike() -> None:
    where = np.linspace(-1, 5, 50)
    density = gn.spectral_density(2 * np.eye(N), where, width=0.3)
    np.testing.assert_allclose(density.density, broadened(where, np.array([2.0]), 0.3), rtol=1e-10)
    np.testing.assert_allclose(density.error, 0, atol=1e-12)
    zero = gn.spectral_density(np.zeros((3, 3)), 5)
    assert np.isfinite(zero.density).all()


def test_lanczos_keeps_its_vectors_apart() -> None:
    """Without that, a large eigenvalue comes back as several copies, and others are missing."""
    from graphnet.operators.spectrum import _quadrature

    nodes, weights = _quadrature(A, np.random.default_rng(0).standard_normal(N), N)
    np.testing.assert_allclose(nodes, np.sort(VALUES), rtol=1e-8, atol=1e-8)
    assert weights.sum() == pytest.approx(1)


# -- seeds, operators, refusals -------------------------------------------------------------------

CALLS: dict[str, Callable[..., Any]] = {
    "trace": lambda op, **how: gn.trace(op, 12, **how),
    "diagonal": lambda op, **how: gn.diagonal(op, 5, **how),
    "eigenvalues": lambda op, **how: gn.eigenvalues(op, 3, **how),
    "spectral_density": lambda op, **how: gn.spectral_density(op, 20, 10, 2, **how),
}


def test_a_seed_tells_the_numbers() -> None:
    for name, call in CALLS.items():
        with case(name):
            first, second, other = (call(A, seed=seed) for seed in (7, 7, 8))
            for a, b in zip(first, second, strict=True):
                np.testing.assert_array_equal(a, b)
            assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_any_operator_will_do() -> None:
    for name, call in CALLS.items():
        with case(name):
            for a, b in zip(call(A), call(LinearOperator((N, N), A.dot, dtype=float)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_no_operator_is_refused() -> None:
    for op, message in [
        (np.ones((3, 2)), r"must be square.* 3 × 2.*J\.H @ J"),
        (np.ones((0, 0)), "must be square"),
        (np.ones(3), "op must be an operator"),
        (3, "op must be an operator.*not 3"),
        (gn.input((3, 3), name="x"), r"the node x\[3, 3\].*gn\.linear_operator"),
    ]:
        for name, call in CALLS.items():
            with case(name, message), pytest.raises(UsageError, match=f"^{name}: .*{message}"):
                call(op)


def test_products_that_are_no_numbers_are_told() -> None:
    for size in (5, 100):
        for name, call in CALLS.items():
            with case(name, size):
                wrong = np.full((size, size), np.nan)
                with pytest.raises(GraphnetError, match=f"^{name}: .*NaN.*check=True"):
                    call(wrong)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: gn.trace(A, 5), r"trace: samples .* >= 6"),
    (lambda: gn.trace(A, 1, "hutchinson"), r"trace: samples .* >= 2"),
    (lambda: gn.trace(A, method="xtrace"), r"trace: method .*'hutch\+\+' or 'hutchinson'"),
    (lambda: gn.trace(A, seed=-1), "trace: seed"),
    (lambda: gn.diagonal(A, 1), "diagonal: samples"),
    (lambda: gn.diagonal(A, seed=1.5), "diagonal: seed"),
    (lambda: gn.eigenvalues(A, N + 1), f"eigenvalues: k must be at most {N}"),
    (lambda: gn.eigenvalues(A, 0), "eigenvalues: k"),
    (lambda: gn.eigenvalues(A, which="LA"), "eigenvalues: which .*'largest'"),
    (lambda: gn.eigenvalues(A, tolerance=-1), "eigenvalues: tolerance"),
    (lambda: gn.eigenvalues(A, iterations=0), "eigenvalues: iterations"),
    (lambda: gn.eigenvalues(A, seed="a"), "eigenvalues: seed"),
    (lambda: gn.spectral_density(A, points=1), "spectral_density: points"),
    (lambda: gn.spectral_density(A, points=[]), "spectral_density: points"),
    (lambda: gn.spectral_density(A, points=[[1.0]]), "spectral_density: points"),
    (lambda: gn.spectral_density(A, points=["a"]), "spectral_density: points"),
    (lambda: gn.spectral_density(A, points=[np.inf]), "spectral_density: points"),
    (lambda: gn.spectral_density(A, steps=0), "spectral_density: steps"),
    (lambda: gn.spectral_density(A, samples=1), "spectral_density: samples"),
    (lambda: gn.spectral_density(A, width=0), "spectral_density: width"),
    (lambda: gn.spectral_density(A, seed=-1), "spectral_density: seed"),
]


def test_settings_that_cannot_be_meant_are_refused() -> None:
    for call, message in REFUSED:
        with case(message), pytest.raises(UsageError, match=message):
            call()
