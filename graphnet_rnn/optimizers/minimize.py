"""minimize: an optimiser applied to any objective, without data sets or epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphnet.display import ShowsItself
from graphnet.node import Array
from graphnet_rnn.batched import BatchedObjective
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.objective import Objective
from graphnet_rnn.optimizers.base import Optimizer, Report
from graphnet_rnn.optimizers.first_order import Adam
from graphnet_rnn.settings import whole_number

__all__ = ["Result", "minimize"]

#: So many steps in a row that change nothing end a run.
STALLED = 30


@dataclass(frozen=True)
class Result(ShowsItself):
    """The last point, its loss, what each step reported, and why there were no more.

    reason: "steps" (as many as were asked for), "tolerance" (the gradient is that small), "callback" (it said so), or
    "stalled" (30 steps in a row changed nothing). Notebooks show what each step reported as curves.
    """

    theta: Array
    loss: float
    reports: list[Report] = field(repr=False)
    reason: str = "steps"

    def __history__(self) -> list[dict[str, Any]]:
        """The reports as rows, for pictures."""
        return [
            {"event": "step", "step": step, **report.row()}
            for step, report in enumerate(self.reports, start=1)
        ]


def minimize(
    objective: Objective | BatchedObjective,
    optimizer: Optimizer | None = None,
    steps: int = 1000,
    start: Array | None = None,
    tolerance: float = 0.0,
    callback: Callable[[int, Report], object] | None = None,
    feed: Callable[[int], object] | None = None,
) -> Result:
    """Steps until the gradient's norm is at most `tolerance`, or nothing moves any more, at most `steps` times.

    start: the first point (the parameters' present values). callback(step, report) may return True to
    stop. feed(step) is called before each step, to feed the objective another batch. The objective's parameters hold
    the last point when either is called, and afterwards.
    Raises TrainingError when the loss or its gradient is no longer finite, naming the first node that broke.
    """
    steps = whole_number("minimize: steps", steps)
    if not isinstance(objective, (Objective, BatchedObjective)):
        raise UsageError(
            f"minimize takes an Objective, not {objective!r:.60}; make one: rnn.Objective(cost, parameters, inputs)"
        )
    chosen = Adam() if optimizer is None else optimizer
    if not isinstance(chosen, Optimizer):
        raise UsageError(
            f"minimize: optimizer must be an optimizer, e.g. rnn.Adam(rate=0.01), not {chosen!r:.60}"
        )
    theta = objective.start() if start is None else objective.place(np.array(start, objective.start().dtype))
    if theta.shape != (objective.size,):
        raise UsageError(
            f"minimize: start has shape {list(theta.shape)}, but there are {objective.size} parameters"
        )
    state = chosen.init(theta)
    reports: list[Report] = []
    reason, idle = "steps", 0
    for step in range(steps):
        if feed is not None:
            feed(step)
        try:
            report = chosen.step(objective, theta, state)
        except BaseException:  # a step looks at other points, too
            objective.set(theta)
            raise
        reports.append(report)
        if feed is not None or callback is not None:
            objective.set(theta)
        if not (np.isfinite(report.loss) and np.isfinite(report.gradient_norm)):
            objective.set(theta)
            raise TrainingError(
                f"the loss is {report.loss} and the gradient's norm {report.gradient_norm} at step {step}; try a "
                "smaller rate or clipping. "
                f"{objective.explain_non_finite()}"
            )
        idle = 0 if report.taken else idle + 1
        if callback is not None and callback(step, report) is True:
            reason = "callback"
        elif report.gradient_norm <= tolerance:
            reason = "tolerance"
        elif idle == STALLED:
            reason = "stalled"
        else:
            continue
        break
    objective.set(theta)
    return Result(np.asarray(theta), objective.loss(theta), reports, reason)
