"""Evaluation of a network on a text: bits per character and accuracy, with context that is not scored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.data.symbols import symbol_row
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.settings import whole_number


def vocabulary_of(who: str, network: Any) -> Vocabulary:
    """Returns the network's vocabulary; UsageError, prefixed with `who`, if there is none."""
    vocabulary = require_network(who, network).vocabulary
    if vocabulary is None or network.reads != "symbols":
        raise UsageError(f"{who}: the network must have a vocabulary, but it was not trained on text")
    if network.loss != "softmax" or network.outputs != len(vocabulary):
        raise UsageError(
            f"{who}: the network must have the loss softmax and an output for each of the {len(vocabulary)} "
            f"characters, not {network.loss} and {network.outputs} outputs"
        )
    return vocabulary


def as_symbols(network: Network, text: Any) -> Array:
    """Returns the symbols of a text: a str is encoded by the network's vocabulary.

    Raises DataError for anything but a str or a row of symbols of the network.
    """
    if isinstance(text, str):
        if network.vocabulary is None:
            raise DataError(
                "the network has no vocabulary, so it cannot read a str; pass an array of symbols"
            )
        return network.vocabulary.encode(text)
    return symbol_row("a text that is not a str", text, network.inputs)


@dataclass(frozen=True)
class Evaluation:
    """Sums over the scored characters."""

    nats: float
    correct: int
    scored: int

    @property
    def bits(self) -> float:
        """Mean bits per character: -log₂ p(next character)."""
        return self.nats / self.scored / math.log(2)

    @property
    def accuracy(self) -> float:
        """Share of characters with the highest predicted probability."""
        return self.correct / self.scored


class Evaluator:
    """Bits per character and accuracy on a text, read in `lanes` parallel parts, `time` steps at once, without dropout.

    network: causal network that reads and predicts symbols. lanes: number of parts read in parallel, 32 by default.
    time: time steps of the compiled function, 50 by default. threads: maximum number of threads, see gn.compile.
    Every character except the first `context` is scored once, after at least `context` characters of the text: each
    lane first reads the end of the lane before, so that no lane starts cold.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> found = rnn.Evaluator(net, lanes=2, time=5)("abcab" * 10, context=4)
    >>> found.scored, found.bits > 0
    (46, True)
    >>> nats, likeliest = rnn.Evaluator(net, lanes=2, time=5).characters("abcab" * 10, context=4)
    >>> nats.shape, likeliest.shape
    ((46,), (46,))
    """

    def __init__(self, network: Network, lanes: int = 32, time: int = 50, threads: int | None = None) -> None:
        require_network("Evaluator", network).require_finite("Evaluator")
        if not network.predicts_symbols:
            raise UsageError("Evaluator: the network must read symbols and predict them")
        network.require_causal("Evaluator")
        self.network = network
        self.lanes, self.time = whole_number("lanes", lanes), whole_number("time", time)
        u = network.unroll(self.time, self.lanes, training=False)
        self._function = gn.compile(
            [u.losses, gn.argmax(u.logits), *u.final], [u.inputs, u.targets, *u.initial], threads=threads
        )

    def __call__(
        self, symbols: Array | str, context: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> Evaluation:
        """Returns the sums over the scored characters.

        symbols: a row of symbols, or a str. context: number of characters to read before the first that is scored, 0 by
        default. progress: called with (characters read, total).
        Raises DataError if nothing is left to score, or for invalid symbols.
        """
        symbols = as_symbols(self.network, symbols)
        nats, correct, scored = 0.0, 0, 0
        for losses, guesses, targets, counts, _ in self._pieces(symbols, context, progress):
            nats += float(losses[counts].sum(dtype=np.float64))
            correct += int((guesses == targets)[counts].sum())
            scored += int(counts.sum())
        return Evaluation(nats, correct, scored)

    def characters(
        self, symbols: Array | str, context: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> tuple[Array, Array]:
        """-ln p of each scored character, in nats, and the likeliest symbol in its place, in the order of the text.

        Both (scored,), from the character at max(1, context). symbols, context, progress: as in a call of the
        Evaluator.
        """
        symbols = as_symbols(self.network, symbols)
        lead = max(1, whole_number("context", context, least=0))
        scored = max(0, len(symbols) - lead)
        nats, likeliest = np.zeros(scored), np.zeros(scored, np.int64)
        for losses, guesses, _, counts, position in self._pieces(symbols, context, progress):
            at = position[counts] + 1 - lead
            nats[at], likeliest[at] = losses[counts], guesses[counts]
        return nats, likeliest

    def _pieces(
        self, symbols: Array, context: int, progress: Callable[[int, int], None] | None
    ) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
        """Yields for each piece, each (time, lanes): losses, guesses, targets, mask of scored ones, position."""
        self.network.require_finite("Evaluator")
        lead = max(1, whole_number("context", context, least=0))
        scored = len(symbols) - lead
        if scored < 1:
            raise DataError(
                f"the text has {len(symbols)} characters; a context of {context} leaves none to score. "
                "Give a longer text or a smaller context."
            )
        block = math.ceil(scored / self.lanes)
        steps = lead + block - 1
        last = len(symbols) - 1
        states = self.network.first_states(self.lanes)
        for start in range(0, steps, self.time):
            step = np.arange(start, start + self.time)[:, None]
            position = step + block * np.arange(self.lanes)
            counts = (step >= lead - 1) & (step < steps) & (position < last)
            inputs, targets = symbols[np.minimum(position, last)], symbols[np.minimum(position + 1, last)]
            losses, guesses, *states = self._function(inputs, targets, *states)
            yield losses, guesses, targets, counts, position
            if progress is not None:
                progress(min(start + self.time, steps) * self.lanes, steps * self.lanes)
