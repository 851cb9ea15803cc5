"""NaturalGradient: steps in a running mean of a metric over minibatches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers.base import Kept, Optimizer, Report, State, kept_of
from graphnet_rnn.optimizers.first_order import SGD, Adam, FirstOrder, Momentum, RMSprop
from graphnet_rnn.optimizers.schedules import FractionOrSchedule, Rate, described
from graphnet_rnn.optimizers.vectors import inner, norm
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.metrics import Metric, OuterProduct, as_metric
from graphnet_rnn.settings import Amount, Count, Fraction, Limit, one_of

#: Optimizers whose step lengths `graft` can use, by name.
GRAFTS: dict[str, type[FirstOrder]] = {"sgd": SGD, "rmsprop": RMSprop, "adam": Adam}
#: Maximum number of steps.
MOST = 1 << 60
#: Prefix of the names of the state arrays of that optimizer.
GRAFTED = "graft_"


@dataclass(frozen=True)
class NaturalGradientReport(Report):
    """Report of a natural-gradient step.

    length: √(∇Cᵀ (M̄ + λ)⁻¹ ∇C), length of the step in the metric before clipping and grafting.
    condition: of the metric's blocks, see rnn.riemannian.Solver.
    """

    length: float
    condition: float = math.nan

    def __str__(self) -> str:
        return f"{super().__str__()}  in the metric {self.length:.2g}"


class _Known:
    def __init__(self, objective: Any, loss: float, g: Array) -> None:
        self.threads, self.found = getattr(objective, "threads", None), (loss, g)

    def gradient(self, w: Array) -> tuple[float, Array]:
        return self.found


@dataclass(frozen=True)
class NaturalGradient(Optimizer):
    """v ← μ v - ε (M̄ + λ)⁻¹ ∇C;  θ ← θ + v;  M̄ ← ρ M̄ + (1 - ρ) M, M the metric of the batch's summed cost

    metric: M, see rnn.riemannian, also by name ("qdruop", "kfac", ...); default "qdruop".
    rate: ε, a number or a Schedule, default 0.03.
    momentum: μ, a number or a Schedule, default 0.9.
    damping: λ for the mean cost, added to the metric's own damping; default 0.01.
    averaged: ρ, default 0.95; at update t of M̄ at most 1 - 1/t, so M̄ needs no initial value.
    every: number of steps between updates of M̄ and its factorization, default 1.
    clip_norm: maximum length √(∇Cᵀ (M̄ + λ)⁻¹ ∇C) of a step in the metric, default 1; None for no limit.
    graft: "adam", "rmsprop" or "sgd": scales the step of each parameter to the length of that optimizer's step at this
    rate; default "", none.

    If the metric of a batch has another size than M̄ (for example the first segment of a text, with learned initial
    states), the step uses the metric of this batch.
    Raises TrainingError for a metric that is singular or not finite; it names the units.
    Source: Amari 1998; the running mean, Martens & Grosse 2015, 5; limits on the length in the metric, Ba, Grosse &
    Martens 2017, 3; grafting, Agarwal et al. 2020.

    >>> net = rnn.Network([rnn.Elman(4)], inputs=3, outputs=3)
    >>> u = net.unroll(time=5, batch=2, initial="zero")
    >>> objective = rnn.Objective(gn.mean(u.losses), net.parameters, [u.inputs, u.targets])
    >>> objective.feed(np.zeros((5, 2), int), np.ones((5, 2), int))
    >>> result = rnn.minimize(objective, rnn.NaturalGradient("qdruop", rate=0.1), steps=2)
    >>> len(result.reports)
    2
    """

    metric: Metric | str = field(default_factory=lambda: OuterProduct("quasi-diagonal"))
    rate: Rate = 0.03
    momentum: FractionOrSchedule = 0.9
    damping: Amount = 0.01
    averaged: Fraction = 0.95
    every: Count = 1
    clip_norm: Limit | None = 1.0
    graft: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "metric", as_metric("NaturalGradient", self.metric))
        one_of("NaturalGradient: graft", self.graft, ("", *GRAFTS))

    @property
    def _metric(self) -> Metric:
        assert isinstance(self.metric, Metric)  # since __post_init__
        return self.metric

    def settings(self) -> dict[str, Any]:
        own = {name: described(value) for name, value in super().settings().items()}
        return own | {"metric": self._metric.description()}

    @property
    def _moving(self) -> Momentum:
        return Momentum(1.0 if self.graft else self.rate, momentum=self.momentum)

    @property
    def _grafted(self) -> FirstOrder:
        return GRAFTS[self.graft](self.rate)

    def rate_at(self, state: State) -> float:
        if self.graft:
            return self._grafted.rate_at(_of_graft(state))
        return self._moving.rate_at(state)

    def init(self, theta: Array, objective: Any = None) -> State:
        """Returns the initial state for `theta`: v (and step, if a setting follows a schedule); metric: M̄; steps:
        their number; measured: number of batches in M̄; graft_...: state of the other optimizer.

        Raises UsageError without an objective that has the metric, since its size depends on it.
        """
        if not hasattr(objective, "metric_size"):
            raise UsageError(
                "NaturalGradient.init: call init(theta, objective) with an objective that has a metric"
            )
        grafted = self._grafted.init(theta) if self.graft else {}
        return {
            **self._moving.init(theta),
            "metric": np.zeros(objective.metric_size(self._metric)),
            "steps": np.zeros(1, np.int64),
            "measured": np.zeros(1, np.int64),
            **{GRAFTED + name: array for name, array in grafted.items()},
        }

    def _kept(self, theta: Array, objective: Any) -> Kept:
        return {**kept_of(self.init(theta, objective)), "metric": ((-1,), np.dtype(np.float64))}

    def step(self, objective: Any, theta: Array, state: State, rate: float | None = None) -> Report:
        done, measured = int(state["steps"][0]), int(state["measured"][0])
        if not 0 <= measured <= done <= MOST:
            raise UsageError(
                f"NaturalGradient.step: invalid state: a metric of {measured} batches after {done} steps; "
                "create the state with optimizer.init(theta, objective)"
            )
        fits = objective.metric_size(self._metric) == state["metric"].size
        if fits and measured and done % self.every:
            loss, g = objective.gradient(theta)
            numbers = None
        else:
            loss, g, numbers = objective.metric(theta, self._metric, "all", done)
        length = norm(g)
        if not (math.isfinite(loss) and math.isfinite(length)):
            return NaturalGradientReport(loss, length, math.nan)
        if fits and numbers is not None:
            measured += 1
            share = min(self.averaged, 1 - 1 / measured)
            numbers = share * state["metric"] + (1 - share) * numbers
        solver = self._solver(objective, state, numbers, measured)
        direction = solver(g)
        reach = math.sqrt(max(inner(np.asarray(g, np.float64), direction), 0.0))
        if not math.isfinite(norm(direction)):
            raise TrainingError("NaturalGradient: the step in the metric is not finite; use a larger damping")
        if self.clip_norm is not None and reach > self.clip_norm:
            direction *= self.clip_norm / reach
        if self.graft:
            known = _Known(objective, loss, np.asarray(g))
            lengths = self._grafted_lengths(known, theta, state, objective.slices, rate)
            for each, wanted in zip(objective.slices, lengths, strict=True):
                direction[each] *= wanted / (norm(direction[each]) or 1.0)
        own = {name: array for name, array in state.items() if _is_momentums(name)}
        known = _Known(objective, loss, gn.place(direction.astype(theta.dtype), gn.backend_of(theta)))
        self._moving.step(known, theta, own, None if self.graft else rate)
        state["steps"][0] += 1
        if fits and numbers is not None:
            state["metric"][...], state["measured"][0] = numbers, measured
        return NaturalGradientReport(loss, length, reach, solver.condition)

    def _solver(self, objective: Any, state: State, numbers: Array | None, measured: int) -> Solver:
        """Returns (M + λ)⁻¹ of these numbers; without numbers, the cached solver of M̄."""
        before: tuple[Array, int, Solver] | None = vars(self).get("_factored")
        if numbers is None and before is not None and before[0] is state["metric"] and before[1] == measured:
            return before[2]
        of = state["metric"] if numbers is None else numbers
        found: Solver = objective.metric_solver(self._metric, "all", of, self.damping)
        if self.every > 1 and of.size == state["metric"].size:
            object.__setattr__(self, "_factored", (state["metric"], measured, found))
        return found

    def _grafted_lengths(
        self, known: _Known, theta: Array, state: State, slices: Sequence[slice], rate: float | None
    ) -> list[float]:
        there = theta.copy()
        self._grafted.step(known, there, _of_graft(state), rate)
        moved = np.asarray(there, np.float64) - np.asarray(theta, np.float64)
        return [norm(moved[each]) for each in slices]


def _is_momentums(name: str) -> bool:
    return name not in ("metric", "steps", "measured") and not name.startswith(GRAFTED)


def _of_graft(state: State) -> State:
    return {name.removeprefix(GRAFTED): array for name, array in state.items() if name.startswith(GRAFTED)}
