"""train: contrastive divergence over batches of data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphnet.node import Array
from graphnet_rnn.energy.divergence import ContrastiveDivergence
from graphnet_rnn.energy.model import EnergyModel, as_generator
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.settings import is_true, whole_number

__all__ = ["train"]


def train(
    model: EnergyModel,
    data: Any,
    optimizer: FirstOrder,
    updates: int,
    batch: int | None = None,
    gibbs_steps: int | Callable[[int], int] = 1,
    rate: Callable[[int], float] | None = None,
    below: Sequence[EnergyModel] = (),
    callback: Callable[[int, Report], object] | None = None,
    seed: int = 0,
) -> list[Report]:
    """`updates` steps of the optimizer along contrastive divergence; the model's parameters are the last point.

    data: (cases, visible), or (time, sequences, visible) for a temporal model. batch: cases, or sequences, drawn
    for each update without repetition; None: all of them. gibbs_steps: k, or a function of the update's number
    (the source: lambda n: 10 if n < 1000 else 25). rate: the learning rate by update, instead of the optimizer's.
    below: trained models from the data upwards; the model then learns from their `activities`, drawn anew for
    each batch. callback(update, report) may return True to stop. A report's loss: see ContrastiveDivergence.
    Raises UsageError and DataError for what cannot be meant, TrainingError when learning runs away.
    """
    if not isinstance(model, EnergyModel):
        raise UsageError(f"train takes an RBM, TRBM or RTRBM, not {model!r:.60}")
    if not isinstance(optimizer, FirstOrder):
        raise UsageError(
            f"train: optimizer must be a first-order optimizer, e.g. rnn.Momentum(rate=0.01), not {optimizer!r:.60}"
        )
    updates = whole_number("train: updates", updates)
    generator = as_generator("train", seed)
    reader = below[0] if below else model
    cases = reader.check_data("data", data)
    axis, count = reader.case_axis, cases.shape[reader.case_axis]
    size = count if batch is None else whole_number("train: batch", batch)
    if size > count:
        raise DataError(f"train: batch is {size}, but the data hold only {count} (axis {axis})")
    objective = ContrastiveDivergence(model, 1, seed)
    theta = objective.start()
    state = optimizer.init(theta)
    reports: list[Report] = []
    for update in range(updates):
        chosen = cases if size == count else cases.take(generator.permutation(count)[:size], axis=axis)
        objective.feed(raised(chosen, below, generator))
        objective.gibbs_steps = gibbs_steps(update) if callable(gibbs_steps) else gibbs_steps
        report = optimizer.step(objective, theta, state, None if rate is None else rate(update))
        reports.append(report)
        if not (np.isfinite(report.loss) and np.isfinite(report.gradient_norm)):
            raise TrainingError(
                f"the reconstruction error is {report.loss} and the gradient's norm {report.gradient_norm} at update "
                f"{update}; try a smaller rate, clipping (clip_norm=1.0), or, for Gaussian units, data divided by "
                "their standard deviation."
            )
        if callback is not None and is_true(callback(update, report)):
            break
    model.theta = theta
    return reports


def raised(data: Array, layers: Sequence[EnergyModel], generator: np.random.Generator) -> Array:
    """The activities of the last of the layers, each reading those of the one before."""
    for layer in layers:
        data = layer.activities(data, generator)
    return data
