"""Random texts of known models, with the bits of the true model for each symbol (Ollivier 2013, section 4).

    drawn = alphabet(np.random.default_rng(0), lines=1000)
    drawn.total                                  # bits of the true model for the scored symbols
    regret(bits_of_a_trained_model, drawn)[-1]   # additional bits of the trained model, see `regret`

The true model has the probabilities, but not the draws: a symbol has exactly -log2 Pr(x_t | x_1 ... x_{t-1}) bits.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import require_generator, whole_number


@dataclass(frozen=True, eq=False)
class Drawn:
    """Random text with the bits of its true model.

    text: the text. bits: bits of the true model for each symbol. scored: True for each symbol that counts in the score.

    >>> drawn = rnn.tasks.anbn(np.random.default_rng(0), blocks=2, least=3, end=5)
    >>> round(drawn.total, 6), len(drawn.bits) == len(drawn.text)
    (2.0, True)
    """

    text: str
    bits: Array
    scored: Array

    @property
    def total(self) -> float:
        """Bits of the true model for all scored symbols."""
        return float(self.bits[self.scored].sum())


@dataclass
class _Writer:
    pieces: list[str] = field(default_factory=list)
    bits: list[float] = field(default_factory=list)

    def write(self, text: str, bits: float = 0.0) -> None:
        """Appends text whose first symbol has these bits; the others are certain."""
        self.pieces.append(text)
        self.bits += [bits, *[0.0] * (len(text) - 1)]

    def drawn(self) -> Drawn:
        return Drawn("".join(self.pieces), np.array(self.bits), np.ones(len(self.bits), bool))


def surprise(probability: float) -> float:
    """-log2 p"""
    return 0.0 - math.log2(probability)  # 0, not -0, for what is certain


# -- alphabet with insertions ----------------------------------------------------------------


def alphabet(generator: np.random.Generator, lines: int = 1000) -> Drawn:
    """Lines a ... z with insertions: abc(01[QWERTYUIO]23456789)def ...

    After each letter, with probability 1/26, (0 ... 9); after each digit, with probability 1/5, [nine capitals]. The
    main sequence continues after an insertion. A line needs 26 h(1/26) + 10 h(1/5) + 2 · 9 log₂ 26 = 97.9 bits in the
    mean, h the entropy of a coin.
    generator: NumPy generator. lines: number of lines; 1000 by default.
    Source: Ollivier 2013, example 1 and section 4, where 1,000 lines need 88,482 bits. That is 2.8 standard deviations
    below this law, as stated there; it would fit a law without insertions after the 9, with a mean of 88,760. The
    regrets there of bzip2 and context tree weighting also fit such texts: about a tenth below those of this law
    (benchmarks/RESULTS.md).

    >>> drawn = rnn.tasks.alphabet(np.random.default_rng(0), lines=3)
    >>> drawn.text.count("z")
    3
    """
    writer, generator = _Writer(), require_generator("alphabet", generator)
    for _ in range(whole_number("alphabet: lines", lines)):
        _inserted(
            generator, writer, string.ascii_lowercase + "\n", 1 / 26, lambda: _digits(generator, writer)
        )
    return writer.drawn()


def _inserted(
    generator: np.random.Generator, writer: _Writer, text: str, share: float, insert: Callable[[], None]
) -> None:
    """Text, with or without an insertion after each of its symbols except the last.

    The first symbol of an insertion announces it, so the next symbol of the text is certain after it.
    """
    before = 0.0
    for place, symbol in enumerate(text):
        writer.write(symbol, before)
        before = surprise(1 - share)
        if place < len(text) - 1 and generator.random() < share:
            insert()
            before = 0.0


def _digits(generator: np.random.Generator, writer: _Writer) -> None:
    writer.write("(", surprise(1 / 26))
    _inserted(generator, writer, string.digits + ")", 1 / 5, lambda: _capitals(generator, writer))


def _capitals(generator: np.random.Generator, writer: _Writer) -> None:
    writer.write("[", surprise(1 / 5))
    for letter in generator.integers(0, 26, 9):
        writer.write(string.ascii_uppercase[letter], surprise(1 / 26))
    writer.write("]")


# -- synthetic music -------------------------------------------------------------------------

#: Pitches of each harmony, and harmonies of eight bars.
CHORDS = {"I": "ceg", "IV": "cfa", "V": "gbd"}
PROGRESSION = ("I", "IV", "I", "V", "I", "IV", "V", "I")
RHYTHMS = (("4", "4", "4"), ("2", "4"), ("4.", "8", "4"), ("2.",), ("4", "4", "8", "8"))
#: Bar of each rhythm, * for a pitch.
BARS = tuple(" ".join("*" + value for value in rhythm) + " |\n" for rhythm in RHYTHMS)


def music(generator: np.random.Generator, bars: int = 2700) -> Drawn:
    """Bars of notes in the notation of LilyPond: c2 c4 | f4. a8 c4 | ...

    Rhythms: one of five, equally probable. Pitches: one of three in the harmony of the bar. Harmonies: I IV I V I IV V
    I, repeated, from the first bar on. A bar ends with " |" and a newline, and needs log₂ 5 + 2.6 log₂ 3 bits = 6.44 in
    the mean.
    generator: NumPy generator. bars: number of bars; 2700 by default.
    Source: Ollivier 2013, section 4 and example 3, which begins with a fifth bar.

    >>> drawn = rnn.tasks.music(np.random.default_rng(0), bars=4)
    >>> drawn.text.count("|")
    4
    """
    writer, generator = _Writer(), require_generator("music", generator)
    for number in range(whole_number("music: bars", bars)):
        chord = CHORDS[PROGRESSION[number % len(PROGRESSION)]]
        bar = BARS[generator.integers(len(BARS))]
        possible = len(BARS)
        for place, symbol in enumerate(bar):
            still = sum(other.startswith(bar[: place + 1]) for other in BARS)
            bits, possible = surprise(still / possible), still
            if symbol == "*":
                symbol, bits = chord[generator.integers(len(chord))], bits + surprise(1 / len(chord))
            writer.write(symbol, bits)
    return writer.drawn()


# -- distant XOR -----------------------------------------------------------------------------


def distant_xor(generator: np.random.Generator, lines: int = 10_000, length: int = 100) -> Drawn:
    """Lines of T' random bits, of which two are marked, and their exclusive or:  1 1X0 1X1 0=1

    T' is uniform in T ... 1.1 T, T = `length`. A bit follows a space, or an X if it is marked: at positions in [0,
    T'/10) and [T'/10, T'/2), counted from 0. Only the bit after "=" is scored; the true model needs no bits for it.
    generator: NumPy generator. lines: number of lines; 10,000 by default. length: T; 100 by default.
    Source: Ollivier 2013, section 4, after Hochreiter & Schmidhuber 1997. (The lines of its example 2, T' = 26, have
    marks at 5 and 7, and at 0, 1 and 2, unlike the law in section 4.)

    >>> drawn = rnn.tasks.distant_xor(np.random.default_rng(0), lines=3, length=10)
    >>> drawn.text.count("X"), int(drawn.scored.sum())
    (6, 3)
    """
    generator = require_generator("distant_xor", generator)
    length = whole_number("distant_xor: length", length, least=3)
    lengths = np.arange(length, 11 * length // 10 + 1)
    writer, scored = _Writer(), []
    for _ in range(whole_number("distant_xor: lines", lines)):
        T = int(generator.choice(lengths))
        tenth, half = -(-T // 10), -(-T // 2)
        marks = int(generator.integers(0, tenth)), int(generator.integers(tenth, half))
        values = generator.integers(0, 2, T)
        bits = _mark_bits(lengths, marks, T)
        for k in range(T):
            writer.write("X" if k in marks else " ", bits[k])
            writer.write(str(values[k]), 1.0)
        writer.write(f"={values[marks[0]] ^ values[marks[1]]}\n", bits[T])
        scored += [False] * (2 * T + 1) + [True, False]
    drawn = writer.drawn()
    return Drawn(drawn.text, drawn.bits, np.array(scored))


def _mark_bits(lengths: Array, marks: tuple[int, int], T: int) -> list[float]:
    """Bits of the symbol before each of the T bits, and of "=".

    The probability of the first k of them is the mean over the possible lengths of a line, as the length, and so the
    range of positions, is known only at its end.
    """
    i, j = marks
    k = np.arange(T + 1)[:, None]  # this many bits have been written
    tenth, half = -(-lengths // 10), -(-lengths // 2)
    none_yet = np.clip((tenth - k) / tenth, 0, 1)
    one = (i < tenth) / tenth * np.clip((half - k) / (half - tenth), 0, 1)
    both = (i < tenth) / tenth * ((tenth <= j) & (j < half)) / (half - tenth)
    so_far = np.where(k <= i, none_yet, np.where(k <= j, one, both)) * (k <= lengths)
    masses = np.append(so_far.sum(axis=1), (both * (lengths == T)).sum())
    # No mass grows, but for rounding.
    return list(np.log2(np.maximum(masses[:-1] / masses[1:], 1)))


# -- a^n b^n ---------------------------------------------------------------------------------


def anbn(generator: np.random.Generator, blocks: int = 10, least: int = 1024, end: int = 2048) -> Drawn:
    r"""Lines of n times a, each followed by a line of n times b; n is uniform in `least` ... `end` - 1

    A line of a needs log2(end - least) bits, spread over its possible ends; a line of b needs none: 100 bits for 10
    blocks, as in the source.
    generator: NumPy generator. blocks: number of pairs of lines; 10 by default. least, end: range of n; 1024 and 2048
    by default.
    Source: Ollivier 2013, example 4 and section 4.

    >>> rnn.tasks.anbn(np.random.default_rng(0), blocks=1, least=3, end=4).text
    'aaa\nbbb\n'
    """
    generator = require_generator("anbn", generator)
    least, end = whole_number("anbn: least", least), whole_number("anbn: end", end)
    if not least < end:
        raise UsageError(f"anbn: end must be larger than least, not {end} for {least}")
    writer = _Writer()
    for n in generator.integers(least, end, whole_number("anbn: blocks", blocks)):
        writer.write("a" * least)
        for count in range(least, n):
            writer.write("a", surprise(1 - 1 / (end - count)))
        writer.write("\n", surprise(1 / (end - int(n))))
        writer.write("b" * n + "\n")
    return writer.drawn()


#: All texts by name: TEXTS["music"](np.random.default_rng(0)).
TEXTS: dict[str, Callable[..., Drawn]] = {
    "alphabet": alphabet,
    "music": music,
    "distant-xor": distant_xor,
    "anbn": anbn,
}
