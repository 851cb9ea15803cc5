"""Likelihood of a hidden Markov model: as nodes, with its curvature, and as an objective for EM."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model import ModelObjective
from graphnet_rnn.parallel.ranks import ALONE, Ranks

if TYPE_CHECKING:
    from graphnet_rnn.models.hmm import HMM

#: Logit of an entry that is 0: its softmax is 0.
FORBIDDEN = -1e3


def forward(
    emissions: Node, initial: Node, move: Callable[[Node], Node], scaled: bool = False
) -> tuple[Node, Node]:
    """log c_t and a_T: the recursion above, on nodes.

    emissions: B_i(x_t), (time, batch, states). initial: a_0, (batch, states). move: a ↦ a A. scaled: True makes the
    divisors c_t constant to derivatives, so that the gradient of the last log c_t, or of a_T, is the backward variable
    β_t / (c_t ... c_T) (Rabiner 1989, eqs 92-94), with positive terms only.
    Returns log p(x_t | x_<t) in nats, (time, batch), -inf from the first impossible symbol on; and a_T, (batch,
    states), the distribution of the next state.
    """
    a, probabilities = initial, []
    for t in range(emissions.shape[0]):
        with gn.scope(layer="forward", time=t + 1):
            joint = a * emissions[t]
            c = gn.sum(joint, axis=1, keepdims=True)
            # After an impossible symbol all probabilities are 0; avoids 0/0.
            scale = gn.where(c > 0, c, 1)
            a = move(joint / (gn.stop_gradient(scale) if scaled else scale))
            probabilities.append(c)
    return gn.log(gn.concatenate(probabilities, axis=1)).T, a


def of_complete_data(*nodes: Node) -> Node:
    """log p(symbols) of each sequence, with the curvature of EM's objective, the expected log p(symbols, path)

    nodes: the logits of π (none if the first state is given), A and B; log p itself; the emissions B_i(x_t).
    The row i of a table, with n_i moves from state i, has the curvature of -n_i log Σ exp(logits); the rest of
    Σ count · log softmax(logits) is linear. The counts are those of an E-step for each sequence: P(state i at t |
    symbols) is the derivative by the logarithm of B_i(x_t).
    """
    *pi, A, B, log_likelihood, emissions = nodes
    ones = gn.fill(1, log_likelihood.shape, log_likelihood.dtype)
    (slopes,) = gn.backward({log_likelihood: ones}, [emissions])
    occupied = gn.stop_gradient(emissions * slopes)
    left = gn.sum(occupied[:-1], axis=0)  # no move follows the last symbol
    bends = gn.sum(occupied, axis=0) @ gn.logsumexp(B) + left @ gn.logsumexp(A)
    return -gn.add(bends, *(gn.broadcast_to(gn.logsumexp(node), bends.shape) for node in pi))


def mean_of_complete_data(*nodes: Node) -> Node:
    """Mean cost of a symbol with this curvature, see of_complete_data."""
    time, batch, _ = nodes[-1].shape
    return gn.sum(of_complete_data(*nodes)) * (-1 / (time * batch))


@dataclass(frozen=True)
class UnrolledHMM:
    """The nodes of a model over `time` steps of `batch` sequences.

    parameters         "pi", "A", "B": the tables, or the free logits whose softmax they are
    tables             "pi", "A", "B": the tables
    symbols            Input, int64 (time, batch)
    initial            a_0, (batch, states); an Input if "given"
    final              a_T, (batch, states): the distribution of the state that emits the next symbol
    log_probabilities  log p(x_t | x_<t) in nats, (time, batch)
    log_likelihood     of each sequence in nats, (batch,)
    cost               mean nats for each symbol
    """

    parameters: dict[str, Node]
    tables: dict[str, Node]
    symbols: Node
    initial: Node
    final: Node
    log_probabilities: Node
    log_likelihood: Node
    cost: Node


def logits_of(name: str, table: Array) -> tuple[Node, Node]:
    """Returns free logits as a parameter, and the logits of the table: FORBIDDEN for entries that are 0."""
    positive = table > 0
    free = gn.parameter(np.log(np.where(positive, table, 1)), name=f"logits_{name}")
    return free, free if positive.all() else gn.where(positive, free, FORBIDDEN)


@dataclass(frozen=True)
class Counts:
    """Result of an E-step: expected numbers, given the symbols, summed over all sequences.

    pi: starts in state i, (states,). A: moves from i to j, (states, states). B: emissions of x in state i, (states,
    symbols). log_likelihood: of each sequence in nats, (batch,).
    """

    pi: Array
    A: Array
    B: Array
    log_likelihood: Array


class Likelihood(ModelObjective):
    """-log p of the sequences, in nats per symbol, and the maximum of the lower bound at the current tables.

    shares: parts of the sequences, counted separately, so that this number of processes can share a step.
    """

    def __init__(self, model: HMM, symbols: Array, shares: int = 1) -> None:
        self.model: HMM = model
        self.symbols = symbols
        self.parts = np.array_split(symbols, shares, axis=1) if shares > 1 else [symbols]
        self.ranks: Ranks = ALONE

    def loss(self, w: Array) -> float:
        self.set(w)
        return self.model.bits(self.symbols) * math.log(2)

    def gradient(self, w: Array) -> tuple[float, Array]:
        raise UsageError(
            "HMM: probability tables have no unconstrained gradient; use rnn.ExpectationMaximization(), or "
            "train the logits of hmm.unroll(..., tables='softmax') with rnn.minimize"
        )

    def maximized(self, w: Array, smoothing: float) -> tuple[float, Array]:
        """Returns the loss at w, and the tables after one step of expectation-maximization from w."""
        self.set(w)
        total = self.ranks.sum(len(self.parts), self._counted(), 1 + w.size)
        tables = self.model.pi, self.model.A, self.model.B
        ends = np.cumsum([1, *(table.size for table in tables)])[:-1]
        likelihood, *found = np.split(total, ends)
        pi, A, B = (each.reshape(table.shape) for each, table in zip(found, tables, strict=True))
        loss = float(-likelihood[0] / self.symbols.size)
        return loss, self.model.maximized(Counts(pi, A, B, likelihood), smoothing)

    def _counted(self) -> Iterator[Array]:
        """Log likelihood and expected counts, end to end, of each part of this process."""
        for number in self.ranks.own(len(self.parts)):
            found = self.model.counts(self.parts[number])
            likelihood = found.log_likelihood.sum(keepdims=True)
            yield np.concatenate([likelihood, found.pi, found.A.ravel(), found.B.ravel()])
