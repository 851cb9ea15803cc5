"""FreshSequences: a problem for a Trainer with new sequences in each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet.system.memory import require_memory
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.experiments.dependencies.problems import Task, require_task
from graphnet_rnn.experiments.dependencies.source import elman, settings, summed_over_time
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import MANY, setting, shown, whole_number
from graphnet_rnn.training.problem import CompiledProblem


@dataclass(eq=False, repr=False)
class FreshSequences(CompiledProblem):
    """Training on new sequences in each step; validated by the share of wrong test sequences.

    task: problem, e.g. rnn.tasks.Addition(30). network: by default 100 tanh units, initialized as by Sutskever 2013,
    4.4. batch: sequences of a batch. gradient_batches: number of batches for the gradient (loss and curvature use the
    first). test: number of test sequences, always the same. seed: seed of the weights and sequences; 0 by default.
    steps: steps of an epoch, after which the network is tested; 5 by default. threads, backend: see gn.compile.
    sequences: number of sequences that the network has read, with each gradient and each CG step. report, in `stepped`:
    report of the optimizer.
    If the problem has no more different sequences than `batch` or `test`, all are used, each once.

    >>> problem = rnn.tasks.FreshSequences(rnn.tasks.Addition(10), batch=20, test=20)
    >>> 0 <= problem.wrong() <= 1
    True
    """

    judged: ClassVar[str] = "wrong"
    item: ClassVar[str] = "sequence"
    model: Network = field(init=False)
    objective: Objective = field(init=False)

    task: Task
    network: Network = None  # type: ignore[assignment]  # that of the source, once it is made
    batch: int = setting(
        None, "new sequences in each step, for the curvature and the gradient", default=1000, type=int
    )
    gradient_batches: int = setting(
        None, "number of batches for the gradient (the source: 10)", default=1, type=int
    )
    test: int = setting(None, "number of test sequences", default=10_000, type=int)
    seed: int = setting(0, "random seed of weights and sequences")
    steps: int = setting(5, "steps of an epoch, after which the network is tested")

    def __post_init__(self) -> None:
        own, task = type(self).__name__, self.task
        source = settings(require_task(own, task))
        self.seed = whole_number(f"{own}: seed", self.seed, least=0)
        if self.network is None:
            self.network = elman(task, source.units, self.seed)
        self.model = require_network(own, self.network)
        self.model.require_each_step(own)
        fits = (task.inputs, task.outputs, task.reads, task.loss)
        if (self.model.inputs, self.model.outputs, self.model.reads, self.model.loss) != fits:
            raise UsageError(
                f"{own}: {task.name} needs a network with inputs={task.inputs}, outputs={task.outputs}, "
                f"reads={task.reads!r}, loss={task.loss!r}, not {shown(self.model, MANY)}"
            )
        self.batch = self._at_most_all("batch", source.curvature)
        given = (
            max(1, source.gradient // self.batch) if self.gradient_batches is None else self.gradient_batches
        )
        self.gradient_batches = whole_number(f"{own}: gradient_batches", given)
        if self.batch == task.distinct:
            self.gradient_batches = 1
        self.test = self._at_most_all("test", source.test)
        self.steps = whole_number(f"{own}: steps", self.steps)
        self.items = self.batch * self.gradient_batches
        self._require_room("batch", self.items)
        self._require_room("test", self.test)
        threads, backend = self.threads, self.backend
        single = summed_over_time(task, self.model, 1, threads=threads, backend=backend)
        self.objective = summed_over_time(
            task, self.model, self.batch, threads=threads, backend=backend, single=single
        )
        self._generator = np.random.default_rng([self.seed, 0])
        #: Number of sequences that the network has read, with each gradient and each CG step.
        self.sequences = 0

    def _require_room(self, argument: str, count: int) -> None:
        # Inputs are float32, drawn in float64; symbols are int64.
        step = 4 * (self.task.inputs + self.task.outputs) + 8 if self.task.reads == "vectors" else 24
        require_memory(
            self.task.time * count * step,
            f"{type(self).__name__}: {argument}: {count:,} sequences of {self.task.time:,} steps",
            "fewer or shorter ones take less",
        )

    # -- methods for a Trainer -----------------------------------------------------------------

    def __len__(self) -> int:
        return self.steps

    def compile(self) -> None:
        self.objective.compile()

    def feed(self, epoch: int, step: int) -> Objective:
        self.objective.feed_batches(
            [self._drawn(self._generator, self.batch) for _ in range(self.gradient_batches)]
        )
        return self.objective

    def stepped(self, point: Array, report: Report) -> None:
        self.sequences += self.batch * (self.gradient_batches * report.gradients + report.products)

    def row(self, epoch: int) -> dict[str, Any]:
        return {"sequences": self.sequences}

    def validate(self) -> float:
        return self.wrong()

    def description(self) -> dict[str, Any]:
        task = {field.name: getattr(self.task, field.name) for field in fields(self.task)}
        return {**super().description(), "task": {"name": self.task.name, **task}}

    def numbers(self) -> dict[str, Any]:
        return {"random": self._generator.bit_generator.state, "sequences": self.sequences}

    def restore(self, arrays: Callable[[str, Array], Array], numbers: Mapping[str, Any]) -> None:
        self.sequences = numbers["sequences"]
        try:
            self._generator.bit_generator.state = numbers["random"]
        except (TypeError, ValueError, OverflowError):
            raise ModelFileError(
                f"the checkpoint is damaged: {shown(numbers['random'])} is not a state of its random numbers."
            ) from None

    # -- testing -------------------------------------------------------------------------------

    def wrong(self) -> float:
        """Share of misclassified test sequences, see Task.wrong."""
        logits, batches = self._testing
        found = [self.task.wrong(logits(x)[0], t) for x, t in batches]
        return float(np.concatenate(found)[: self.test].mean())

    @cached_property
    def _testing(self) -> tuple[gn.Function, list[tuple[Array, Array]]]:
        """o for a batch, and the test sequences in batches; the last batch is padded with the first sequences."""
        x, t = self._drawn(np.random.default_rng([self.seed, 1]), self.test)
        u = self.model.unroll(self.task.time, min(self.batch, self.test), training=False, initial="zero")
        order = np.arange(-(-self.test // u.batch) * u.batch).reshape(-1, u.batch) % self.test
        return gn.compile([u.logits], [u.inputs], self.backend, threads=self.threads), [
            (x[:, some], t[:, some]) for some in order
        ]

    def _at_most_all(self, argument: str, default: int) -> int:
        given, distinct = getattr(self, argument), self.task.distinct
        count = whole_number(f"{type(self).__name__}: {argument}", default if given is None else given)
        return count if distinct is None else min(count, distinct)

    def _drawn(self, generator: np.random.Generator, count: int) -> tuple[Array, Array]:
        return self.task.every() if count == self.task.distinct else self.task.batch(generator, count)
