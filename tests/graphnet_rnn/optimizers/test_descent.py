"""L-BFGS and nonlinear conjugate gradient: against SciPy, over steps and batches, and on functions that break."""

from __future__ import annotations

import itertools
import math
import re
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import optimize

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers import LBFGS, LineSearchOptimizer, LineSearchReport, NonlinearConjugateGradient
from graphnet_rnn.optimizers.descent import Point
from graphnet_rnn.optimizers.line_search import Wolfe
from graphnet_rnn.tasks import TASKS, FreshSequences, elman
from tests.graphnet_rnn.training.told import Told
from tests.tables import case

KINDS: list[type[LineSearchOptimizer]] = [LBFGS, NonlinearConjugateGradient]


def directly(
    objective: Any, start: Array, kind: type[LineSearchOptimizer], iterations: int
) -> tuple[Any, list[Array]]:
    """scipy.optimize.minimize on the same function, in float64, and its iterates."""
    points: list[Array] = []

    def value(w: Array) -> tuple[float, Array]:
        loss, g = objective.gradient(w.astype(start.dtype))
        return loss, g.astype(np.float64)

    def accepted(intermediate_result: Any) -> None:
        points.append(intermediate_result.x.copy())

    options: dict[str, Any] = {"maxiter": iterations, "gtol": 0.0}
    if kind is LBFGS:
        options |= {"maxcor": 10, "ftol": 0.0}
    method = "L-BFGS-B" if kind is LBFGS else "CG"
    at = start.astype(np.float64)
    found = optimize.minimize(value, at, method=method, jac=True, options=options, callback=accepted)
    return found, points


def rosenbrock() -> rnn.Objective:
    x = gn.parameter(np.array([-1.2]), name="x")
    y = gn.parameter(np.array([1.0]), name="y")
    return rnn.Objective(gn.sum((1 - x) ** 2 + 100 * (y - x**2) ** 2), [x, y])


# -- against SciPy -------------------------------------------------------------------------------


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


#: A function, its size, and for how many iterations rounding has not yet led the two apart: by 1e-8 of the point.
SMOOTH = {
    "rosenbrock 2": (rosen, 2, {LBFGS: 30}),
    "rosenbrock 10": (rosen, 10, {LBFGS: 40, NonlinearConjugateGradient: 30}),
    "rosenbrock 30": (rosen, 30, {LBFGS: 60, NonlinearConjugateGradient: 40}),
    "rosenbrock 100": (rosen, 100, {LBFGS: 45, NonlinearConjugateGradient: 30}),
    "bowl 5": (bowl(5), 5, {LBFGS: 15, NonlinearConjugateGradient: 5}),
    "bowl 60": (bowl(60), 60, {LBFGS: 40, NonlinearConjugateGradient: 30}),
    "logistic 20": (logistic(20), 20, {LBFGS: 12, NonlinearConjugateGradient: 9}),
}


def test_iterates_are_scipys() -> None:
    """Each step of one iteration ends at SciPy's next iterate, from as many evaluations."""
    for name, kind in [(name, kind) for name, (_, _, most) in SMOOTH.items() for kind in most]:
        with case(name, kind):
            f, size, most = SMOOTH[name]
            iterations = most[kind]
            start = np.random.default_rng(size).standard_normal(size)
            found, points = directly(Plain(f), start, kind, iterations)
            assert len(points) == iterations
            optimizer, theta = kind(iterations=1), start.copy()
            state, evaluations = optimizer.init(theta), 1
            for point in points:
                report: Any = optimizer.step(Plain(f), theta, state)
                evaluations += report.evaluations - 1  # the first of a step is the last of the one before
                np.testing.assert_allclose(theta, point, rtol=0, atol=1e-8 * np.abs(point).max())
            assert abs(evaluations - found.nfev) <= 1


def test_a_small_network() -> None:
    """On a whole data set, as SciPy's; each evaluation, and θ, in the dtype of the weights."""
    for kind, dtype in itertools.product(KINDS, ["float32", "float64"]):
        with case(kind, dtype):
            network = rnn.Network([rnn.Elman(6)], 4, 4, dtype=dtype, seed=1)
            u = network.unroll(7, 5, initial="zero")
            objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets])
            symbols = np.random.default_rng(0).integers(0, 4, (8, 5))
            objective.feed(symbols[:-1], symbols[1:])
            start = objective.start()
            result = rnn.minimize(objective, kind(iterations=15), steps=1)
            report: Any = result.reports[0]
            found, _ = directly(objective, start, kind, 15)
            assert result.theta.dtype == dtype
            np.testing.assert_allclose(
                result.theta, found.x, rtol=0, atol=1e-9 if dtype == "float64" else 5e-3
            )
            assert result.loss == report.after < 0.8 * report.before
            assert report.after == pytest.approx(found.fun, rel=1e-10 if dtype == "float64" else 1e-3)
            assert report.iterations == found.nit == 15
            if dtype == "float64":
                assert report.evaluations == found.nfev


def test_rosenbrock() -> None:
    for kind in KINDS:
        with case(kind):
            result = rnn.minimize(rosenbrock(), kind(), steps=1000)
            assert np.allclose(result.theta, [1, 1], atol=1e-7)
            report = result.reports[0]
            assert isinstance(report, LineSearchReport)
            assert report.before == report.loss == pytest.approx(24.2)
            assert report.gradient_norm == pytest.approx(np.hypot(-215.6, -88))
            assert (report.iterations, report.reason, report.broken) == (20, "iterations", 0)
            for before, after in pairwise(result.reports):
                assert isinstance(before, LineSearchReport)
                assert isinstance(after, LineSearchReport)
                assert (before.after, before.last_gradient_norm) == (after.before, after.gradient_norm)
            assert re.fullmatch(
                r"loss 24\.2 -> \S+  20 iterations, \d+ evaluations  \|g\| 2\.3e\+02 -> \S+  \(iterations\)  .* s",
                str(report),
            )


def test_a_bowl_ends_after_as_many_line_searches_as_it_has_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where line searches are exact. (Rounding may ask for one more.)"""
    for kind, size in itertools.product(KINDS, [2, 5, 12]):
        with case(kind, size):
            monkeypatch.setattr(kind, "rule", Wolfe(1e-4, 1e-9, width=0.0, trials=60))
            theta = np.random.default_rng(0).standard_normal(size)
            optimizer = kind(iterations=size + 1)
            optimizer.step(Plain(bowl(size, 10.0)), theta, optimizer.init(theta))
            assert np.allclose(theta, 1, atol=1e-7)


def test_h_is_that_of_the_formula() -> None:
    """-H g by two loops, against H made pair by pair; with fewer pairs than it holds, and with more."""
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


def test_the_next_direction_is_polaks_and_ribieres() -> None:
    optimizer = NonlinearConjugateGradient(iterations=1)
    theta = np.random.default_rng(3).standard_normal(6)
    state, p = optimizer.init(theta), -rosen(theta)[1]
    for _ in range(5):
        before, g = theta.copy(), rosen(theta)[1]
        optimizer.step(Plain(rosen), theta, state)
        moved, after = theta - before, rosen(theta)[1]
        assert moved @ p == pytest.approx(np.linalg.norm(moved) * np.linalg.norm(p))
        p = -after + max(0, after @ (after - g) / (g @ g)) * p
        if p @ after > -0.01 * after @ after:
            p = -after


# -- what is kept between steps ------------------------------------------------------------------


def test_it_does_not_matter_how_iterations_are_divided_into_steps() -> None:
    """Bit for bit; nor whether a step is handed a rate."""
    for kind in KINDS:
        with case(kind):
            start = np.random.default_rng(0).standard_normal(8)
            for dtype in ("float64", "float32"):
                ends = []
                for iterations in (24, 8, 1):
                    optimizer, theta = kind(iterations=iterations), start.astype(dtype)
                    state = optimizer.init(theta)
                    for _ in range(24 // iterations):
                        optimizer.step(Plain(rosen), theta, state, rate=0.123)
                    ends.append((theta.tobytes(), {name: a.tobytes() for name, a in state.items()}))
                assert ends[0] == ends[1] == ends[2]
            anew = start.copy()
            for _ in range(3):
                kind(iterations=8).step(Plain(rosen), anew, kind().init(anew))
            assert anew.astype("float32").tobytes() != ends[0][0], "what is kept counts"


def test_a_step_that_is_cut_off_leaves_what_it_had() -> None:
    """An interruption in an evaluation: θ is an accepted point, and the run goes on from there."""
    for kind in KINDS:
        with case(kind):

            class CutOff(Plain):
                def gradient(self, w: Array) -> tuple[float, Array]:
                    if self.calls == 9:
                        raise KeyboardInterrupt
                    return super().gradient(w)

            start = np.random.default_rng(0).standard_normal(8)
            theta, optimizer = start.copy(), kind()
            state = optimizer.init(theta)
            with pytest.raises(KeyboardInterrupt):
                optimizer.step(CutOff(rosen), theta, state)
            whole, single = start.copy(), kind(iterations=1)
            fresh, seen = single.init(whole), []
            for _ in range(9):
                single.step(Plain(rosen), whole, fresh)
                seen.append(whole.tobytes())
            assert theta.tobytes() in seen
            before = rosen(theta)[0]
            optimizer.step(Plain(rosen), theta, state)
            assert rosen(theta)[0] < before


def test_another_batch_is_judged_by_itself() -> None:
    """The history is another function's, and the loss of this one falls all the same, from a fresh gradient."""
    for kind in KINDS:
        with case(kind):
            generator = np.random.default_rng(1)
            theta = generator.standard_normal(6)
            optimizer = kind(iterations=3)
            state = optimizer.init(theta)
            for seed in range(12):
                hessian = np.diag(np.random.default_rng(seed).uniform(0.1, 50, 6))
                centre = np.random.default_rng(seed).standard_normal(6)

                def f(w: Array, hessian: Array = hessian, centre: Array = centre) -> tuple[float, Array]:
                    return 0.5 * (w - centre) @ hessian @ (w - centre), hessian @ (w - centre)

                before = f(theta)
                report = optimizer.step(Plain(f), theta, state)
                assert (report.before, report.gradient_norm) == (
                    before[0],
                    pytest.approx(np.linalg.norm(before[1])),
                )
                assert report.after == f(theta)[0] < before[0]
                assert report.iterations == 3


def test_a_history_that_leads_nowhere_is_forgotten() -> None:
    """One made of nonsense: the step is that of an empty history, after the searches that it wasted."""
    for kind in KINDS:
        with case(kind):
            start = np.random.default_rng(0).standard_normal(8)
            optimizer = kind(iterations=1)
            cold, fresh = start.copy(), optimizer.init(start)
            optimizer.step(Plain(rosen), cold, fresh)
            spoiled = optimizer.init(start)
            if kind is LBFGS:
                spoiled["s"][:8], spoiled["y"][:8], spoiled["products"][0], spoiled["pairs"][0] = (
                    1e3,
                    1.0,
                    -1.0,
                    1,
                )
            else:
                spoiled["bend"][...] = np.nan
            theta = start.copy()
            optimizer.step(Plain(rosen), theta, spoiled)
            assert np.array_equal(theta, cold)


def test_pairs_without_curvature_are_left_out() -> None:
    """Along a slope that grows steeper, sᵀy < 0."""
    optimizer, theta = LBFGS(iterations=6), np.array([1.0])
    state = optimizer.init(theta)
    optimizer.step(Plain(lambda w: (-(w[0] ** 2), -2 * w)), theta, state)
    assert theta[0] > 1
    assert state["pairs"][0] == 0


class Rounded(Plain):
    """A valley of condition 10⁴ whose values are known to so many digits; gradients are exact."""

    def gradient(self, w: Array) -> tuple[float, Array]:
        loss, g = super().gradient(w)
        return loss + self.noise * math.sin(1e9 * float(w.sum())), g

    noise: ClassVar[float] = 1e-13


def test_noise_of_rounding_does_not_end_it() -> None:
    """Values alone would end at gradients of some 10⁻⁵ (√(noise · curvature)); then it ends by itself."""
    for kind in KINDS:
        with case(kind):
            f = bowl(6, 1e4)
            theta = np.full(6, 3.0)
            objective, optimizer = Rounded(lambda w: (1 + f(w)[0], f(w)[1])), kind(iterations=2000)
            report = optimizer.step(objective, theta, optimizer.init(theta))
            assert report.settled
            assert np.linalg.norm(f(theta)[1]) < 1e-6
            assert report.after <= report.before
            assert objective.calls == report.evaluations < 2000


# -- where a step ends ---------------------------------------------------------------------------


def test_tolerance_is_of_the_gradients_length() -> None:
    for kind in KINDS:
        with case(kind):
            theta, optimizer = (
                np.random.default_rng(0).standard_normal(8),
                kind(iterations=500, tolerance=1e-3),
            )
            state = optimizer.init(theta)
            report = optimizer.step(Plain(rosen), theta, state)
            assert (report.reason, report.settled) == ("tolerance", True)
            assert report.last_gradient_norm == pytest.approx(np.linalg.norm(rosen(theta)[1]))
            assert report.last_gradient_norm <= 1e-3 < report.gradient_norm
            again = optimizer.step(Plain(rosen), theta, state)
            assert (again.reason, again.iterations, again.evaluations) == ("tolerance", 0, 1)


def test_decrease_is_a_share_of_the_loss() -> None:
    """Whatever its size: SciPy's, a share of max(|C|, 1), would end a small loss at once."""
    for kind, scale in itertools.product(KINDS, [1e-6, 1.0, 1e6]):
        with case(kind, scale):
            start = np.random.default_rng(0).standard_normal(8)
            losses = [rosen(start)[0] + 1]

            def f(w: Array) -> tuple[float, Array]:
                loss, g = rosen(w)
                return scale * (loss + 1), scale * g

            optimizer, theta = kind(iterations=1, decrease=1e-3), start.copy()
            state, reports = optimizer.init(theta), []
            while not reports or reports[-1].reason == "iterations":
                reports.append(optimizer.step(Plain(f), theta, state))
                losses.append(reports[-1].after / scale)
            assert reports[-1].reason == "decrease"
            assert reports[-1].settled
            shares = [(before - after) / before for before, after in pairwise(losses)]
            assert shares[-1] <= 1e-3 < min(shares[:-1])
            assert losses[-1] < 0.9 * losses[1]


# -- functions that break ------------------------------------------------------------------------


def test_a_nan_in_a_line_search_is_only_too_far() -> None:
    """Σ 50 x - log x has its minimum 0.02 close to where it ends; SciPy alone is lost at the first step."""
    for kind, backend, dtype in itertools.product(KINDS, ["numba", "numpy"], ["float32", "float64"]):
        with case(kind, backend, dtype):
            x = gn.parameter(np.array([3.0, 2.0], dtype), name="x")
            objective = rnn.Objective(gn.sum(50 * x - gn.log(x)), [x], backend=backend)
            with np.errstate(invalid="ignore"):
                result = rnn.minimize(objective, kind(iterations=100), steps=1)
                if kind is LBFGS:
                    assert not directly(objective, np.array([3.0, 2.0], dtype), kind, 100)[0].fun < 200
            report: Any = result.reports[0]
            assert report.broken > 0
            assert f"({report.broken} not finite)" in str(report)
            assert np.allclose(result.theta, 0.02, rtol=1e-2)
            assert result.loss == report.after == pytest.approx(2 * (1 - math.log(0.02)), rel=1e-5)


class Cliff:
    """(x - 3)² in one dimension; from `edge` on it is `beyond`, and so is every call after the `last`."""

    def __init__(self, edge: float, beyond: float, last: int = 10**9) -> None:
        self.edge, self.beyond, self.last, self.calls = edge, beyond, last, 0

    def gradient(self, w: Array) -> tuple[float, Array]:
        self.calls += 1
        if not w[0] < self.edge or self.calls > self.last:
            return self.beyond, np.full(1, self.beyond)
        return float((w[0] - 3) ** 2), 2 * (w - 3)


def test_a_cliff_before_the_minimum() -> None:
    """Every direction leads over the edge: θ ends on this side of it, better than before."""
    for kind, beyond in itertools.product(KINDS, [math.nan, math.inf, -math.inf]):
        with case(kind, beyond):
            for edge in (-0.5, 1.7, 2.999):
                theta = np.array([-1.0])
                optimizer = kind(iterations=50)
                report = optimizer.step(Cliff(edge, beyond), theta, optimizer.init(theta))
                assert -1 < theta[0] < edge
                assert report.after == (theta[0] - 3) ** 2 < 16
                assert report.broken > 0


def test_when_nothing_works_any_more_the_last_point_is_kept() -> None:
    for kind, last in itertools.product(KINDS, [1, 2, 3, 4, 6]):
        with case(kind, last):

            class Valley(Cliff):
                def gradient(self, w: Array) -> tuple[float, Array]:
                    self.calls += 1
                    loss = float(optimize.rosen(w)) if self.calls <= self.last else math.nan
                    return loss, optimize.rosen_der(w)

            theta = np.array([-1.2, 1.0, 0.5])
            start = theta.copy()
            before = optimize.rosen(start)
            report = kind().step(Valley(0, math.nan, last), theta, kind().init(theta))
            assert report.after == optimize.rosen(theta) <= before
            assert report.broken > 0
            if last == 1:
                assert np.array_equal(theta, start)
            if last == 6:
                assert report.after < before


def test_no_step_from_where_nothing_is_finite() -> None:
    for kind in KINDS:
        with case(kind):
            theta = np.array([5.0])
            report = kind().step(Cliff(0, math.nan), theta, kind().init(theta))
            assert theta[0] == 5
            assert math.isnan(report.loss)
            x = gn.parameter(np.array([-0.5]), name="x")
            with pytest.raises(TrainingError, match=r"(?s)the loss is nan.*Log"):
                rnn.minimize(rnn.Objective(gn.sum(gn.log(x)), [x]), kind(), steps=2)


def test_at_the_minimum_nothing_moves() -> None:
    for kind in KINDS:
        with case(kind):
            theta = np.array([3.0])
            report = kind().step(Cliff(9, math.nan), theta, kind().init(theta))
            assert theta[0] == 3
            assert (report.before, report.after, report.iterations, report.evaluations) == (0, 0, 0, 1)


def test_on_fresh_batches() -> None:
    """As a task draws them; the loss of the batch never grows."""
    for kind in KINDS:
        with case(kind):
            task = TASKS["temporal-order"](10)
            told = Told()
            problem = FreshSequences(task, elman(task, 20), 200, 2, 100, steps=12)
            rnn.Trainer(problem, rnn.Training(kind(iterations=5), epochs=1), listeners=[told]).run()
            reports: list[Any] = told.reports
            assert all(report.after < report.before for report in reports)
            assert reports[-1].after < 0.5 * reports[0].before


# -- settings ------------------------------------------------------------------------------------


def test_memory_is_used() -> None:
    ends = [rnn.minimize(rosenbrock(), LBFGS(iterations=12, memory=m), steps=1).loss for m in (1, 10)]
    assert ends[0] != ends[1]


def test_impossible_settings() -> None:
    cases = [
        (lambda: LBFGS(iterations=0), "LBFGS: iterations must be a whole number >= 1, not 0"),
        (lambda: LBFGS(memory=0), "LBFGS: memory must be a whole number >= 1, not 0"),
        (lambda: LBFGS(memory=2.5), "LBFGS: memory must be a whole number >= 1, not 2.5"),  # type: ignore[arg-type]
        (lambda: LBFGS(decrease=-1.0), "LBFGS: decrease must be a finite number >= 0, not -1.0"),
        (
            lambda: NonlinearConjugateGradient(tolerance=math.nan),
            "NonlinearConjugateGradient: tolerance must be a finite number >= 0, not nan",
        ),
    ]
    for make, content in cases:
        with case(make, content), pytest.raises(UsageError, match=re.escape(content)):
            make()
