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
from graphnet_rnn.optimizers.conjugate_gradient import Solution, conjugate_gradient
from graphnet_rnn.settings import fraction, whole_number

__all__ = ["HessianFree", "HessianFreeReport"]


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
        if not (math.isfinite(self.damping) and self.damping > 0):
            raise UsageError(f"HessianFree: damping must be > 0, not {self.damping!r}")
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
        weight = self.structural * damping
        curvature = objective.curvature(theta, weight) if weight else objective.curvature(theta)

        def damped(v: Array) -> Array:
            return np.asarray(curvature(v), np.float64) + damping * v

        before = objective.loss(theta)
        solution = conjugate_gradient(
            damped, -np.asarray(g, np.float64), self.warm_start * state["direction"],
            max_steps=self.cg_steps, tolerance=self.tolerance, window=self.window,
        )  # fmt: skip
        chosen, delta, after = self._chosen(objective, theta, solution)
        full = after if chosen == solution.steps else self._loss(objective, theta, solution.x)
        predicted = solution.values[-1] if solution.values else 0.0
        ratio = (full - before) / predicted if predicted else math.nan
        scale, after = self._searched(
            objective, theta, delta, before, after, g, self.rate if rate is None else rate
        )
        self._adapt(state, ratio, scale)
        state["direction"][...] = solution.x if scale else 0.0
        if scale:
            theta += (scale * delta).astype(theta.dtype)
        return HessianFreeReport(
            loss, length, before, after if scale else before, ratio, damping, weight, solution.steps,
            solution.reason, solution.values, chosen, scale, float(np.linalg.norm(delta)),
            time.perf_counter() - started,
        )  # fmt: skip

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
        self,
        objective: Curved,
        theta: Array,
        delta: Array,
        before: float,
        after: float,
        g: Array,
        first: float,
    ) -> tuple[float, float]:
        """The first α = first · 0.8ⁱ with f(θ + α δ) ≤ f(θ) + 0.01 α gᵀδ, and the loss there; 0 if there is none."""
        slope = float(np.asarray(g, np.float64) @ delta)
        scale = first
        for i in range(self.line_search + 1):
            if i or scale != 1:
                after = self._loss(objective, theta, scale * delta)
            if after <= before + 0.01 * scale * min(slope, 0.0) and after < before:
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
