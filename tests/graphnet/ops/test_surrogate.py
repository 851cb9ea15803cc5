"""Surrogates of losses for curvature, against dense matrices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.errors import DifferentiationError, DtypeError, GraphnetError, ShapeError, ValueAccessError
from graphnet.graph.node import Array
from tests.tables import case

RNG = np.random.default_rng
X, T = RNG(0).standard_normal((5, 3)), RNG(1).integers(0, 4, 5)
WEIGHTS = 0.7 * RNG(2).standard_normal((3, 4))
MEANS = RNG(3).standard_normal(4)
Z = np.tanh(X @ WEIGHTS)


def dense(outputs: Any, W: gn.Node) -> Array:
    """The matrix of a product with directions of W."""
    v = gn.input(W.shape, W.dtype)
    function = gn.compile(outputs(v), [v])
    return np.stack([function(e.reshape(W.shape))[0].ravel() for e in np.eye(W.size)], axis=1)


def gauss_newton(cost: gn.Node, W: gn.Node, **how: Any) -> Array:
    return dense(lambda v: gn.gauss_newton_product(cost, {W: v}, **how), W)


def net() -> tuple[gn.Node, gn.Node]:
    W = gn.parameter(WEIGHTS.copy(), name="W")
    return W, gn.label(gn.tanh(gn.constant(X) @ W), "z")


def mixture(z: gn.Node) -> gn.Node:
    """-log Σ_k exp(-½ (z_k - m_k)²), of each case: not convex"""
    return -gn.logsumexp(-0.5 * (z - MEANS) ** 2)


def majoriser(z: gn.Node) -> gn.Node:
    """Σ_k p_k ½ (z_k - m_k)², p the components' shares: what EM would minimise"""
    shares = gn.stop_gradient(gn.softmax(-0.5 * (z - MEANS) ** 2))
    return gn.sum(shares * (0.5 * (z - MEANS) ** 2), axis=1)


E = np.exp(-0.5 * (Z - MEANS) ** 2)
SHARES, VALUES = E / E.sum(1, keepdims=True), -np.log(E.sum(1))
#: ∂z/∂W, (cases, 4, 12)
J = np.einsum("nk,ni,kj->nkij", 1 - Z**2, X, np.eye(4)).reshape(5, 4, 12)


def require(found: Array, weights: Any, more: Any = 0) -> None:
    """Σ_n weight_n J_nᵀ diag(p_n) J_n"""
    expected = np.einsum("n,nka,nk,nkb->ab", np.broadcast_to(weights, 5), J, SHARES, J) + more
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_surrogate_changes_only_the_curvature() -> None:
    """Value, gradient and Hessian are those of the loss; G is Jᵀ H̃ J and positive semi-definite."""
    W, z = net()
    plain, declared = mixture(z), gn.with_surrogate(mixture(z), majoriser, z)
    found = [gn.compile([gn.mean(c), *gn.gradient(gn.mean(c), W)], [])() for c in (declared, plain)]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    hessians = [dense(lambda v, c=c: gn.hessian_product(gn.mean(c), {W: v}), W) for c in (declared, plain)]
    np.testing.assert_array_equal(*hessians)
    G = gauss_newton(gn.mean(declared), W)
    require(G, 1 / 5)
    own = gauss_newton(gn.mean(declared), W, at=[z])
    assert np.array_equal(own, gauss_newton(gn.mean(plain), W, at=[z]))
    assert np.linalg.eigvalsh(own).min() < -1e-3
    assert np.linalg.eigvalsh(G - own).min() > -1e-14
    v = RNG(4).standard_normal(W.shape)
    nodes = [*gn.gauss_newton_product(gn.mean(declared), {W: v}), gn.mean(declared)]
    for backend, passes in itertools.product(("numba", "numpy"), ((), gn.passes.DEFAULT)):
        product, loss = gn.compile(nodes, [], backend=backend, passes=passes)()
        np.testing.assert_allclose(product.ravel(), G @ v.ravel(), rtol=1e-12)
        assert loss == pytest.approx(VALUES.mean())


def test_functions_of_the_loss_use_the_loss_values() -> None:
    """Functions of the loss use its values, not those of the surrogate."""
    W, z = net()
    y = gn.with_surrogate(mixture(z), majoriser, [z])
    bound = float(np.median(VALUES)) + 1e-6
    chosen = gn.sum(gn.where(y < bound, y, 0) * np.arange(5.0))
    require(gauss_newton(chosen, W), np.arange(5.0) * (bound > VALUES))
    # Σ e^y: e^y H̃ + e^y g gᵀ, where the surrogate has the loss's gradient g
    g = np.einsum("nka,nk->na", J, SHARES * (Z - MEANS))
    more = np.einsum("n,na,nb->ab", np.exp(VALUES), g, g)
    require(gauss_newton(gn.sum(gn.exp(y)), W), np.exp(VALUES), more)


def test_surrogates_with_other_losses_and_custom_surrogates() -> None:
    """Sums with a weight penalty; a loss as its own surrogate, a log-likelihood, a metric."""
    W, z = net()
    cost, symbols = gn.sum(gn.with_surrogate(mixture(z), majoriser, [z])), gn.softmax_cross_entropy(z, T)
    other = gn.sum(symbols) + 0.3 * gn.sum(gn.squared_error(W, 0))
    require(gauss_newton(cost + other, W), 1, gauss_newton(other, W))
    itself = gn.with_surrogate(symbols, gn.softmax_cross_entropy, [z], [T])
    np.testing.assert_array_equal(gauss_newton(gn.sum(itself), W), gauss_newton(gn.sum(symbols), W))
    log_p = gn.with_surrogate(-mixture(z), lambda z: -majoriser(z), [z])
    require(gauss_newton(-gn.sum(log_p), W), 1)
    root = RNG(5).standard_normal((4, 4))  # ½ zᵀ M z gives Jᵀ M J, M a matrix of nodes
    M = gn.constant(root @ root.T)
    own = gn.with_surrogate(mixture(z), lambda z, M: 0.5 * gn.sum(z * (z @ gn.stop_gradient(M)), 1), [z], [M])
    require(gauss_newton(gn.sum(own), W), 0, np.einsum("nka,kl,nlb->ab", J, root @ root.T, J))


def test_surrogate_survives_rewriting() -> None:
    """Surrogates are built from the current inputs of the loss."""
    x, W = gn.input(X.shape, "float64"), gn.parameter(WEIGHTS.copy(), name="W")
    z = gn.tanh(x @ W)
    cost = gn.sum(gn.with_surrogate(mixture(z), majoriser, [z]))
    data = gn.constant(X)
    (elsewhere,) = gn.Graph(cost).rewrite(lambda node: data if node is x else node).outputs
    require(gauss_newton(elsewhere, W), 1)


def product_with(surrogate: Any) -> list[gn.Node]:
    W, z = net()
    y = gn.with_surrogate(mixture(z), surrogate, [z])
    return gn.gauss_newton_product(gn.mean(y), {W: np.ones(W.shape)})


def around() -> None:
    W, z = net()
    y = gn.with_surrogate(mixture(z), lambda z, W: majoriser(z) + gn.sum(W**2), [z], [W])
    gn.gauss_newton_product(gn.mean(y), {W: np.ones(W.shape)})


z = net()[1]
REFUSED: list[tuple[Any, type[GraphnetError], str]] = [
    (lambda: product_with(lambda z: gn.sum(z**2)), ShapeError, r"test_surrogate.py:.*shape \[\].*\[5\]"),
    (lambda: product_with(lambda z: gn.cast(majoriser(z), "float32")), ShapeError, "test_surrogate.py:.*float32"),
    (lambda: product_with(lambda z: 3.0), ValueAccessError, r"test_surrogate.py:.*not 3\.0"),
    (around, DifferentiationError, r"W\[3, 4\] .* around"),
    (lambda: gn.with_surrogate(gn.argmax(z), majoriser, [z]), DtypeError, "int64"),
    (lambda: gn.with_surrogate(mixture(z), mixture(z), [z]), ValueAccessError, "must be a function"),
    (lambda: gn.with_surrogate(mixture(z), majoriser, []), DifferentiationError, "at is empty"),
    (lambda: gn.with_surrogate(mixture(z), majoriser, [3]), DifferentiationError, "not 3"),
    (lambda: gn.with_surrogate(mixture(z), majoriser, gn.argmax(z)), DifferentiationError, r"ArgMax\[5\]"),
]  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    for call, error, named in REFUSED:
        with case(named), pytest.raises(error, match=named):
            call()
