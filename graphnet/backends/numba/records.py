"""Forms of records: what a kernel reads and writes, by the words of its record.

A tape that comes from a file is checked by them, without a look into machine code.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from graphnet.backends.contents import listed, refuse, whole

__all__ = ["FLAG", "Axes", "Number", "RecordForm", "Touched", "constant", "form_of", "restored_form", "word"]

#: The word of a record in which kernels that may fail have the address of the error flag.
FLAG = 2


class Number(NamedTuple):
    """times · (the record's word of this number) + plus, rounded up to a multiple. Without a word: plus."""

    word: int
    times: int = 1
    plus: int = 0
    multiple: int = 1

    def value(self, words: Sequence[int]) -> int:
        found = self.plus + (self.times * words[self.word] if self.word >= 0 else 0)
        return -(-found // self.multiple) * self.multiple


#: How many there are along each axis, and how many elements apart.
Axes = tuple[tuple[Number, Number], ...]


def word(number: int) -> Number:
    return Number(number)


def constant(number: int) -> Number:
    return Number(-1, 0, number)


class Touched(NamedTuple):
    """Elements of so many bytes: the word that has their address, where they lie from there, and whether they are
    written."""

    base: int
    item: int
    writes: bool
    axes: Axes


class RecordForm(NamedTuple):
    """words: how long the record is. flagged: its kernel may raise the error flag. fixed: (word, what it must be)s, on
    which the code relies."""

    words: int
    flagged: bool
    operands: tuple[Touched, ...]
    fixed: tuple[tuple[int, int], ...] = ()

    def line(self) -> str:
        """A comment for the kernel's text."""
        return f"; {json.dumps(self)}\n"


def form_of(text: str) -> RecordForm:
    """The form that a kernel's text begins with."""
    return restored_form(json.loads(text[2 : text.index("\n")]))


def restored_form(stored: Any) -> RecordForm:
    """The form that stands in a file. BackendError if it is none."""
    words, flagged, operands, fixed = listed(stored, "the form of a kernel's record", 4)
    count = whole(words, "the length of a record", 1 << 20, 3)

    def within(number: Any, least: int = 2) -> int:
        return whole(number, "the number of a record's word", count - 1, least)

    def number(stored: Any) -> Number:
        at, times, plus, multiple = listed(stored, "a number of a record", 4)
        return Number(
            within(at, -1), whole(times, "a factor", 1 << 30), whole(plus, "a summand", 1 << 30),
            whole(multiple, "a multiple", 1 << 30, 1),
        )  # fmt: skip

    def operand(stored: Any) -> Touched:
        base, item, writes, axes = listed(stored, "an operand", 4)
        if not isinstance(writes, bool) or item not in (1, 2, 4, 8):
            refuse("an operand of a kernel has no size")
        pairs = [listed(pair, "an axis", 2) for pair in listed(axes, "an operand's axes")]
        return Touched(within(base), item, writes, tuple((number(n), number(step)) for n, step in pairs))

    pairs = [listed(pair, "a fixed word", 2) for pair in listed(fixed, "fixed words")]
    return RecordForm(
        count, flagged is True, tuple(map(operand, listed(operands, "operands"))),
        tuple((within(at), whole(value, "a fixed word")) for at, value in pairs),
    )  # fmt: skip
