"""One guarded step of an optimizer, the basis of every training loop."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.optimizers.base import Optimizer, Report, State


class Stepped(Protocol):
    """Interface of an objective to a training loop, besides the methods for its optimizer."""

    def gradient(self, w: Array) -> tuple[float, Array]: ...

    def set(self, w: Array) -> None:
        """Sets the model's parameters."""

    def explain_non_finite(self) -> str | None:
        """Describes the first node with a NaN or infinity; "" if none, None if unknown."""


def guarded_step(
    optimizer: Optimizer,
    objective: Stepped,
    theta: Array,
    state: State,
    at: str,
    rate: float | None = None,
    remedy: str = "",
) -> Report:
    """Runs a step that changes θ and state in place, or raises an error and resets the model's parameters to θ.

    at: description of the step. rate: overrides the optimizer's. remedy: advice for the error.
    Raises TrainingError, naming the node, for a loss or gradient that is not finite; θ and state are then unchanged.
    After a successful step, the model's parameters may hold any point the optimizer visited.
    """
    try:
        report = optimizer.step(objective, theta, state, rate)  # type: ignore[arg-type]
    except BaseException:  # a step also evaluates other points
        objective.set(theta)
        raise
    if np.isfinite(report.loss) and np.isfinite(report.gradient_norm):
        return report
    objective.set(optimizer.evaluation_point(theta, state))
    found = objective.explain_non_finite()
    objective.set(theta)
    raise TrainingError.not_finite(report.loss, report.gradient_norm, at, found, remedy)


def require_finite(theta: Array, step: int, untouched: str) -> None:
    """Raises TrainingError if a step produced infinite weights from a finite gradient; they must not be saved."""
    if not np.isfinite(theta).all():
        raise TrainingError(
            f"the weights are no longer finite after step {step}, so training cannot go on; try a smaller --rate or "
            f"--clip-norm. {untouched} untouched."
        )
