"""What a setting may be: UsageError, in one sentence, for one that cannot be meant."""

from __future__ import annotations

import numpy as np

from graphnet.settings import (
    MANY,
    amount,
    fraction,
    is_number,
    limit,
    listed,
    number,
    one_of,
    path,
    shown,
    text,
    whole_number,
    yes_no_or_none,
    yes_or_no,
)

__all__ = [
    "MANY", "amount", "fraction", "is_number", "is_true", "limit", "listed", "number", "one_of", "path", "shown",
    "text", "whole_number", "yes_no_or_none", "yes_or_no",
]  # fmt: skip


def is_true(said: object) -> bool:
    """Whether a callback said True; comparisons of arrays' elements give NumPy's."""
    return isinstance(said, (bool, np.bool_)) and bool(said)
