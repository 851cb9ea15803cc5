"""Where commands write: a file into a folder that is there (a typo makes none); a folder is made, with all above it.

Checked before any work is done.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from graphnet_rnn.errors import UsageError

__all__ = ["CHARTS", "PAGES", "require_ending", "require_file", "require_folder", "same_file"]

#: The endings of charts, and of pages of text.
CHARTS, PAGES = (".svg", ".png", ".pdf"), (".html", ".svg", ".txt", ".ansi")


def require_ending(option: str, path: str, endings: Sequence[str] = CHARTS, what: str = "a chart") -> None:
    """UsageError, which names the option, for a file that cannot be written in its format, or not there."""
    if Path(path).suffix.lower() not in endings:
        raise UsageError(f"{option} {path}: the name of {what} must end in one of {', '.join(endings)}")
    require_file(option, path)


def require_file(option: str, path: str) -> None:
    """UsageError, which names the option, for what is no file (a folder, a device), or in no folder that there is."""
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise UsageError(f"{option} {path}: this link leads in a circle; name a file")
    if place.is_dir():
        raise UsageError(f"{option} {path}: this is a folder; name a file")
    if place.exists() and not place.is_file():
        raise UsageError(f"{option} {path}: this is a device or a pipe; name a file")
    if not place.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {place.parent}; make it first")


def require_folder(option: str, path: str) -> None:
    """UsageError, which names the option, for a folder that cannot be made, as a file is in its way."""
    place = Path(os.path.realpath(path))
    found = next(
        (p for p in (place, *place.parents) if p.exists() or p.is_symlink()), Path(place.anchor or ".")
    )
    if not found.is_dir():
        raise UsageError(f"{option} {path}: {found} is no folder; name another")


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two names lead to one file, which need not be there."""
    return os.path.realpath(one) == os.path.realpath(other)
