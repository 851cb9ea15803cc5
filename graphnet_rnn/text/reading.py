"""What a network expects as it reads: the probability of each character, and its cost over a whole text."""

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
from graphnet_rnn.settings import text as text_of
from graphnet_rnn.settings import whole_number
from graphnet_rnn.text.evaluation import Evaluator, vocabulary_of

__all__ = ["Reading", "TextCost", "cost_over_text", "new_words", "read"]


@dataclass(frozen=True)
class Reading(ShowsItself):
    """How a network read a text, character by character.

    nats: -ln p(character | all before it), for each character; None where nothing had been read yet.
    guesses: the likeliest character in each place; the right one where there was no prediction.
    context: how many characters it had read before the first; 0 is a cold start.
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
        """Mean bits per character that was predicted; NaN if none was."""
        known = [nats for nats in self.nats if nats is not None]
        return math.fsum(known) / len(known) / math.log(2) if known else math.nan

    @property
    def accuracy(self) -> float:
        """The share of predicted characters that were guessed; NaN if none was predicted."""
        known = [c == g for c, g, n in zip(self.text, self.guesses, self.nats, strict=True) if n is not None]
        return sum(known) / len(known) if known else math.nan


def read(network: Network, text: str, context: str = "", unknown: str | None = None) -> Reading:
    """p(c_t | context, c_1 ... c_{t-1}) for each character of a text, and the likeliest one.

    context: what the network reads first (a warm start). Without it the states are those of a start (a cold one), and
    the first character is read, not predicted. unknown: a character to read in place of those that the network does
    not know. No dropout.
    Raises UsageError for a network that was not trained on text, DataError for an empty text, or for characters that it
    does not know.
    Source: Lynge 2016, 3.4.5 and 5.4.
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
    """What each piece of a text cost a network.

    characters: in a piece. bits: mean bits per character of each; NaN where none of its characters was scored.
    new_words: how many words each piece has that the text had not had before.
    parts: names of the parts of the text and where they begin, in characters. length: of the text.
    """

    characters: int
    bits: tuple[float, ...]
    new_words: tuple[int, ...]
    parts: tuple[tuple[str, int], ...]
    length: int


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

    States are carried on from part to part, as Lynge does. data: a Corpus, whose parts are read one after another, or
    a text. lanes: the text is read in so many lanes side by side, each after `context` characters of the one before
    it; 1 carries the states through all of it (and takes longer).
    Raises UsageError, DataError.
    Source: Lynge 2016, figs 5.1 to 5.3.
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
        text = text_of("cost_over_text: data, if it is no Corpus,", data)
    symbols = vocabulary.encode(text, unknown)
    nats, _ = Evaluator(network, lanes).characters(symbols, context, progress)
    first = len(symbols) - len(nats)
    piece = np.arange(first, len(symbols)) // characters
    count = -(-len(symbols) // characters)
    scored = np.bincount(piece, minlength=count)
    bits = np.full(count, np.nan)
    np.divide(np.bincount(piece, nats, count) / math.log(2), scored, out=bits, where=scored > 0)
    fresh = np.bincount(new_words(text) // characters, minlength=count)
    return TextCost(characters, tuple(bits.tolist()), tuple(fresh.tolist()), parts, len(symbols))


def new_words(text: str) -> Array:
    """Where words begin that the text has not had before: positions of their first characters, in order.

    A word is a run of letters, digits and _, so that the names of a program are words, too.
    Source: Lynge 2016, fig. 5.3.
    """
    seen: set[str] = set()
    places = []
    for match in re.finditer(r"\w+", text):
        if match[0] not in seen:
            seen.add(match[0])
            places.append(match.start())
    return np.array(places, np.int64)
