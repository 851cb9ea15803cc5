"""The objective of a problem: its loss summed over time."""

from __future__ import annotations

from typing import Any

from graphnet_rnn.experiments.dependencies.problems import Task, require_task
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.optimizers.objective import Objective

__all__ = ["summed_over_time"]


def summed_over_time(
    task: Task, network: Network, count: int, unscored: int | None = None, **how: Any
) -> Objective:
    """C = Σ_t loss_t over the scored steps, the mean over `count` sequences; inputs and targets are to be fed.

    The mean over steps, `u.cost`, would make every λ of the sources too large by the number of scored steps.
    unscored: how many of the first steps are left out, by default those without a target.
    how: further settings of Objective (backend, memory, ...).
    """
    require_task("summed_over_time", task)
    require_network("summed_over_time", network).require_each_step("summed_over_time")
    unscored = task.unscored if unscored is None else unscored
    u = network.unroll(task.time, count, initial="zero", unscored=unscored)
    cost = u.cost * float(task.time - unscored)
    # As u.structure reads u.cost, the pairs are those of this cost, too.
    return Objective(
        cost, list(network.parameters.values()), [u.inputs, u.targets], structure=u.structure, **how
    )
