"""Trial: a network that is trained on one of the problems, and tested."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.cached import cached_property
from graphnet.memory import require_memory
from graphnet.node import Array
from graphnet_rnn.batched import BatchedObjective
from graphnet_rnn.errors import ModelFileError, TrainingError, UsageError
from graphnet_rnn.network import Network
from graphnet_rnn.optimizers import Optimizer, Report
from graphnet_rnn.settings import whole_number
from graphnet_rnn.tasks.objective import summed_over_time
from graphnet_rnn.tasks.pathological import Task
from graphnet_rnn.tasks.source import elman, settings
from graphnet_rnn.training_state import as_stored, read_training_state, require_finite, write_training_state

__all__ = ["Trial"]


class Trial:
    """Steps on fresh sequences, and the share of test sequences that is wrong. By default as Sutskever 2013, 4.4.

    optimizer: Hessian-free with the source's settings. network: 100 tanh units, initialised as there. batch: sequences
    of a batch; gradient_batches: how many batches the gradient is the mean over (the loss and the curvature are those
    of the first). test: sequences to test on, always the same. seed: of the weights and of all sequences.
    threads, backend: see gn.compile.
    Where the problem has no more different sequences than `batch` or `test`, all of them are taken, each once.
    steps: how many were made. sequences: how many went through the network, with each gradient and each step of CG.
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
        source = settings(task)
        self.task, self.seed = task, whole_number("Trial: seed", seed, least=0)
        self.optimizer = source.optimizer() if optimizer is None else optimizer
        self.network = elman(task, source.units, self.seed) if network is None else network
        fits = (task.inputs, task.outputs, task.reads, task.loss)
        if (self.network.inputs, self.network.outputs, self.network.reads, self.network.loss) != fits:
            raise UsageError(
                f"Trial: {task.name} needs a network with inputs={task.inputs}, outputs={task.outputs}, "
                f"reads={task.reads!r}, loss={task.loss!r}, not {self.network!r}"
            )
        self.batch = self._at_most_all("batch", source.curvature if batch is None else batch)
        default = max(1, source.gradient // self.batch)
        self.gradient_batches = whole_number(
            "Trial: gradient_batches", default if gradient_batches is None else gradient_batches
        )
        if self.batch == task.distinct:
            self.gradient_batches = 1
        self.test = self._at_most_all("test", source.test if test is None else test)
        self._require_room("batch", self.batch * self.gradient_batches)
        self._require_room("test", self.test)
        self.objective = BatchedObjective(
            summed_over_time(task, self.network, self.batch, threads=threads, backend=backend),
            single=summed_over_time(task, self.network, 1, threads=threads, backend=backend),
        )
        self.theta = gn.place(self.network.theta, backend)
        self.state = self.optimizer.init(self.theta)
        self.steps = self.sequences = 0
        self.threads, self.backend = threads, backend
        self._generator = np.random.default_rng([self.seed, 0])

    def _require_room(self, argument: str, count: int) -> None:
        """NotEnoughMemoryError for more sequences than can be drawn."""
        # float32, drawn in float64 for what is read; symbols are int64.
        step = 4 * (self.task.inputs + self.task.outputs) + 8 if self.task.reads == "vectors" else 24
        require_memory(
            self.task.time * count * step,
            f"Trial: {argument}: {count:,} sequences of {self.task.time:,} steps",
            "fewer or shorter ones take less",
        )

    def step(self) -> Report:
        """One step on fresh sequences.

        Raises TrainingError when the loss or its gradient is no longer finite.
        """
        self.objective.feed([self._drawn(self._generator, self.batch) for _ in range(self.gradient_batches)])
        try:
            report = self.optimizer.step(self.objective, self.theta, self.state)
        finally:  # a step looks at other points, too
            self.network.theta = np.asarray(self.theta)
        if not (np.isfinite(report.loss) and np.isfinite(report.gradient_norm)):
            raise TrainingError.not_finite(
                report.loss, report.gradient_norm, f"step {self.steps}", self.objective.explain_non_finite()
            )
        self.steps += 1
        self.sequences += self.batch * (self.gradient_batches * report.gradients + report.products)
        return report

    def save(self, path: str | Path) -> None:
        """Writes the weights, the optimiser's state and that of the random numbers; the file is a model file, too.

        Raises SaveError if that cannot be done, TrainingError if the weights are no longer finite; the file that was
        there is then as it was.
        """
        require_finite(np.asarray(self.theta), self.steps, f"{path} is")
        training = {
            "run": self.settings(),
            "steps": self.steps,
            "sequences": self.sequences,
            "random": self._generator.bit_generator.state,
        }
        write_training_state(Path(path), self.network, self.state, {}, training)

    def resume(self, path: str | Path) -> None:
        """Goes on where the trial was that was saved there.

        Raises ModelFileError if it cannot be read, UsageError if problem, network, optimiser, batches or seed differ.
        """
        stored = read_training_state(Path(path))
        if "random" not in stored.training or "steps" not in stored.training:
            raise ModelFileError(f"{path} is of another kind of training than a Trial; name another file.")
        stored.require_same(self.settings(), {})
        steps, sequences = stored.told("steps", 0), stored.told("sequences", 0)
        random = stored.told("random", self._generator.bit_generator.state)
        try:
            self._generator.bit_generator.state = random
        except (TypeError, ValueError, OverflowError):
            raise ModelFileError(
                f"{path} says {random!r:.60} of its random numbers, which cannot be."
            ) from None
        stored.restore(self.network, self.state)
        self.theta = gn.place(self.network.theta, self.backend)
        self.steps, self.sequences = steps, sequences

    def settings(self) -> dict[str, Any]:
        """What must be the same to go on."""
        task = {field.name: getattr(self.task, field.name) for field in fields(self.task)}
        settings = {
            "task": {"name": self.task.name, **task},
            "network": self.network.settings(),
            "optimizer": {"name": type(self.optimizer).__name__, **self.optimizer.settings()},
            "batch": self.batch,
            "gradient_batches": self.gradient_batches,
            "seed": self.seed,
        }
        return as_stored(settings)

    def wrong(self) -> float:
        """The share of the test sequences that the network misclassifies, see Task.wrong."""
        logits, batches = self._testing
        found = [self.task.wrong(logits(x)[0], t) for x, t in batches]
        return float(np.concatenate(found)[: self.test].mean())

    @cached_property
    def _testing(self) -> tuple[gn.Function, list[tuple[Array, Array]]]:
        """o for a batch, and the test sequences in batches, the last one filled up from the start."""
        x, t = self._drawn(np.random.default_rng([self.seed, 1]), self.test)
        u = self.network.unroll(self.task.time, min(self.batch, self.test), training=False, initial="zero")
        order = np.arange(-(-self.test // u.batch) * u.batch).reshape(-1, u.batch) % self.test
        return gn.compile([u.logits], [u.inputs], self.backend, threads=self.threads), [
            (x[:, some], t[:, some]) for some in order
        ]

    def _at_most_all(self, argument: str, count: int) -> int:
        count, distinct = whole_number(f"Trial: {argument}", count), self.task.distinct
        return count if distinct is None else min(count, distinct)

    def _drawn(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        return self.task.every() if count == self.task.distinct else self.task.batch(generator, count)
