"""Checks of arguments, which raise UsageError for invalid values.

`argument` is the name in the error: "compile: threads".
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.errors import UsageError

#: Upper bound of sizes, seeds and counts: larger ones would fail later, inside NumPy.
LARGEST = 2**31 - 1


def whole_number(argument: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """Returns the value as an int in [least, most]."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise UsageError(f"{argument} must be a whole number >= {least}, not {shown(value)}")
    if value > most:
        raise UsageError(f"{argument} must be at most {most}, not {shown(value)}")
    return int(value)


def is_number(value: Any) -> bool:
    """True for one real number that a float can represent, NaN and infinities included."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        float(value)
    except OverflowError:  # a whole number beyond all floats
        return False
    return True


def number(argument: str, value: Any) -> float:
    """Returns the value as a finite float."""
    if not is_number(value) or not math.isfinite(value):
        raise UsageError(f"{argument} must be a finite number, not {shown(value)}")
    return float(value)


def fraction(argument: str, value: Any, or_all: bool = False, above_zero: bool = False) -> float:
    """Returns the value as a float in [0, 1); or_all: allows 1; above_zero: excludes 0."""
    if not is_number(value) or not (
        0 < value < 1 or (value == 0 and not above_zero) or (or_all and value == 1)
    ):
        ends = f"{'(' if above_zero else '['}0, 1{']' if or_all else ')'}"
        raise UsageError(f"{argument} must be in {ends}, not {shown(value)}")
    return float(value)


def amount(argument: str, value: Any, above_zero: bool = False) -> float:
    """Returns the value as a finite float >= 0, or > 0."""
    if not is_number(value) or not (value > 0 if above_zero else value >= 0) or not math.isfinite(value):
        sign = ">" if above_zero else ">="
        raise UsageError(f"{argument} must be a finite number {sign} 0, not {shown(value)}")
    return float(value)


def limit(argument: str, value: Any) -> float:
    """Returns the value as a float > 0, which may be infinite."""
    if not is_number(value) or not value > 0:
        raise UsageError(f"{argument} must be > 0, or None for no limit, not {shown(value)}")
    return float(value)


def yes_or_no(argument: str, value: Any, hint: str = "") -> bool:
    """Returns True or False; rejects numbers, text and arrays, whose truth value may be accidental."""
    if not isinstance(value, (bool, np.bool_)):
        raise UsageError(f"{argument} must be True or False, not {shown(value)}{hint}")
    return bool(value)


def yes_no_or_none(argument: str, value: Any) -> bool | None:
    """Returns True, False, or None for a default."""
    if value is not None and not isinstance(value, (bool, np.bool_)):
        raise UsageError(f"{argument} must be True or False, or None for the default, not {shown(value)}")
    return None if value is None else bool(value)


def one_of(argument: str, value: Any, choices: Sequence[str]) -> str:
    """Returns the value if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise UsageError(f"{argument} must be {' or '.join(map(repr, choices))}, not {shown(value)}")
    return str(value)


def text(argument: str, value: Any, remedy: str = "") -> str:
    """Returns the value if it is a str."""
    if not isinstance(value, str):
        raise UsageError(f"{argument} must be a str, not {shown(value)}{remedy}")
    return value


def path(argument: str, value: Any) -> Path:
    """Returns the path of a str or an os.PathLike."""
    named = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(named, str):
        raise UsageError(f"{argument} must be a str or a pathlib.Path that names a file, not {shown(value)}")
    if not named or "\0" in named:
        why = "it contains a NUL character" if named else "it is empty"
        raise UsageError(f"{argument} must be the name of a file, not {shown(named)}: {why}")
    return Path(named)


def has_items(value: Any) -> bool:
    """True for iterables; False for 0-d arrays, which NumPy's types count as Iterable."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def listed(argument: str, value: Any, of: str) -> list[Any]:
    """Returns the items of an iterable, except text and mappings; of: their kind, for the error."""
    if not isinstance(value, (list, tuple)) and (
        isinstance(value, (str, bytes, Mapping)) or not has_items(value)
    ):
        raise UsageError(f"{argument} must be a list of {of}, not {shown(value)}")
    return list(value)


#: Maximum length of a cell's or a network's settings within a sentence.
MANY = 160


def shown(value: Any, most: int = 60) -> str:
    """Returns a short description of the value on one line, ending in "..." if it was cut."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {list(value.shape)}"
    try:
        text = repr(value)
    except Exception:  # a user's class, or a number too long for Python to print
        text = f"a {type(value).__name__}"
    return " ".join(text.split()) if len(text) <= most else " ".join(f"{text[: most - 4]} ...".split())
