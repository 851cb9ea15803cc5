"""Trial: a network that is trained on one of the problems, and tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphnet_rnn.errors import ModelFileError
from graphnet_rnn.network.network import Network
from graphnet_rnn.optimizers import Optimizer, Report
from graphnet_rnn.optimizers.base import require_optimizer
from graphnet_rnn.optimizers.step import guarded_step, require_finite
from graphnet_rnn.settings import path as named_file
from graphnet_rnn.tasks.fresh import FreshSequences
from graphnet_rnn.tasks.pathological import Task
from graphnet_rnn.tasks.source import settings
from graphnet_rnn.training.state import as_stored, read_training_state, write_training_state

__all__ = ["Trial"]


class Trial:
    """Steps on fresh sequences, and the share of test sequences that is wrong. By default as Sutskever 2013, 4.4.

    optimizer: Hessian-free with the source's settings. network, batch, gradient_batches, test, seed, threads, backend:
    see FreshSequences.
    problem: that. network: what learns. steps: how many were made. sequences: how many went through the network, with
    each gradient and each step of CG.
    `save` writes all that it takes to go on; a trial that was made in the same way and resumed from there ends with the
    same bytes as one that was never stopped.
    """

    def __init__(
        self,
        task: Task,
        optimizer: Optimizer | None = None,
        network: Network | None = None,
        batch: int | None = None,
        gradient_batches: int | None = None,
        test: int | None = None,
        seed: int = 0,
        threads: int | None = None,
        backend: str = "numba",
    ) -> None:
        if optimizer is not None:
            require_optimizer("Trial", optimizer)
        how: dict[str, Any] = {
            "network": network,
            "batch": batch,
            "gradient_batches": gradient_batches,
            "test": test,
        }
        self.problem = FreshSequences(task, **how, seed=seed, threads=threads, backend=backend)
        self.network = self.problem.model
        self.optimizer = settings(task).optimizer() if optimizer is None else optimizer
        self.theta = self.problem.objective.start()
        self.state = self.optimizer.init(self.theta, self.problem.objective)
        self.steps = self.sequences = 0

    def wrong(self) -> float:
        """The share of the test sequences that the network misclassifies, see Task.wrong."""
        return self.problem.wrong()

    def step(self) -> Report:
        """One step on fresh sequences.

        Raises TrainingError when the loss or its gradient is no longer finite.
        """
        problem = self.problem
        report = guarded_step(
            self.optimizer, problem.feed(0, self.steps), self.theta, self.state, f"step {self.steps}"
        )
        self.network.theta = np.asarray(self.theta)
        self.steps += 1
        self.sequences += problem.batch * (problem.gradient_batches * report.gradients + report.products)
        return report

    def save(self, path: str | Path) -> None:
        """Writes the weights, the optimiser's state and that of the random numbers; the file is a model file, too.

        Raises SaveError if that cannot be done, TrainingError if the weights are no longer finite; the file that was
        there is then as it was.
        """
        path = named_file("Trial.save: path", path)
        require_finite(np.asarray(self.theta), self.steps, f"{path} is")
        training = {
            "run": self.description(),
            "steps": self.steps,
            "sequences": self.sequences,
            **self.problem.numbers(),
        }
        write_training_state(path, self.network, self.state, {}, training)

    def resume(self, path: str | Path) -> None:
        """Goes on where the trial was that was saved there.

        Raises ModelFileError if it cannot be read, UsageError if problem, network, optimiser, batches or seed differ.
        """
        path = named_file("Trial.resume: path", path)
        stored = read_training_state(path)
        if "random" not in stored.training or "steps" not in stored.training:
            raise ModelFileError(f"{path} is of another kind of training than a Trial; name another file.")
        stored.require_same(self.description())
        steps, sequences = stored.value("steps", 0), stored.value("sequences", 0)
        problem = self.problem
        problem.restore(stored.array, {"random": stored.value("random", problem.numbers()["random"])})
        stored.restore(self.network, self.state)
        self.theta = problem.objective.place(self.network.theta)
        self.steps, self.sequences = steps, sequences

    def description(self) -> dict[str, Any]:
        """What must be the same to go on."""
        optimizer = {"name": type(self.optimizer).__name__, **self.optimizer.settings()}
        # It is tested when somebody asks for it, on as many as are asked for.
        own = {
            name: value for name, value in self.problem.description().items() if name not in ("steps", "test")
        }
        return as_stored({"model": self.network.description(), "optimizer": optimizer, **own})
