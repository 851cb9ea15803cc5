"""TrustRegion: SciPy's iterates, the shape of the ball, the radius, nets, what is refused."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.riemannian.blocks import Solver
from tests.tables import case


class Function:
    """A function with its Hessian; matrix: what it says that its metric is."""

    def __init__(self, value: Any, slope: Any, hessian: Any, matrix: Any = None) -> None:
        self.loss, self._slope, self._hessian, self._matrix = value, slope, hessian, matrix

    def gradient(self, w: Array) -> tuple[float, Array]:
        return self.loss(w), self._slope(w)

    def curvature(self, w: Array, structural: float = 0.0) -> Any:
        return self._hessian(w.copy()).__matmul__

    def metric(self, w: Array, metric: Any, part: str, draw: int) -> tuple[float, Array, Array]:
        return *self.gradient(w), self._matrix

    def metric_solver(self, metric: Any, part: str, numbers: Array, damping: float) -> Solver:
        return Solver(lambda g: np.linalg.solve(numbers + damping * np.eye(len(numbers)), g), 1.0)


ROSENBROCK = scipy.optimize.rosen, scipy.optimize.rosen_der, scipy.optimize.rosen_hess


BENT = np.random.default_rng(1).standard_normal((6, 6))
BENT = BENT @ BENT.T / 6 - 0.3 * np.eye(6)  # with a negative eigenvalue
#: ½ wᵀH w + ¼ Σ w⁴, from near a saddle.
QUARTIC = (
    lambda w: float(w @ BENT @ w / 2 + np.sum(w**4) / 4),
    lambda w: BENT @ w + w**3,
    lambda w: BENT + np.diag(3 * w * w),
)


def run(objective: Any, optimizer: Any, start: Array, steps: int) -> tuple[list[Array], list[Any]]:
    theta, state = start.copy(), optimizer.init(start)
    path, reports = [], []
    for _ in range(steps):
        reports.append(optimizer.step(objective, theta, state))
        path.append(theta.copy())
    return path, reports


def test_the_iterates_of_scipy() -> None:
    cases = [
        (ROSENBROCK, np.array([-1.2, 1.0, 0.7, -0.5]), {"boundary", "solved"}),
        (ROSENBROCK, np.array([-1.2, 1.0]), {"boundary", "solved", "rejected"}),
        (QUARTIC, 1e-3 * np.ones(6), {"curvature", "solved"}),
    ]
    options = {"initial_trust_radius": 0.3, "max_trust_radius": 2.0, "gtol": 1e-6}
    for of, start, seen in cases:
        with case(seen):
            expected: list[Array] = []
            scipy.optimize.minimize(
                of[0], start, jac=of[1], hess=of[2], method="trust-ncg", options=options, callback=expected.append
            )  # fmt: skip
            optimizer = rnn.TrustRegion(radius=0.3, largest=2.0)
            found, reports = run(Function(*of), optimizer, start, len(expected))
            assert len(expected) > 8
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
            assert seen <= {report.cg_reason if report.taken else "rejected" for report in reports}


def test_in_a_metric_it_is_the_run_in_coordinates_where_that_is_the_identity() -> None:
    """w = L⁻ᵀ v, L Lᵀ = M + λ I"""
    for damping in [0.0, 0.7]:
        with case(damping):
            a = np.random.default_rng(2).standard_normal((4, 4))
            M = a @ a.T + 0.2 * np.eye(4)
            turn = np.linalg.inv(np.linalg.cholesky(M + damping * np.eye(4))).T
            value, slope, hessian = ROSENBROCK
            plain = Function(
                lambda v: value(turn @ v),
                lambda v: turn.T @ slope(turn @ v),
                lambda v: turn.T @ hessian(turn @ v) @ turn,
            )
            start = np.array([-1.2, 1.0, 0.7, -0.5])
            settings: dict[str, Any] = {"radius": 0.5, "largest": 3.0}
            shaped = rnn.TrustRegion("kfac", damping=damping, **settings)
            w, in_metric = run(Function(*ROSENBROCK, M), shaped, start, 8)
            v, _ = run(plain, rnn.TrustRegion(**settings), np.linalg.solve(turn, start), 8)
            np.testing.assert_allclose(w, [turn @ each for each in v], rtol=1e-7)
            before = start
            for there, report in zip(w, in_metric, strict=True):
                if report.taken:
                    step = there - before
                    length = math.sqrt(step @ (M + damping * np.eye(4)) @ step)
                    assert length == pytest.approx(report.length, rel=1e-9)
                    assert length <= report.radius * (1 + 1e-12)
                before = there
            assert {"boundary"} < {report.cg_reason for report in in_metric}


def test_the_radius_follows_the_ratio() -> None:
    optimizer = rnn.TrustRegion(radius=1.0, largest=1.5)
    _, reports = run(Function(*ROSENBROCK), optimizer, np.array([-1.2, 1.0]), 25)
    seen = set()
    for report, after in pairwise(reports):
        if not report.ratio >= 0.25:
            expected, kind = report.radius / 4, "shrinks"
        elif report.ratio > 0.75 and report.cg_reason in ("boundary", "curvature"):
            expected, kind = min(2 * report.radius, 1.5), "grows"
        else:
            expected, kind = report.radius, "stays"
        assert after.radius == expected
        seen.add(kind)
    assert seen == {"shrinks", "grows", "stays"}
    optimizer = rnn.TrustRegion(radius=100.0, cg_steps=1)
    _, reports = run(Function(*ROSENBROCK), optimizer, np.linspace(0.8, 1.2, 9), 3)
    assert (reports[0].cg_reason, [report.products for report in reports]) == ("limit", [1, 1, 1])


def test_nets_learn() -> None:
    for cell, metric in [(rnn.Elman(8), None), (rnn.LSTM(8), "kfac"), (rnn.LSTM(8), "qdruop")]:
        with case(cell, metric):
            x = np.array([0, 1, 2, 2, 1] * 8)
            net = rnn.Network([cell], 3, 3, seed=1)
            u = net.unroll(len(x) - 1, 1, initial="zero")
            objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
            objective.feed(x[:-1, None], x[1:, None])
            result = rnn.minimize(objective, rnn.TrustRegion(metric, damping=1e-3), steps=30)
            assert result.reports[0].loss > 1.0
            assert result.loss < 0.35
            assert all(after.loss <= before.loss for before, after in pairwise(result.reports))


def test_what_cannot_be_meant() -> None:
    cases = [
        ({"metric": "nope"}, "metric must be one of"),
        ({"radius": 0.0}, "radius"),
        ({"radius": 2.0, "largest": 1.0}, "radius, 2, .* largest, 1"),
        ({"least_ratio": 1.5}, "least_ratio"),
        ({"cg_steps": 0}, "cg_steps"),
        ({"damping": -1.0}, "damping"),
    ]
    for settings, words in cases:
        with case(words), pytest.raises(UsageError, match=f"TrustRegion: {words}"):
            rnn.TrustRegion(**settings)
    optimizer = rnn.TrustRegion("kfac")
    with pytest.raises(UsageError, match=r"asks an objective for its metric, which .* has not"):
        optimizer.step(object(), np.ones(2), optimizer.init(np.ones(2)))
