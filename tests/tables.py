"""What every table of tests says that lacks a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["require_rows"]


def require_rows(missing: Iterable[Any], where: str, what: str) -> None:
    """AssertionError that says where a row goes, and what is in it, for each of what has none.

    missing: classes, functions or names.
    """
    names = sorted(str(getattr(each, "__name__", each)) for each in missing)
    assert not names, f"add a row to {where} for {', '.join(names)}: {what}"
