"""What each step of training on a text is computed on: pieces that carry their states, or independent sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.node import Array
from graphnet_rnn.batched import Batch, BatchedObjective
from graphnet_rnn.data.batches import Batches
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network import Network
from graphnet_rnn.objective import Objective
from graphnet_rnn.optimizers import Report
from graphnet_rnn.settings import whole_number

__all__ = ["CarriedPieces", "DrawnSequences", "Pieces"]


class Pieces(ABC):
    """The steps of an epoch.

    characters: scored in each of them. carried: what the next step needs of this one, besides weights.
    """

    characters: int
    carried: list[Array]

    @abstractmethod
    def __len__(self) -> int:
        """How many steps an epoch has."""

    @abstractmethod
    def compile(self) -> None:
        """Makes the gradient's function, so that what is in its way is known before the first step; see gn.compile."""

    @abstractmethod
    def fed(self, epoch: int, step: int) -> Objective | BatchedObjective:
        """The objective of this step, fed."""

    @abstractmethod
    def stepped(self, point: Array, report: Report) -> None:
        """Takes along what the next step needs. point: where the step took its (first) gradient."""

    def weight(self, step: int) -> float:
        """How many times `characters` this step scores."""
        return 1.0


class CarriedPieces(Pieces):
    """Truncated backpropagation through time: the text in lanes, states carried from each piece to the next.

    They are reset at the start of an epoch. With stride < time a piece is scored in its last `stride` steps, the first
    of an epoch in all. how: settings of Objective. For the rest see data.Batches.
    """

    def __init__(
        self,
        network: Network,
        symbols: Array,
        time: int,
        batch: int,
        stride: int | None,
        random: gn.RandomSource,
        **how: Any,
    ) -> None:
        self.network, self._random, self._how = network, random, how
        self._batches = Batches(symbols, time, batch, stride)
        self._time, self._batch, self._stride = time, batch, self._batches.stride
        self.characters = batch * self._stride
        self._learned = network.initial_state == "learned"
        self._objective = self._objective_of("given", time - self._stride)
        # Only the first piece of an epoch starts from the learned states, so only it trains them; and none before it
        # has scored any of its steps.
        self._first = self._objective
        if self._learned or self._stride < time:
            self._first = self._objective_of("learned" if self._learned else "given", 0)
        self._last = self._objective
        self.carried: list[Array] = network.first_states(batch)

    def _objective_of(self, initial: str, unscored: int) -> Objective:
        """The cost of a piece, and the states before the next; states before it are inputs if "given"."""
        u = self.network.unroll(
            self._time, self._batch, initial=initial, unscored=unscored, random=self._random
        )
        return Objective(
            u.cost,
            list(self.network.parameters.values()),
            [u.inputs, u.targets, *(u.initial if initial == "given" else [])],
            also=u.after[self._stride - 1],
            random=self._random,
            structure=u.structure,
            structure_scale=1 / (self._time - unscored),
            **self._how,
        )

    def __len__(self) -> int:
        return len(self._batches)

    def compile(self) -> None:
        for objective in (self._first, self._objective):
            objective.compile()

    def fed(self, epoch: int, step: int) -> Objective:
        inputs, targets = self._batches[step]
        if step == 0:
            self.carried = self.network.first_states(self._batch)
        self._last = self._objective if step else self._first
        self._last.redraw()
        self._last.feed(inputs, targets, *(() if step == 0 and self._learned else self.carried))
        return self._last

    def stepped(self, point: Array, report: Report) -> None:
        if report.gradients != 1:  # the last one was taken elsewhere
            self._last.gradient(point)
        self.carried = list(self._last.also_values)

    def weight(self, step: int) -> float:
        return 1.0 if step else self._time / self._stride


class DrawnSequences(Pieces):
    """The text cut into sequences of `time` characters, each read from the first state on, in a new order every epoch.

    A step's gradient is the mean over `gradient_batches` batches of `batch` sequences, its curvature, and the loss that
    steps are judged by, over the first `curvature_batches` of these. unscored: characters at the start of a sequence
    that are only read. What does not fill a step at the end of an epoch is left out.
    Source: Krause 2015, 4.2; Sutskever 2013, 5.4.2.
    """

    def __init__(
        self,
        network: Network,
        symbols: Array,
        time: int,
        batch: int,
        gradient_batches: int,
        curvature_batches: int | None,
        unscored: int,
        random: gn.RandomSource,
        **how: Any,
    ) -> None:
        time, batch = whole_number("time", time), whole_number("batch", batch)
        unscored = whole_number("unscored", unscored, least=0)
        if unscored >= time:
            raise UsageError(f"unscored must be in 0 ... {time - 1}, not {unscored}")
        self._groups = whole_number("gradient_batches", gradient_batches)
        self._curved = (
            1 if curvature_batches is None else whole_number("curvature_batches", curvature_batches)
        )
        if self._curved > self._groups:
            raise UsageError(
                f"curvature_batches must be at most gradient_batches, {self._groups}, not {self._curved}: they are a "
                "part of these"
            )
        count = max(0, len(symbols) - 1) // time
        self._steps = count // (batch * self._groups)
        if not self._steps:
            raise DataError(
                f"the text has {count} sequences of {time} characters, fewer than a step needs: {self._groups} batches "
                f"of {batch}. Use fewer gradient_batches, a smaller batch, or shorter sequences."
            )
        self._symbols, self._count, self._batch, self._time = symbols, count, batch, time
        self._seed = network.seed
        self._starts: tuple[int, Array] | None = None
        self.characters = self._groups * batch * (time - unscored)
        self.carried: list[Array] = []
        u = network.unroll(time, batch, initial=_first(network), unscored=unscored, random=random)
        self._objective = BatchedObjective(
            Objective(
                u.cost,
                list(network.parameters.values()),
                [u.inputs, u.targets],
                random=random,
                structure=u.structure,
                structure_scale=1 / (time - unscored),
                **how,
            ),
            single=self._single(
                network, time, unscored, **{k: how[k] for k in ("threads", "backend") if k in how}
            ),
        )

    @staticmethod
    def _single(network: Network, time: int, unscored: int, **how: Any) -> Objective:
        """For preconditioners: the same for one sequence, without dropout and weight decay."""
        u = network.unroll(time, 1, initial=_first(network), unscored=unscored, training=False)
        return Objective(u.cost, list(network.parameters.values()), [u.inputs, u.targets], **how)

    def __len__(self) -> int:
        return self._steps

    def compile(self) -> None:
        self._objective.objective.compile()

    def fed(self, epoch: int, step: int) -> BatchedObjective:
        if self._starts is None or self._starts[0] != epoch:
            order = np.random.default_rng([self._seed, epoch]).permutation(self._count)
            self._starts = epoch, order * self._time
        size = self._batch * self._groups
        starts = self._starts[1][step * size : (step + 1) * size].reshape(self._groups, self._batch)
        batches = [self._sequences(each) for each in starts]
        self._objective.redraw()
        self._objective.feed(batches, curvature=batches[: self._curved])
        return self._objective

    def stepped(self, point: Array, report: Report) -> None:
        """Nothing: the sequences are independent."""

    def _sequences(self, starts: Array) -> Batch:
        at = np.arange(self._time)[:, None] + starts[None, :]
        return self._symbols[at], self._symbols[at + 1]


def _first(network: Network) -> str:
    return "learned" if network.initial_state == "learned" else "zero"
