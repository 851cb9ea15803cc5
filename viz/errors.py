"""Errors of viz, and checks of arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from graphnet.errors import GraphnetError, UsageError
from graphnet.settings import amount, path, shown, whole_number, yes_no_or_none, yes_or_no
from graphnet.system.text import in_brief


class DrawingError(GraphnetError):
    """Raised for a picture that cannot be made or saved; the message names the argument and the remedy."""


class LayoutTimeoutError(DrawingError):
    """Raised if Graphviz takes too long for a layout."""


@contextlib.contextmanager
def by_matplotlib() -> Iterator[None]:
    """Context manager and decorator: turns errors of matplotlib into a DrawingError.

    Matplotlib reads environment variables and files of the user.
    """
    try:
        yield
    except (GraphnetError, OSError, MemoryError):
        raise
    except Exception as error:
        if not _passed(error.__traceback__, "matplotlib"):
            raise
        raise DrawingError(
            f"matplotlib, which draws charts, fails ({type(error).__name__}: {in_brief(error, 200)}); correct or "
            "unset its settings: MPLBACKEND, MATPLOTLIBRC, SOURCE_DATE_EPOCH, the file matplotlibrc."
        ) from error


def _passed(traceback: TracebackType | None, package: str) -> bool:
    while traceback is not None:
        if str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0] == package:
            return True
        traceback = traceback.tb_next
    return False


def named_file(argument: str, given: Any) -> Path:
    """Path of a file or folder; raises DrawingError for other objects."""
    try:
        return path(argument, given)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None


def whether(argument: str, given: Any) -> bool:
    """True or False; raises DrawingError for anything else."""
    try:
        return yes_or_no(argument, given)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None


def chosen(argument: str, given: Any, otherwise: bool) -> bool:
    """True or False, and `otherwise` for None; raises DrawingError for anything else."""
    try:
        answer = yes_no_or_none(argument, given)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None
    return otherwise if answer is None else answer


def count_of(argument: str, given: Any, least: int = 1) -> int:
    """A whole number >= `least`; raises DrawingError for anything else."""
    try:
        return whole_number(argument, given, least)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None


def seconds_of(argument: str, given: Any) -> float:
    """Seconds of an animation or points of a font, > 0 and at most 300; raises DrawingError for anything else."""
    try:
        found = amount(argument, given, above_zero=True)
    except UsageError as error:
        raise DrawingError(f"{error}.") from None
    if found > 300:
        raise DrawingError(f"{argument} must be at most 300, not {shown(given)}.")
    return found
