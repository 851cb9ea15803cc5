"""p(next character) after many texts at once, for searches and evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.predicted import log_softmax
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import Runner
from graphnet_rnn.settings import whole_number
from graphnet_rnn.text.sampling import Stepper

P = TypeVar("P")


class TextModel(Protocol[P]):
    """Language model of symbols: a network in lanes, or n-grams.

    A place (of type P) holds the model's state after several texts, one row for each.
    """

    @property
    def vocabulary(self) -> Vocabulary: ...
    def start(self, symbols: Array) -> P:
        """Place of one row, after these symbols."""
        ...

    def rows(self, place: P, rows: Array) -> P:
        """Place of these rows; a row may be repeated."""
        ...

    def read(self, place: P, texts: Sequence[Array]) -> tuple[Array, P]:
        """ln p of a text after each row, (rows,), and the place after the texts."""
        ...


@dataclass(frozen=True)
class Place:
    """State of a network after n texts: ln p of the next symbol, (n, symbols), and its states, (n, width) each."""

    log_p: Array
    states: tuple[Array, ...]

    def rows(self, rows: Any) -> Place:
        """Place of these rows, in this order."""
        return Place(self.log_p[rows], tuple(state[rows] for state in self.states))


class Lanes:
    """A network that reads any number of texts in parallel, one character of each at a time, without dropout.

    network: causal network with a vocabulary. lanes: number of texts in one run of the compiled step, 64 by default;
    more texts take several runs. who: prefix of error messages. threads: maximum number of threads, see gn.compile.
    Raises UsageError for a network without a vocabulary, with a bidirectional layer, or with one output for a sequence.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> lanes = rnn.Lanes(net)
    >>> place = lanes.start(net.vocabulary.encode("ab")).rows([0, 0])
    >>> lanes.step(place, net.vocabulary.encode("bc")).log_p.shape
    (2, 3)
    >>> log_p, after = lanes.read(place, [net.vocabulary.encode("bca"), net.vocabulary.encode("c")])
    >>> log_p.shape, lanes.rows(after, [1]).log_p.shape
    ((2,), (1, 3))
    """

    def __init__(
        self, network: Network, lanes: int = 64, who: str = "Lanes", threads: int | None = None
    ) -> None:
        self._one = Stepper(network, who, threads)
        self.network, self.vocabulary = network, self._one.vocabulary
        self.lanes = whole_number(f"{who}: lanes", lanes)
        self._runner = Runner(network, threads=threads, frozen=True)

    def start(self, symbols: Array) -> Place:
        """Place after a text, from a cold start; an empty text is read as a newline (or the first symbol), as by a
        Sampler.

        symbols: a row of symbols.
        """
        self.network.require_finite("Lanes")
        self._one.refresh()
        self._runner.refresh()
        states = self.network.first_states(1)
        for symbol in symbols if len(symbols) else [self._one.opening]:
            logits, states = self._one(int(symbol), states)
        return Place(log_softmax(logits[None]), tuple(states))

    def rows(self, place: Place, rows: Array) -> Place:
        """Returns `place` with these rows, see Place.rows."""
        return place.rows(rows)

    def step(self, place: Place, symbols: Array) -> Place:
        """Place after one more symbol of each text.

        place: of n texts. symbols: (n,).
        """
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
        """ln p of a text after each row of `place`, (n,), and the place after the texts, whose lengths may differ."""
        lengths = np.array([len(text) for text in texts], np.int64)
        order = np.argsort(-lengths, kind="stable")
        now = place.rows(order)
        log_p, states = now.log_p.copy(), [state.copy() for state in now.states]
        total = np.zeros(len(texts))
        for t in range(int(lengths.max(initial=0))):
            active = int((lengths > t).sum())  # the longest texts come first
            symbols = np.array([texts[row][t] for row in order[:active]], np.int64)
            total[:active] += log_p[np.arange(active), symbols]
            after = self.step(Place(log_p[:active], tuple(s[:active] for s in states)), symbols)
            log_p[:active] = after.log_p
            for state, new in zip(states, after.states, strict=True):
                state[:active] = new
        back = np.argsort(order, kind="stable")
        return total[back], Place(log_p, tuple(states)).rows(back)
