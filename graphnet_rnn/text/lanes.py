"""p(next character) after many texts at once: what a search, or many runs, ask of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import Runner
from graphnet_rnn.settings import whole_number
from graphnet_rnn.text.sampling import Stepper

__all__ = ["Lanes", "Place", "TextModel", "log_softmax"]

P = TypeVar("P")


class TextModel(Protocol[P]):
    """What gives probabilities to texts, symbol by symbol: a network in lanes, or n-grams.

    A place (of type P) is where it stands in some texts, a row for each.
    """

    @property
    def vocabulary(self) -> Vocabulary: ...
    def start(self, symbols: Array) -> P:
        """The place of one row, after these symbols."""
        ...

    def rows(self, place: P, rows: Array) -> P:
        """The place of these rows; one may come several times."""
        ...

    def read(self, place: P, texts: Sequence[Array]) -> tuple[Array, P]:
        """ln p of a text behind each row, (rows,), and the place after them."""
        ...


@dataclass(frozen=True)
class Place:
    """Where a network stands in n texts: ln p of what comes next, (n, symbols), and its states, (n, width) each."""

    log_p: Array
    states: tuple[Array, ...]

    def rows(self, rows: Any) -> Place:
        """Of these texts, in this order."""
        return Place(self.log_p[rows], tuple(state[rows] for state in self.states))


class Lanes:
    """A network of text on any number of texts at once, one character of each a step, without dropout.

    lanes: so many are computed side by side by the compiled step; of more texts, one piece after another.
    Raises UsageError for a network without a vocabulary, that reads both ways, or with one output for a sequence.
    """

    def __init__(
        self, network: Network, lanes: int = 64, who: str = "Lanes", threads: int | None = None
    ) -> None:
        self._one = Stepper(network, who, threads)
        self.network, self.vocabulary = network, self._one.vocabulary
        self.lanes = whole_number(f"{who}: lanes", lanes)
        self._runner = Runner(network, threads=threads, frozen=True)

    def start(self, symbols: Array) -> Place:
        """After a text, from a cold start; of an empty one, after a newline (or the first symbol), as a Sampler."""
        self.network.require_finite("Lanes")
        self._one.refresh()
        self._runner.refresh()
        states = self.network.first_states(1)
        for symbol in symbols if len(symbols) else [self._one.opening]:
            logits, states = self._one(int(symbol), states)
        return Place(log_softmax(logits[None]), tuple(states))

    def rows(self, place: Place, rows: Array) -> Place:
        """See Place.rows."""
        return place.rows(rows)

    def step(self, place: Place, symbols: Array) -> Place:
        """The place after one more symbol of each text, (n,)."""
        pieces = [
            self._piece([state[start : start + self.lanes] for state in place.states], piece)
            for start in range(0, len(symbols), self.lanes)
            for piece in [symbols[start : start + self.lanes]]
        ]
        if not pieces:
            return place
        logits, *states = (np.concatenate(part) for part in zip(*pieces, strict=True))
        return Place(log_softmax(logits), tuple(states))

    def _piece(self, states: list[Array], symbols: Array) -> list[Array]:
        count = len(symbols)
        filled = np.zeros((1, self.lanes), np.int64)
        filled[0, :count] = symbols
        if count < self.lanes:
            states = [
                np.concatenate([s, np.zeros((self.lanes - count, *s.shape[1:]), s.dtype)]) for s in states
            ]
        logits, after = self._runner(filled, states)
        return [logits[0, :count], *(state[:count] for state in after)]

    def read(self, place: Place, texts: Sequence[Array]) -> tuple[Array, Place]:
        """ln p of a text behind each place, (n,), and the place after them; texts may differ in length."""
        lengths = np.array([len(text) for text in texts], np.int64)
        order = np.argsort(-lengths, kind="stable")
        now = place.rows(order)
        log_p, states = now.log_p.copy(), [state.copy() for state in now.states]
        total = np.zeros(len(texts))
        for t in range(int(lengths.max(initial=0))):
            active = int((lengths > t).sum())  # those with the longest texts come first
            symbols = np.array([texts[row][t] for row in order[:active]], np.int64)
            total[:active] += log_p[np.arange(active), symbols]
            after = self.step(Place(log_p[:active], tuple(s[:active] for s in states)), symbols)
            log_p[:active] = after.log_p
            for state, new in zip(states, after.states, strict=True):
                state[:active] = new
        back = np.argsort(order, kind="stable")
        return total[back], Place(log_p, tuple(states)).rows(back)


def log_softmax(logits: Array) -> Array:
    """ln p = o - ln Σ exp(o), along the last axis, in double precision."""
    below = np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))
