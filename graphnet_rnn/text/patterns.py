"""Regular expressions over a vocabulary, as automata."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.errors import UsageError

#: Maximum number of states of an automaton, as (a|b)*a(a|b){15} would need.
MOST_STATES = 5000
#: Maximum of a count {m,n}.
MOST_TIMES = 1000
CLASSES = {"d": str.isdecimal, "w": lambda c: c.isalnum() or c == "_", "s": str.isspace}
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class Symbols(NamedTuple):
    """One symbol of a set."""

    among: frozenset[int]


class Cat(NamedTuple):
    """A sequence of patterns; () matches the empty text."""

    parts: tuple[Pattern, ...]


class Either(NamedTuple):
    """Alternatives; () matches nothing."""

    options: frozenset[Pattern]


class Repeat(NamedTuple):
    """Repetition of a pattern; most None: without limit."""

    part: Pattern
    least: int
    most: int | None


Pattern = Symbols | Cat | Either | Repeat
NOTHING, EMPTY = Either(frozenset()), Cat(())


def one_after_another(parts: Iterable[Pattern]) -> Pattern:
    """Cat of the parts, flattened, without empty ones."""
    flat: list[Pattern] = []
    for part in parts:
        if part == NOTHING:
            return NOTHING
        flat += part.parts if isinstance(part, Cat) else [part]
    return flat[0] if len(flat) == 1 else Cat(tuple(flat))


def _either(options: Iterable[Pattern]) -> Pattern:
    flat: set[Pattern] = set()
    for option in options:
        flat |= option.options if isinstance(option, Either) else {option}
    return next(iter(flat)) if len(flat) == 1 else Either(frozenset(flat))


def literal(symbols: Iterable[int]) -> Pattern:
    """Pattern of these symbols in sequence."""
    return one_after_another(Symbols(frozenset([int(s)])) for s in symbols)


def _may_be_empty(pattern: Pattern) -> bool:
    match pattern:
        case Symbols():
            return False
        case Cat(parts):
            return all(map(_may_be_empty, parts))
        case Either(options):
            return any(map(_may_be_empty, options))
        case Repeat(part, least, _):
            return least == 0 or _may_be_empty(part)


def _derivative(pattern: Pattern, symbol: int) -> Pattern:
    """Pattern of the texts that may follow the symbol at the start of a match (Brzozowski 1964)."""
    match pattern:
        case Symbols(among):
            return EMPTY if symbol in among else NOTHING
        case Cat(parts):
            found = []
            for k, part in enumerate(parts):
                found.append(one_after_another([_derivative(part, symbol), *parts[k + 1 :]]))
                if not _may_be_empty(part):
                    break
            return _either(found)
        case Either(options):
            return _either(_derivative(option, symbol) for option in options)
        case Repeat(part, least, most):
            if most == 0:
                return NOTHING
            fewer = Repeat(part, max(0, least - 1), None if most is None else most - 1)
            rest = EMPTY if fewer.most == 0 else fewer
            return one_after_another([_derivative(part, symbol), rest])


def _sets(pattern: Pattern) -> set[frozenset[int]]:
    match pattern:
        case Symbols(among):
            return {among}
        case Cat(parts) | Either(parts):
            return set().union(*map(_sets, parts))
        case Repeat(part, _, _):
            return _sets(part)


@dataclass(frozen=True, eq=False)
class Automaton:
    """table: (states, symbols), the state after a symbol; 0 is the first. accepts: (states,), True for a match."""

    table: Array
    accepts: Array


def automaton(pattern: Pattern, symbols: int, text: str) -> Automaton:
    """Returns the automaton whose states are the pattern's derivatives; UsageError if there are too many."""
    # Symbols that are in the same sets of the pattern lead to the same state.
    kinds: dict[tuple[bool, ...], list[int]] = {}
    sets = list(_sets(pattern))
    for symbol in range(symbols):
        kinds.setdefault(tuple(symbol in each for each in sets), []).append(symbol)
    number: dict[Pattern, int] = {pattern: 0}
    waiting, rows = [pattern], []
    for state in waiting:  # grows in the loop
        row = np.empty(symbols, np.int64)
        for alike in kinds.values():
            after = _derivative(state, alike[0])
            if after not in number:
                number[after] = len(number)
                waiting.append(after)
            row[alike] = number[after]
        rows.append(row)
        if len(number) > MOST_STATES:
            raise UsageError(
                f"complete: the pattern {text[:60]!r} needs an automaton of more than {MOST_STATES:,} states; "
                "make it simpler: shorter counts {m,n}, or fewer parts that may overlap"
            )
    return Automaton(np.array(rows), np.array([_may_be_empty(state) for state in waiting]))


def read_pattern(text: str, vocabulary: Vocabulary) -> Pattern:
    r"""Parses characters, . [a-z] [^a-z] ( ) (?: ) | * + ? {m} {m,} {m,n} and \d \w \s \n \t, as in Python's re.

    Characters that the vocabulary lacks match nothing. Raises UsageError for other syntax.
    """
    reader = _PatternReader(text, vocabulary.characters)
    try:
        return reader.whole()
    except RecursionError:
        raise UsageError(f"complete: the pattern {text[:60]!r} is nested too deeply") from None


class _PatternReader:
    def __init__(self, text: str, characters: str) -> None:
        self.text, self.characters, self.at = text, characters, 0

    def wrong(self, why: str) -> UsageError:
        return UsageError(
            f"complete: the pattern {self.text[:60]!r} is invalid at character {self.at + 1}: {why}; "
            r"write \ before a special character that is meant literally"
        )

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, sign: str) -> bool:
        found = self.text.startswith(sign, self.at)
        self.at += len(sign) if found else 0
        return found

    def next(self, what: str) -> str:
        if not self.peek():
            raise self.wrong(f"{what} is missing at the end")
        self.at += 1
        return self.text[self.at - 1]

    def whole(self) -> Pattern:
        found = self.options()
        if self.peek():
            raise self.wrong("this ) has no matching (")
        return found

    def options(self) -> Pattern:
        found = [self.row()]
        while self.take("|"):
            found.append(self.row())
        return _either(found)

    def row(self) -> Pattern:
        parts: list[Pattern] = []
        while self.peek() and self.peek() not in "|)":
            parts.append(self.repeated(self.single()))
        return one_after_another(parts)

    def repeated(self, part: Pattern) -> Pattern:
        if self.take("*"):
            counts: tuple[int, int | None] = (0, None)
        elif self.take("+"):
            counts = (1, None)
        elif self.take("?"):
            counts = (0, 1)
        elif self.take("{"):
            counts = self.counts()
        else:
            return part
        if self.peek() and self.peek() in "*+?{":
            raise self.wrong("a repetition directly follows another")
        return EMPTY if counts[1] == 0 else Repeat(part, *counts)

    def counts(self) -> tuple[int, int | None]:
        inside, brace, _ = self.text[self.at :].partition("}")
        least, comma, most = inside.partition(",")
        numbers = [number for number in (least, most) if number]
        if not brace or not numbers or not all(n.isascii() and n.isdigit() and len(n) < 9 for n in numbers):
            raise self.wrong("a repetition must be {3}, {3,}, {,5} or {3,5}")
        low = int(least or 0)
        high = low if not comma else int(most) if most else None
        if (high is not None and high < low) or max(low, high or 0) > MOST_TIMES:
            raise self.wrong(f"numbers of a repetition must be in order, and at most {MOST_TIMES}")
        self.at += len(inside) + 1
        return low, high

    def single(self) -> Pattern:
        sign = self.next("a character")
        if sign == "(":
            if self.peek() == "?" and not self.take("?:"):
                raise self.wrong("the only group (? ...) supported is (?: ...)")
            found = self.options()
            if not self.take(")"):
                raise self.wrong("a ( is not closed")
            return found
        if sign == "[":
            return self.among(self.bracketed())
        if sign == ".":
            return self.among({c for c in self.characters if c != "\n"})
        if sign == "\\":
            return self.among(self.escaped())
        if sign in "*+?{}]^$":
            self.at -= 1
            raise self.wrong(f"{sign} has no meaning here")
        return self.among({sign})

    def among(self, allowed: set[str]) -> Pattern:
        found = frozenset(k for k, c in enumerate(self.characters) if c in allowed)
        return Symbols(found) if found else NOTHING

    def escaped(self) -> set[str]:
        sign = self.next("a character")
        if sign.lower() in CLASSES:
            holds = CLASSES[sign.lower()]
            return {c for c in self.characters if holds(c) == sign.islower()}
        if sign in ESCAPED:
            return {ESCAPED[sign]}
        if sign.isalnum():
            raise self.wrong(rf"\{sign} is not supported")
        return {sign}

    def bracketed(self) -> set[str]:
        without, found, first = self.take("^"), set[str](), True
        while first or self.peek() != "]":
            first = False
            sign = self.next("a ]")
            low = self.escaped() if sign == "\\" else {sign}
            if len(low) == 1 and self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                sign = self.next("a ]")
                high = self.escaped() if sign == "\\" else {sign}
                if len(high) != 1 or min(high) < min(low):
                    raise self.wrong("a range must go from a character to an equal or later one")
                low = {c for c in self.characters if min(low) <= c <= min(high)}
            found |= low
        self.at += 1
        return set(self.characters) - found if without else found
