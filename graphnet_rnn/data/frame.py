"""Frame: the columns of a table by name, from a file, a pandas DataFrame or a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array
from graphnet_rnn.data.table_files import TABLES, decoded, is_table, require_distinct
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import shown


@dataclass(frozen=True)
class Frame:
    """Columns of a table by name. where: file name, for errors."""

    where: str | Path
    columns: Mapping[str, Array]
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _numbers: dict[str, list[float | None]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        if name not in self.columns:
            raise DataError(f"{self.where} has no column {shown(name)}; it has {self.names()}")
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def texts(self, name: str) -> list[str]:
        """Returns the cells of a column as texts, without blanks around them."""
        if name not in self._texts:
            self._require_single_values(name)
            column = self[name]
            if column.dtype.kind == "f":
                column = column + 0.0  # -0.0 becomes 0.0, which it equals
            self._texts[name] = [str(value).strip() for value in column]
        return self._texts[name]

    def _require_single_values(self, name: str) -> None:
        """Raises DataError for lists, structs and other cells of several values."""
        column, several = self[name], (list, tuple, dict, set, np.ndarray)
        if column.dtype.kind == "O" and any(issubclass(kind, several) for kind in set(map(type, column))):
            row = next(row for row, cell in enumerate(column) if isinstance(cell, several))
            remedy = (
                "; each cell must be one number, text or time. Split the column into several, or leave it out"
            )
            raise self.error(row, name, remedy)

    def numbers(self, name: str) -> list[float | None]:
        """Returns the cells of a column as numbers; None for a text that is no finite number."""
        if name not in self._numbers:
            self._numbers[name] = [as_number(cell) for cell in self.texts(name)]
        return self._numbers[name]

    def names(self) -> str:
        some = list(self.columns)
        return ", ".join(some[:20]) + (f" and {len(some) - 20} more" if len(some) > 20 else "")

    def error(self, row: int, name: str, problem: str) -> DataError:
        value = f"row {row + 1} of the column {shown(name)} is {shown(str(self.columns[name][row]))}"
        return DataError(f"{self.where}: {value}{problem}")


def as_number(cell: str) -> float | None:
    """None for a text that is no finite number."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if np.isfinite(value) and "_" not in cell else None  # Python reads 1_000 as a number


def frame_of(source: Any) -> Frame:
    """Reads a table; returns a Frame as it is. Raises DataError, UsageError."""
    if isinstance(source, Frame):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if not is_table(path):
            raise UsageError(f"{path}: a table must end in {', '.join(TABLES)}")
        return Frame(path, TABLES[path.suffix.lower()](path))
    if not isinstance(source, Mapping) and not hasattr(source, "columns"):
        raise _no_table(source)
    heads = list(source) if isinstance(source, Mapping) else list(source.columns)
    try:
        given = {name: source[name] for name in heads}
    except (TypeError, KeyError):  # a table of another kind
        raise _no_table(source) from None
    for number, name in enumerate(heads):
        missing = not isinstance(name, str) and str(name) in ("None", "nan", "NaT", "<NA>")
        if missing or isinstance(name, bytes) or not str(name).strip():
            raise DataError(
                f"Table: column {number + 1} has no name, but {shown(name)}; name it, or leave it out (pandas writes "
                "its index so: use index=False)"
            )
    require_distinct("Table", [str(name) for name in heads])
    columns = {str(name): _column(str(name), column) for name, column in given.items()}
    if len({len(column) for column in columns.values()}) != 1:
        raise DataError("Table: the columns must have the same number of rows, at least one")
    found = Frame("the table", columns)
    if not len(found):
        raise DataError("Table: there are no rows")
    return found


def _no_table(source: Any) -> UsageError:
    return UsageError(
        "Table: source must be a path, a DataFrame of pandas or polars, or a mapping from names to columns, not "
        f"{shown(source)}"
    )


def _column(name: str, given: Any) -> Array:
    require_unmasked(f"Table: the column {shown(name)}", given)
    try:
        found = decoded(np.asarray(given))
    except ValueError as error:  # lists of different lengths
        raise DataError(f"Table: the column {shown(name)} is no array: {error}") from None
    if found.ndim != 1 or found.dtype.kind == "c":
        raise DataError(
            f"Table: the column {shown(name)} must be real numbers, texts or times, with one axis, not {found.dtype} "
            f"{list(found.shape)}"
        )
    kind = getattr(given, "dtype", None)
    large = found.dtype.kind == "f" and isinstance(given, list | tuple) and any(map(_is_large, given))
    whole = (
        found.dtype.kind == "f" and "int" in str(kind).lower()
    )  # of pandas and polars, with missing values
    zoned = getattr(kind, "time_zone", None) is not None and (found == found.astype("M8[us]")).all()
    if large or whole or zoned:
        found = np.array(list(given), dtype=object)  # exact; NumPy has no type for them
    return found.astype(object) if found.dtype.kind not in "biufmM" else found


def _is_large(cell: Any) -> bool:
    """True for a whole number that float64 may round."""
    return isinstance(cell, int | np.integer) and abs(int(cell)) > 2**53
