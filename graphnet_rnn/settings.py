"""What a setting may be: UsageError, in one sentence, for one that cannot be meant."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet_rnn.errors import UsageError

__all__ = ["amount", "fraction", "is_true", "limit", "one_of", "whole_number"]

#: No size, seed or count is meant to be larger: it would fail later, deep inside of NumPy.
LARGEST = 2**31 - 1


def whole_number(argument: str, value: Any, least: int = 1) -> int:
    """The value as an int that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise UsageError(f"{argument} must be a whole number >= {least}, not {value!r:.60}")
    if value > LARGEST:
        raise UsageError(f"{argument} must be at most {LARGEST}, not {value!r:.60}")
    return int(value)


def fraction(argument: str, value: Any) -> float:
    """The value as a float in [0, 1)."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.integer, np.floating))
        or not 0 <= value < 1
    ):
        raise UsageError(f"{argument} must be in [0, 1), not {value!r:.60}")
    return float(value)


def amount(argument: str, value: Any, above_zero: bool = False) -> float:
    """The value as a finite float that is at least 0, or above it."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not (value > 0 if above_zero else value >= 0) or not value <= sys.float_info.max:
        raise UsageError(
            f"{argument} must be a finite number {'>' if above_zero else '>='} 0, not {value!r:.60}"
        )
    return float(value)


def limit(argument: str, value: Any) -> float:
    """The value as a float above 0, or infinity, which limits nothing."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not value > 0:
        raise UsageError(f"{argument} must be > 0, or None for no limit, not {value!r:.60}")
    return float(value)


def is_true(said: object) -> bool:
    """Whether a callback said True; comparisons of arrays' elements give NumPy's."""
    return isinstance(said, (bool, np.bool_)) and bool(said)


def one_of(argument: str, value: Any, choices: Sequence[str]) -> str:
    """The value if it is one of the choices."""
    if value not in choices:
        raise UsageError(f"{argument} must be {' or '.join(map(repr, choices))}, not {value!r:.60}")
    return str(value)
