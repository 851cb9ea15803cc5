"""Conjugate gradient against SciPy, structural damping against dense matrices, Hessian-free steps."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers import AugmentedHessianFree, GreedyHessianFree, HessianFree, conjugate_gradient
from graphnet_rnn.optimizers.conjugate_gradient import conjugate_directions
from tests.graphnet_rnn.optimizers.toys import rosenbrock
from tests.tables import case as named


def system(size: int, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    m = generator.standard_normal((size, size))
    return m @ m.T / size + 0.1 * np.eye(size), generator.standard_normal(size)


def test_cg_iterates_match_scipy() -> None:
    a, b = system(30)
    solved = conjugate_gradient(lambda v: a @ v, b, tolerance=0, residual=1e-10, max_steps=90)
    assert solved.reason == "solved"
    assert np.allclose(solved.x, np.linalg.solve(a, b), rtol=1e-7)
    assert solved.least_curvature >= np.linalg.eigvalsh(a)[0] * (1 - 1e-9)
    diagonal, inverse = np.linspace(0.5, 3, 30), np.linalg.inv(system(30, seed=1)[0] + np.eye(30))
    preconditioners: list[Any] = [
        (None, None),
        (diagonal, LinearOperator((30, 30), matvec=lambda r: r / diagonal)),
        (lambda r: inverse @ r, LinearOperator((30, 30), matvec=lambda r: inverse @ r)),
    ]
    for (given, operator), start in itertools.product(preconditioners, [None, np.linspace(-1, 1, 30)]):
        with named(given, start):
            expected = [np.zeros(30) if start is None else start]
            keep = lambda x: expected.append(x.copy())
            cg(a, b, x0=start, rtol=1e-14, maxiter=25, M=operator, callback=keep)
            how = {"max_steps": 25, "tolerance": 0, "preconditioner": given}
            found = conjugate_gradient(lambda v: a @ v, b, start, **how)
            assert (found.steps, found.reason, found.kept[-1][0]) == (25, "limit", 25)
            for step, x in found.kept:
                # Late iterates depend on the order in which sums are taken.
                close = 1e-7 if step <= 10 else 1e-3
                assert np.allclose(x, expected[step], rtol=close, atol=close), step
            assert np.allclose(found.values, [x @ a @ x / 2 - b @ x for x in expected])


def test_stops_when_progress_is_small() -> None:
    """Stops exactly at the first step where (φ_i - φ_{i-k}) / φ_i < k ε."""
    a, b = system(200, 3)
    for window, start in itertools.product([3, 10], [None, 1.01 * np.linalg.solve(a, b)]):
        with named(window, start):
            how = {"tolerance": 1e-3, "window": window, "max_steps": 500}
            found = conjugate_gradient(lambda v: a @ v, b, start, **how)
            assert found.reason == "progress"
            small = []
            for i, value in enumerate(found.values):
                k = max(window, i // 10)
                small.append(i > k and (value - found.values[i - k]) / value < k * 1e-3)
            assert small == [False] * found.steps + [True]


def test_cg_keeps_some_iterates() -> None:
    a, b = system(60)
    found = conjugate_gradient(lambda v: a @ v, b, tolerance=0, max_steps=40)
    steps = [step for step, _ in found.kept]
    assert steps[:3] == [1, 2, 3]
    assert steps[-1] == 40
    assert len(steps) < 16
    assert all(later <= math.ceil(1.3 * earlier) + 1 for earlier, later in itertools.pairwise(steps))


@pytest.mark.filterwarnings("error")
def test_cg_stops_at_nonpositive_curvature_or_non_finite_values() -> None:
    for harm in [0.0, -1.0, np.nan, np.inf]:
        with named(harm):
            calls = []

            def broken(v: Array) -> Array:
                calls.append(1)
                return v * np.arange(1, 5) if len(calls) < 3 else harm * v

            found = conjugate_gradient(broken, np.ones(4), tolerance=0)
            assert (found.steps, found.reason) == (2, "curvature" if harm <= 0 else "not finite")
            assert not harm <= 0 or found.least_curvature <= 0
            assert np.isfinite(found.x).all()


def test_damping_of_hidden_unit_changes() -> None:
    """(a, a, μ): μ times the Gauss-Newton matrix of ½ |a - a₀|²."""
    draws = np.random.default_rng(0).standard_normal
    W = gn.parameter(draws((3, 2)), name="W")
    x, v = draws((4, 3)), draws((3, 2))
    a = gn.matmul(x, W)
    cost = gn.mean(gn.squared_error(a, draws((4, 2))))
    damped, plain = (
        gn.compile(gn.gauss_newton_product(cost, {W: v}, damping=damping), [])()[0]
        for damping in ([(a, a, 0.7)], ())
    )
    assert np.allclose(damped - plain, 0.7 * x.T @ (x @ v))


class Valley:
    """½ (w - c)ᵀ H (w - c) + s Σ (w - c)⁴: an objective by hand; `spoilt` may change what a loss is."""

    def __init__(self, quartic: float = 0.0, spoilt: Callable[[Array, float], float] | None = None) -> None:
        self.hessian, _ = system(6)
        self.centre, self.quartic = np.arange(6.0), quartic
        self.spoilt = spoilt or (lambda w, loss: loss)
        self.weights: list[float] = []

    def loss(self, w: Array) -> float:
        d = w - self.centre
        return self.spoilt(w, float(d @ self.hessian @ d / 2 + self.quartic * (d**4).sum()))

    def gradient(self, w: Array) -> tuple[float, Array]:
        d = w - self.centre
        return self.loss(w), self.hessian @ d + 4 * self.quartic * d**3

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        self.weights.append(structural)
        bend = self.hessian + np.diag(12 * self.quartic * (w - self.centre) ** 2)
        return lambda v: bend @ v


def run(objective: Any, optimizer: HessianFree, steps: int) -> tuple[Array, list[Any]]:
    theta = np.full(6, 9.0)
    state = optimizer.init(theta)
    return theta, [optimizer.step(objective, theta, state) for _ in range(steps)]


def test_quadratic_needs_one_step_and_damping_falls() -> None:
    theta, reports = run(Valley(), HessianFree(damping=1e-9, tolerance=0, cg_steps=30), 3)
    assert np.allclose(theta, np.arange(6), atol=1e-5)
    assert reports[0].ratio == pytest.approx(1, abs=1e-6)
    assert reports[0].scale == 1
    assert reports[1].damping == pytest.approx(1e-9 / 1.5)


def test_warm_start_rejected_by_the_model_raises_the_damping() -> None:
    """φ is positive at the start of CG and the loss is higher, so the ratio is meaningless."""
    objective = Valley()
    optimizer = HessianFree(damping=0.1, cg_steps=1, warm_start=1.0)
    theta = np.full(6, 9.0)
    state = optimizer.init(theta)
    state["direction"][:] = 500.0 * np.linspace(-1, 1, 6)
    report = optimizer.step(objective, theta, state)
    assert report.cg_values[report.chosen] > 0
    assert math.isnan(report.ratio)
    assert state["damping"][0] == pytest.approx(0.15)


def test_steps_that_raise_the_loss_are_not_taken() -> None:
    """The loss is higher everywhere else: θ is unchanged, λ grows, and the next warm start is zero."""
    for value in [math.nan, math.inf, 1e30]:
        with named(value):
            start = np.full(6, 9.0)
            objective = Valley(spoilt=lambda w, loss: loss if np.array_equal(w, start) else value)
            optimizer = HessianFree(damping=0.1, line_search=5)
            theta = start.copy()
            state = optimizer.init(theta)
            report = optimizer.step(objective, theta, state)
            assert np.array_equal(theta, start)
            assert report.scale == 0
            assert "rejected" in str(report)
            assert state["damping"][0] == pytest.approx(0.15)
            assert not state["direction"].any()


def test_damping_follows_the_reduction_ratio() -> None:
    """× 3/2 where ρ < 1/4 or is no number, × 2/3 where ρ > 3/4: of λ, or by Krause's rule of μ alone. The objective is
    asked for μ itself then: in Sutskever's for λ μ, or for none."""
    objective = Valley(quartic=0.05)
    run(objective, HessianFree(damping=0.1, structural=0.5), 1)
    run(objective, HessianFree(damping=0.1), 1)
    assert objective.weights == [pytest.approx(0.05), 0.0]
    _, reports = run(objective, HessianFree(damping=0.1, structural=0.5, adapts="structural"), 6)
    assert {report.damping for report in reports} == {0.1}
    assert objective.weights[2] == 0.5
    assert len(set(objective.weights[2:])) > 1
    for now, then in itertools.pairwise(reports):
        factor = 1.5 if now.ratio < 0.25 or not now.scale else 1 / 1.5 if now.ratio > 0.75 else 1.0
        assert then.structural == pytest.approx(now.structural * factor)
    factors = {-math.inf: 1.5, 0.24: 1.5, 0.26: 1.0, 0.74: 1.0, 0.76: 2 / 3, 5: 2 / 3, math.nan: 1.5}
    for ratio, factor in factors.items():
        state = {"damping": np.array([0.5])}
        HessianFree(damping=0.5)._adapt(state, ratio)
        assert state["damping"][0] == pytest.approx(0.5 * factor), ratio


def test_augmented_directions_are_conjugate() -> None:
    """φ is minimal over the last direction and the Krylov space."""
    a, b = system(12)
    c = np.linspace(-1, 2, 12)
    found = list(itertools.islice(conjugate_directions(lambda v: a @ v, b, augment=c), 7))
    steps = np.array([d.step for d in found[1:]])
    products = steps @ a @ steps.T
    assert np.allclose(products - np.diag(np.diag(products)), 0, atol=1e-9)
    assert abs(c @ steps[0]) == pytest.approx(np.linalg.norm(c) * np.linalg.norm(steps[0]))
    shadow = a @ c / (c @ a @ c)
    residual = b - (b @ c) * shadow
    basis = [c, residual]
    for _ in range(4):
        v = basis[-1] - (shadow @ basis[-1]) * c
        basis.append(a @ v - (a @ v @ c) * shadow)
    q = np.linalg.qr(np.array(basis).T)[0]
    best = q @ np.linalg.solve(q.T @ a @ q, q.T @ b)
    assert np.allclose(found[-1].x, best, atol=1e-8)
    assert found[-1].value == pytest.approx(best @ a @ best / 2 - b @ best)


def test_line_search_requires_sufficient_decrease() -> None:
    """The condition is f(θ + α δ) ≤ f(θ) + 0.01 α gᵀδ."""
    start, plain = np.full(6, 9.0), Valley()
    before, g = plain.gradient(start)
    delta = conjugate_gradient(lambda v: plain.hessian @ v, -g, tolerance=0, max_steps=6).x

    def spoilt(w: Array, loss: float) -> float:
        """Along δ hardly less than before, for lengths above 0.7."""
        along = float((w - start) @ delta / (delta @ delta))
        return before + 0.005 * float(g @ delta) * along if along > 0.7 else loss

    optimizer = HessianFree(damping=1e-12, tolerance=0, cg_steps=6, backtrack=False, retained=0)
    _, (report,) = run(Valley(spoilt=spoilt), optimizer, 1)
    assert report.scale == pytest.approx(0.64)


def test_preconditioner_is_a_power_of_squared_gradients_and_damping() -> None:
    scales = np.array([1.0, 30.0, 4.0, 0.2, 9.0, 100.0])
    objective: Any = Valley()
    objective.squared_gradients = lambda w: scales
    _, (report,) = run(objective, HessianFree(damping=0.5, preconditioner=0.6, cg_steps=3, retained=0), 1)
    g = objective.gradient(np.full(6, 9.0))[1]
    expected = conjugate_gradient(
        lambda v: objective.hessian @ v + 0.5 * v, -g, max_steps=3, preconditioner=(scales + 0.5) ** 0.6
    )
    assert report.cg_values == pytest.approx(expected.values)


class Line:
    """In one dimension: the loss, its slope, its curvature."""

    def __init__(self, loss: Any, slope: Any, bend: float = 1.0) -> None:
        self.loss, self.slope, self.bend = loss, slope, bend

    def gradient(self, w: Array) -> tuple[float, Array]:
        return self.loss(w), self.slope(w)

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        return lambda v: self.bend * np.asarray(v)


def test_number_of_halvings_is_bounded() -> None:
    """The loss falls more for shorter steps: the shortest step is tried and taken."""
    cusp = Line(lambda w: 1.0 if w[0] == 1 else abs(float(w[0]) - 1.0) - 1.0, np.ones_like)
    for halvings in (0, 1, 4):
        optimizer, theta = GreedyHessianFree(halvings=halvings), np.ones(1)
        report = optimizer.step(cusp, theta, optimizer.init(theta))
        assert report.step_norm == 0.5**halvings


def test_products_are_counted() -> None:
    """Includes products for warm starts."""
    for kind in [HessianFree, GreedyHessianFree, AugmentedHessianFree]:
        with named(kind):
            calls: list[int] = []

            class Counting(Valley):
                def curvature(self, w, structural=0.0):
                    product = super().curvature(w, structural)
                    return lambda v: (calls.append(1), product(v))[1]

            optimizer, theta = kind(cg_steps=3), np.full(6, 9.0)
            state = optimizer.init(theta)
            for _ in range(4):
                calls.clear()
                report = optimizer.step(Counting(quartic=0.05), theta, state)
                assert report.products == len(calls) >= report.cg_steps


def test_steps_at_a_minimum_change_nothing() -> None:
    """The loss is not evaluated repeatedly, and the damping is unchanged."""
    for kind in [HessianFree, GreedyHessianFree, AugmentedHessianFree]:
        with named(kind):
            evaluated: list[float] = []
            objective = Valley(spoilt=lambda w, loss: (evaluated.append(loss), loss)[1])
            optimizer, theta = kind(), np.arange(6.0)
            state = optimizer.init(theta)
            before = copy.deepcopy(state)
            assert not optimizer.step(objective, theta, state).taken
            assert len(evaluated) < 5
            assert all(np.array_equal(state[name], before[name]) for name in state)


def test_non_finite_loss_on_a_separate_batch_is_reported() -> None:
    class Apart(Valley):
        def gradient(self, w: Array) -> tuple[float, Array]:
            return 1.0, super().gradient(w)[1]

    for value in [math.nan, math.inf]:
        theta, (report,) = run(Apart(spoilt=lambda w, loss: value), HessianFree(), 1)
        assert not math.isfinite(report.loss)
        assert (theta == 9).all()


def test_overflowing_steps_are_shortened() -> None:
    """float32 weights and a nearly flat model: no warning, and a finite step."""
    flat = Line(lambda w: float(np.sum(np.square(w, dtype=np.float64))), lambda w: 2 * w, 1e-39)
    theta, optimizer = np.ones(3, np.float32), HessianFree(adapts="nothing", damping=0)
    report = optimizer.step(flat, theta, optimizer.init(theta))
    assert np.isfinite(theta).all()
    assert report.after <= report.before


def test_directions_without_curvature_are_not_used_to_augment() -> None:
    """Without curvature along the direction, or with an underflowing square."""

    def iterates(a: Array, b: Array, augment: Array | None = None) -> list[Array]:
        return [d.x for d in itertools.islice(conjugate_directions(lambda v: a @ v, b, augment=augment), 3)]

    assert len(iterates(np.eye(3), np.full(3, 1e-170))) == 1
    flat = np.diag([3.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.0])
    assert np.array_equal(iterates(*flat), iterates(*flat, np.array([0.0, 0.0, 1.0])))
    assert np.array_equal(iterates(*flat), iterates(*flat, np.full(3, 1e-170)))


def test_augmented_steps_where_the_model_is_exact() -> None:
    """On a quadratic, coefficients match CG; the previous δ comes first, with its best length."""
    optimizer, objective = AugmentedHessianFree(tolerance=0, cg_steps=3), Valley()
    theta = np.full(6, 9.0)
    state = optimizer.init(theta)
    first = theta.copy()
    optimizer.step(objective, theta, state)
    last, second = theta - first, theta.copy()
    assert np.allclose(state["direction"], last)
    optimizer.step(objective, theta, state)
    g = objective.gradient(second)[1]
    found = conjugate_directions(lambda v: objective.hessian @ v, -g, augment=last)
    directions = list(itertools.islice(found, 4))
    assert np.allclose(theta, second + directions[3].x)


def test_augmented_steps_correct_wrong_curvature_and_sign() -> None:
    """f = ½ w² with a curvature wrong by the factor `model`, or a gradient of the wrong sign."""
    for model in [4.0, 0.25, -1.0]:
        with named(model):
            line = Line(lambda w: 0.5 * float(w[0] ** 2), lambda w: w * math.copysign(1, model), abs(model))
            optimizer, theta = AugmentedHessianFree(line_search=0), np.array([3.0])
            report = optimizer.step(line, theta, optimizer.init(theta))
            assert report.step_norm == pytest.approx(3.0)
            assert theta[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", [HessianFree, GreedyHessianFree])
def test_metric_as_preconditioner(kind: Any) -> None:
    """Fewer products for the same losses."""
    draws = np.random.default_rng(3)
    x = (draws.integers(0, 12, 32) + np.arange(16)[:, None] * draws.integers(1, 4, 32)) % 12

    def run_of(preconditioner: Any) -> Any:
        network = rnn.Network([rnn.LSTM(12)], 12, 12, dtype="float64", seed=1)
        u = network.unroll(15, 32, initial="zero")
        objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets])
        objective.feed(x[:-1], x[1:])
        optimizer = kind(preconditioner=preconditioner, damping=0.1, cg_steps=60)
        return rnn.minimize(objective, optimizer, steps=12)

    plain, whole = run_of(0.0), run_of("kfac")
    products = [sum(report.products for report in each.reports) for each in (whole, plain)]
    assert products[0] < (0.95 if kind is HessianFree else 1.05) * products[1]
    assert whole.loss < 1.05 * plain.loss


def test_greedy_steps_never_raise_the_loss() -> None:
    """Each direction is shortened while that reduces the loss, as in Krause's algorithm 5."""
    optimizer, objective = GreedyHessianFree(tolerance=0, cg_steps=4), Valley(quartic=0.5)
    objective.curvature = lambda w, structural=0.0: lambda v: objective.hessian @ v
    theta, (report,) = run(objective, optimizer, 1)
    start = np.full(6, 9.0)
    curvature, (_, g) = objective.curvature(start), objective.gradient(start)
    delta, loss = np.zeros(6), objective.loss(start)
    shortened = 0
    for direction in list(conjugate_directions(curvature, -g))[1:5]:
        losses = [objective.loss(start + delta + 0.5**k * direction.step) for k in range(11)]
        k = next((k for k in range(10) if losses[k] < loss and losses[k + 1] >= losses[k]), None)
        if k is not None:
            delta, loss = delta + 0.5**k * direction.step, losses[k]
            shortened += k > 0
    assert shortened
    assert np.allclose(theta, start + delta, rtol=1e-9)
    assert report.after == pytest.approx(loss)
    theta, reports = run(Valley(quartic=0.5), GreedyHessianFree(), 12)
    assert np.allclose(theta, np.arange(6), atol=1e-2)
    assert all(b.after <= a.after for a, b in itertools.pairwise(reports))


def test_rosenbrock_in_nodes() -> None:
    """As squared errors, with the G of least squares (Gauss)."""
    for optimizer in [HessianFree(damping=1e-3), GreedyHessianFree(), AugmentedHessianFree()]:
        with named(optimizer):
            result = rnn.minimize(rosenbrock(), optimizer, steps=200, tolerance=1e-9)
            assert np.allclose(result.theta, 1, atol=1e-6)


def test_invalid_arguments_are_rejected() -> None:
    u = rnn.Network([rnn.Elman(2)], 3, 3).unroll(2, 1, initial="zero")
    fed = [u.inputs, u.targets]
    twice = lambda: rnn.Objective(u.cost, u.network.parameters, fed, structure=2 * list(u.structure))
    settings = [
        {"damping": -1}, {"damping": math.inf}, {"structural": -1}, {"cg_steps": 0}, {"tolerance": -1}, {"window": 0},
        {"warm_start": 1.5}, {"line_search": -1}, {"rate": 0}, {"retained": 1.0}, {"preconditioner": 2},
        {"adapts": "lambda"}, {"adapts": "structural"}, {"damping": 0}, {"preconditioner": "nothing"},
    ]  # fmt: skip
    cases = [(lambda given=given: HessianFree(**given), next(iter(given))) for given in settings]
    for given in [{"max_steps": 0}, {"window": 0}, {"tolerance": -1}, {"residual": math.nan}]:
        cases.append((lambda given=given: conjugate_gradient(lambda v: v, np.ones(2), **given), "max_steps"))
    cases.append((lambda: run(Valley(), HessianFree(preconditioner="kfac"), 1), "objective with a metric"))
    cases.append((twice, "lists .* twice"))
    for call, words in cases:
        with named(words), pytest.raises(UsageError, match=words):
            call()
