"""Text with nested links in brackets, [[so]], whose lengths and probabilities are known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import number, whole_number

WORDS = [
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "was", "on", "with", "as", "by", "at",
    "this", "from", "which", "or", "an", "be", "are", "not", "they", "were", "one", "all", "their", "has",
    "there", "then", "than", "those", "three", "these", "thing", "thought", "through", "town", "river", "house",
    "stone", "light", "water", "under", "over", "north", "south", "winter", "summer", "letter", "number",
    "garden", "window", "market", "bridge", "silver", "yellow", "green", "morning", "evening",
]  # fmt: skip
#: Share of words with a capital.
CAPITALS = 0.15


@dataclass(frozen=True, eq=False)
class BracketText:
    """Text of words with nested links in [[ and ]].

    text: the text. links: (n, 3), of each closed link: position of its first bracket, number of characters between its
    brackets, and number of links around it. difference: log₁₀ p(]) / p([) inside an outermost link minus outside all
    links; the same at every character; a perfect model of the text reaches it.

    >>> drawn = rnn.tasks.bracket_text(1000)
    >>> drawn.text.count("[[") > 0, drawn.links.shape[1]
    (True, 3)
    """

    text: str
    links: Array
    difference: float


def bracket_text(
    characters: int,
    link: float = 20.0,
    gap: float = 20.0,
    depth: int = 2,
    nested: float = 0.1,
    stray: float = 0.1,
    seed: int = 0,
) -> BracketText:
    """p(]]) = 1 / link and p([[) = nested / link inside of a link; p([[) = 1 / gap and p(]]) = stray / gap outside

    before each letter or space of a text of random words and capitals. Brackets depend only on the number of open
    links, so a model that remembers it predicts them perfectly, at any distance.
    characters: minimum length; the text ends with the letter or bracket that reaches it. link, gap: mean numbers of
    characters in a link and between links; 20 by default. depth: maximum nesting; 2 by default. nested, stray: see
    above; 0.1 by default. A stray closing bracket outside of links closes nothing. seed: seed of the text; 0 by
    default.
    Raises UsageError for settings that do not fit.

    >>> round(rnn.tasks.bracket_text(1000).difference, 3)
    2.0
    """
    characters = whole_number("bracket_text: characters", characters)
    depth = whole_number("bracket_text: depth", depth)
    for name, value, least in (("link", link, 2.0), ("gap", gap, 2.0)):
        if number(f"bracket_text: {name}", value) < least:
            raise UsageError(
                f"bracket_text: {name} must be a mean length of at least {least:g}, not {value:g}"
            )
    for name, value in (("nested", nested), ("stray", stray)):
        if not 0 < number(f"bracket_text: {name}", value) < 1:
            raise UsageError(f"bracket_text: {name} must be above 0 and below 1, not {value:g}")
    random = np.random.default_rng(whole_number("bracket_text: seed", seed, least=0))
    letters = iter(_letters(random, characters))
    parts: list[str] = []
    length = 0
    opened: list[int] = []
    links: list[tuple[int, int, int]] = []
    for chance in random.random(characters):
        p_close = 1 / link if opened else stray / gap
        p_open = (nested / link if len(opened) < depth else 0.0) if opened else 1 / gap
        if chance < p_close:
            if opened:
                start = opened.pop()
                links.append((start, length - start - 2, len(opened)))
            parts.append("]]")
        elif chance < p_close + p_open:
            opened.append(length)
            parts.append("[[")
        else:
            parts.append(next(letters))
        length += len(parts[-1])
        if length >= characters:
            break
    known = np.array(links, np.int64).reshape(-1, 3)
    inside = math.inf if depth == 1 else -math.log10(nested)
    return BracketText("".join(parts), known, inside - math.log10(stray))


def _letters(random: np.random.Generator, count: int) -> str:
    chances = 1 / np.arange(2.0, len(WORDS) + 2)
    drawn = random.choice(len(WORDS), count, p=chances / chances.sum())
    capital = random.random(count) < CAPITALS
    words, length = [], 0
    for word, is_capital in zip(drawn, capital, strict=True):
        words.append(WORDS[word].capitalize() if is_capital else WORDS[word])
        length += len(words[-1]) + 1
        if length > count + 1:
            break
    return " ".join(words)
