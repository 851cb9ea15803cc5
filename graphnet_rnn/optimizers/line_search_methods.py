"""What L-BFGS and nonlinear conjugate gradient share: line searches along directions that a history chooses."""

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

__all__ = ["LineSearchOptimizer", "LineSearchReport", "Point"]

#: So many roundings may be in a loss that went through hundreds of layers or time steps. (800 were measured in that of
#: reaches of 40 steps, in float32.)
ROUNDINGS = 1000
#: A step ends after so many iterations in which neither the loss nor the gradient fell below what it was.
PATIENCE = 20


@dataclass(frozen=True)
class LineSearchReport(Report):
    """What a step did, besides the loss and the gradient's norm before it.

    before, after: the loss. last_gradient_norm: the gradient's norm after it. iterations; evaluations: of the loss with
    its gradient. broken: at how many of these points they were no finite numbers. reason: why there were no more
    iterations: "iterations" (as many as were asked for), "tolerance", "decrease" (see LineSearchOptimizer), or
    "no lower point", if no line search found one, not even along the gradient, or 20 in a row found only what rounding
    takes for one.
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
    """A point, the loss and the gradient there: numbers of θ's dtype, in float64."""

    w: Array
    loss: float
    gradient: Array


class _Evaluations:
    """The objective at points that θ's dtype can hold, and how often it was asked."""

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
        """The best point of a line search; None if it found none, or the line leads up."""
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
    """What they share: a step is so many iterations, and the next step goes on with what they have learned.

    iterations: of a step, at most. tolerance: it ends where ‖g‖ is no larger; decrease: where an iteration lowers the
    loss C to C' by no more than decrease · max(|C|, |C'|), unless 0. rnn.minimize on one batch then ends, too.
    The history is in the state, so it does not matter into how many steps, or runs, iterations are divided. Each
    step first takes the gradient where it begins, since the batch may be another one (one evaluation in some twenty):
    both ends of a line search are always judged by one batch. What was learned of other batches is kept as advice: it
    chooses directions, all of which lead down on this one.
    All vectors are in float64 whatever θ's dtype; points are such as that can hold, so that changes of θ and of the
    gradient belong together. A line search finds its own rate, so there is none to set, and one that is handed to
    `step` (a factor that a Trainer lets fall) changes nothing; nor would a clipped gradient be that of the loss.
    A point where the loss or its gradient is no finite number is too far. Where a line search finds nothing lower, the
    history is forgotten, and the next one goes along the gradient. The loss of a batch does not grow, but by what
    rounding may add to it: falls of less than 1,000 roundings of θ's dtype are judged by slopes.
    """

    iterations: Count = 20
    tolerance: Amount = 0.0
    decrease: Amount = 0.0

    rule: ClassVar[Wolfe]

    def step(
        self, objective: HasGradient, theta: Array, state: State, rate: float | None = None
    ) -> LineSearchReport:
        """One step: changes `theta` and `state` in place. rate: see the class."""
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
            # Where rounding hides falls of the loss, the gradient tells whether it still goes down.
            done, idle = done + 1, 0 if there.loss < lowest or steepness < flattest else idle + 1
            reason = self._ended(here, there, done, idle)
            here, lowest, flattest = there, min(lowest, there.loss), min(flattest, steepness)
        return LineSearchReport(
            start.loss, length, start.loss, here.loss, done, evaluations.count, evaluations.broken,
            norm(here.gradient), reason, time.perf_counter() - started,
        )  # fmt: skip

    def _iterated(self, evaluations: _Evaluations, here: Point, state: State) -> Point | None:
        """The next point, learned from; None where even the gradient leads nowhere."""
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
        """Why there are no more iterations, if so. idle: how many there were since the lowest loss and gradient."""
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
        """The arrays of what is learned, before the first step."""

    @abstractmethod
    def direction(self, here: Point, state: State) -> Array:
        """Where the next line search goes; down, unless rounding has spoiled the history."""

    @abstractmethod
    def first(self, here: Point, direction: Array, state: State) -> float:
        """The first step that it tries, as a multiple of the direction."""

    @abstractmethod
    def learn(self, here: Point, there: Point, direction: Array, state: State) -> None:
        """Takes an iteration into the history."""

    @abstractmethod
    def forget(self, state: State) -> bool:
        """Makes the history empty, so that the next direction is -g; False if it was."""
