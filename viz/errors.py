"""What can go wrong while drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError, UsageError
from graphnet.settings import path, whole_number, yes_no_or_none, yes_or_no

__all__ = ["DrawingError", "LayoutTimeoutError", "chosen", "count_of", "named_file", "whether"]


class DrawingError(GraphnetError):
    """A picture that cannot be made or saved; the message names the argument and the remedy."""


class LayoutTimeoutError(DrawingError):
    """Graphviz takes longer to lay out a picture than it may."""


def named_file(argument: str, given: Any) -> Path:
    """The file or folder that a path names; DrawingError for what is no path."""
    try:
        return path(argument, given)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None


def whether(argument: str, given: Any) -> bool:
    """True or False; DrawingError for anything else."""
    try:
        return yes_or_no(argument, given)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None


def chosen(argument: str, given: Any, otherwise: bool) -> bool:
    """True or False, and `otherwise` for None; DrawingError for anything else."""
    try:
        answer = yes_no_or_none(argument, given)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None
    return otherwise if answer is None else answer


def count_of(argument: str, given: Any, least: int = 1) -> int:
    """A whole number that is at least `least`; DrawingError for anything else."""
    try:
        return whole_number(argument, given, least)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None
