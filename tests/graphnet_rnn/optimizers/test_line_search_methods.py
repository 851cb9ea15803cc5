"""L-BFGS and nonlinear conjugate gradient against SciPy, over steps and batches, with failing functions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers import LBFGS, LineSearchOptimizer, NonlinearConjugateGradient
from graphnet_rnn.optimizers.line_search_methods import Point
from tests.graphnet_rnn.optimizers.toys import rosenbrock
from tests.tables import case

KINDS: list[type[LineSearchOptimizer]] = [LBFGS, NonlinearConjugateGradient]


class Plain:
    """A function of NumPy as an objective that counts."""

    def __init__(self, f: Any) -> None:
        self.f, self.calls = f, 0

    def gradient(self, w: Array) -> tuple[float, Array]:
        self.calls += 1
        loss, g = self.f(w)
        return float(loss), g


def bowl(size: int, condition: float = 1e3) -> Any:
    """½ (w - 1)ᵀ H (w - 1) of H with such eigenvalues, in a random basis."""
    basis, _ = np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))
    hessian = basis @ np.diag(np.geomspace(1, condition, size)) @ basis.T
    return lambda w: (0.5 * (w - 1) @ hessian @ (w - 1), hessian @ (w - 1))


def begun(size: int = 8, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(size)


def logistic(size: int) -> Any:
    """Regression with weight decay."""
    generator = np.random.default_rng(7)
    x, t = generator.standard_normal((200, size)), generator.choice([-1.0, 1.0], 200)

    def f(w: Array) -> tuple[float, Array]:
        margins = t * (x @ w)
        loss = np.logaddexp(0, -margins).mean() + 0.005 * w @ w
        return loss, -(t / (1 + np.exp(margins))) @ x / len(t) + 0.01 * w

    return f


def rosen(w: Array) -> tuple[float, Array]:
    return optimize.rosen(w), optimize.rosen_der(w)


#: Name -> (function, size, number of iterations before rounding separates the two by 1e-8 of the point).
SMOOTH = {
    "rosenbrock 2": (rosen, 2, {LBFGS: 30}),
    "rosenbrock 10": (rosen, 10, {LBFGS: 40, NonlinearConjugateGradient: 30}),
    "rosenbrock 30": (rosen, 30, {LBFGS: 60, NonlinearConjugateGradient: 40}),
    "rosenbrock 100": (rosen, 100, {LBFGS: 45, NonlinearConjugateGradient: 30}),
    "bowl 5": (bowl(5), 5, {LBFGS: 15, NonlinearConjugateGradient: 5}),
    "bowl 60": (bowl(60), 60, {LBFGS: 40, NonlinearConjugateGradient: 30}),
    "logistic 20": (logistic(20), 20, {LBFGS: 12, NonlinearConjugateGradient: 9}),
}


def test_iterates_match_scipy() -> None:
    """Each step (of one iteration) ends at SciPy's next iterate, with as many evaluations."""
    for name, (f, size, most) in SMOOTH.items():
        for kind, iterations in most.items():
            with case(name, kind):
                theta, optimizer = begun(size, seed=size), kind(iterations=1)
                points: list[Array] = []
                keep = lambda intermediate_result: points.append(intermediate_result.x.copy())
                method, more = ("L-BFGS-B", {"maxcor": 10, "ftol": 0.0}) if kind is LBFGS else ("CG", {})
                how = {"method": method, "options": {"maxiter": iterations, "gtol": 0.0, **more}}
                found = optimize.minimize(f, theta.copy(), jac=True, callback=keep, **how)
                assert len(points) == iterations
                state, evaluations = optimizer.init(theta), 1
                for point in points:
                    report: Any = optimizer.step(Plain(f), theta, state)
                    evaluations += report.evaluations - 1  # the first one is shared
                    np.testing.assert_allclose(theta, point, rtol=0, atol=1e-8 * np.abs(point).max())
                assert abs(evaluations - found.nfev) <= 1


def test_each_step_starts_from_the_previous_point() -> None:
    for kind in KINDS:
        with case(kind):
            result = rnn.minimize(rosenbrock(), kind(), steps=1000)
            assert np.allclose(result.theta, [1, 1], atol=1e-7)
            reports: Any = result.reports
            assert reports[0].gradient_norm == pytest.approx(np.hypot(-215.6, -88))
            assert (reports[0].iterations, reports[0].reason, reports[0].broken) == (20, "iterations", 0)
            assert (reports[0].gradients, reports[0].products) == (reports[0].evaluations, 0)
            for before, after in itertools.pairwise(reports):
                assert (before.after, before.last_gradient_norm) == (after.before, after.gradient_norm)


def test_two_loop_recursion_matches_the_formula() -> None:
    """-H g by the two-loop recursion equals H made of all pairs, with fewer and more pairs than `memory`."""
    for iterations in (2, 4, 9):
        optimizer = LBFGS(iterations=1, memory=4)
        theta = np.random.default_rng(3).standard_normal(6)
        state, pairs = optimizer.init(theta), []
        for _ in range(iterations):
            before, g = theta.copy(), rosen(theta)[1]
            optimizer.step(Plain(rosen), theta, state)
            pairs.append((theta - before, rosen(theta)[1] - g))
        s, y = pairs[-1]
        h = np.eye(6) * (s @ y) / (y @ y)
        for s, y in pairs[-4:]:
            turn = np.eye(6) - np.outer(s, y) / (s @ y)
            h = turn @ h @ turn.T + np.outer(s, s) / (s @ y)
        loss, g = rosen(theta)
        np.testing.assert_allclose(optimizer.direction(Point(theta, loss, g), state), -h @ g, rtol=1e-9)


def test_division_of_iterations_into_steps_does_not_matter() -> None:
    """Equal bits for any division, and with or without the argument `rate`."""
    for kind, dtype in itertools.product(KINDS, ("float64", "float32")):
        with case(kind, dtype):
            ends = []
            for iterations in (24, 8, 1):
                optimizer, theta = kind(iterations=iterations), begun().astype(dtype)
                state = optimizer.init(theta)
                for _ in range(24 // iterations):
                    optimizer.step(Plain(rosen), theta, state, rate=0.123)
                ends.append((theta.tobytes(), {name: a.tobytes() for name, a in state.items()}))
            assert ends[0] == ends[1] == ends[2]
            anew = begun().astype(dtype)
            for _ in range(3):
                kind(iterations=8).step(Plain(rosen), anew, kind().init(anew))
            assert anew.tobytes() != ends[0][0], "what is kept counts"


def test_interrupted_step_keeps_an_accepted_point() -> None:
    """After an interruption during an evaluation, θ is an accepted point, and the run can continue."""

    class CutOff(Plain):
        def gradient(self, w: Array) -> tuple[float, Array]:
            if self.calls == 9:
                raise KeyboardInterrupt
            return super().gradient(w)

    for kind in KINDS:
        with case(kind):
            theta, optimizer = begun(), kind()
            state = optimizer.init(theta)
            with pytest.raises(KeyboardInterrupt):
                optimizer.step(CutOff(rosen), theta, state)
            whole, single = begun(), kind(iterations=1)
            fresh, seen = single.init(whole), []
            for _ in range(9):
                single.step(Plain(rosen), whole, fresh)
                seen.append(whole.tobytes())
            assert theta.tobytes() in seen
            before = rosen(theta)[0]
            optimizer.step(Plain(rosen), theta, state)
            assert rosen(theta)[0] < before


def test_new_batches_are_evaluated_separately() -> None:
    """Although the history belongs to another function, the loss falls; the gradient is computed again."""
    for kind in KINDS:
        with case(kind):
            theta, optimizer = begun(6, seed=1), kind(iterations=3)
            state = optimizer.init(theta)
            for seed in range(12):
                hessian = np.diag(np.random.default_rng(seed).uniform(0.1, 50, 6))
                centre = begun(6, seed)
                f = lambda w: (0.5 * (w - centre) @ hessian @ (w - centre), hessian @ (w - centre))
                before, g = f(theta)
                report = optimizer.step(Plain(f), theta, state)
                assert (report.before, report.iterations) == (before, 3)
                assert report.gradient_norm == pytest.approx(np.linalg.norm(g))
                assert report.after == f(theta)[0] < before


def test_history_without_progress_is_cleared() -> None:
    """With an invalid history, the step equals that of an empty history, after some failed searches."""
    for kind in KINDS:
        with case(kind):
            optimizer, cold, theta = kind(iterations=1), begun(), begun()
            optimizer.step(Plain(rosen), cold, optimizer.init(cold))
            spoiled = optimizer.init(theta)
            if kind is LBFGS:
                spoiled["s"][:8], spoiled["y"][:8] = 1e3, 1.0
                spoiled["products"][0], spoiled["pairs"][0] = -1.0, 1
            else:
                spoiled["bend"][...] = np.nan
            optimizer.step(Plain(rosen), theta, spoiled)
            assert np.array_equal(theta, cold)


def test_pairs_without_curvature_are_left_out() -> None:
    """If the slope grows steeper, sᵀy < 0."""
    optimizer, theta = LBFGS(iterations=6), np.array([1.0])
    state = optimizer.init(theta)
    optimizer.step(Plain(lambda w: (-(w[0] ** 2), -2 * w)), theta, state)
    assert theta[0] > 1
    assert state["pairs"][0] == 0


def test_rounding_noise_does_not_stop_the_search() -> None:
    """With values alone, it would end at gradients of about 10⁻⁵ (√(noise · curvature))."""
    f = bowl(6, 1e4)  # values have 13 correct digits; gradients are exact
    noisy = lambda w: (1 + f(w)[0] + 1e-13 * math.sin(1e9 * float(w.sum())), f(w)[1])
    for kind in KINDS:
        with case(kind):
            theta, objective, optimizer = np.full(6, 3.0), Plain(noisy), kind(iterations=2000)
            report = optimizer.step(objective, theta, optimizer.init(theta))
            assert report.settled
            assert np.linalg.norm(f(theta)[1]) < 1e-6
            assert report.after <= report.before
            assert objective.calls == report.evaluations < 2000


def test_tolerance_applies_to_the_gradient_norm() -> None:
    for kind in KINDS:
        with case(kind):
            theta, optimizer = begun(), kind(iterations=500, tolerance=1e-3)
            state = optimizer.init(theta)
            report = optimizer.step(Plain(rosen), theta, state)
            assert (report.reason, report.settled) == ("tolerance", True)
            assert report.last_gradient_norm == pytest.approx(np.linalg.norm(rosen(theta)[1]))
            assert report.last_gradient_norm <= 1e-3 < report.gradient_norm
            again = optimizer.step(Plain(rosen), theta, state)
            assert (again.reason, again.iterations, again.evaluations) == ("tolerance", 0, 1)


def test_decrease_is_relative_to_the_loss() -> None:
    """`decrease` is relative to |C|. With SciPy's max(|C|, 1), a small loss would end the run at once."""
    for kind, scale in itertools.product(KINDS, [1e-6, 1.0, 1e6]):
        with case(kind, scale):
            f = lambda w: (scale * (rosen(w)[0] + 1), scale * rosen(w)[1])
            optimizer, theta = kind(iterations=1, decrease=1e-3), begun()
            losses, state, reports = [f(theta)[0]], optimizer.init(theta), []
            while not reports or reports[-1].reason == "iterations":
                reports.append(optimizer.step(Plain(f), theta, state))
                losses.append(reports[-1].after)
            assert (reports[-1].reason, reports[-1].settled) == ("decrease", True)
            shares = [(before - after) / before for before, after in itertools.pairwise(losses)]
            assert shares[-1] <= 1e-3 < min(shares[:-1])
            assert losses[-1] < 0.9 * losses[1]


class Cliff:
    """(x - 3)² in one dimension; `beyond` for x >= edge."""

    def __init__(self, edge: float, beyond: float) -> None:
        self.edge, self.beyond = edge, beyond

    def gradient(self, w: Array) -> tuple[float, Array]:
        if not w[0] < self.edge:
            return self.beyond, np.full(1, self.beyond)
        return float((w[0] - 3) ** 2), 2 * (w - 3)


def test_non_finite_region_before_the_minimum() -> None:
    """All directions cross the edge; θ stays before it, with a lower loss."""
    ways = itertools.product(KINDS, [math.nan, math.inf, -math.inf], (-0.5, 1.7, 2.999))
    for kind, beyond, edge in ways:
        with case(kind, beyond, edge):
            theta, optimizer = np.array([-1.0]), kind(iterations=50)
            report = optimizer.step(Cliff(edge, beyond), theta, optimizer.init(theta))
            assert -1 < theta[0] < edge
            assert report.after == (theta[0] - 3) ** 2 < 16
            assert report.broken > 0


def test_failed_line_searches_keep_the_last_point() -> None:
    """The loss is NaN after a number of evaluations."""
    for kind, last in itertools.product(KINDS, [1, 2, 3, 4, 6]):
        with case(kind, last):
            valley = Plain(lambda w: (rosen(w)[0] if valley.calls <= last else math.nan, rosen(w)[1]))
            start = np.array([-1.2, 1.0, 0.5])
            theta = start.copy()
            report = kind().step(valley, theta, kind().init(theta))
            assert report.after == rosen(theta)[0] <= rosen(start)[0]
            assert report.broken > 0
            assert last > 1 or np.array_equal(theta, start)
            assert last < 6 or report.after < report.before


def test_no_step_from_a_non_finite_loss_or_a_minimum() -> None:
    for kind in KINDS:
        with case(kind):
            theta = np.array([5.0])
            report = kind().step(Cliff(0, math.nan), theta, kind().init(theta))
            assert theta[0] == 5
            assert math.isnan(report.loss)
            theta = np.array([3.0])
            report = kind().step(Cliff(9, math.nan), theta, kind().init(theta))
            assert theta[0] == 3
            assert (report.before, report.after, report.iterations, report.evaluations) == (0, 0, 0, 1)


def test_gradients_whose_square_is_zero() -> None:
    q = gn.parameter(np.array([1.0, 1.0]), name="q")
    for kind in KINDS:
        objective = rnn.Objective(gn.sum(gn.squared_error(q, 0.0)) * 1e-163, [q])
        with case(kind):
            assert np.isfinite(rnn.minimize(objective, kind(), steps=4).theta).all()


def test_invalid_settings_are_rejected() -> None:
    for name, value in {"iterations": 0, "memory": 2.5, "decrease": -1.0, "tolerance": math.nan}.items():
        with case(name), pytest.raises(UsageError, match=f"LBFGS: {name} .* not {value}"):
            LBFGS(**{name: value})
