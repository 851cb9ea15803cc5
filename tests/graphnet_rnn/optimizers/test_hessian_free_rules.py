"""Rules of Hessian-free steps on simple losses; line searches against published tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from graphnet.graph.node import Array
from graphnet_rnn.optimizers import AugmentedHessianFree, GreedyHessianFree, HessianFree, conjugate_gradient
from graphnet_rnn.optimizers.conjugate_gradient import conjugate_directions
from graphnet_rnn.optimizers.line_search import LineSearch, Wolfe
from tests.tables import case

SIZE = 24


class Quadratic:
    """The model is ½ δᵀA δ - bᵀδ at every point. The loss is `loss_of(c)`, with δ = Σ cᵢ (CG's step i).

    Steps of CG are conjugate, so cᵢ is found from δ alone: after i steps of CG it is 1 up to i and 0 beyond.
    """

    def __init__(self, loss_of: Callable[[Array], float]) -> None:
        generator = np.random.default_rng(2)
        self.A = np.diag(np.geomspace(0.5, 60, SIZE))
        self.b = generator.standard_normal(SIZE)
        directions = itertools.islice(conjugate_directions(lambda v: self.A @ v, self.b), 13)
        self.iterates = [d.x for d in directions]
        self.steps = np.diff(self.iterates, axis=0)
        self.loss_of = loss_of

    def loss(self, w: Array) -> float:
        lengths = ((self.steps @ self.A) * self.steps).sum(1)
        return self.loss_of(self.steps @ self.A @ w / lengths)

    def gradient(self, w: Array) -> tuple[float, Array]:
        return self.loss(w), self.A @ w - self.b

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        return lambda v: self.A @ v


def first_step(objective: Any, optimizer: HessianFree, start: Array | None = None) -> Any:
    """Makes one step from 0. start: direction of the step before."""
    theta = np.zeros(SIZE)
    state = optimizer.init(theta)
    if start is not None:
        state["direction"][:] = start
    return optimizer.step(objective, theta, state)


def by_iterate(reductions: Mapping[int, float], before: float = 100.0) -> Callable[[Array], float]:
    """A loss that CG's iterates with these numbers reduce by these amounts."""
    return lambda c: before - reductions.get(round(float(c.sum())), 0.0)


def test_cg_backtracks_after_losing_a_tenth_of_the_reduction() -> None:
    """The tenth refers to the largest reduction so far, not the last one (Sutskever 2013, 4.4)."""
    for third, ends in [(9.1, False), (8.9, True)]:
        with case(third, ends):
            objective = Quadratic(by_iterate({1: 10.0, 2: 9.5, 3: third, 4: 9.2, 6: 9.2, 8: 9.2}))
            report = first_step(objective, HessianFree(damping=1e-12, tolerance=0, cg_steps=8))
            assert (report.cg_reason, report.cg_steps) == (("loss", 3) if ends else ("limit", 8))
            assert report.chosen == 1


def test_krauses_rule_counts_good_and_bad_iterates() -> None:
    """μ is updated by ρ at each iterate; CG ends when μ has tripled (Krause 2015, 4.1)."""
    seen = [1, 2, 3, 4, 6, 8, 11]  # the iterates that are kept
    cases = [
        ([0.1, 0.1, 0.1, 0.5, 0.5], 3),  # 1.5³ > 3
        ([0.5, 0.1, 0.1, 0.1, 0.5], 4),
        ([0.1, 0.1, 0.5, 0.1, 0.5], 4),  # not in a row
        ([0.9, 0.1, 0.1, 0.1, 0.1, 0.5], 6),  # good iterates count against bad ones
        ([0.9, 0.1, 0.1, 0.1, 0.9, 0.5], 0),
    ]
    for quotients, steps in cases:
        with case(quotients, steps):
            objective = Quadratic(lambda c: 0.0)
            found = conjugate_gradient(lambda v: objective.A @ v, objective.b, max_steps=11, tolerance=0)
            reductions = {i: -q * found.values[i] for i, q in zip(seen, quotients, strict=False)}
            objective.loss_of = by_iterate(reductions)
            krause = {"structural": 0.5, "adapts": "structural", "cg_steps": seen[len(quotients) - 1]}
            report = first_step(objective, HessianFree(damping=1e-12, retained=0, tolerance=0, **krause))
            assert (report.cg_reason == "ratio") == bool(steps)
            assert not steps or report.cg_steps == steps


def test_krauses_rule_ignores_iterates_of_positive_model_value() -> None:
    objective = Quadratic(lambda c: 0.0)
    far = 20.0 * np.linspace(-1, 1, SIZE)
    found = conjugate_gradient(lambda v: objective.A @ v, objective.b, far, max_steps=20, tolerance=0)
    assert sum(found.values[i] > 0 for i, _ in found.kept) >= 3, "enough to end it, if the loss only rises"

    def loss_of_nearest(w: Array) -> float:
        """The model's value at iterates where it is negative; a large loss elsewhere."""
        if not w.any():
            return 0.0
        step = min(found.kept, key=lambda kept: float(np.linalg.norm(kept[1] - w)))[0]
        return found.values[step] if found.values[step] < 0 else 1e3

    objective.loss = loss_of_nearest
    krause = {"structural": 0.5, "adapts": "structural", "cg_steps": 20, "warm_start": 1}
    report = first_step(objective, HessianFree(damping=1e-13, retained=0, tolerance=0, **krause), far)
    assert (report.cg_reason, report.cg_steps) == ("limit", 20)


def test_warm_start_is_a_share_of_the_last_cg_iterate() -> None:
    """The warm start is a share of CG's last iterate, not of the chosen one (Martens 2010, 4.5 and 4.6)."""
    for share, settings in [(0.95, {}), (0.0, {"warm_start": 0.0}), (0.5, {"warm_start": 0.5})]:
        with case(share):
            objective = Quadratic(by_iterate({2: 9.0, 4: 7.0}))
            settings |= {"damping": 1e-12, "adapts": "nothing", "tolerance": 0, "retained": 0, "cg_steps": 4}
            optimizer = HessianFree(**settings)
            theta = np.zeros(SIZE)
            state = optimizer.init(theta)
            report = optimizer.step(objective, theta, state)
            assert (report.chosen, report.cg_steps) == (2, 4)
            assert report.cg_values[0] == 0
            start, g = share * objective.iterates[4], objective.gradient(theta)[1]
            report = optimizer.step(objective, theta, state)
            assert report.cg_values[0] == pytest.approx(start @ objective.A @ start / 2 + g @ start)


def test_default_settings_match_the_publications() -> None:
    """CG's end: Martens 2010, 4.4; Sutskever 2013, 4.4. Greedy variant: Krause 2015, 4.1."""
    assert (HessianFree().warm_start, HessianFree().retained, HessianFree().tolerance) == (0.95, 0.9, 5e-4)
    assert (GreedyHessianFree().cg_steps, GreedyHessianFree().failures) == (100, 5)
    assert AugmentedHessianFree().warm_start == 1


def test_greedy_step_is_halved_until_the_loss_falls() -> None:
    """Halving continues even if the loss rises, until it is below the starting loss (Krause 2015, alg. 5)."""
    along = {1.0: 5.0, 0.5: 6.0, 0.25: -0.5, 0.125: -0.4}
    objective = Quadratic(lambda c: along.get(round(float(c[0]), 9), 0.0))
    report = first_step(objective, GreedyHessianFree(cg_steps=1))
    assert report.after == pytest.approx(-0.5)
    assert report.step_norm == pytest.approx(0.25 * np.linalg.norm(objective.steps[0]))


def test_failures_are_counted_over_the_whole_step() -> None:
    """Successes do not reset the count; here each second direction raises the loss."""
    objective = Quadratic(lambda c: float(np.abs(c[1:8:2]).sum() - c[::2].sum() - c[9:].sum()))
    report = first_step(objective, GreedyHessianFree(tolerance=0, cg_steps=12, failures=2))
    assert (report.cg_reason, report.cg_steps, report.chosen) == ("failures", 6, 5)
    report = first_step(objective, GreedyHessianFree(tolerance=0, cg_steps=12, failures=4))
    assert (report.cg_reason, report.cg_steps) == ("limit", 12)


class Slope:
    """f = gᵀw, or another function of gᵀw. The model's curvature is 1, so ρ is 2 everywhere."""

    def __init__(self, steepness: float, of_change: Callable[[float], float] = float) -> None:
        self.g, self.of_change = np.full(3, steepness), of_change

    def loss(self, w: Array) -> float:
        return self.of_change(float(self.g @ w))

    def gradient(self, w: Array) -> tuple[float, Array]:
        return self.loss(w), self.g

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        return np.asarray


def test_dampings_stay_within_bounds() -> None:
    """Bounds: 1e-12 and 1e12 times the initial value. If the loss only rises, every step fails."""
    for (loss, bound), start in itertools.product([(float, 1e-12), (abs, 1e12)], [0.1, 20.0]):
        with case(bound, start):
            optimizer, theta = HessianFree(damping=start), np.zeros(3)
            state = optimizer.init(theta)
            for _ in range(90):
                optimizer.step(Slope(1e12, loss), theta, state)
                theta[:] = 0
            assert state["damping"][0] == pytest.approx(start * bound, rel=1e-9)


def test_damping_falls_if_rounding_hides_the_decrease() -> None:
    """λ falls again when the promised reduction ½|g|²/λ is below the rounding error of the loss."""
    plateau = Slope(1e-3, lambda change: 1.0)
    for kind in [HessianFree, GreedyHessianFree]:
        with case(kind):
            optimizer, theta = kind(damping=1e6, adapts="damping"), np.zeros(3)
            state = optimizer.init(theta)
            dampings = []
            for _ in range(100):
                assert not optimizer.step(plateau, theta, state).taken
                dampings.append(float(state["damping"][0]))
            turn = float(plateau.g @ plateau.g) / 2 / float(np.finfo(float).eps)
            assert turn / 1.6 < max(dampings) < 1.6 * turn < 1e6 * 1e12
            assert not math.isclose(dampings[-1], dampings[-2])


def searched(f, slope, first: float, rule: Wolfe, hidden: float = 0.0) -> tuple[LineSearch, int]:
    """Runs a line search; returns it and the number of evaluations."""
    search, asked = LineSearch(f(0.0), slope(0.0), first, rule, hidden), 0
    while not search.ended:
        step = search.step
        search.tell(f(step), slope(step))
        asked += 1
    return search, asked


def wavy(b: float = 0.01, l: float = 39.0):
    def f(a: float) -> float:
        kink = ((a - 1) ** 2 / b + b) / 2 if abs(a - 1) < b else abs(a - 1)
        return kink + 2 * (1 - b) / (l * math.pi) * math.sin(l * math.pi / 2 * a)

    def slope(a: float) -> float:
        kink = (a - 1) / b if abs(a - 1) < b else math.copysign(1, a - 1)
        return kink + (1 - b) * math.cos(l * math.pi / 2 * a)

    return f, slope


def two_kinks(b1: float, b2: float):
    """Function with two kinks, from Yanai, Ozawa & Kaneko."""
    g1, g2 = (math.sqrt(1 + b * b) - b for b in (b1, b2))

    def f(a: float) -> float:
        return g1 * math.hypot(1 - a, b2) + g2 * math.hypot(a, b1)

    def slope(a: float) -> float:
        return -g1 * (1 - a) / math.hypot(1 - a, b2) + g2 * a / math.hypot(a, b1)

    return f, slope


RATIONAL = (lambda a: -a / (a * a + 2), lambda a: (a * a - 2) / (a * a + 2) ** 2)
QUINTIC = (
    lambda a: (a + 0.004) ** 5 - 2 * (a + 0.004) ** 4,
    lambda a: 5 * (a + 0.004) ** 4 - 8 * (a + 0.004) ** 3,
)
#: Tables I to VI: function, μ, η, and (evaluations, step) for first steps of 10⁻³, 10⁻¹, 10 and 10³.
TABLES = {
    "I": (RATIONAL, 1e-3, 0.1, [(6, 1.4), (3, 1.4), (1, 10), (4, 37)]),
    "II": (QUINTIC, 0.1, 0.1, [(12, 1.6), (8, 1.6), (8, 1.6), (11, 1.6)]),
    "III": (wavy(), 0.1, 0.1, [(12, 1.0), (12, 1.0), (10, 1.0), (13, 1.0)]),
    "IV": (two_kinks(1e-3, 1e-3), 1e-3, 1e-3, [(4, 0.085), (1, 0.1), (3, 0.35), (4, 0.83)]),
    "V": (two_kinks(1e-2, 1e-3), 1e-3, 1e-3, [(6, 0.075), (3, 0.078), (7, 0.073), (8, 0.076)]),
    "VI": (two_kinks(1e-3, 1e-2), 1e-3, 1e-3, [(13, 0.93), (11, 0.93), (8, 0.92), (11, 0.92)]),
}


def test_line_searches_match_the_published_tables() -> None:
    for table, ((f, slope), c1, c2, rows) in TABLES.items():
        with case(table):
            for first, (evaluations, step) in zip((1e-3, 1e-1, 1e1, 1e3), rows, strict=True):
                search, asked = searched(f, slope, first, Wolfe(c1, c2, width=0.0, trials=30))
                assert (search.ended, asked) == ("wolfe", evaluations)
                assert search.best == pytest.approx(step, rel=0.03)
                assert f(search.best) <= f(0) + c1 * search.best * slope(0)
                assert abs(slope(search.best)) <= c2 * abs(slope(0))


LOOSE = Wolfe(c1=1e-3, c2=0.9, width=0.1)


def test_line_search_treats_non_finite_values_as_too_far() -> None:
    """(α - 2)² with a first step beyond the edge: finds the minimum, or else the edge."""
    for edge, broken, beyond in itertools.product(
        [0.3, 1.5, 3.5], ["value", "slope", "both"], [math.nan, math.inf, -math.inf]
    ):
        with case(edge, broken, beyond):

            def f(a: float) -> float:
                return beyond if a > edge and broken != "slope" else (a - 2) ** 2

            def slope(a: float) -> float:
                return beyond if a > edge and broken != "value" else 2 * (a - 2)

            for first in (4.0, 1e3, 1e9):
                search, asked = searched(f, slope, first, Wolfe(1e-4, 0.1, width=1e-3))
                assert asked <= 20
                assert 0.5 * min(edge, 2) < search.best <= edge
                assert search.ended == ("wolfe" if edge > 2 else "width") or asked == 20


def test_line_search_ends_without_a_minimum() -> None:
    """A slope of the wrong sign, a loss without a minimum, and values that overflow."""
    search, asked = searched(abs, lambda a: -1.0, 1.0, LOOSE)
    assert (search.best, search.ended, asked) == (0.0, "trials", 20)
    search, asked = searched(lambda a: -a, lambda a: -1.0, 1.0, Wolfe(1e-3, 0.9, width=0.1, trials=7))
    assert (search.ended, asked, search.best) == ("trials", 7, 1 + 4 + 16 + 64 + 256 + 1024 + 4096)
    search, asked = searched(
        lambda a: 1e308 * (2 * a - 1), lambda a: -1e308 if a < 1e-3 else 1e308, 1.0, LOOSE
    )
    assert asked <= 20
    assert np.isfinite(search.step)


def test_line_search_accepts_by_slopes_if_rounding_hides_the_decrease() -> None:
    """Values have errors of 10⁻⁶ and fall by only 10⁻⁸. A visible rise is not accepted."""
    flat, steep = lambda a: 2e-8 * (a - 1), lambda a: 2e-3 * (a - 1)
    rising = lambda by: lambda a: 1 + by * (a > 0)
    search, asked = searched(rising(1e-7), flat, 1.3, LOOSE, hidden=1e-6)
    assert (search.ended, search.best, asked) == ("slopes", 1.3, 1)
    cases = [
        (rising(1e-7), flat, 1.3, 0.0), (rising(1e-7), flat, 1.3, 1e-10), (rising(1e-5), flat, 1.3, 1e-6),
        (rising(1e-7), steep, 1.0, 1e-6),  # slopes that promise more than rounding hides
    ]  # fmt: skip
    for f, slope, first, hidden in cases:
        search, _ = searched(f, slope, first, LOOSE, hidden)
        assert search.ended in ("trials", "width")
        assert search.best == 0


def test_line_search_uses_slopes_if_rounding_hides_the_decrease() -> None:
    """Starts too far or too near. Values hide the parabola's minimum, but slopes show it."""
    for first in [3.0, 50.0, 1e-3]:
        with case(first):
            f, slope = lambda a: 1 + 1e-7 * math.sin(1e6 * a), lambda a: 2e-8 * (a - 1)
            search, asked = searched(f, slope, first, Wolfe(1e-4, 0.1, width=1e-14), 1e-6)
            assert search.ended in ("slopes", "wolfe")
            assert 0 < search.best < 2  # lower on the parabola than where it began
            assert asked <= 12
