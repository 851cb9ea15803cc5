"""Online learning as a problem: a sequence that is read once, with a step after every so many time steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.online.learner import Learner
from graphnet_rnn.optimizers import FirstOrder, Optimizer
from graphnet_rnn.settings import setting, whole_number
from graphnet_rnn.training.problem import Problem
from graphnet_rnn.training.state import digest_of

__all__ = ["Stream"]


class _Steps:
    """The mean loss over the next time steps of a learner, and its gradient; to ask for it reads them."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.network = learner, learner.network
        self.inputs: Array = np.zeros(0)
        self.targets: Array = np.zeros(0)
        self.parameters = self.network.parameters

    def start(self) -> Array:
        return self.network.theta.copy()

    def place(self, vector: Array) -> Array:
        return vector.copy()

    def set(self, w: Array) -> None:
        self.network.theta = w

    def penalty(self, w: Array) -> float:
        return 0.0

    def explain_non_finite(self) -> None:
        """Nothing is known of where it came from: what is remembered mixes many steps."""

    def gradient(self, w: Array) -> tuple[float, Array]:
        self.network.theta = w
        total, gradient = 0.0, np.zeros_like(w)
        for x, t in zip(self.inputs, self.targets, strict=True):
            loss, g = self.learner.step(x, t)
            total += loss
            gradient += g
        count = len(self.inputs) * self.learner.batch
        return total / count, gradient / count


@dataclass(eq=False, repr=False)
class Stream(Problem):
    """A step after every `every` time steps of a sequence; an epoch reads it once, from its start.

    learner: RTRL or TruncatedLSTM. inputs, targets: (time, batch, ...), see Learner.step. The gradient is the mean over
    the time steps, and over the sequences of the learner's batch. What does not fill a step at the end is left out.
    Raises UsageError, DataError.
    """

    item: ClassVar[str] = "step"
    objective: _Steps = field(init=False)

    learner: Learner
    inputs: InitVar[Any]
    targets: InitVar[Any]
    every: int = setting(1, "time steps of a step")

    def __post_init__(self, inputs: Any, targets: Any) -> None:
        learner = self.learner
        if not isinstance(learner, Learner):
            raise UsageError(
                f"Stream: learner must be a learner, e.g. rnn.online.RTRL(network), not {learner!r:.60}"
            )
        self.model = learner.network
        self.every = self.items = whole_number("Stream: every", self.every)
        try:
            self._inputs, self._targets = np.asarray(inputs), np.asarray(targets)
        except ValueError as error:
            raise DataError(f"Stream: inputs and targets must be arrays: {error}") from None
        if not self._inputs.ndim or self._inputs.shape[:1] != self._targets.shape[:1]:
            raise DataError(
                f"Stream: inputs and targets must have as many time steps, not {list(self._inputs.shape)} and "
                f"{list(self._targets.shape)}"
            )
        if len(self._inputs) < self.every:
            raise DataError(
                f"Stream: {len(self._inputs)} time steps are fewer than a step takes, {self.every}"
            )
        self.objective = _Steps(learner)

    def require_fit(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, FirstOrder):
            raise UsageError(
                f"Stream: optimizer must be one of first order, e.g. rnn.Adam(rate=0.001), not {optimizer!r:.60}; "
                "others look at a batch more than once."
            )

    def __len__(self) -> int:
        return len(self._inputs) // self.every

    def feed(self, epoch: int, step: int) -> _Steps:
        if step == 0:
            self.learner.reset()
        rows = slice(step * self.every, (step + 1) * self.every)
        self.objective.inputs, self.objective.targets = self._inputs[rows], self._targets[rows]
        return self.objective

    def description(self) -> dict[str, Any]:
        own = {"learner": type(self.learner).__name__, "batch": self.learner.batch}
        return {**super().description(), **own, "data": digest_of(self._inputs, self._targets)}

    def arrays(self) -> dict[str, Array]:
        return self.learner.remembered()

    def numbers(self) -> dict[str, Any]:
        return {"random": self.learner.random_state}

    def restore(self, arrays: Callable[[str, Array], Array], numbers: Mapping[str, Any]) -> None:
        self.learner.recall({name: arrays(name, array) for name, array in self.arrays().items()})
        self.learner.random_state = numbers["random"]
