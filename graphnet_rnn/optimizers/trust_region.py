"""TrustRegion: steps to the minimum of a quadratic model within a ball, whose shape a metric may give."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Optimizer, State
from graphnet_rnn.optimizers.conjugate_gradient import Direction, conjugate_directions
from graphnet_rnn.optimizers.hessian_free import HessianFreeReport
from graphnet_rnn.optimizers.quadratic_model import BAD, GOOD, QuadraticModel
from graphnet_rnn.optimizers.vectors import double, inner, norm
from graphnet_rnn.riemannian.metrics import Metric, as_metric
from graphnet_rnn.settings import amount, fraction, whole_number

__all__ = ["TrustRegion", "TrustRegionReport"]

#: What Δ is multiplied by where the model predicts badly, and where it predicts well up to the border.
CUT, GROWTH = 0.25, 2.0


@dataclass(frozen=True)
class TrustRegionReport(HessianFreeReport):
    """As of Hessian-free; radius: Δ; length: ‖δ‖_M; scale: 1, or 0 of a step that was not taken.

    cg_reason: "boundary", "curvature" (the model falls all the way to the boundary), "solved", "limit" or "not finite".
    """

    radius: float = math.nan
    length: float = math.nan

    def __str__(self) -> str:
        rho = "none (no fall predicted)" if math.isnan(self.ratio) else f"{self.ratio:+.2f}"
        return (
            f"loss {self.before:.6g} -> {self.after:.6g}  rho {rho}  radius {self.radius:.3g}  length {self.length:.3g}"
            f"  CG {self.cg_steps} ({self.cg_reason})  |g| {self.gradient_norm:.2g}"
            f"{'' if self.taken else '  rejected'}  {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class TrustRegion(Optimizer):
    """δ = argmin gᵀδ + ½ δᵀG δ, δᵀM δ ≤ Δ², by conjugate gradient;  θ ← θ + δ where the loss falls as predicted

    metric: M, see rnn.riemannian, or the name of one ("kfac", "qdruop", ...); the identity by default. damping: λ,
    M + λ I is taken, besides the metric's own. radius: Δ at the start; × 1/4 where the model predicts badly (ρ < 1/4),
    × 2 where well (ρ > 3/4) and the step reaches the boundary, up to `largest`. least_ratio: the smallest ρ with which
    a step is taken. cg_steps: the most of a step. Conjugate gradient, which M preconditions, starts from 0, so its
    iterates leave the ball once at most, and ends there, or where |r| < min(½, √|g|) |g|, r = g + G δ,
    both measured by M⁻¹.
    Of G alone, in exact arithmetic, this takes the steps of SciPy's trust-ncg.
    Source: Steihaug 1983; in a metric, Conn, Gould & Toint 2000, 7.5.1; radius, Nocedal & Wright 2006, algorithm 4.1.
    """

    metric: Metric | None = None
    radius: float = 1.0
    largest: float = 1000.0
    damping: float = 0.0
    least_ratio: float = 0.15
    cg_steps: int = 250

    curved: ClassVar[bool] = True

    def __post_init__(self) -> None:
        own = "TrustRegion"
        if self.metric is not None:
            object.__setattr__(self, "metric", as_metric(own, self.metric))
        for name in ("radius", "largest"):
            object.__setattr__(self, name, amount(f"{own}: {name}", getattr(self, name), above_zero=True))
        if self.radius > self.largest:
            raise UsageError(f"{own}: radius, {self.radius:g}, must be at most largest, {self.largest:g}")
        object.__setattr__(self, "damping", amount(f"{own}: damping", self.damping))
        object.__setattr__(self, "least_ratio", fraction(f"{own}: least_ratio", self.least_ratio))
        object.__setattr__(self, "cg_steps", whole_number(f"{own}: cg_steps", self.cg_steps))

    def init(self, theta: Array, objective: Any = None) -> State:
        """radius: Δ; steps: how many there were, so that metrics that draw draw anew at each."""
        return {"radius": np.array([self.radius]), "steps": np.zeros(1, np.int64)}

    def settings(self) -> dict[str, Any]:
        own = super().settings()
        return own | {"metric": None if self.metric is None else self.metric.description()}

    def step(
        self, objective: Any, theta: Array, state: State, rate: float | None = None
    ) -> TrustRegionReport:
        """rate: takes the place of the largest radius, as a share of it."""
        started = time.perf_counter()
        radius = amount("TrustRegion.step: radius in state", float(state["radius"][0]))
        loss, g, preconditioner = self._gradient(objective, theta, int(state["steps"][0]))
        length = norm(g)
        if not (math.isfinite(loss) and math.isfinite(length)):
            return TrustRegionReport(loss, length, radius=radius)
        before = objective.loss(theta)
        if not math.isfinite(before):
            return TrustRegionReport(before, length, before, radius=radius)
        model = QuadraticModel(
            objective, theta, before, objective.curvature(theta), -double(g), 0.0, preconditioner
        )
        found = _within(model, radius, self.cg_steps)
        after = model.loss(found.delta)
        ratio = model.ratio(after, found.values[-1])
        taken = ratio > self.least_ratio and bool(found.delta.any()) and after <= before
        if length:
            self._adapt(state, ratio, found.at_boundary, self.largest * (1.0 if rate is None else rate))
        state["steps"][0] += 1
        if taken:
            theta += found.delta.astype(theta.dtype)
        return TrustRegionReport(
            loss, length, before, after if taken else before, ratio, math.nan, 0.0, len(found.values) - 1,
            found.reason, found.values, len(found.values) - 1, float(taken), norm(found.delta),
            found.products, time.perf_counter() - started, 1 + len(model.tried), radius, found.length,
        )  # fmt: skip

    def _gradient(self, objective: Any, theta: Array, draw: int) -> tuple[float, Array, Any]:
        """The loss, its gradient, and r ↦ (M + λ)⁻¹ r."""
        if self.metric is None:
            scale = 1 + self.damping
            return *objective.gradient(theta), None if scale == 1 else np.full(theta.shape, scale)
        if not hasattr(objective, "metric"):
            raise UsageError(f"TrustRegion asks an objective for its metric, which {objective!r:.50} has not")
        loss, g, numbers = objective.metric(theta, self.metric, "all", draw)
        if not (math.isfinite(loss) and math.isfinite(norm(g))):
            return loss, g, None
        return loss, g, objective.metric_solver(self.metric, "all", numbers, self.damping)

    @staticmethod
    def _adapt(state: State, ratio: float, at_boundary: bool, largest: float) -> None:
        if not ratio >= BAD:
            state["radius"][0] *= CUT
        elif ratio > GOOD and at_boundary:
            state["radius"][0] = min(GROWTH * state["radius"][0], largest)


@dataclass(frozen=True)
class _Found:
    """δ, φ after each of CG's steps, why it ended, ‖δ‖_M and how many products it took."""

    delta: Array
    values: list[float]
    reason: str
    length: float
    products: int

    @property
    def at_boundary(self) -> bool:
        return self.reason in ("boundary", "curvature")


def _within(model: QuadraticModel, radius: float, cg_steps: int) -> _Found:
    """The model's minimum along CG's path from 0, or where that leaves the ball."""
    steps: Iterator[Direction] = conjugate_directions(
        model.product, model.b, None, model.preconditioner, damping=model.damping
    )
    x, values, reason = next(steps).x, [0.0], "solved"
    xx = xp = pp = begun = 0.0  # in M: δᵀδ, δᵀp and pᵀp
    last: Direction | None = None
    for count, step in enumerate(steps, 1):
        if last is not None:
            beta = step.slopes[0] / last.slopes[0]
            xp, pp = beta * (xp + last.alpha * pp), beta * beta * pp
        pp += step.slopes[0]
        if math.isnan(step.curvature) or not math.isfinite(step.value):
            return _Found(x, values, "not finite", math.sqrt(xx), count)
        ahead = xx + step.alpha * (2 * xp + step.alpha * pp)
        if step.curvature <= 0 or ahead >= radius * radius:
            tau = (math.sqrt(xp * xp + pp * (radius * radius - xx)) - xp) / pp
            bend = step.curvature * inner(step.p, step.p)
            values.append(values[-1] - tau * step.slopes[0] + 0.5 * tau * tau * bend)
            reason = "boundary" if step.curvature > 0 else "curvature"
            return _Found(x + tau * step.p, values, reason, radius, count)
        x, xx, last = step.x, ahead, step
        values.append(step.value)
        if count == 1:
            begun = math.sqrt(step.slopes[0])
        if (
            math.sqrt(max(step.slopes[1], 0.0)) < min(0.5, math.sqrt(begun)) * begun
            or step.residual <= model.rounding
        ):
            break
        if count == cg_steps:
            reason = "limit"
            break
    return _Found(x, values, reason, math.sqrt(max(xx, 0.0)), len(values) - 1)
