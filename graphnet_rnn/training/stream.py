"""Online learning: a sequence that is read once, with an optimizer step every few time steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import array_of, checked_floats, checked_inputs, checked_symbols
from graphnet_rnn.online.learner import Learner
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.settings import Count, require_kinds, setting, shown
from graphnet_rnn.training.problem import Problem
from graphnet_rnn.training.state import digest_of


class _Steps:
    """The mean loss over the next time steps of a learner, and its gradient; evaluating it reads these steps."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.network = learner, learner.network
        self.inputs: Array = np.zeros(0)
        self.targets: Array = np.zeros(0)
        self.weights: Array = np.zeros(0)
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
        """Returns None: the origin is unknown, since the learner's memory mixes many steps."""

    def gradient(self, w: Array) -> tuple[float, Array]:
        self.network.theta = w
        total, gradient = 0.0, np.zeros_like(w)
        for x, t, chi in zip(self.inputs, self.targets, self.weights, strict=True):
            loss, g = self.learner.step(x, t if chi else None)
            total += chi * loss
            gradient += g if chi == 1 else w.dtype.type(chi) * g
        count = float(self.weights.sum()) * self.learner.batch
        return float(total) / count, gradient / count


@dataclass(eq=False, repr=False)
class Stream(Problem):
    """Online learning: an optimizer step after every `every` time steps; an epoch reads the sequence once.

    learner: rnn.online.RTRL or TruncatedLSTM, with its own back end and batch size.
    inputs, targets: (time, batch, ...), see Learner.step.
    every: time steps of an optimizer step, default 1. The gradient is the mean over these time steps and the sequences
    of the batch; a rest at the end is left out.
    weights: χ_t, weight of each time step in this mean, (time,); default None, all 1. Each optimizer step needs a
    positive weight.
    valid: (inputs, targets) for validation: the mean loss, from the initial states; default None.
    Raises UsageError, DataError.
    Source: Ollivier 2013, equations 4 and 5 (χ_t).

    >>> net = rnn.Network([rnn.Elman(4)], inputs=2, outputs=2)
    >>> x = np.arange(101)[:, np.newaxis] % 2  # (time, batch)
    >>> problem = rnn.Stream(rnn.online.RTRL(net), x[:-1], x[1:], every=10)
    >>> rnn.Trainer(problem, rnn.Training(rnn.Adam(rate=0.01), epochs=1)).run().steps
    10
    """

    item: ClassVar[str] = "step"
    undivided: ClassVar[str] = "each step depends on the state of the learner after all steps before it"
    objective: _Steps = field(init=False)

    learner: Learner
    inputs: InitVar[Any]
    targets: InitVar[Any]
    every: Count = setting(1, "time steps of a step")
    _: KW_ONLY
    weights: InitVar[Any] = None
    valid: InitVar[Any] = None

    def __post_init__(self, inputs: Any, targets: Any, weights: Any, valid: Any) -> None:
        require_kinds(self)
        learner = self.learner
        if not isinstance(learner, Learner):
            raise UsageError(
                f"Stream: learner must be a learner, e.g. rnn.online.RTRL(network), not {shown(learner)}"
            )
        self.model = learner.network
        self.items = self.every
        self._inputs, self._targets = _sequences("Stream", self.model, inputs, targets, weights)
        if self._inputs.shape[1] != learner.batch:
            raise DataError(
                f"Stream: the learner has batch={learner.batch}, but there are {self._inputs.shape[1]} sequences"
            )
        if len(self._inputs) < self.every:
            raise DataError(
                f"Stream: a step takes {self.every} time steps, but there are only {len(self._inputs)}; use a "
                "smaller `every`"
            )
        self._weights = _weights(weights, len(self._inputs), self.every)
        self._valid: tuple[Array, Array] | None = None
        if valid is not None:
            if not isinstance(valid, (tuple, list)) or len(valid) != 2:
                raise UsageError(f"Stream: valid must be (inputs, targets), not {shown(valid)}")
            self._valid = _sequences("Stream: valid", self.model, *valid)
        self._judge: gn.Function | None = None
        self.objective = _Steps(learner)

    def require_fit(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, FirstOrder):
            raise UsageError(
                f"Stream: optimizer must be first-order, e.g. rnn.Adam(rate=0.001), not {shown(optimizer)}"
            )

    def __len__(self) -> int:
        return len(self._inputs) // self.every

    def feed(self, epoch: int, step: int) -> _Steps:
        if step == 0:
            self.learner.reset()
        rows = slice(step * self.every, (step + 1) * self.every)
        self.objective.inputs, self.objective.targets = self._inputs[rows], self._targets[rows]
        self.objective.weights = self._weights[rows]
        return self.objective

    def weight(self, epoch: int, step: int) -> float:
        return float(self._weights[step * self.every : (step + 1) * self.every].sum())

    def validate(self) -> float | None:
        if self._valid is None:
            return None
        inputs, targets = self._valid
        network, batch = self.learner.network, inputs.shape[1]
        if self._judge is None:
            u = network.unroll(1, batch, training=False)
            self._judge = gn.compile(
                [gn.mean(u.losses), *u.final], [u.inputs, u.targets, *u.initial], **self.learner.how
            )
        states, total = network.first_states(batch), 0.0
        for t in range(len(inputs)):
            loss, *states = self._judge(inputs[t : t + 1], targets[t : t + 1], *states)
            total += float(loss)
        return total / len(inputs)

    def description(self) -> dict[str, Any]:
        own = {"learner": type(self.learner).__name__, "batch": self.learner.batch}
        data = digest_of(self._inputs, self._targets, self._weights, *(self._valid or ()))
        return {**super().description(), **own, "data": data}

    def arrays(self) -> dict[str, Array]:
        return self.learner.remembered()

    def numbers(self) -> dict[str, Any]:
        return {"random": self.learner.random_state}

    def restore(self, arrays: Callable[[str, Array], Array], numbers: Mapping[str, Any]) -> None:
        self.learner.recall({name: arrays(name, array) for name, array in self.arrays().items()})
        self.learner.random_state = numbers["random"]


def _sequences(
    who: str, network: Network, inputs: Any, targets: Any, weights: Any = None
) -> tuple[Array, Array]:
    """Returns inputs and targets as the learner reads them; targets of weight 0 may have any values."""
    x, t = checked_inputs(who, network, inputs), array_of(f"{who}: targets", targets)
    classes = network.loss == "softmax"
    shape = x.shape[:2] if classes else (*x.shape[:2], network.outputs)
    if t.shape != shape:
        raise DataError(f"{who}: targets must be {list(shape)}, not {list(t.shape)}")
    if weights is not None and np.shape(weights) == (len(t),):
        t = np.where(
            np.reshape(np.asarray(weights) != 0, (-1, *[1] * (t.ndim - 1))), t, np.zeros((), t.dtype)
        )
    name = f"{who}: targets"
    return x, checked_symbols(name, t, network.outputs) if classes else checked_floats(name, t, network.dtype)


def _weights(given: Any, time: int, every: int) -> Array:
    if given is None:
        return np.ones(time)
    weights = checked_floats("Stream: weights", array_of("Stream: weights", given), np.dtype("float64"))
    if weights.shape != (time,) or (weights < 0).any():
        found = f"{list(weights.shape)} with the minimum {weights.min(initial=0):g}"
        raise DataError(f"Stream: weights must be {time} numbers >= 0, one for each time step, not {found}")
    used = weights[: time // every * every].reshape(-1, every).sum(axis=1)
    if not used.all():
        raise DataError(
            f"Stream: step {np.argmin(used)} has no time step with a weight above 0; increase `every`, which is "
            f"{every}"
        )
    return weights
