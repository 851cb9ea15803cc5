"""History of a run: rows in memory or in a file of JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from graphnet.settings import shown
from graphnet.system.json_lines import Row, read_rows
from viz.errors import DrawingError

TRAINED, VALIDATED = "train_", "valid_"
#: Axis labels of measures.
WORDS = {"error": "mean squared error", "wrong": "share of wrong answers"}


class Recorded(Protocol):
    """Protocol of the result of a run, which has rows or their path."""

    def __history__(self) -> Iterable[Mapping[str, Any]] | str: ...


#: Rows, the path of a JSON-lines file of rows or of a run's folder, or what `rnn.minimize` and `Trainer.run` return.
History = Iterable[Mapping[str, Any]] | str | os.PathLike[str] | Recorded


def rows_of(history: History, argument: str = "history") -> list[Mapping[str, Any]]:
    """Rows of a history, read from a file if necessary.

    Raises DrawingError, which names the argument, for other objects and for a file that cannot be read.
    """
    if not isinstance(history, type) and callable(getattr(history, "__history__", None)):
        history = history.__history__()  # type: ignore[union-attr]
    if isinstance(history, (str, os.PathLike)):
        return list(read_history(history))
    rows: list[Any] = list(history) if isinstance(history, Iterable) else [history]
    for row in rows:
        if not isinstance(row, Mapping):
            raise DrawingError(
                f"{argument} must be rows (dicts), or the path of a JSON-lines file of rows or of a run's folder, "
                f"not {shown(row)}."
            )
    return rows


def has_flight(rows: Iterable[Mapping[str, Any]]) -> bool:
    """True if steps of these rows report more than a loss."""
    return any("ratio" in row or "condition" in row for row in rows)


def read_history(path: str | os.PathLike[str]) -> list[Row]:
    """Rows of a JSON-lines file, or of the folder of a run, without an incomplete last line."""
    if not os.fspath(path):  # Path("") is the current folder
        raise DrawingError(
            "history is an empty path; pass the path of a JSON-lines file of rows, or of a run's folder."
        )
    file = Path(path)
    file = file / "history.jsonl" if file.is_dir() else file
    return read_rows(file, DrawingError, f"history {str(path)!r}")


def is_number(value: Any) -> TypeGuard[float]:
    """True for a finite real number that is not a bool."""
    # Comparisons, since math.isfinite raises for integers that are too large for a float.
    return isinstance(value, Real) and not isinstance(value, bool) and bool(abs(value) <= sys.float_info.max)  # type: ignore[operator]


def order_of(value: Any) -> tuple[bool, float, str]:
    """Sort key of settings: numbers first."""
    return (False, float(value), "") if is_number(value) else (True, 0.0, str(value))


def is_positive(value: Any) -> TypeGuard[float]:
    """True for a finite number > 0."""
    return is_number(value) and value > 0


@dataclass(frozen=True)
class Measures:
    """Names of the training and the validation measure in rows ("" for none), and their unit.

    "train_bits" and "valid_bits" for texts, "train_loss" and "valid_wrong" for a task.
    """

    trained: str = ""
    validated: str = ""
    unit: str = ""

    @property
    def measure(self) -> str:
        """Measure for comparing runs: "bits" for "valid_bits"; "" for none."""
        return self.validated.removeprefix(VALIDATED) or self.trained.removeprefix(TRAINED)

    def words(self, name: str) -> str:
        """Axis label of a measure: "bits per character"."""
        measure = name.removeprefix(TRAINED).removeprefix(VALIDATED)
        if measure == "bits":
            return (self.unit or "bits/char").replace("/", " per ").replace("char", "character")
        return WORDS.get(measure, measure.replace("_", " "))


def measures_of(rows: Sequence[Mapping[str, Any]]) -> Measures:
    """Measures of these rows of steps and epochs: the first name of a number of each kind."""
    found: dict[str, str] = {}
    unit = ""
    for row in rows:
        unit = str(row.get("unit") or unit) if row.get("event") == "start" else unit
        if row.get("event") in ("step", "epoch"):
            for start in (TRAINED, VALIDATED):
                names = (name for name, value in row.items() if name.startswith(start) and is_number(value))
                if start not in found and (name := next(names, None)):
                    found[start] = name
    return Measures(found.get(TRAINED, ""), found.get(VALIDATED, ""), unit)
