"""Hessian-free optimization: each step minimizes a damped quadratic model of the objective by conjugate gradient."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Curved, Optimizer, Preconditioned, Report, State
from graphnet_rnn.optimizers.conjugate_gradient import (
    Direction,
    Preconditioner,
    conjugate_directions,
    conjugate_gradient,
    has_stalled,
)
from graphnet_rnn.optimizers.quadratic_model import BAD, GOOD, QuadraticModel
from graphnet_rnn.optimizers.vectors import double, inner, norm
from graphnet_rnn.riemannian.metrics import Metric, as_metric
from graphnet_rnn.settings import Amount, Count, CountOrZero, Fraction, Positive, Share, fraction, shown

#: Lower bound of λ and μ, relative to their initial values; its inverse is the upper bound.
LEAST = 1e-12
#: Factor by which a damping grows or shrinks (Sutskever 2013, 4.2.1).
FACTOR = 1.5


@dataclass(frozen=True)
class HessianFreeReport(Report):
    """Report of a Hessian-free step, besides the loss and gradient norm before it (on the gradient's batch).

    before, after: the loss. ratio: ρ = (loss at CG's choice - before) / predicted change; NaN if no reduction is
    predicted, 1 if the predicted reduction is below rounding. (Greedy forms compare the loss at their δ with the
    prediction at CG's own.)
    damping, structural: λ, and the weight of structural damping.
    cg_steps, cg_reason: number of conjugate gradient steps, and the reason for their end. cg_values: φ at the start and
    after each step.
    chosen: the CG step taken.
    scale: α of the line search; 0 if the step was rejected and θ is unchanged.
    step_norm: |δ|.
    products: number of curvature products, including warm starts. losses: number of loss evaluations.
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
    products: int = 0
    seconds: float = 0.0
    losses: int = 0

    @property
    def taken(self) -> bool:
        return self.scale > 0

    def __str__(self) -> str:
        taken = f"x {self.scale:.2g}" if self.taken else "rejected"
        rho = "none (no fall predicted)" if math.isnan(self.ratio) else f"{self.ratio:+.2f}"
        return (
            f"loss {self.before:.6g} -> {self.after:.6g}  rho {rho}  lambda {self.damping:.3g}"
            + (f"  structural {self.structural:.3g}" if self.structural else "")
            + f"  CG {self.chosen}/{self.cg_steps} ({self.cg_reason})  |g| {self.gradient_norm:.2g}  "
            f"|d| {self.step_norm:.2g} {taken}  {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class _Found:
    """Step δ with its loss, predicted change and warm start of the next step; φ of each CG step, the chosen step, CG's
    reason to end.
    """

    delta: Array
    after: float
    predicted: float
    direction: Array
    values: list[float]
    chosen: int
    reason: str


@dataclass(frozen=True)
class CurvedOptimizer(Optimizer):
    """Base class of Hessian-free optimizers: quadratic model, damping, line search, rejected steps."""

    rate: Positive = 1.0
    damping: Amount = 0.1
    structural: Amount = 0.0
    adapts: Literal["damping", "structural", "nothing"] = "damping"
    cg_steps: Count = 250
    tolerance: Amount = 5e-4
    window: Count = 10
    warm_start: Share = 0.95
    preconditioner: float | Metric = 0.0
    line_search: CountOrZero = 60

    curved: ClassVar[bool] = True

    @property
    def needs_single_cases(self) -> bool:
        return bool(self.preconditioner) and not isinstance(self.preconditioner, Metric)

    def __post_init__(self) -> None:
        super().__post_init__()
        own = type(self).__name__
        if self.adapts == "structural" and not self.structural:
            raise UsageError(f"{own}: adapts='structural' needs structural > 0, the initial weight")
        if self.adapts == "damping" and not self.damping:
            raise UsageError(
                f"{own}: adapts='damping' needs damping > 0; for a damping of 0 give adapts='structural' or 'nothing'"
            )
        if isinstance(self.preconditioner, (str, Mapping, Metric)):
            made: Any = as_metric(own, self.preconditioner, "preconditioner must be in [0, 1], or")
        else:
            made = fraction(f"{own}: preconditioner", self.preconditioner, or_all=True)
        object.__setattr__(self, "preconditioner", made)

    def rate_at(self, state: State) -> float:
        return self.rate

    def init(self, theta: Array, objective: Any = None) -> State:
        state = {
            "direction": np.zeros_like(theta, np.float64),
            "damping": np.array([self.damping], np.float64),
        }
        if self.adapts == "structural":
            state["structural"] = np.array([self.structural], np.float64)
        if isinstance(self.preconditioner, Metric):
            state["steps"] = np.zeros(1, np.int64)  # another draw at each, for metrics that draw
        return state

    def settings(self) -> dict[str, Any]:
        own = super().settings()
        metric = self.preconditioner
        return own | ({"preconditioner": metric.description()} if isinstance(metric, Metric) else {})

    def step(
        self, objective: Curved, theta: Array, state: State, rate: float | None = None
    ) -> HessianFreeReport:
        started = time.perf_counter()
        damping, weight = self._damping(state)
        loss, g, numbers = self._gradient(objective, theta, state)
        length = norm(g)
        if not (np.isfinite(loss) and np.isfinite(length)):
            return HessianFreeReport(loss, length, damping=damping, structural=weight)
        preconditioner = self._preconditioner(objective, theta, damping, numbers)
        curvature = objective.curvature(theta, weight) if weight else objective.curvature(theta)

        products = 0

        def counted(v: Array) -> Array:
            nonlocal products
            products += 1
            return curvature(v)

        before = objective.loss(theta)
        if not np.isfinite(before):
            return HessianFreeReport(before, length, before, damping=damping, structural=weight)
        problem = QuadraticModel(
            objective, theta, before, counted, -double(g), damping, preconditioner,
            self.warm_start * state["direction"],
        )  # fmt: skip
        found = self._solved(problem)
        scale, after = self._searched(problem, found, self.rate if rate is None else rate)
        ratio = problem.ratio(found.after, found.predicted)
        if length:
            hidden = found.predicted < 0 and not problem.shows(found.predicted)
            self._adapt(state, ratio if scale or hidden else -math.inf)
        if "steps" in state:
            state["steps"][0] += 1
        state["direction"][...] = found.direction if scale else 0.0
        if scale:
            theta += (scale * found.delta).astype(theta.dtype)
        return HessianFreeReport(
            loss, length, problem.before, after, ratio, damping, weight, len(found.values) - 1, found.reason,
            found.values, found.chosen, scale, norm(found.delta), products,
            time.perf_counter() - started, 1 + len(problem.tried),
        )  # fmt: skip

    def _damping(self, state: State) -> tuple[float, float]:
        damping = float(state["damping"][0])
        if "structural" in state:
            return damping, float(state["structural"][0])
        return damping, self.structural * (damping if self.adapts == "damping" else 1.0)

    def _gradient(self, objective: Any, theta: Array, state: State) -> tuple[float, Array, Array | None]:
        if not isinstance(self.preconditioner, Metric):
            return *objective.gradient(theta), None
        if not hasattr(objective, "metric"):
            raise UsageError(
                f"{type(self).__name__}: preconditioner needs an objective with a metric, such as rnn.Objective, not "
                f"{shown(objective, 50)}"
            )
        found: tuple[float, Array, Array] = objective.metric(
            theta, self.preconditioner, "all", int(state["steps"][0])
        )
        return found

    def _preconditioner(
        self, objective: Any, theta: Array, damping: float, numbers: Array | None
    ) -> Preconditioner | None:
        if isinstance(self.preconditioner, Metric):
            found: Preconditioner = objective.metric_solver(self.preconditioner, "all", numbers, damping)
            return found
        if not self.preconditioner:
            return None
        if not isinstance(objective, Preconditioned):
            raise UsageError(
                f"{type(self).__name__}: preconditioner needs an objective with squared_gradients(w); "
                "rnn.Objective(..., single=...) has this method"
            )
        squares = double(objective.squared_gradients(theta))
        diagonal = (squares + damping) ** self.preconditioner
        return np.where(diagonal > 0, diagonal, 1.0)

    @abstractmethod
    def _solved(self, problem: QuadraticModel) -> _Found:
        """Returns the minimum of the quadratic model, and its prediction."""

    def _searched(self, problem: QuadraticModel, found: _Found, first: float) -> tuple[float, float]:
        """Returns the first α = first · 0.8ⁱ with f(θ + α δ) ≤ f(θ) + 0.01 α gᵀδ, and the loss there; 0 if there is
        none.
        """
        if not found.delta.any():
            return 0.0, problem.before
        slope = min(-inner(problem.b, found.delta), 0.0)
        scale, after = first, found.after
        for i in range(self.line_search + 1):
            if i or scale != 1:
                after = problem.loss(scale * found.delta)
            if after < problem.before and after <= problem.before + 0.01 * scale * slope:
                return scale, after
            scale *= 0.8
        return 0.0, problem.before

    def _adapt(self, state: State, ratio: float) -> None:
        """Updates the damping by the rule of Levenberg and Marquardt (Sutskever 2013, 4.2.1)."""
        if self.adapts != "nothing":
            start = getattr(self, self.adapts)
            adapted = state[self.adapts][0] * _factor(ratio)
            state[self.adapts][0] = min(max(adapted, LEAST * start), start / LEAST)


def _factor(ratio: float) -> float:
    """Returns the factor on the damping: 3/2 for a bad prediction, 2/3 for a good one."""
    return FACTOR if not ratio >= BAD else 1 / FACTOR if ratio > GOOD else 1.0


@dataclass(frozen=True)
class HessianFree(CurvedOptimizer):
    """δ ≈ argmin gᵀδ + ½ δᵀ(G + λ I + λ μ G_s) δ by conjugate gradient;  θ ← θ + α δ

    rate: first α of the line search, default 1.
    damping: λ at the start, default 0.1; × 2/3 if the model predicts well (ρ > 3/4), × 3/2 if badly (ρ < 1/4).
    structural: μ, weight of structural damping G_s, default 0. rnn.Objective then needs hidden units, see its
    `structure`.
    adapts: the damping that the rule changes. "damping", the default: λ, and so the weight λ μ of G_s (Sutskever).
    "structural": the weight of G_s is μ itself, and λ is constant (Krause); CG then also ends when the loss has left
    the model so often that μ would have tripled. "nothing": λ and the weight μ are constant.
    cg_steps: maximum number of CG iterations of a step, default 250.
    tolerance, window: stopping rule of CG, see conjugate_gradient; default 5e-4 and 10.
    warm_start: CG starts from this fraction of the last δ, default 0.95.
    preconditioner: default 0, none; p > 0 for M = (mean of g² + λ)^p over the gradients g of single cases, e.g. 0.75;
    or a metric M + λ, see rnn.riemannian, also by name ("kfac").
    line_search: maximum number of times that α is multiplied by 0.8, default 60.
    retained: CG also ends at an iterate whose reduction of the loss is less than this fraction of the largest so far;
    default 0.9, 0 to disable.
    backtrack: True (default) takes the iterate with the smallest loss, False the last one.

    A step that does not reduce the loss, or makes it infinite, is rejected: the damping grows, and CG starts from zero.
    The damping falls when steps are too short to change the loss, so it cannot diverge.
    Source: Martens 2010; Sutskever 2013, algorithm 5, eq. 4.3, 4.4; Krause 2015, 3.3 and 4.1.

    >>> w = gn.parameter(np.zeros(2), name="w")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, np.array([1.0, -1.0]))), [w])
    >>> result = rnn.minimize(objective, rnn.HessianFree(damping=1e-3), steps=2)
    >>> result.theta.round(2).tolist()
    [1.0, -1.0]
    """

    retained: Fraction = 0.9
    backtrack: bool = True

    def _solved(self, problem: QuadraticModel) -> _Found:
        looks = self.retained > 0 or self.backtrack or self.adapts == "structural"
        watch = _Watch(problem, self.retained, limit=3.0 if self.adapts == "structural" else math.inf)
        solution = conjugate_gradient(
            problem.product, problem.b, problem.last, max_steps=self.cg_steps, tolerance=self.tolerance,
            window=self.window, residual=problem.rounding, preconditioner=problem.preconditioner,
            damping=problem.damping, watch=watch if looks else None,
        )  # fmt: skip
        if not looks and solution.values:
            watch(solution.steps, solution.values[-1], solution.x)
        seen = watch.best if self.backtrack else watch.last
        return _Found(
            seen.delta,
            seen.loss,
            seen.value,
            solution.x,
            solution.values or [0.0],
            seen.step,
            solution.reason,
        )


@dataclass(frozen=True)
class _Seen:
    """An iterate of CG, its loss, and the change φ that the model predicts."""

    step: int
    delta: Array
    loss: float
    value: float


class _Watch:
    """Evaluates the loss at the iterates that CG keeps.

    Ends CG where the reduction is below `retained` of the largest so far, or where a damping updated at each of these
    iterates would have grown by `limit`.
    Source: Sutskever 2013, 4.4; Krause 2015, 4.1 (eq. 4.1, whose two factors are printed the wrong way round).
    """

    def __init__(self, problem: QuadraticModel, retained: float, limit: float) -> None:
        self._problem, self._retained, self._limit = problem, retained, limit
        self._growth = 1.0
        self.best = self.last = _Seen(0, np.zeros_like(problem.b), math.inf, 0.0)

    def __call__(self, step: int, value: float, x: Array) -> str:
        before = self._problem.before
        loss = self._problem.loss(x)
        self.last = _Seen(step, x, loss, value)
        if loss <= self.best.loss:
            self.best = self.last
        if value < 0:  # else the warm start is still worse than δ = 0
            self._growth *= _factor(self._problem.ratio(loss, value))
        if self._growth >= self._limit:
            return "ratio"
        most = before - self.best.loss
        return "loss" if most > 0 and before - loss < self._retained * most else ""


@dataclass(frozen=True)
class GreedyHessianFree(CurvedOptimizer):
    """δ = Σ_i ε_i α_i p_i: CG's steps α_i p_i in the quadratic model, each shortened by a line search on the loss
    itself

    Line-search damping: each direction is conjugate to the earlier ones, so its step length can be chosen separately. A
    direction that never lowers the loss is skipped. The warm start, the last δ, is treated in the same way.

    shrink, halvings: ε_i is 1, multiplied by `shrink` (default 0.5) as long as that lowers the loss, at most `halvings`
    times (default 10).
    failures: CG ends after more than this number of skipped directions, default 5.
    damping: λ, constant; default 0, since the line searches damp.
    adapts: default "nothing". cg_steps: default 100.
    rate, structural, tolerance, window, warm_start, preconditioner, line_search: see HessianFree.
    Source: Krause 2015, 3.3.3.2, eqs 3.31-3.32, algorithm 5 and 4.1; after augmented Hessian-free, Sutskever 2013, 6.2.

    >>> w = gn.parameter(np.zeros(2), name="w")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, np.array([1.0, -1.0]))), [w])
    >>> rnn.minimize(objective, rnn.GreedyHessianFree(), steps=1).theta.round(2).tolist()
    [1.0, -1.0]
    """

    damping: Amount = 0.0
    adapts: Literal["damping", "structural", "nothing"] = "nothing"
    cg_steps: Count = 100
    shrink: Annotated[float, partial(fraction, above_zero=True)] = 0.5
    halvings: CountOrZero = 10
    failures: Count = 5

    def _solved(self, problem: QuadraticModel) -> _Found:
        delta, loss, failed, chosen, reason = np.zeros_like(problem.b), problem.before, 0, 0, "solved"
        values: list[float] = []
        for i, direction in enumerate(self._directions(problem)):
            if i and not direction.curvature > 0:
                reason = "curvature" if math.isfinite(direction.curvature) else "not finite"
                break
            values.append(direction.value)
            step = direction.step if i else direction.x
            if step.any():
                share, loss = self._share(problem, delta, step, loss)
                delta = delta + share * step
                chosen = i if share else chosen
                failed += not share
            if failed > self.failures:
                reason = "failures"
            elif has_stalled(values, self.tolerance, self.window):
                reason = "progress"
            elif i == self.cg_steps:
                reason = "limit"
            elif direction.residual <= problem.rounding:
                break
            else:
                continue
            break
        predicted = values[-1] if values else 0.0
        return _Found(delta, loss, predicted, delta, values or [0.0], chosen, reason)

    def _directions(self, problem: QuadraticModel) -> Iterator[Direction]:
        return conjugate_directions(
            problem.product, problem.b, problem.last, problem.preconditioner, damping=problem.damping
        )

    def _share(self, problem: QuadraticModel, delta: Array, step: Array, loss: float) -> tuple[float, float]:
        """Returns ε and the loss at δ + ε step; 0 and the old loss if no tried ε lowers it."""
        share, best = self._followed(problem, delta, step, self.shrink, problem.loss(delta + step), loss)
        return (share, best) if best < loss else (0.0, loss)

    def _followed(
        self, problem: QuadraticModel, delta: Array, step: Array, factor: float, best: float, loss: float
    ) -> tuple[float, float]:
        """Returns the last of 1, factor, factor², ... that lowers the loss, from `best` at 1, and the loss there."""
        share = 1.0
        for _ in range(self.halvings):
            found = problem.loss(delta + factor * share * step)
            if not found < best and best < loss:
                break
            share, best = factor * share, found
        return share, best


@dataclass(frozen=True)
class AugmentedHessianFree(GreedyHessianFree):
    """δ = ε₀ α₀ c + Σ_i ε_i α_i p_i: the loss, minimized greedily over a conjugate basis that begins with c, the last δ

    As GreedyHessianFree, but c is the first direction, not the start: all other directions are conjugate to c, so each
    coefficient can be chosen separately. No basis is stored. ε_i may also grow, by 1 / `shrink` at a time, and change
    its sign if no length helps. Structural damping is the only useful damping; λ is constant, default 0.

    warm_start: fraction of the last δ in c, default 1.
    rate, structural, adapts, cg_steps, tolerance, window, preconditioner, line_search, shrink, halvings, failures,
    damping: see GreedyHessianFree.
    Source: Sutskever 2013, 6.2 (which leaves the line search and the augmented recurrence open: these are ours, the
    recurrence after Erhel & Guyomarc'h 2000).

    >>> w = gn.parameter(np.zeros(2), name="w")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, np.array([1.0, -1.0]))), [w])
    >>> rnn.minimize(objective, rnn.AugmentedHessianFree(), steps=1).theta.round(2).tolist()
    [1.0, -1.0]
    """

    warm_start: Share = 1.0

    def _directions(self, problem: QuadraticModel) -> Iterator[Direction]:
        return conjugate_directions(
            problem.product, problem.b, None, problem.preconditioner, problem.last, problem.damping
        )

    def _share(self, problem: QuadraticModel, delta: Array, step: Array, loss: float) -> tuple[float, float]:
        whole = problem.loss(delta + step)
        share, best = self._followed(problem, delta, step, self.shrink, whole, loss)
        if share == 1.0 and whole < loss:
            share, best = self._followed(problem, delta, step, 1 / self.shrink, whole, loss)
        elif not best < loss:
            # Gradient and loss may use different batches, so -δ may be the descent direction.
            share, best = self._followed(problem, delta, -step, self.shrink, problem.loss(delta - step), loss)
            share = -share
        return (share, best) if best < loss else (0.0, loss)
