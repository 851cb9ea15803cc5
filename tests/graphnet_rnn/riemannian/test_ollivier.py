"""The oracle against itself: gradients, moduli and metrics = differences of its forward pass; invariance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from tests.graphnet_rnn.riemannian import ollivier as o

Array = o.Array
Kind = Literal["RNN", "GNN", "GLNN"]
KINDS: list[Kind] = ["RNN", "GNN", "GLNN"]
SPARSE = [(1, 1), (2, 2), (1, 2), (3, 1), (2, 3)]  # unit 3 without a loop
A, T, STEP = 3, 9, 1e-6


class Case:
    """A net with parameters, a sequence and weights drawn at random; forward, B, m̃ of it."""

    def __init__(
        self, kind: Kind, edges: list[tuple[int, int]] | None = None, N: int = 3, T: int = T
    ) -> None:
        rng = np.random.default_rng(5)
        self.net = o.Net(kind, N, A, SPARSE if edges is None else edges)
        self.p = o.zeros(self.net)
        for keys in o.blocks(self.net).values():
            for name, index in keys:
                self.p[name][index] = 0.6 * rng.standard_normal()
        self.p["w"] = rng.standard_normal((N + 1, A))
        self.p["V0"][1:] = rng.standard_normal(N)
        self.x = rng.integers(A, size=T)
        self.chi = np.where(rng.random(T) < 0.3, 0.0, rng.uniform(0.5, 1.5, T))
        self.run = o.forward(self.net, self.p, self.x, self.chi)
        self.B = o.backward(self.net, self.p, self.run)

    def log_likelihood(self, name: str, index: tuple[int, ...], step: float) -> float:
        """The log-likelihood with one parameter moved."""
        p = self.p | {name: self.p[name].copy()}
        p[name][index] += step
        return o.forward(self.net, p, self.x, self.chi).log_likelihood


def difference(f: Callable[[float], Any], step: float = STEP) -> Any:
    """(f(ε) − f(−ε)) / 2ε"""
    return (f(step) - f(-step)) / (2 * step)


def random(*shape: int, seed: int = 3) -> Array:
    return np.random.default_rng(seed).random(shape)


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def test_gradients_are_differences(case: Case) -> None:
    W = o.writing_gradient(case.net, case.run)
    for index in np.ndindex(W.shape):
        assert W[index] == pytest.approx(difference(lambda e: case.log_likelihood("w", index, e)), abs=1e-8)
    G = o.transition_gradient(case.net, case.run, case.B)
    keys = [key for keys in o.blocks(case.net).values() for key in keys] + [
        ("V0", (j,)) for j in case.net.units
    ]
    for name, index in keys:
        expected = difference(lambda e: case.log_likelihood(name, index, e))
        assert G[name][index] == pytest.approx(expected, abs=1e-8), (name, index)
        G[name][index] = 0
    assert not any(value.any() for value in G.values()), "a gradient where there is no parameter"


def test_backpropagated_values_are_differences(case: Case) -> None:
    for t in range(T):
        for i in case.net.units:
            push = np.zeros((T, case.net.N + 1))
            push[t, i] = 1
            expected = difference(
                lambda e: o.forward(case.net, case.p, case.x, case.chi, e * push).log_likelihood
            )
            assert case.B[t, i] == pytest.approx(expected, abs=1e-8)


def test_modulus_is_pulled_back_step_by_step(case: Case) -> None:
    """(63) with ∂V^{t+1}/∂V^t, and the Fisher norm of δπ as in (45), by differences."""
    net, p, run = case.net, case.p, case.run
    m = o.rbpm(net, p, run)
    assert not m[T].any()
    for t in range(T):
        for i in net.units:
            unit = np.eye(net.N + 1)[i]
            dV = difference(lambda e: o.next_V(net, p, run.V[t] + e * unit, int(case.x[t])))
            dpi = difference(lambda e: o.write(p, o.activities(net, run.V[t] + e * unit)))
            expected = case.chi[t] * np.sum(dpi**2 / run.pi[t]) + np.sum(dV[1:] ** 2 * m[t + 1, 1:])
            assert m[t, i] == pytest.approx(expected, abs=1e-8)


def test_metric_is_the_sum_of_outer_products(case: Case) -> None:
    """(55) = (67) with ∂V_j^{t+1}/∂θ^t by differences of one transition; no ε."""
    net, run = case.net, case.run
    m = o.rbpm(net, case.p, run)
    for (j, *_), keys in o.blocks(net).items():
        expected = np.zeros((len(keys), len(keys)))
        for t in range(T):
            moved = np.zeros(len(keys))
            for k, (name, index) in enumerate(keys):

                def V(e: float, name: str = name, index: tuple[int, ...] = index, t: int = t) -> Array:
                    p = case.p | {name: case.p[name].copy()}
                    p[name][index] += e
                    return o.next_V(net, p, run.V[t], int(case.x[t]))

                d = difference(V)
                moved[k] = d[j]
                assert np.flatnonzero(np.abs(d) > 1e-12).tolist() in ([], [j]), "not a parameter of unit j"
            expected += m[t + 1, j] * np.outer(moved, moved)
        assert o.metric(net, run, m, j, keys, eps=0) == pytest.approx(expected, abs=1e-8)
        assert np.diag(o.metric(net, run, m, j, keys, eps=2)) == pytest.approx(
            np.diag(expected) + 2, abs=1e-8
        )


def test_hessian_is_that_of_the_log_likelihood(case: Case) -> None:
    eps_y = np.array([0.5, 1.0, 2.0])
    diagonal, cross = o.hessian(case.net, case.run, eps_y)

    def W(e: float, i: int, y: int) -> Array:
        p = case.p | {"w": case.p["w"].copy()}
        p["w"][i, y] += e
        return o.writing_gradient(case.net, o.forward(case.net, p, case.x, case.chi))

    for i in range(case.net.N + 1):
        for y in range(A):
            H = -difference(lambda e: W(e, i, y))[:, y]
            assert diagonal[i, y] == pytest.approx(H[i] + eps_y[y], abs=1e-8)
            assert cross[i, y] == pytest.approx(H[0], abs=1e-8)


def test_directions_solve_for_the_gradient(case: Case) -> None:
    """M̃ δ = G of each block; quasi-diagonal: of each M̃ with the entries it does not read made those of above."""
    net, run, eps = case.net, case.run, 0.3
    for method, m in [("RUOP", o.ruop(case.B)), ("RBPM", o.rbpm(net, case.p, run))]:
        for way in ("", "QD"):
            d = o.transition_direction(net, case.p, run, way + method, eps)  # type: ignore[arg-type]
            for (j, *_), keys in o.blocks(net).items():
                block = o.metric(net, run, m, j, keys, eps)
                if way == "QD":
                    diagonal = np.diag(block).copy()
                    block = np.outer(block[0], block[0]) / block[0, 0]
                    np.fill_diagonal(block, diagonal)
                solved = [d[name][index] for name, index in keys]
                assert block @ solved == pytest.approx(o.gradient_of(net, run, case.B, j, keys), abs=1e-10)
            assert d["V0"][1:] == pytest.approx(case.B[0, 1:] / (m[0, 1:] + eps), rel=1e-12)


def test_writing_directions(case: Case) -> None:
    eps_y = o.damping_of_writing(case.x, A)
    assert eps_y == pytest.approx([np.mean(case.x == y) for y in range(A)], abs=1e-15)
    assert o.damping_of_writing([0], A)[1] == np.finfo(float).eps
    W = o.writing_gradient(case.net, case.run)
    diagonal, cross = o.hessian(case.net, case.run, eps_y)
    assert o.writing_direction(case.net, case.run, "plain", eps_y) == pytest.approx(W)
    assert o.writing_direction(case.net, case.run, "DH", eps_y) == pytest.approx(W / diagonal)
    d = o.writing_direction(case.net, case.run, "QDH", eps_y)
    for y in range(A):
        for i in case.net.units:
            pair = np.array([[diagonal[0, y], cross[i, y]], [cross[i, y], diagonal[i, y]]])
            assert d[i, y] == pytest.approx(np.linalg.solve(pair, W[[0, i], y])[1], rel=1e-10)
        assert diagonal[0, y] * d[0, y] + cross[1:, y] @ d[1:, y] == pytest.approx(W[0, y], rel=1e-10)
