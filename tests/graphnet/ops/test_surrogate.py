"""Surrogates: what stands for a loss where its curvature is wanted, against dense matrices."""

from __future__ import annotations

from collections.abc import Callable
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


def dense(outputs: Callable[[gn.Node], list[gn.Node]], W: gn.Node) -> Array:
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


def shares(z: Array) -> Array:
    e = np.exp(-0.5 * (z - MEANS) ** 2)
    return e / e.sum(axis=1, keepdims=True)


def jacobian() -> Array:
    """∂z/∂W, (cases, 4, 12)."""
    slope = 1 - np.tanh(X @ WEIGHTS) ** 2
    return np.einsum("nk,ni,kj->nkij", slope, X, np.eye(4)).reshape(5, 4, 12)


def expected(weights: Array) -> Array:
    """Σ_n weight_n J_nᵀ diag(p_n) J_n"""
    J, p = jacobian(), shares(np.tanh(X @ WEIGHTS))
    return np.einsum("n,nka,nk,nkb->ab", weights, J, p, J)


def test_it_is_the_loss_but_for_its_curvature() -> None:
    """Value, gradient and Hessian are the loss's; G is Jᵀ H̃ J, and majorises: G without it is not even positive."""
    W, z = net()
    plain, declared = mixture(z), gn.with_surrogate(mixture(z), majoriser, z)
    for ours, theirs in zip(
        gn.compile([gn.mean(declared), *gn.gradient(gn.mean(declared), W)], [])(),
        gn.compile([gn.mean(plain), *gn.gradient(gn.mean(plain), W)], [])(),
        strict=True,
    ):
        assert np.array_equal(ours, theirs)
    hessians = [dense(lambda v, c=c: gn.hessian_product(gn.mean(c), {W: v}), W) for c in (declared, plain)]  # type: ignore[misc]
    assert np.array_equal(*hessians)
    G = gauss_newton(gn.mean(declared), W)
    assert pytest.approx(expected(np.full(5, 1 / 5)), rel=1e-12, abs=1e-15) == G
    own = gauss_newton(gn.mean(declared), W, at=[z])
    assert np.array_equal(own, gauss_newton(gn.mean(plain), W, at=[z]))
    assert np.linalg.eigvalsh(own).min() < -1e-3
    assert np.linalg.eigvalsh(G - own).min() > -1e-14


def test_a_loss_that_stands_for_itself_changes_nothing() -> None:
    W, z = net()
    plain = gn.softmax_cross_entropy(z, T)
    declared = gn.with_surrogate(plain, gn.softmax_cross_entropy, [z], [T])
    found, wanted = (gauss_newton(gn.mean(loss), W) for loss in (declared, plain))
    assert np.array_equal(found, wanted)


def test_on_all_back_ends() -> None:
    for passes in ((), gn.passes.DEFAULT):
        for backend in ("numba", "numpy"):
            with case(backend, len(passes)):
                W, z = net()
                cost = gn.mean(gn.with_surrogate(mixture(z), majoriser, [z]))
                v = RNG(4).standard_normal(W.shape)
                product, loss = gn.compile(
                    [*gn.gauss_newton_product(cost, {W: v}), cost], [], backend=backend, passes=passes
                )()
                assert pytest.approx(expected(np.full(5, 1 / 5)) @ v.ravel(), rel=1e-12) == product.ravel()
                assert loss == pytest.approx(
                    np.mean(-np.log(np.exp(-0.5 * (np.tanh(X @ WEIGHTS) - MEANS) ** 2).sum(1)))
                )


def test_what_reads_the_loss_sees_the_loss() -> None:
    """Choices, weights and functions of the loss's values are those of the loss, not of the surrogate's values."""
    W, z = net()
    y = gn.with_surrogate(mixture(z), majoriser, [z])
    values = -np.log(np.exp(-0.5 * (np.tanh(X @ WEIGHTS) - MEANS) ** 2).sum(1))
    bound = float(np.median(values)) + 1e-6
    chosen = gn.sum(gn.where(y < bound, y, 0) * np.arange(5.0))
    assert pytest.approx(expected(np.arange(5.0) * (values < bound)), rel=1e-12, abs=1e-15) == gauss_newton(
        chosen, W
    )
    # Σ e^y: e^y H̃ + e^y g gᵀ, where the surrogate has the loss's gradient g
    J, p = jacobian(), shares(np.tanh(X @ WEIGHTS))
    g = np.einsum("nka,nk->na", J, p * (np.tanh(X @ WEIGHTS) - MEANS))
    wanted = expected(np.exp(values)) + np.einsum("n,na,nb->ab", np.exp(values), g, g)
    assert pytest.approx(wanted, rel=1e-12, abs=1e-15) == gauss_newton(gn.sum(gn.exp(y)), W)


def test_beside_losses_that_need_none() -> None:
    """Sums of losses, one of them a penalty on the weights themselves."""
    W, z = net()
    cost = gn.sum(gn.with_surrogate(mixture(z), majoriser, [z]))
    other = gn.sum(gn.softmax_cross_entropy(z, T)) + 0.3 * gn.sum(gn.squared_error(W, 0))
    together = gauss_newton(cost + other, W)
    assert pytest.approx(gauss_newton(cost, W) + gauss_newton(other, W), rel=1e-12, abs=1e-14) == together


def test_a_log_likelihood_has_a_concave_one() -> None:
    W, z = net()
    log_p = gn.with_surrogate(-mixture(z), lambda z: -majoriser(z), [z])
    assert pytest.approx(expected(np.ones(5)), rel=1e-12, abs=1e-15) == gauss_newton(-gn.sum(log_p), W)


def test_a_metric_of_ones_own() -> None:
    """½ zᵀ M z gives Jᵀ M J, M a matrix of nodes."""
    W, z = net()
    root = RNG(5).standard_normal((4, 4))
    M = gn.constant(root @ root.T)
    y = gn.with_surrogate(
        mixture(z), lambda z, M: 0.5 * gn.sum(z * (z @ gn.stop_gradient(M)), axis=1), [z], [M]
    )
    J = jacobian()
    wanted = np.einsum("nka,kl,nlb->ab", J, root @ root.T, J)
    assert pytest.approx(wanted, rel=1e-12, abs=1e-15) == gauss_newton(gn.sum(y), W)


def test_it_is_kept_where_a_graph_is_rewritten() -> None:
    """A surrogate is made of the nodes that its loss reads, not of those that it once read."""
    x = gn.input(X.shape, "float64")
    W = gn.parameter(WEIGHTS.copy(), name="W")
    z = gn.tanh(x @ W)
    cost = gn.sum(gn.with_surrogate(mixture(z), majoriser, [z]))
    data = gn.constant(X)
    (elsewhere,) = gn.Graph(cost).rewrite(lambda node: data if node is x else node).outputs
    assert pytest.approx(expected(np.ones(5)), rel=1e-12, abs=1e-15) == gauss_newton(elsewhere, W)


def test_surrogates_that_do_not_fit() -> None:
    for surrogate, error, words in [
        (lambda z: gn.sum(z**2), ShapeError, ["shape []", "float64 of shape [5]", "a value for each"]),
        (lambda z: gn.cast(majoriser(z), "float32"), ShapeError, ["float32", "must be float64"]),
        (lambda z: 3.0, ValueAccessError, ["gave 3.0, not a node"]),
    ]:
        with case(words):
            W, z = net()
            y = gn.with_surrogate(mixture(z), surrogate, [z])
            with pytest.raises(error) as caught:
                gn.gauss_newton_product(gn.mean(y), {W: np.ones(W.shape)})
            for word in (*words, "test_surrogate.py:"):
                assert word in str(caught.value)


def test_a_way_around_is_told() -> None:
    W, z = net()
    y = gn.with_surrogate(mixture(z), lambda z, W: majoriser(z) + gn.sum(W**2), [z], [W])
    with pytest.raises(DifferentiationError, match=r"W\[3, 4\] .* around"):
        gn.gauss_newton_product(gn.mean(y), {W: np.ones(W.shape)})


REFUSED: list[tuple[Any, type[GraphnetError], str]] = [
    (lambda z: gn.with_surrogate(gn.argmax(z), majoriser, [z]), DtypeError, "int64; a loss is of floats"),
    (lambda z: gn.with_surrogate(mixture(z), mixture(z), [z]), ValueAccessError, "must be a function"),
    (lambda z: gn.with_surrogate(mixture(z), majoriser, []), DifferentiationError, "at is empty"),
    (lambda z: gn.with_surrogate(mixture(z), majoriser, [3]), DifferentiationError, "where the net ends, not 3"),
    (lambda z: gn.with_surrogate(mixture(z), majoriser, gn.argmax(z)), DifferentiationError, "ArgMax[5]"),
]  # fmt: skip


def test_what_cannot_be_meant() -> None:
    for make, error, words in REFUSED:
        with case(words):
            with pytest.raises(error) as caught:
                make(net()[1])
            assert words in str(caught.value)
