"""minimize: runs an optimizer on any objective, without data sets or epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from graphnet.graph.display import ShowsItself
from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Optimizer, Report, State, require_optimizer, restored_state
from graphnet_rnn.optimizers.first_order import Adam
from graphnet_rnn.optimizers.step import guarded_step
from graphnet_rnn.optimizers.vectors import norm
from graphnet_rnn.settings import amount, is_true, shown, whole_number

#: Number of consecutive steps without a change that end a run.
STALLED = 30


@runtime_checkable
class Minimizable(Protocol):
    """Interface of an objective to minimize: Objective, LongSequence, or your own."""

    @property
    def size(self) -> int: ...

    def start(self) -> Array: ...

    def place(self, vector: Array) -> Array: ...

    def set(self, w: Array) -> None: ...

    def loss(self, w: Array) -> float: ...

    def gradient(self, w: Array) -> tuple[float, Array]: ...

    def explain_non_finite(self) -> str | None: ...


@dataclass(frozen=True, eq=False)
class Result(ShowsItself):
    """Result of `minimize`: final parameters and loss, reports of all steps, reason for the end, optimizer state.

    theta, loss: the last parameters, and their loss.
    reports: one for each step; notebooks plot them as curves.
    reason: "steps" (`steps` is reached), "tolerance" (the gradient is small enough), "callback" (it returned True), or
    "stalled" (30 steps in a row changed nothing; without feed and callback, one step that can gain no more).
    state: the optimizer's; `minimize(..., start=result.theta, state=result.state)` resumes with it exactly.
    """

    theta: Array
    loss: float
    reports: list[Any]
    reason: str = "steps"
    state: State = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Result(loss {self.loss:.6g} after {len(self.reports)} steps, reason {self.reason!r}, theta: "
            f"{self.theta.size:,} parameters)"
        )

    def __history__(self) -> list[dict[str, Any]]:
        """Returns the reports as rows, for plots."""
        return [
            {"event": "step", "step": step, **report.row(times=True)}
            for step, report in enumerate(self.reports, start=1)
        ]


def _started(objective: Minimizable, start: Any) -> Array:
    require_unmasked("minimize: start", start)
    try:
        return objective.place(np.array(start, objective.start().dtype))
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"minimize: start must be a vector of {objective.size} numbers, not {shown(start)}"
        ) from None


def minimize(
    objective: Minimizable,
    optimizer: Optimizer | None = None,
    steps: int = 1000,
    start: Array | None = None,
    tolerance: float = 0.0,
    callback: Callable[[int, Report], object] | None = None,
    feed: Callable[[int], object] | None = None,
    state: State | None = None,
) -> Result:
    """Runs optimizer steps until the gradient's norm is at most `tolerance`, no step can gain more, or `steps` are
    done.

    objective: an rnn.Objective or LongSequence. Its parameters have the current values in callbacks, and the final
    values afterwards.
    optimizer: default rnn.Adam().
    steps: maximum number of steps, default 1000.
    start: initial parameters, a vector; by default the objective's present values.
    tolerance: gradient norm at which to stop, default 0.
    callback: called as callback(step, report) after each step; return True to stop.
    feed: called as feed(step) before each step, to feed the next batch.
    state: the optimizer's state from an earlier Result, to resume from (it is copied); default a new state. Steps are
    counted from 0 again.
    Raises TrainingError when the loss or its gradient is not finite; it names the first node with a NaN or infinity.

    >>> w = gn.parameter(np.zeros(2), name="w")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, np.array([1.0, 2.0]))), [w])
    >>> result = rnn.minimize(objective, rnn.LBFGS(), steps=20)
    >>> result.theta.round(3).tolist(), result.reason
    ([1.0, 2.0], 'tolerance')
    """
    steps = whole_number("minimize: steps", steps)
    tolerance = amount("minimize: tolerance", tolerance)
    for name, function in (("callback", callback), ("feed", feed)):
        if function is not None and not callable(function):
            raise UsageError(f"minimize: {name} must be a function, not {shown(function)}")
    if not isinstance(objective, Minimizable):
        raise UsageError(
            f"minimize takes an Objective, not {shown(objective)}; make one: rnn.Objective(cost, parameters, inputs)"
        )
    chosen = Adam() if optimizer is None else require_optimizer("minimize", optimizer)
    theta = objective.start() if start is None else _started(objective, start)
    if theta.shape != (objective.size,):
        raise UsageError(
            f"minimize: start has shape {list(theta.shape)}, but there are {objective.size} parameters"
        )
    state = restored_state("minimize", type(chosen).__name__, chosen.init(theta, objective), state)
    reports: list[Report] = []
    reason, idle = "steps", 0
    for step in range(steps):
        if feed is not None:
            feed(step)
        report = guarded_step(chosen, objective, theta, state, f"step {step}")
        reports.append(report)
        if feed is not None or callback is not None:
            objective.set(theta)
        idle = 0 if report.taken else idle + 1
        if callback is not None and is_true(callback(step, report)):
            reason = "callback"
        elif report.last_gradient_norm <= tolerance and (
            report.of_whole_gradient or norm(objective.gradient(theta)[1]) <= tolerance
        ):
            reason = "tolerance"
        elif idle == STALLED or (report.settled and feed is None and callback is None):
            reason = "stalled"
        else:
            continue
        break
    objective.set(theta)
    kept = {name: np.asarray(array) for name, array in state.items()}
    loss = getattr(objective, "gradient_loss", objective.loss)  # over all batches
    return Result(np.asarray(theta), loss(theta), reports, reason, kept)
