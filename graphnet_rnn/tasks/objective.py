"""The objective of a problem: summed over time, with a gradient over more sequences than the curvature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphnet.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network import Network
from graphnet_rnn.objective import Objective
from graphnet_rnn.tasks.pathological import Task

__all__ = ["GradientOverBatches", "summed_over_time"]


def summed_over_time(task: Task, network: Network, count: int, **how: Any) -> Objective:
    """C = Σ_t loss_t over the scored steps, the mean over `count` sequences; inputs and targets are to be fed.

    The mean over steps, `u.cost`, would make every λ of the sources too large by the number of scored steps.
    how: further settings of Objective (backend, memory, ...).
    """
    u = network.unroll(task.time, count, initial="zero", unscored=task.unscored)
    cost = u.cost * float(task.time - task.unscored)
    # As u.structure reads u.cost, the pairs are those of this cost, too.
    return Objective(
        cost, list(network.parameters.values()), [u.inputs, u.targets], structure=u.structure, **how
    )


class GradientOverBatches:
    """∇C is the mean over several batches of one size; C itself and its curvature are those of the first.

    objective: an Objective, whose inputs say how large a batch is. It takes as much memory as one batch.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.batches: list[Sequence[Any]] = []

    def feed(self, *batches: Sequence[Any]) -> None:
        """The batches, each as `objective.feed` takes it, that all is computed on until the next feed."""
        if not batches:
            raise UsageError("GradientOverBatches.feed: at least one batch is needed")
        self.batches = list(batches)
        self.objective.feed(*self.batches[0])

    def gradient(self, w: Array) -> tuple[float, Array]:
        """The means of C(w) and of ∇C(w) over the batches."""
        self._require_fed()
        loss, total = 0.0, np.zeros(self.objective.size)
        try:
            for batch in self.batches:
                self.objective.feed(*batch)
                found, g = self.objective.gradient(w)
                loss += found / len(self.batches)
                total += g / len(self.batches)
        finally:
            self.objective.feed(*self.batches[0])
        return loss, total.astype(g.dtype)

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        """See Objective.curvature; of the first batch."""
        self._require_fed()
        return self.objective.curvature(w, structural)

    def loss(self, w: Array) -> float:
        """C(w) of the first batch"""
        self._require_fed()
        return self.objective.loss(w)

    def _require_fed(self) -> None:
        if not self.batches:
            raise UsageError("GradientOverBatches: feed it at least one batch first")
