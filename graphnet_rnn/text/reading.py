"""Predictions of a network as it reads: probability of each character, and the cost over a whole text."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphnet.graph.display import ShowsItself
from graphnet.graph.node import Array
from graphnet_rnn.data.text import Corpus
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import text as text_of, whole_number
from graphnet_rnn.text.evaluation import Evaluator, vocabulary_of


@dataclass(frozen=True)
class Reading(ShowsItself):
    """A network's predictions for a text, character by character.

    text: the characters. nats: -ln p(character | all before it) for each; None without a prediction.
    guesses: the likeliest character in each place; the right one without a prediction.
    context: number of characters read before the first; 0 for a cold start.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> found = rnn.read(net, "abcab", context="ab")
    >>> len(found.nats), len(found.guesses), found.context
    (5, 5, 2)
    """

    text: str
    nats: tuple[float | None, ...]
    guesses: str
    context: int = 0

    @property
    def probabilities(self) -> tuple[float | None, ...]:
        """p(character | all before it)"""
        return tuple(None if nats is None else math.exp(-nats) for nats in self.nats)

    @property
    def bits(self) -> float:
        """Mean bits per predicted character; NaN if none was predicted."""
        known = [nats for nats in self.nats if nats is not None]
        return math.fsum(known) / len(known) / math.log(2) if known else math.nan

    @property
    def accuracy(self) -> float:
        """Share of predicted characters whose guess is right; NaN if none was predicted."""
        known = [c == g for c, g, n in zip(self.text, self.guesses, self.nats, strict=True) if n is not None]
        return sum(known) / len(known) if known else math.nan


def read(network: Network, text: str, context: str = "", unknown: str | None = None) -> Reading:
    """p(c_t | context, c_1 ... c_{t-1}) for each character of a text, and the likeliest one.

    network: causal network with a vocabulary. text: characters to predict. context: text to read first; without it the
    states are those at the start of a sequence, and the first character is not predicted. unknown: character to read in
    place of those that the vocabulary lacks; None (default): an error. No dropout.
    Raises UsageError for a network without a vocabulary, DataError for an empty text or unknown characters.
    Source: Lynge 2016, 3.4.5 and 5.4.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> found = rnn.read(net, "abcab")
    >>> found.nats[0], len(found.nats), found.bits > 0
    (None, 5, True)
    """
    vocabulary = vocabulary_of("read", network)
    symbols = vocabulary.encode(text_of("read: context", context) + text_of("read: text", text), unknown)
    if not context and len(text) == 1:
        return Reading(text, (None,), text)
    nats, likeliest = Evaluator(network, lanes=1).characters(symbols, context=len(context))
    guesses, costs = vocabulary.decode(likeliest), tuple(float(n) for n in nats)
    if context:
        return Reading(text, costs, guesses, len(context))
    return Reading(text, (None, *costs), text[:1] + guesses)


@dataclass(frozen=True)
class TextCost(ShowsItself):
    """Cost of each piece of a text, as `cost_over_text` returns it.

    characters: length of a piece. bits: mean bits per character of each piece; NaN if none of its characters was
    scored. new_words: number of words in each piece that are new in the text.
    parts: names of the parts of the text and their first characters. length: of the text, in characters. means: bits
    per character of each part.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> found = rnn.cost_over_text(net, "abcab" * 100, characters=100)
    >>> found.length, len(found.bits), found.new_words
    (500, 5, (1, 0, 0, 0, 0))
    """

    characters: int
    bits: tuple[float, ...]
    new_words: tuple[int, ...]
    parts: tuple[tuple[str, int], ...]
    length: int
    means: tuple[float, ...] = ()


def cost_over_text(
    network: Network,
    data: Corpus | str,
    characters: int = 1000,
    context: int = 50,
    lanes: int = 32,
    unknown: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TextCost:
    """Bits per character of each piece of `characters`, over the whole data set: training, validation and test.

    network: causal network with a vocabulary. data: a Corpus, whose parts are read one after another with the states
    carried on (as in the source), or a text. characters: length of a piece, 1000 by default. context: number of
    characters that each lane reads of the one before it, 50 by default; those at the start of the text are not scored.
    A piece without a scored character costs NaN. lanes: number of parts read in parallel, 32 by default; 1 carries the
    states through the whole text (and is slower). unknown: character to read in place of those that the vocabulary
    lacks. progress: called with (characters read, total).
    Raises UsageError, DataError.
    Source: Lynge 2016, figs 5.1 to 5.3.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> found = rnn.cost_over_text(net, "abcab" * 100, characters=250, lanes=4)
    >>> len(found.bits)
    2
    """
    vocabulary = vocabulary_of("cost_over_text", network)
    characters = whole_number("cost_over_text: characters", characters)
    context = whole_number("cost_over_text: context", context, least=0)
    parts: tuple[tuple[str, int], ...] = ()
    if isinstance(data, Corpus):
        text = data.vocabulary.decode(np.concatenate([data.train, data.valid, data.test]))
        starts = (0, len(data.train), len(data.train) + len(data.valid), len(text))
        names = zip(("training", "validation", "test"), itertools.pairwise(starts), strict=True)
        parts = tuple((name, start) for name, (start, end) in names if end > start)
    else:
        text = text_of("cost_over_text: data that is not a Corpus", data)
    symbols = vocabulary.encode(text, unknown)
    nats, _ = Evaluator(network, lanes).characters(symbols, context, progress)
    first = len(symbols) - len(nats)
    piece = np.arange(first, len(symbols)) // characters
    count = -(-len(symbols) // characters)
    scored = np.bincount(piece, minlength=count)
    bits = np.full(count, np.nan)
    np.divide(np.bincount(piece, nats, count) / math.log(2), scored, out=bits, where=scored > 0)
    fresh = np.bincount(new_words(text) // characters, minlength=count)
    borders = [max(start - first, 0) for _, start in parts]
    each = np.split(nats / math.log(2), borders[1:]) if parts else []
    means = tuple(float(part.mean()) if part.size else math.nan for part in each)
    return TextCost(characters, tuple(bits.tolist()), tuple(fresh.tolist()), parts, len(symbols), means)


def new_words(text: str) -> Array:
    """Positions of the first characters of words that are new in the text, in order.

    A word is a run of letters, digits and _, so that identifiers are words.
    Source: Lynge 2016, fig. 5.3.
    """
    seen: set[str] = set()
    places = []
    for match in re.finditer(r"\w+", text):
        if match[0] not in seen:
            seen.add(match[0])
            places.append(match.start())
    return np.array(places, np.int64)
