"""`graphnet-rnn train "task:addition(30)"`: these problems as training data."""

from __future__ import annotations

import argparse
import re

from graphnet.system.text import in_brief
from graphnet_rnn.apps.cli.material import Material
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.dependencies.fresh import FreshSequences
from graphnet_rnn.experiments.dependencies.problems import TASKS, Task
from graphnet_rnn.network.network import Network
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.training.problem import Problem


class TaskMaterial(Material):
    """A problem with long-term dependencies, `task:addition(30)`: new sequences at each step."""

    batch = None

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.require_fitting((FreshSequences,), (), f"{options.data}, which draws its sequences")
        for name in ("valid", "fold"):
            if getattr(options, name) is not None:
                raise UsageError(
                    f"--{name} does not apply to {options.data}, which is a generated problem; leave it out"
                )
        found = re.fullmatch(r"task:([\w-]+)\(([0-9]{1,6})\)", options.data)
        if found is None or found[1] not in TASKS:
            raise UsageError(
                f"there is no problem {in_brief(options.data)}; write task:addition(30), the length in parentheses; "
                f"there are {', '.join(TASKS)}"
            )
        self.task: Task = TASKS[found[1]](int(found[2]))
        task = self.task
        self.shape = {"inputs": task.inputs, "outputs": task.outputs, "loss": task.loss, "reads": task.reads}

    def problem(self, network: Network, optimizer: Optimizer) -> Problem:
        options = self.options
        return FreshSequences(
            self.task,
            network,
            batch=options.batch,
            gradient_batches=options.gradient_batches,
            seed=options.seed,
            threads=options.threads,
            backend=options.backend,
        )
