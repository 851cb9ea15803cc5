"""n-grams of characters, smoothed: a baseline for networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import shown, text as text_of, whole_number


class _Level(NamedTuple):
    """Counts of the grams of one length. A gram or context is an integer whose digits are its symbols."""

    grams: Array
    counts: Array
    contexts: Array
    totals: Array
    kinds: Array
    discount: float


class NGrams:
    """p_n(c | h) = max(N(hc) - D_n, 0) / N(h) + D_n / N(h) · |{c': N(hc') > 0}| · p_{n-1}(c | h'); p_0 = 1 / symbols

    Interpolated Kneser-Ney over characters: N counts grams of the full order in the text, and for shorter grams the
    distinct characters before a gram; h' is h without its first character; D_n = n_1 / (n_1 + 2 n_2), of grams that are
    counted once and twice, or 0.5 if none is counted once. If h does not occur in the text, p is p_{n-1}(c | h').

    text: the training text. order: length of a gram, with the predicted character, 6 by default. vocabulary: that of
    the text by default; give a network's to compare the two. unknown: see Vocabulary.encode.
    Raises UsageError if grams of this order do not fit into 64 bits, DataError for too short a text.
    Source: Kneser and Ney 1995; Chen and Goodman 1998, eq. 25 to 27.

    >>> model = rnn.NGrams("abracadabra " * 5, order=3)
    >>> log_p, _ = model.read(model.start(model.vocabulary.encode("abr")), [model.vocabulary.encode("a")])
    >>> np.exp(log_p).round(2)
    array([0.98])
    >>> windows = model.vocabulary.encode("abrabc").reshape(2, 3)  # p of r after ab, and of c after ab
    >>> model.probability(windows).round(2)
    array([0.96, 0.  ])
    >>> start = model.start(model.vocabulary.encode("ab"))
    >>> model.rows(start, [0, 0]).tolist()  # two texts with the same beginning
    [[1, 2], [1, 2]]
    """

    def __init__(
        self, text: str, order: int = 6, vocabulary: Vocabulary | None = None, unknown: str | None = None
    ) -> None:
        text_of("NGrams: text", text)
        self.order = whole_number("NGrams: order", order)
        if len(text) < self.order + 1:
            raise DataError(
                f"NGrams: the text has {len(text)} characters, too few to count grams of {self.order}; use "
                "a longer text"
            )
        self.vocabulary = Vocabulary.of(text) if vocabulary is None else vocabulary
        self._base = base = max(2, len(self.vocabulary))
        most = int(63 / np.log2(base))
        if self.order > most:
            raise UsageError(
                f"NGrams: order must be at most {most} with {base} different characters, not {self.order}"
            )
        symbols = self.vocabulary.encode(text, unknown)
        keys = np.zeros(len(symbols) - self.order + 1, np.int64)
        for digit in range(self.order):
            keys = keys * base + symbols[digit : digit + len(keys)]
        grams, counts = np.unique(keys, return_counts=True)
        levels = [_level(grams, counts, base)]
        for length in range(self.order - 1, 0, -1):
            found, counts = np.unique(grams % base**length, return_counts=True)
            levels.append(_level(found, counts, base))
            # No character is before the first gram of the text, but it may be before a shorter one.
            grams = np.union1d(found, keys[0] // base ** (self.order - length))
        self._levels = levels[::-1]

    def probability(self, windows: Array) -> Array:
        """p of the last symbol of each window given the others; windows (n, order), padded by -1 in front.

        Raises DataError for other symbols than those of the vocabulary.
        """
        require_unmasked("NGrams.probability: windows", windows)
        windows, most = np.asarray(windows), len(self.vocabulary) - 1
        if windows.ndim != 2 or windows.shape[1] != self.order:
            raise DataError(
                f"NGrams.probability: windows must be (n, {self.order}), not {list(windows.shape)}"
            )
        low, high = windows.min(initial=0), windows.max(initial=0)
        if windows.dtype.kind not in "iu" or low < -1 or high > most or windows[:, -1].min(initial=0) < 0:
            raise DataError(
                f"NGrams.probability: windows must be symbols in 0 ... {most}, with -1 in front of a text only, not "
                f"{shown(windows.tolist())}"
            )
        p = np.full(len(windows), 1.0 / len(self.vocabulary))
        keys, known = np.zeros(len(windows), np.int64), np.ones(len(windows), bool)
        for length, level in enumerate(self._levels, 1):
            digit = windows[:, self.order - length].astype(np.int64)
            known &= digit >= 0
            keys = keys + digit * self._base ** (length - 1)
            context = _found(level.contexts, keys // self._base)
            use = known & (context >= 0)
            gram = _found(level.grams, keys[use])
            count = np.where(gram >= 0, level.counts[gram], 0)
            total, kinds = level.totals[context[use]], level.kinds[context[use]]
            left = level.discount * kinds / total
            p[use] = np.maximum(count - level.discount, 0) / total + left * p[use]
        return p

    def start(self, symbols: Array) -> Array:
        """Place after a text: its last order - 1 symbols, (1, order - 1), padded by -1 in front.

        symbols: a row of symbols.
        """
        return self._after(np.full((1, self.order - 1), -1), [symbols])

    def rows(self, place: Array, rows: Array) -> Array:
        """Place of these rows.

        place: (n, order - 1). rows: indices.
        """
        return place[rows]

    def read(self, place: Array, texts: Sequence[Array]) -> tuple[Array, Array]:
        """ln p of a text after each row of the place, (rows,), and the place after the texts.

        place: (rows, order - 1). texts: a row of symbols for each.
        """
        lengths = np.array([len(text) for text in texts], np.int64)
        windows = [
            np.lib.stride_tricks.sliding_window_view(np.concatenate([before, text]), self.order)
            for before, text in zip(place, texts, strict=True)
            if len(text)
        ]
        total = np.zeros(len(texts))
        if windows:
            owner = np.repeat(np.arange(len(texts)), lengths)
            each, where = np.unique(np.concatenate(windows), axis=0, return_inverse=True)
            np.add.at(total, owner, np.log(self.probability(each))[where.reshape(-1)])
        return total, self._after(place, texts)

    def _after(self, place: Array, texts: Sequence[Array]) -> Array:
        width = self.order - 1
        rows = [
            np.concatenate([before, text])[len(text) :] for before, text in zip(place, texts, strict=True)
        ]
        return np.array(rows, np.int64).reshape(len(texts), width)


def _level(grams: Array, counts: Array, base: int) -> _Level:
    contexts, where = np.unique(grams // base, return_inverse=True)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    discount = once / (once + 2 * twice) if once else 0.5
    totals, kinds = np.bincount(where, counts), np.bincount(where)
    return _Level(grams, counts, contexts, totals, kinds, discount)


def _found(keys: Array, wanted: Array) -> Array:
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)
