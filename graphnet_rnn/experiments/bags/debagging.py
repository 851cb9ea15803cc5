"""Bags of words: the most probable order of the middle words of a passage."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import shown, text as text_of, whole_number
from graphnet_rnn.text.lanes import Lanes, TextModel

#: Rows to read at once: more take memory, and are read before the best ones exclude others.
ROWS = 512


@dataclass(frozen=True)
class Bag:
    """Passage whose middle words are shuffled; the words around them stay in place.

    before: words before them. words: the shuffled words, in the order of the text. after: words after them.

    >>> rnn.tasks.Bag(("the",), ("a", "b", "a"), ("end",)).orders
    3
    """

    before: tuple[str, ...]
    words: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def orders(self) -> int:
        """Number of different orders of the words: n! / Π (count of each word)!"""
        repeats = math.prod(math.factorial(n) for n in Counter(self.words).values())
        return math.factorial(len(self.words)) // repeats


@dataclass(frozen=True)
class Debagged:
    """Most probable order of the words of a bag.

    bag: the bag. words: in this order. log_p: ln p of the words and those after them, given those before, in nats.
    true_log_p: the same for the order of the text. by_beam: best order of the beam search. read: number of characters
    that the model has read.

    >>> bag = rnn.tasks.Bag(("the",), ("cat", "sat"), ("down",))
    >>> rnn.tasks.Debagged(bag, ("cat", "sat"), -3.5, -3.5, by_beam=("cat", "sat"), read=30).correct
    True
    """

    bag: Bag
    words: tuple[str, ...]
    log_p: float
    true_log_p: float
    by_beam: tuple[str, ...]
    read: int

    @property
    def correct(self) -> bool:
        """True if the words are in the order of the text."""
        return self.words == self.bag.words


def draw_bags(text: str, count: int = 500, words: int = 7, context: int = 2, seed: int = 0) -> list[Bag]:
    """Draws `count` different passages of context + words + context consecutive words.

    text: text to draw from; words are separated by white space and keep their punctuation. count: number of bags; 500
    by default. words: number of shuffled words; 7 by default. context: number of words on each side; 2 by default.
    seed: seed of the draws; 0 by default.
    Raises UsageError, DataError for a text with too few words.
    Source: Sutskever 2013, 5.4.4 (11 words, of which 2 + 2 are context).

    >>> (bag,) = rnn.tasks.draw_bags("the cat sat on the mat", count=1, words=2, context=2)
    >>> bag.words
    ('sat', 'on')
    """
    every = text_of("draw_bags: text", text).split()
    count, middle = whole_number("draw_bags: count", count), whole_number("draw_bags: words", words, most=9)
    around = whole_number("draw_bags: context", context)
    starts = len(every) - middle - 2 * around + 1
    if starts < count:
        raise DataError(
            f"draw_bags: the text has {len(every):,} words, so it has {max(0, starts):,} passages of "
            f"{middle + 2 * around}, not {count:,}; give a longer text, or draw fewer bags"
        )
    drawn = np.random.default_rng(whole_number("draw_bags: seed", seed, least=0)).choice(
        starts, count, replace=False
    )
    ends = np.cumsum([around, middle, around])
    return [
        Bag(*(tuple(every[s + a : s + b]) for a, b in zip((0, *ends), ends, strict=False))) for s in drawn
    ]


def debag(model: Network | TextModel[Any], bag: Bag, beam: int = 20, unknown: str | None = None) -> Debagged:
    """argmax over all orders w of ln p(w, the words after | the words before), exact without reading all orders

    Each word of w is scored with the space after it.
    model: network trained on text, its `Lanes` (compiled once for many bags), or NGrams. bag: bag to order. beam: beam
    width; affects only the speed; 20 by default. unknown: character that replaces those outside the model's vocabulary;
    None by default.
    Prefixes are shared. A beam search finds a good order first; prefixes of each length are ranked by the gain of their
    words from the order. Then every prefix is extended whose ln p exceeds that of the best order; ln p never increases
    with more characters, so the others cannot win. Equal words are not distinguished.
    Raises UsageError, DataError for characters that the model does not know.
    Source: Sutskever 2013, 5.4.4, where all 5,040 orders are read.

    >>> network = rnn.Network([rnn.GRU(4)], inputs=4, outputs=4)
    >>> network.vocabulary = rnn.data.Vocabulary(" abc")
    >>> found = rnn.tasks.debag(network, rnn.tasks.Bag(("a",), ("b", "c"), ("a",)))
    >>> sorted(found.words)
    ['b', 'c']
    """
    if isinstance(model, Network):
        model = Lanes(model, 256, "debag")
    if not hasattr(model, "vocabulary"):
        raise UsageError(
            f"debag: model must be a network trained on text, its Lanes, or NGrams, not {shown(model)}"
        )
    if not isinstance(bag, Bag) or not all(map(_is_text, (*bag.before, *bag.words, *bag.after))):
        raise UsageError(f"debag: bag must be a Bag of words, as draw_bags gives, not {shown(bag)}")
    search = _Search(model, bag, unknown)
    search.beam(whole_number("debag: beam", beam))
    by_beam = search.found()
    search.all()
    return Debagged(bag, search.found(), search.best, search.log_p_of(bag.words), by_beam, search.read)


def _is_text(word: object) -> bool:
    return isinstance(word, str)


class _Prefixes(NamedTuple):
    """Prefixes of one length: indices of words (n, length), ln p (n,), and the states of the model.

    gain: ln p minus that of each word directly after the context; ranks prefixes of different words, as ln p alone
    prefers short words.
    """

    words: Array
    log_p: Array
    gain: Array
    place: Any

    def rows(self, model: TextModel[Any], rows: Array) -> _Prefixes:
        return _Prefixes(self.words[rows], self.log_p[rows], self.gain[rows], model.rows(self.place, rows))


class _Search:
    """Search; words are read with the space before the next word, so that prefixes can be shared."""

    def __init__(self, model: TextModel[Any], bag: Bag, unknown: str | None) -> None:
        self.model, self.bag = model, bag
        encode = model.vocabulary.encode
        self.words = sorted(set(bag.words))
        self.spelt = [encode(word + " ", unknown) for word in self.words]
        self.ending = encode(" ".join(bag.after), unknown)
        counts = Counter(bag.words)
        self.counts = np.array([counts[word] for word in self.words])
        start = model.start(encode("".join(f"{word} " for word in bag.before), unknown))
        self.root = _Prefixes(np.empty((1, 0), np.int64), np.zeros(1), np.zeros(1), start)
        self.alone = model.read(model.rows(start, np.zeros(len(self.words), np.int64)), self.spelt)[0]
        self.read, self.best, self.order = 0, -math.inf, np.empty(0, np.int64)

    def log_p_of(self, words: tuple[str, ...]) -> float:
        texts = [*(self.spelt[self.words.index(word)] for word in words), self.ending]
        return float(self.model.read(self.root.place, [np.concatenate(texts)])[0][0])

    def beam(self, width: int) -> None:
        now = self.root
        for _ in self.bag.words:
            grown = self._grown(now)
            now = grown.rows(self.model, np.argsort(-grown.gain, kind="stable")[:width])
        self._finish(now)

    def all(self) -> None:
        """Finds the best of all orders, given a good one; prefixes that are no better are dropped."""
        waiting = [self.root]
        while waiting:
            now = waiting.pop()
            order = np.argsort(-now.gain, kind="stable")
            order = order[now.log_p[order] > self.best]
            if len(order) > ROWS:
                waiting.append(now.rows(self.model, order[ROWS:]))
            now = now.rows(self.model, order[:ROWS])
            if not len(order):
                continue
            if now.words.shape[1] == len(self.bag.words):
                self._finish(now)
            else:
                waiting.append(self._grown(now))

    def _grown(self, now: _Prefixes) -> _Prefixes:
        kinds = len(self.words)
        used = (now.words[:, :, None] == np.arange(kinds)).sum(axis=1)
        rows, words = np.nonzero(used < self.counts)
        texts = [self.spelt[word] for word in words]
        log_p, place = self.model.read(self.model.rows(now.place, rows), texts)
        self.read += sum(map(len, texts))
        gain = now.gain[rows] + log_p - self.alone[words]
        return _Prefixes(np.column_stack([now.words[rows], words]), now.log_p[rows] + log_p, gain, place)

    def _finish(self, now: _Prefixes) -> None:
        log_p = now.log_p + self.model.read(now.place, [self.ending] * len(now.log_p))[0]
        self.read += len(self.ending) * len(log_p)
        at = int(log_p.argmax())
        if log_p[at] > self.best:
            self.best, self.order = float(log_p[at]), now.words[at]

    def found(self) -> tuple[str, ...]:
        return tuple(self.words[word] for word in self.order)
