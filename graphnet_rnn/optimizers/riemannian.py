"""Riemannian: gradient steps in a metric of the network's units."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers.base import Optimizer, Report, State
from graphnet_rnn.optimizers.vectors import norm
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.metrics import Metric, OuterProduct, as_metric
from graphnet_rnn.settings import Count, Positive, shown

#: Factors on a rate after a step that lowers the cost, and after one that does not.
GROWTH, CUT = 1.1, 0.5
#: The parts of θ, each of which has a rate of its own, in the order of their steps.
PARTS = ("outputs", "hidden")


@dataclass(frozen=True)
class RiemannianReport(Report):
    """Report of a step of one part of θ.

    after: loss after the step. rate: of the accepted step, 0 if none. tries: number of trial steps.
    part: "outputs" or "hidden". condition: of the metric's blocks, see rnn.riemannian.Solver.
    undone: True if the step before was undone first, because its gradient was not finite or the metric was singular.
    last_gradient_norm: gradient norm of both parts, each at its last step; infinite before both had one.
    """

    after: float
    rate: float
    tries: int
    part: str
    condition: float = math.nan
    undone: bool = False
    seconds: float = 0.0
    last_gradient_norm: float = math.inf

    @property
    def taken(self) -> bool:
        return self.rate > 0

    @property
    def of_whole_gradient(self) -> bool:
        return False

    @property
    def losses(self) -> int:
        return self.tries

    def __str__(self) -> str:
        return (
            f"loss {self.loss:.6g} -> {self.after:.6g}  {self.part}, rate {self.rate:.3g}"
            + (f" ({self.tries} tries)" if self.tries > 1 else "")
            + f"  |g| {self.gradient_norm:.2g}  {self.seconds:.2f} s"
            + ("  (the step before was undone)" if self.undone else "")
        )


@dataclass(frozen=True)
class _Measured:
    """Loss, gradient by one part of θ, and the metric's solver for this part.

    solver: None if the loss or gradient is not finite; or the error of a singular metric.
    """

    loss: float
    gradient: Array
    solver: Solver | TrainingError | None

    @property
    def is_usable(self) -> bool:
        return isinstance(self.solver, Solver)


@dataclass(frozen=True)
class Riemannian(Optimizer):
    """θ ← θ - η M(θ)⁻¹ ∇ Σ C, alternating between the output weights and all others, each with its own η

    metric: M, see rnn.riemannian, also by name ("ruop", "rbpm", "qdruop", "kfac", ...); default OuterProduct ("ruop").
    rate: both η at the start; default 1/N, N the number of hidden units.
    tries: maximum number of trial steps, default 50.

    A step that lowers the loss increases η by a tenth; any other step is undone, η is halved, and the step is tried
    again. Each step changes one part, the output weights first, since the metric of the others may be singular before.
    All steps should use the same data, or batches large enough that a lower loss on a batch means a lower loss.
    Σ C: the cost as a sum over cases, not their mean; M is its metric.
    Source: Ollivier 2013, section 2.

    >>> net = rnn.Network([rnn.Elman(4)], inputs=3, outputs=3)
    >>> u = net.unroll(time=5, batch=2, initial="zero")
    >>> objective = rnn.Objective(gn.mean(u.losses), net.parameters, [u.inputs, u.targets])
    >>> objective.feed(np.zeros((5, 2), int), np.ones((5, 2), int))
    >>> result = rnn.minimize(objective, rnn.Riemannian("qdruop"), steps=2)
    >>> [report.part for report in result.reports]
    ['outputs', 'hidden']
    """

    metric: Metric | str = field(default_factory=OuterProduct)
    rate: Positive | None = None
    tries: Count = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "metric", as_metric("Riemannian", self.metric))

    @property
    def _metric(self) -> Metric:
        assert isinstance(self.metric, Metric)  # since __post_init__
        return self.metric

    def init(self, theta: Array, objective: Any = None) -> State:
        """Returns the initial state for `theta`: rates and gradient norms, of both parts, 0 and infinite before their
        first step; turn, number of steps; before and moved, θ before the last step, and 1 if it changed θ.
        """
        start = 0.0 if self.rate is None else self.rate
        return {
            "rates": np.full(len(PARTS), start),
            "norms": np.full(len(PARTS), np.inf),
            "turn": np.zeros(1, np.int64),
            "before": np.zeros(theta.shape, theta.dtype),
            "moved": np.zeros(1, np.int64),
        }

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "metric": self._metric.description()}

    def step(self, objective: Any, theta: Array, state: State, rate: float | None = None) -> Report:
        started = time.perf_counter()
        if not hasattr(objective, "metric"):
            raise UsageError(
                f"Riemannian needs an objective with a metric, such as rnn.Objective, not {shown(objective, 50)}"
            )
        at, undone = self._measured(objective, theta, int(state["turn"][0])), False
        if state["moved"][0] and not at.is_usable:
            turn = int(state["turn"][0])
            earlier = self._measured(objective, state["before"], turn - 1)
            # A metric that was singular before that step, too, is not mended by undoing it.
            undone = earlier.is_usable and self._measured(objective, state["before"], turn).is_usable
        if undone:
            at, theta[...] = earlier, state["before"]
            state["moved"][0] = 0
            state["turn"][0] -= 1
            state["rates"][int(state["turn"][0]) % len(PARTS)] *= CUT
        turn = int(state["turn"][0]) % len(PARTS)
        part, before, length = PARTS[turn], at.loss, norm(at.gradient)
        if isinstance(at.solver, TrainingError):
            raise at.solver
        if at.solver is None:
            return RiemannianReport(before, length, before, 0.0, 0, part, undone=undone)
        if not state["rates"][turn]:
            state["rates"][turn] = 1 / max(objective.units, 1)
        state["norms"][turn] = length
        direction, start = at.solver(at.gradient), np.asarray(theta).copy()
        judge = getattr(objective, "gradient_loss", objective.loss)  # the same function as `before`
        after, taken, tries = before, 0.0, 0
        while tries < self.tries and not taken:
            tries += 1
            eta = float(state["rates"][turn]) * (1.0 if rate is None else rate)
            there = (start.astype(np.float64) - eta * direction).astype(theta.dtype)
            found = judge(there)
            if found <= before:
                theta[...] = there
                taken, after = eta, found
                state["rates"][turn] *= GROWTH if found < before else 1.0
            else:
                state["rates"][turn] *= CUT
        state["before"][...], state["moved"][0] = start, bool(taken)
        state["turn"][0] += 1
        seconds = time.perf_counter() - started
        return RiemannianReport(
            before,
            length,
            after,
            taken,
            tries,
            part,
            at.solver.condition,
            undone,
            seconds,
            norm(state["norms"]),
        )

    def _measured(self, objective: Any, theta: Array, turn: int) -> _Measured:
        part = PARTS[turn % len(PARTS)]
        loss, gradient, numbers = objective.metric(theta, self._metric, part, turn)
        if not (math.isfinite(loss) and np.isfinite(np.asarray(gradient)).all()):
            return _Measured(loss, gradient, None)
        try:
            return _Measured(loss, gradient, objective.metric_solver(self._metric, part, numbers))
        except TrainingError as error:
            return _Measured(loss, gradient, error)
