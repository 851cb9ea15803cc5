"""Base class of L-BFGS and nonlinear conjugate gradient: line searches along directions from a history."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.optimizers.base import HasGradient, Optimizer, Report, State
from graphnet_rnn.optimizers.line_search import LineSearch, Wolfe
from graphnet_rnn.optimizers.vectors import double, inner, norm
from graphnet_rnn.settings import Amount, Count

#: Bound on the rounding error of a loss over hundreds of layers or time steps, in roundings (measured: 800, float32).
ROUNDINGS = 1000
#: Maximum number of consecutive iterations that lower neither the loss nor the gradient norm.
PATIENCE = 20


@dataclass(frozen=True)
class LineSearchReport(Report):
    """Report of a step, besides the loss and gradient norm before it.

    before, after: the loss. last_gradient_norm: gradient norm after the step.
    iterations; evaluations: of the loss with its gradient. broken: number of evaluations that were not finite.
    reason: of the end: "iterations" (`iterations` is reached), "tolerance", "decrease" (see LineSearchOptimizer), or
    "no lower point": no line search lowered the loss, not even along the gradient, or 20 in a row lowered it only
    within rounding.
    """

    before: float = math.nan
    after: float = math.nan
    iterations: int = 0
    evaluations: int = 0
    broken: int = 0
    last_gradient_norm: float = math.nan
    reason: str = ""
    seconds: float = 0.0

    @property
    def taken(self) -> bool:
        return self.after < self.before

    @property
    def settled(self) -> bool:
        return self.reason in ("tolerance", "decrease", "no lower point")

    @property
    def gradients(self) -> int:
        return self.evaluations

    def __str__(self) -> str:
        return (
            f"loss {self.before:.6g} -> {self.after:.6g}  {self.iterations} iterations, {self.evaluations} evaluations"
            + (f" ({self.broken} not finite)" if self.broken else "")
            + f"  |g| {self.gradient_norm:.2g} -> {self.last_gradient_norm:.2g}  ({self.reason})  {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class Point:
    """A point, its loss and gradient: values representable in θ's dtype, stored as float64."""

    w: Array
    loss: float
    gradient: Array


class _Evaluations:
    """Evaluates the objective at points representable in θ's dtype, and counts."""

    def __init__(self, objective: HasGradient, theta: Array) -> None:
        self._objective, self._dtype = objective, theta.dtype
        self.count = self.broken = 0

    def at(self, w: Array) -> Point:
        self.count += 1
        with np.errstate(over="ignore"):
            rounded = w.astype(self._dtype)
        loss, g = self._objective.gradient(rounded)
        return Point(double(rounded), float(loss), double(g))

    def along(self, start: Point, direction: Array, first: float, rule: Wolfe) -> Point | None:
        slope = inner(start.gradient, direction)
        if not -math.inf < slope < 0:
            return None
        hidden = ROUNDINGS * float(np.finfo(self._dtype).eps) * abs(start.loss)
        best, search = start, LineSearch(start.loss, slope, first, rule, hidden)
        while not search.ended:
            step = search.step
            found = self.at(start.w + step * direction)
            with np.errstate(over="ignore", invalid="ignore"):
                steepness = inner(found.gradient, direction)
            self.broken += not (math.isfinite(found.loss) and math.isfinite(steepness))
            search.tell(found.loss, steepness)
            if search.best == step:
                best = found
        return best if best.loss < start.loss or search.ended in ("wolfe", "slopes") else None


@dataclass(frozen=True)
class LineSearchOptimizer(Optimizer):
    """Base class of line-search methods: a step runs several iterations, and their history carries over to the next
    step.

    iterations: maximum number of iterations of a step, default 20.
    tolerance: ends at a gradient norm of at most this, default 0.
    decrease: ends if an iteration lowers the loss C to C' by at most decrease · max(|C|, |C'|); default 0, disabled.
    rnn.minimize on one batch then ends, too.

    The history is stored in the state, so results do not depend on the number of iterations per step, or on resuming.
    Each step first computes the gradient at its start, since the batch may have changed: both ends of a line search use
    the same batch. History from other batches only suggests directions, and all of them descend on this batch.
    Vectors are float64 whatever θ's dtype; points are representable in θ's dtype, so changes of θ and of the gradient
    belong together. The line search chooses the step length: the learning rate of `step` and schedules of a Trainer
    have no effect, and gradients are not clipped.
    A point with a loss or gradient that is not finite counts as too far. If a line search fails, the history is
    cleared, and the next one goes along the gradient. The loss of a batch never grows, up to rounding: decreases of
    less than 1,000 roundings of θ's dtype are judged by slopes.
    """

    iterations: Count = 20
    tolerance: Amount = 0.0
    decrease: Amount = 0.0

    rule: ClassVar[Wolfe]

    def step(
        self, objective: HasGradient, theta: Array, state: State, rate: float | None = None
    ) -> LineSearchReport:
        """Runs one step: changes `theta` and `state` in place. rate: ignored, see the class."""
        started = time.perf_counter()
        evaluations = _Evaluations(objective, theta)
        start = here = evaluations.at(theta)
        lowest, flattest = start.loss, norm(start.gradient)
        length = flattest
        if not (math.isfinite(start.loss) and math.isfinite(length)):
            return LineSearchReport(start.loss, length, start.loss, start.loss, 0, 1, 1, length)
        done, idle, reason = 0, 0, "tolerance" if length <= self.tolerance else ""
        while not reason:
            there = self._iterated(evaluations, here, state)
            if there is None:
                reason = "no lower point"
                break
            theta[...] = there.w
            steepness = norm(there.gradient)
            # Below the rounding of the loss, the gradient norm shows progress.
            done, idle = done + 1, 0 if there.loss < lowest or steepness < flattest else idle + 1
            reason = self._ended(here, there, done, idle)
            here, lowest, flattest = there, min(lowest, there.loss), min(flattest, steepness)
        return LineSearchReport(
            start.loss, length, start.loss, here.loss, done, evaluations.count, evaluations.broken,
            norm(here.gradient), reason, time.perf_counter() - started,
        )  # fmt: skip

    def _iterated(self, evaluations: _Evaluations, here: Point, state: State) -> Point | None:
        for _ in range(2):
            direction = self.direction(here, state)
            there = evaluations.along(here, direction, self.first(here, direction, state), self.rule)
            if there is not None:
                self.learn(here, there, direction, state)
                return there
            if not self.forget(state):
                break
        return None

    def _ended(self, before: Point, after: Point, done: int, idle: int) -> str:
        """Returns the reason to end, or "". idle: iterations since the lowest loss and gradient."""
        if norm(after.gradient) <= self.tolerance:
            return "tolerance"
        fall, size = before.loss - after.loss, max(abs(before.loss), abs(after.loss))
        if self.decrease and fall <= self.decrease * size:
            return "decrease"
        if idle == PATIENCE:
            return "no lower point"
        return "iterations" if done == self.iterations else ""

    @abstractmethod
    def init(self, theta: Array, objective: Any = None) -> State:
        """Returns the arrays of an empty history. theta: the parameters."""

    @abstractmethod
    def direction(self, here: Point, state: State) -> Array:
        """Returns the next search direction from the point `here`; it descends, up to rounding in the history."""

    @abstractmethod
    def first(self, here: Point, direction: Array, state: State) -> float:
        """Returns the first trial step from the point `here`, as a multiple of the direction."""

    @abstractmethod
    def learn(self, here: Point, there: Point, direction: Array, state: State) -> None:
        """Adds an iteration to the history. here, there: the points before and after. direction: of the line search."""

    @abstractmethod
    def forget(self, state: State) -> bool:
        """Clears the history, so that the next direction is -g; False if it was empty."""
