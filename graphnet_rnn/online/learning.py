"""OnlineLearning: weights that change while sequences are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.online.learner import Learner
from graphnet_rnn.optimizers import Adam
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.step import guarded_step
from graphnet_rnn.settings import whole_number

__all__ = ["KnownGradient", "OnlineLearning", "first_order"]


class KnownGradient:
    """A loss and its gradient, known already, as an optimiser asks for them."""

    def __init__(self, network: Network, loss: float, gradient: Array) -> None:
        self.network, self.found = network, (loss, gradient)

    def gradient(self, w: Array) -> tuple[float, Array]:
        """What was given; w is where it was taken."""
        return self.found

    def set(self, w: Array) -> None:
        """Gives the network's parameters the values of the vector."""
        self.network.theta = w

    def explain_non_finite(self) -> None:
        """Nothing is known of where it came from."""


def first_order(who: str, optimizer: Any) -> FirstOrder:
    """The optimiser, if it makes do with one gradient a step; else UsageError, for `who` asks."""
    if not isinstance(optimizer, FirstOrder):
        raise UsageError(
            f"{who}: optimizer must be one of first order, e.g. rnn.Adam(rate=0.001), not {optimizer!r:.60}; others "
            "look at a batch more than once."
        )
    return optimizer


class OnlineLearning:
    """A learner whose network takes a step of an optimiser after every so many time steps.

    learner: RTRL or TruncatedLSTM. optimizer: any of first order (Adam by default). every: time steps to a step of the
    optimiser, whose gradient is the mean over them (those that had targets) and over the sequences of the batch.
    With Nesterov the network is read at the point to which momentum will carry it. steps: how many were made.

        learning = rnn.online.OnlineLearning(rnn.online.RTRL(network), rnn.Adam(rate=0.01))
        for x, t in stream:
            loss = learning.step(x, t)
    """

    def __init__(self, learner: Learner, optimizer: FirstOrder | None = None, every: int = 1) -> None:
        if not isinstance(learner, Learner):
            raise UsageError(
                f"OnlineLearning: learner must be a learner, e.g. rnn.online.RTRL(network), not {learner!r:.60}"
            )
        self.learner, self.network = learner, learner.network
        self.optimizer = first_order("OnlineLearning", Adam() if optimizer is None else optimizer)
        self.every = whole_number("OnlineLearning: every", every)
        self.state = self.optimizer.init(self.network.theta.copy())
        self.steps = 0
        self._begin()

    def _begin(self) -> None:
        #: The weights that the optimiser will change; None until the first of the time steps that it looks at.
        self._theta: Array | None = None
        self._seen = self._scored = 0
        self._loss, self._gradient = 0.0, np.zeros_like(self.network.theta)

    def step(self, inputs: Any, targets: Any = None) -> float:
        """The loss of one time step, see Learner.step, summed over the batch; the weights change if it is time.

        Raises TrainingError when the loss or its gradient is no longer finite; the weights are then those of before.
        """
        if self._theta is None:
            self._theta = self.network.theta.copy()
            self.network.theta = self.optimizer.evaluation_point(self._theta, self.state)
        loss, gradient = self.learner.step(inputs, targets)
        self._seen += 1
        if targets is not None:
            self._scored += 1
            self._loss += loss
            self._gradient += gradient
        if self._seen == self.every:
            self._change(self._theta)
        return loss

    def _change(self, theta: Array) -> None:
        """A step of the optimiser on what was gathered."""
        self.network.theta = theta
        loss, gradient, count = self._loss, self._gradient, self._scored * self.learner.batch
        self._begin()
        if not count:
            return
        given = KnownGradient(self.network, loss / count, gradient / count)
        guarded_step(self.optimizer, given, theta, self.state, f"step {self.steps}")
        self.steps += 1
        self.network.theta = theta

    def learn(self, inputs: Any, targets: Any, unscored: int = 0) -> Array:
        """Reads a piece of time, step by step: inputs and targets (time, batch, ...); the losses, (time,).

        unscored: steps at the start whose targets are not looked at. The states go on from where they are.
        """
        try:
            x, t = np.asarray(inputs), np.asarray(targets)
        except ValueError as error:
            raise DataError(f"OnlineLearning.learn: inputs and targets must be arrays: {error}") from None
        if not x.ndim or not t.ndim or len(x) != len(t) or not len(x):
            raise DataError(
                f"OnlineLearning.learn: inputs and targets must have as many time steps, not {list(x.shape)} and "
                f"{list(t.shape)}"
            )
        skipped = whole_number("OnlineLearning.learn: unscored", unscored, least=0)
        return np.array([self.step(x[i], t[i] if i >= skipped else None) for i in range(len(x))])

    def reset(self) -> None:
        """The sequences start anew, see Learner.reset; the optimiser goes on as if they did not."""
        self.learner.reset()
