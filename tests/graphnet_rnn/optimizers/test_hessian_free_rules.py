"""The rules that end, shorten and start Hessian-free steps, on losses that are written down by hand."""

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
from tests.tables import case

SIZE = 24


class Quadratic:
    """Whose model is ½ δᵀA δ - bᵀδ at every point, and whose loss is what `loss_of(c)` says: δ = Σ cᵢ (CG's step i).

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
    """From 0; start: the last direction."""
    theta = np.zeros(SIZE)
    state = optimizer.init(theta)
    if start is not None:
        state["direction"][:] = start
    return optimizer.step(objective, theta, state)


def by_iterate(reductions: Mapping[int, float], before: float = 100.0) -> Callable[[Array], float]:
    """The loss where CG's iterates of these numbers reduce it by so much."""
    return lambda c: before - reductions.get(round(float(c.sum())), 0.0)


def test_an_iterate_may_lose_a_tenth_of_what_was_gained() -> None:
    """Of the largest reduction so far, not of the last one (Sutskever 2013, 4.4)."""
    for third, ends in [(9.1, False), (8.9, True)]:
        with case(third, ends):
            objective = Quadratic(by_iterate({1: 10.0, 2: 9.5, 3: third, 4: 9.2, 6: 9.2, 8: 9.2}))
            report = first_step(objective, HessianFree(damping=1e-12, tolerance=0, cg_steps=8))
            assert (report.cg_reason, report.cg_steps) == (("loss", 3) if ends else ("limit", 8))
            assert report.chosen == 1


def test_krauses_rule_counts_good_iterates_against_bad_ones() -> None:
    """μ follows ρ from iterate to iterate, and CG ends where it would be 3 times as large (Krause 2015, 4.1)."""
    seen = [1, 2, 3, 4, 6, 8, 11]  # the iterates that are kept
    cases = [
        ([0.1, 0.1, 0.1, 0.5, 0.5], 3),  # 1.5³ > 3
        ([0.5, 0.1, 0.1, 0.1, 0.5], 4),
        ([0.1, 0.1, 0.5, 0.1, 0.5], 4),  # not in a row
        ([0.9, 0.1, 0.1, 0.1, 0.1, 0.5], 6),  # what was good counts against it
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


def test_krauses_rule_does_not_count_where_cg_is_still_making_up_for_its_start() -> None:
    objective = Quadratic(lambda c: 0.0)
    far = 20.0 * np.linspace(-1, 1, SIZE)
    found = conjugate_gradient(lambda v: objective.A @ v, objective.b, far, max_steps=20, tolerance=0)
    assert (
        sum(found.values[i] > 0 for i, _ in found.kept) >= 3
    )  # enough to end it, with a loss that only rises

    def loss_of_nearest(w: Array) -> float:
        """As the model says, at iterates below 0; nothing but worse above it."""
        if not w.any():
            return 0.0
        step = min(found.kept, key=lambda kept: float(np.linalg.norm(kept[1] - w)))[0]
        return found.values[step] if found.values[step] < 0 else 1e3

    objective.loss = loss_of_nearest
    krause = {"structural": 0.5, "adapts": "structural", "cg_steps": 20, "warm_start": 1}
    report = first_step(objective, HessianFree(damping=1e-13, retained=0, tolerance=0, **krause), far)
    assert (report.cg_reason, report.cg_steps) == ("limit", 20)


def test_a_step_starts_from_a_share_of_where_cg_ended() -> None:
    """Not from the iterate that was taken, and not from what the line search left of it (Martens 2010, 4.5 and 4.6)."""
    for share, settings in [(0.95, {}), (0.0, {"warm_start": 0.0}), (0.5, {"warm_start": 0.5})]:
        with case(share):
            objective = Quadratic(by_iterate({2: 9.0, 4: 7.0}))
            optimizer = HessianFree(
                damping=1e-12, adapts="nothing", tolerance=0, retained=0, cg_steps=4, **settings
            )
            theta = np.zeros(SIZE)
            state = optimizer.init(theta)
            report = optimizer.step(objective, theta, state)
            assert (report.chosen, report.cg_steps) == (2, 4)
            assert report.cg_values[0] == 0
            start, g = share * objective.iterates[4], objective.gradient(theta)[1]
            report = optimizer.step(objective, theta, state)
            assert report.cg_values[0] == pytest.approx(start @ objective.A @ start / 2 + g @ start)


def test_what_the_sources_set() -> None:
    """Where CG ends: Martens 2010, 4.4; Sutskever 2013, 4.4. The greedy form: Krause 2015, 4.1."""
    assert (HessianFree().warm_start, HessianFree().retained, HessianFree().tolerance) == (0.95, 0.9, 5e-4)
    assert (GreedyHessianFree().cg_steps, GreedyHessianFree().failures) == (100, 5)
    assert AugmentedHessianFree().warm_start == 1


def test_a_share_is_halved_as_long_as_it_is_worse_than_none() -> None:
    """Even where that makes it worse still: only beating the loss before it ends that (Krause 2015, algorithm 5)."""
    along = {1.0: 5.0, 0.5: 6.0, 0.25: -0.5, 0.125: -0.4}
    objective = Quadratic(lambda c: along.get(round(float(c[0]), 9), 0.0))
    report = first_step(objective, GreedyHessianFree(cg_steps=1))
    assert report.after == pytest.approx(-0.5)
    assert report.step_norm == pytest.approx(0.25 * np.linalg.norm(objective.steps[0]))


def test_failures_are_counted_over_the_whole_step() -> None:
    """Whatever succeeded between them: each second direction only harms."""
    objective = Quadratic(lambda c: float(np.abs(c[1:8:2]).sum() - c[::2].sum() - c[9:].sum()))
    report = first_step(objective, GreedyHessianFree(tolerance=0, cg_steps=12, failures=2))
    assert (report.cg_reason, report.cg_steps, report.chosen) == ("failures", 6, 5)
    report = first_step(objective, GreedyHessianFree(tolerance=0, cg_steps=12, failures=4))
    assert (report.cg_reason, report.cg_steps) == ("limit", 12)


class Slope:
    """f = gᵀw, of which the model has a curvature of 1: ρ is 2 wherever it looks; or a loss of one's own."""

    def __init__(self, steepness: float, of_change: Callable[[float], float] = float) -> None:
        self.g, self.of_change = np.full(3, steepness), of_change

    def loss(self, w: Array) -> float:
        return self.of_change(float(self.g @ w))

    def gradient(self, w: Array) -> tuple[float, Array]:
        return self.loss(w), self.g

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        return np.asarray


def test_dampings_stay_within_bounds() -> None:
    """1e-12 and 1e12 times what they began with; where the loss only rises, every step fails."""
    for (loss, bound), start in itertools.product([(float, 1e-12), (abs, 1e12)], [0.1, 20.0]):
        with case(bound, start):
            optimizer, theta = HessianFree(damping=start), np.zeros(3)
            state = optimizer.init(theta)
            for _ in range(90):
                optimizer.step(Slope(1e12, loss), theta, state)
                theta[:] = 0
            assert state["damping"][0] == pytest.approx(start * bound, rel=1e-9)


def test_damping_falls_where_rounding_hides_what_a_step_does() -> None:
    """Long before any bound: λ turns where ½|g|²/λ, the promised reduction, is what the loss' last digit hides."""
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
