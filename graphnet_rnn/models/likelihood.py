"""Likelihood: symbols under a hidden Markov model, as an objective for expectation-maximisation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.parallel.ranks import ALONE, Ranks

if TYPE_CHECKING:
    from graphnet_rnn.models.hmm import HMM

__all__ = ["Counts", "Likelihood"]


@dataclass(frozen=True)
class Counts:
    """What an E-step finds: expected numbers, given the symbols, summed over all sequences.

    pi: of starts in state i, (states,). A: of moves from i to j, (states, states). B: of times that state i printed x,
    (states, symbols). log_likelihood: of each sequence in nats, (batch,).
    """

    pi: Array
    A: Array
    B: Array
    log_likelihood: Array


class Likelihood:
    """-log p of the sequences, in nats per symbol, and where the bound that the present tables give is highest.

    shares: parts of the sequences, counted each by itself, so that as many processes may share a step.
    """

    def __init__(self, model: HMM, symbols: Array, shares: int = 1) -> None:
        self.model, self.symbols = model, symbols
        self.parts = np.array_split(symbols, shares, axis=1) if shares > 1 else [symbols]
        self.ranks: Ranks = ALONE

    @property
    def size(self) -> int:
        return int(self.model.theta.size)

    def start(self) -> Array:
        return self.model.theta.copy()

    def place(self, vector: Array) -> Array:
        return vector.copy()

    def set(self, w: Array) -> None:
        self.model.theta = w

    def penalty(self, w: Array) -> float:
        return 0.0

    def explain_non_finite(self) -> None:
        """The tables are at fault: HMM's own errors say which symbol is impossible."""

    def loss(self, w: Array) -> float:
        self.set(w)
        return self.model.bits(self.symbols) * math.log(2)

    def gradient(self, w: Array) -> tuple[float, Array]:
        raise UsageError(
            "HMM: tables have no free gradient; use rnn.ExpectationMaximization(), or train the logits of "
            "hmm.unroll(..., tables='softmax') by rnn.minimize"
        )

    def maximized(self, w: Array, smoothing: float) -> tuple[float, Array]:
        """The loss at w, and the tables after one step of expectation-maximisation from there."""
        self.set(w)
        total = self.ranks.sum(len(self.parts), self._counted(), 1 + w.size)
        tables = self.model.pi, self.model.A, self.model.B
        ends = np.cumsum([1, *(table.size for table in tables)])[:-1]
        likelihood, *found = np.split(total, ends)
        pi, A, B = (each.reshape(table.shape) for each, table in zip(found, tables, strict=True))
        loss = float(-likelihood[0] / self.symbols.size)
        return loss, self.model.maximized(Counts(pi, A, B, likelihood), smoothing)

    def _counted(self) -> Iterator[Array]:
        """Of each part of this process the log likelihood, and the expected counts, end to end."""
        for number in self.ranks.own(len(self.parts)):
            found = self.model.counts(self.parts[number])
            likelihood = found.log_likelihood.sum(keepdims=True)
            yield np.concatenate([likelihood, found.pi, found.A.ravel(), found.B.ravel()])
