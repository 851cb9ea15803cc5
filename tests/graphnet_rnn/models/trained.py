"""Helpers: energy models trained by a Trainer, and the reports of each update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.models.energy import EnergyModel, Stack
from graphnet_rnn.optimizers import Optimizer, Report, Schedule
from tests.graphnet_rnn.training.reports import Told


def train(
    model: EnergyModel,
    data: Any,
    optimizer: Optimizer,
    updates: int,
    batch: int | None = None,
    schedule: Schedule | None = None,
    folder: Path | None = None,
    resumed: bool = False,
    **how: Any,
) -> list[Report]:
    """`updates` steps on batches, by default of all cases; none are kept to validate."""
    shape, below = np.shape(data), how.get("below", [])
    axis = (below[0] if below else model).case_axis
    problem = rnn.EnergyCases(model, data, batch or shape[axis], valid=0, **how)
    settings = rnn.Training(
        optimizer, epochs=updates, steps=updates, schedule=schedule or rnn.Constant(), stopping=None
    )
    told = Told()
    trainer = rnn.Trainer(problem, settings, folder, listeners=[told])
    if resumed:
        trainer.resume()
    trainer.run()
    model.theta = np.asarray(trainer.theta)
    return told.reports


def train_stack(stack: Stack, data: Array, optimizer: Optimizer, updates: int, **how: Any) -> None:
    """Each layer by itself, from the data upwards."""
    for level, layer in enumerate(stack.layers):
        train(layer, data, optimizer, updates, below=stack.layers[:level], **how)
