"""One guarded step of an optimizer: under every loop that learns."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.optimizers.base import Optimizer, Report, State

__all__ = ["Stepped", "guarded_step", "require_finite"]


class Stepped(Protocol):
    """What a loop asks of an objective, besides what its optimizer does."""

    def gradient(self, w: Array) -> tuple[float, Array]: ...

    def set(self, w: Array) -> None:
        """Gives the model's parameters these values."""

    def explain_non_finite(self) -> str | None:
        """The first node that makes a NaN or an infinity, in words; empty if none, None where that cannot be known."""


def guarded_step(
    optimizer: Optimizer,
    objective: Stepped,
    theta: Array,
    state: State,
    at: str,
    rate: float | None = None,
    remedy: str = "",
) -> Report:
    """A step that changes θ and state in place, or an error that leaves the model's parameters at θ.

    at: which step it is, in words; rate: instead of the optimizer's; remedy: what to try where it fails.
    Raises TrainingError, which names the node that broke, for a loss or a gradient that is not finite: θ and state are
    then as before the step. Where the parameters stand after a step that succeeds is the optimizer's affair.
    """
    try:
        report = optimizer.step(objective, theta, state, rate)  # type: ignore[arg-type]
    except BaseException:  # a step looks at other points, too
        objective.set(theta)
        raise
    if np.isfinite(report.loss) and np.isfinite(report.gradient_norm):
        return report
    objective.set(optimizer.evaluation_point(theta, state))
    found = objective.explain_non_finite()
    objective.set(theta)
    raise TrainingError.not_finite(report.loss, report.gradient_norm, at, found, remedy)


def require_finite(theta: Array, step: int, untouched: str) -> None:
    """TrainingError if a step gave infinite weights from a finite gradient; they must reach no file."""
    if not np.isfinite(theta).all():
        raise TrainingError(
            f"the weights are no longer finite after step {step}, so training cannot go on; try a smaller --rate or "
            f"--clip-norm. {untouched} untouched."
        )
