"""Hessian-free optimisation: each step minimises a damped quadratic model of the objective by conjugate gradient."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from graphnet.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Curved, Optimizer, Report, State
from graphnet_rnn.optimizers.clipping import norm
from graphnet_rnn.optimizers.conjugate_gradient import (
    Product,
    Solution,
    conjugate_directions,
    conjugate_gradient,
    has_stalled,
)
from graphnet_rnn.settings import fraction, whole_number

__all__ = ["GreedyHessianFree", "HessianFree", "HessianFreeReport"]


@dataclass(frozen=True)
class HessianFreeReport(Report):
    """What a step did, besides the loss and the gradient's norm before it (on the gradient's batch).

    before, after: the loss. ratio: ρ = (loss at the end of CG - before) / what the model predicts there. damping,
    structural: λ, and λ μ. cg_steps, cg_reason: see Solution. cg_values: φ after each CG step. chosen: the CG step that
    was taken. scale: α, what the line search made of it; 0: the step was rejected, and θ is as it was. step_norm: |δ|.
    """

    before: float = math.nan
    after: float = math.nan
    ratio: float = math.nan
    damping: float = math.nan
    structural: float = 0.0
    cg_steps: int = 0
    cg_reason: str = ""
    cg_values: list[float] = field(default_factory=list)
    chosen: int = 0
    scale: float = 0.0
    step_norm: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        taken = f"x {self.scale:.2g}" if self.scale else "rejected"
        return (
            f"loss {self.before:.6g} -> {self.after:.6g}  rho {self.ratio:+.2f}  lambda {self.damping:.3g}"
            + (f"  mu {self.structural:.3g}" if self.structural else "")
            + f"  CG {self.chosen}/{self.cg_steps} ({self.cg_reason})  |g| {self.gradient_norm:.2g}  "
            f"|d| {self.step_norm:.2g} {taken}  {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class _Found:
    """δ, the loss after it, ρ, what the next step starts from, φ by CG step, the CG step taken, why CG ended."""

    delta: Array
    after: float
    ratio: float
    direction: Array
    values: list[float]
    chosen: int
    reason: str


@dataclass(frozen=True)
class HessianFree(Optimizer):
    """δ ≈ argmin gᵀδ + ½ δᵀ(G + λ I + λ μ G_s) δ by conjugate gradient;  θ ← θ + α δ

    damping: λ at the start; ×2/3 where the model predicts well (ρ > 3/4), ×3/2 where badly (ρ < 1/4).
    structural: μ, the weight of structural damping G_s; rnn.Objective then needs structure=u.structure.
    cg_steps: the most of a step; tolerance, window: CG's stop, see conjugate_gradient. warm_start: CG starts from so
    much of the last δ. backtrack: choose among CG's iterates by the loss. rate: the first α; line_search: how often at
    most it is multiplied by 0.8.
    Steps that do not reduce the loss, or make it infinite, are not taken: λ then grows, and CG starts cold.
    Source: Martens 2010; Sutskever 2013, algorithm 5, eq. 4.3; Krause 2015, 3.3 and 4.1.
    """

    rate: float = 1.0
    damping: float = 0.1
    structural: float = 0.0
    cg_steps: int = 250
    tolerance: float = 5e-4
    window: int = 10
    warm_start: float = 0.95
    backtrack: bool = True
    line_search: int = 60

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.damping) and self.damping >= 0):
            raise UsageError(f"HessianFree: damping must be >= 0, not {self.damping!r}")
        if not (math.isfinite(self.structural) and self.structural >= 0):
            raise UsageError(f"HessianFree: structural must be >= 0, not {self.structural!r}")
        whole_number("HessianFree: cg_steps", self.cg_steps)
        whole_number("HessianFree: window", self.window)
        whole_number("HessianFree: line_search", self.line_search, least=0)
        if not self.tolerance >= 0:
            raise UsageError(f"HessianFree: tolerance must be >= 0, not {self.tolerance!r}")
        if self.warm_start != 1:
            fraction("HessianFree: warm_start", self.warm_start)

    def init(self, theta: Array) -> State:
        return {"direction": np.zeros(theta.shape), "damping": np.array([self.damping])}

    def step(
        self, objective: Curved, theta: Array, state: State, rate: float | None = None
    ) -> HessianFreeReport:
        started = time.perf_counter()
        damping = float(state["damping"][0])
        loss, g = objective.gradient(theta)
        length = norm(g)
        if not (np.isfinite(loss) and np.isfinite(length)):
            return HessianFreeReport(loss, length, damping=damping)
        weight = self.structural * (damping or 1.0)
        curvature = objective.curvature(theta, weight) if weight else objective.curvature(theta)

        def damped(v: Array) -> Array:
            return np.asarray(curvature(v), np.float64) + damping * v

        before = objective.loss(theta)
        b, start = -np.asarray(g, np.float64), self.warm_start * state["direction"]
        found = self._solved(objective, theta, damped, b, start, before)
        first = self.rate if rate is None else rate
        scale, after = self._searched(objective, theta, found, b, before, first)
        self._adapt(state, found.ratio, scale)
        state["direction"][...] = found.direction if scale else 0.0
        if scale:
            theta += (scale * found.delta).astype(theta.dtype)
        return HessianFreeReport(
            loss, length, before, after, found.ratio, damping, weight, len(found.values) - 1, found.reason,
            found.values, found.chosen, scale, float(np.linalg.norm(found.delta)), time.perf_counter() - started,
        )  # fmt: skip

    def _solved(
        self, objective: Curved, theta: Array, damped: Product, b: Array, start: Array, before: float
    ) -> _Found:
        """The step that the quadratic model asks for, and how well the model predicted."""
        solution = conjugate_gradient(
            damped, b, start, max_steps=self.cg_steps, tolerance=self.tolerance, window=self.window
        )
        chosen, delta, after = self._chosen(objective, theta, solution)
        full = after if chosen == solution.steps else self._loss(objective, theta, solution.x)
        predicted = solution.values[-1] if solution.values else 0.0
        ratio = (full - before) / predicted if predicted else math.nan
        return _Found(delta, after, ratio, solution.x, solution.values or [0.0], chosen, solution.reason)

    def _chosen(self, objective: Curved, theta: Array, solution: Solution) -> tuple[int, Array, float]:
        """The last of CG's iterates, or an earlier one, going back while the loss falls (Martens 2010, 4.6)."""
        if not solution.kept:
            return 0, np.zeros(theta.shape), math.inf
        (steps, delta), *earlier = reversed(solution.kept)
        best = self._loss(objective, theta, delta)
        for i, candidate in earlier if self.backtrack else ():
            found = self._loss(objective, theta, candidate)
            if not found < best and math.isfinite(best):
                break
            steps, delta, best = i, candidate, found
        return steps, delta, best

    def _searched(
        self, objective: Curved, theta: Array, found: _Found, b: Array, before: float, first: float
    ) -> tuple[float, float]:
        """The first α = first · 0.8ⁱ with f(θ + α δ) ≤ f(θ) + 0.01 α gᵀδ, and the loss there; 0 if there is none."""
        slope = min(-float(b @ found.delta), 0.0)
        scale, after = first, found.after
        for i in range(self.line_search + 1):
            if i or scale != 1:
                after = self._loss(objective, theta, scale * found.delta)
            if after < before and after <= before + 0.01 * scale * slope:
                return scale, after
            scale *= 0.8
        return 0.0, before

    def _adapt(self, state: State, ratio: float, scale: float) -> None:
        """The rule of Levenberg and Marquardt (Sutskever 2013, 4.2.1)."""
        if not scale or not ratio >= 0.25:
            state["damping"] *= 1.5
        elif ratio > 0.75:
            state["damping"] /= 1.5

    @staticmethod
    def _loss(objective: Curved, theta: Array, delta: Array) -> float:
        value = objective.loss(theta + delta.astype(theta.dtype))
        return value if math.isfinite(value) else math.inf


@dataclass(frozen=True)
class GreedyHessianFree(HessianFree):
    """δ = Σ_i ε_i α_i p_i: CG's steps α_i p_i in the quadratic model, each shortened to what lowers the loss itself

    Line-search damping: each direction is conjugate to those before it, so how far to go along it can be judged alone.
    ε_i is 1, times `shrink` as long as that lowers the loss, `halvings` times at most; a direction that never beats the
    loss before it is left out, and CG ends after more than `failures` of these. The last δ, from which CG starts, is
    judged in the same way. damping: a fixed λ, 0 by default, since the line searches damp.
    Source: Krause 2015, 3.3.3.2, eqs 3.31-3.32, algorithm 5 and 4.1; after augmented Hessian-free, Sutskever 2013, 6.2.
    """

    damping: float = 0.0
    cg_steps: int = 100
    shrink: float = 0.5
    halvings: int = 10
    failures: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.shrink < 1:
            raise UsageError(f"GreedyHessianFree: shrink must be in (0, 1), not {self.shrink!r}")
        whole_number("GreedyHessianFree: halvings", self.halvings, least=0)
        whole_number("GreedyHessianFree: failures", self.failures)

    def _solved(
        self, objective: Curved, theta: Array, damped: Product, b: Array, start: Array, before: float
    ) -> _Found:
        delta, loss, failed, chosen, reason = np.zeros(theta.shape), before, 0, 0, "solved"
        values: list[float] = []
        for i, direction in enumerate(conjugate_directions(damped, b, start)):
            if i and not direction.curvature > 0:
                reason = "curvature" if math.isfinite(direction.curvature) else "not finite"
                break
            values.append(direction.value)
            step = direction.step if i else direction.x
            if step.any():
                share, loss = self._shortened(objective, theta, delta, step, loss)
                delta = delta + share * step
                chosen = i if share else chosen
                failed += not share
            if failed > self.failures:
                reason = "failures"
            elif has_stalled(values, self.tolerance, self.window):
                reason = "progress"
            elif i == self.cg_steps:
                reason = "limit"
            else:
                continue
            break
        predicted = values[-1] if values else 0.0
        ratio = (loss - before) / predicted if predicted else math.nan
        return _Found(delta, loss, ratio, delta, values or [0.0], chosen, reason)

    def _shortened(
        self, objective: Curved, theta: Array, delta: Array, step: Array, loss: float
    ) -> tuple[float, float]:
        """ε, and the loss at δ + ε step; 0, and the loss as it was, where no ε that is tried lowers it."""
        share, best = 1.0, self._loss(objective, theta, delta + step)
        for _ in range(self.halvings):
            found = self._loss(objective, theta, delta + self.shrink * share * step)
            if not found < best and best < loss:
                break
            share, best = self.shrink * share, found
        return (share, best) if best < loss else (0.0, loss)

    def _adapt(self, state: State, ratio: float, scale: float) -> None:
        """λ stays: the line searches damp."""
