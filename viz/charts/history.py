"""What a run leaves behind: rows of numbers, in memory or in a file of JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from graphnet.json_lines import Row, read_rows
from viz.errors import DrawingError

__all__ = ["History", "is_number", "is_positive", "read_history", "rows_of"]


class Recorded(Protocol):
    """What a run answers with: it knows where its rows are, or has them."""

    def __history__(self) -> Iterable[Mapping[str, Any]] | str: ...


#: Rows, the path of a JSON-lines file of rows or of a run's folder, or what `rnn.minimize` and `Trainer.run` return.
History = Iterable[Mapping[str, Any]] | str | os.PathLike[str] | Recorded


def rows_of(history: History, argument: str = "history") -> list[Mapping[str, Any]]:
    """The rows, read from a file if need be.

    Raises DrawingError, which names the argument, for what is neither rows nor a path, or cannot be read.
    """
    if not isinstance(history, type) and callable(getattr(history, "__history__", None)):
        history = history.__history__()  # type: ignore[union-attr]
    if isinstance(history, (str, os.PathLike)):
        return list(read_history(history))
    rows: list[Any] = list(history) if isinstance(history, Iterable) else [history]
    for row in rows:
        if not isinstance(row, Mapping):
            raise DrawingError(
                f"{argument}: give rows, each a mapping of names to values, the path of a JSON-lines file of rows, or "
                f"that of a run's folder, not {row!r:.60}."
            )
    return rows


def read_history(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a JSON-lines file, or of a run's folder; a last line that is still being written is left out."""
    if not os.fspath(path):  # which would be the folder that we are in
        raise DrawingError("history is an empty path: name a JSON-lines file of rows, or a run's folder.")
    file = Path(path)
    file = file / "history.jsonl" if file.is_dir() else file
    return read_rows(file, DrawingError, f"history {str(path)!r}")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite real number; True and False are none."""
    # Compared, since math.isfinite raises for whole numbers that no float holds.
    return isinstance(value, Real) and not isinstance(value, bool) and bool(abs(value) <= sys.float_info.max)  # type: ignore[operator]


def is_positive(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number > 0."""
    return is_number(value) and value > 0
