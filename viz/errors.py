"""What can go wrong while drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError, UsageError
from graphnet.settings import path, whole_number

__all__ = ["DrawingError", "LayoutTimeoutError", "count_of", "named_file"]


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


def count_of(argument: str, given: Any, least: int = 1) -> int:
    """A whole number that is at least `least`; DrawingError for anything else."""
    try:
        return whole_number(argument, given, least)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None
