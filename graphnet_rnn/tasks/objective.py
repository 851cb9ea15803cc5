"""The objective of a problem: its loss summed over time."""

from __future__ import annotations

from typing import Any

from graphnet_rnn.network import Network
from graphnet_rnn.objective import Objective
from graphnet_rnn.tasks.pathological import Task

__all__ = ["summed_over_time"]


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
