"""Settings: what one may be (UsageError, in one sentence, for what cannot be meant), and fields that declare them."""

from __future__ import annotations

from dataclasses import Field, field, fields, is_dataclass
from typing import Any

import numpy as np

from graphnet.settings import (
    MANY,
    amount,
    fraction,
    has_items,
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
    "MANY", "amount", "declared_settings", "fixed_settings", "fraction", "has_items", "is_number", "is_true", "limit",
    "listed", "number", "one_of", "path", "setting", "shown", "text", "whole_number", "yes_no_or_none", "yes_or_no",
]  # fmt: skip


def is_true(answer: object) -> bool:
    """Whether a callback said True; comparisons of arrays' elements give NumPy's."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def setting(value: Any, /, says: str, *, free: bool = False, **option: Any) -> Any:
    """A field of a dataclass: a setting, from which the description of a run and an option of a command follow.

    value: its default. says: the option's help. free: it may be another when a run goes on, as it changes no number of
    it. option: further arguments of argparse's add_argument.
    """
    return field(default=value, metadata={"says": says, "free": free, "option": option})


def declared_settings(owner: Any) -> list[Field[Any]]:
    """The fields of a dataclass, or of an object of one, that `setting` made; none of what is no dataclass.

    In the order of its arguments: those of its bases that must be named come last.
    """
    found = [each for each in fields(owner) if "says" in each.metadata] if is_dataclass(owner) else []
    return sorted(found, key=lambda each: each.kw_only is True)


def fixed_settings(owner: Any) -> dict[str, Any]:
    """The settings that must be the same when a run goes on, and what they are."""
    return {
        each.name: getattr(owner, each.name) for each in declared_settings(owner) if not each.metadata["free"]
    }
