"""Sequences from tables, whose rows are time steps; the choice of arrays or columns."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.memory import require_memory
from graphnet_rnn.data.arrays import no_file_of, package_for
from graphnet_rnn.data.sequences import Sequences
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import read_bytes
from graphnet_rnn.settings import Count, listed, require_kinds, shown

__all__ = [
    "HEADS", "TABLES", "Choice", "Columns", "columns_read", "index_of_rows", "inputs_of", "is_table",
    "of_columns",
]  # fmt: skip

T = TypeVar("T")

#: A number with a decimal comma.
DECIMAL = re.compile(r"^(\s*[-+]?\d*),(\d+(?:[eE][-+]?\d+)?\s*)$")


@dataclass(frozen=True)
class Choice:
    """The arrays or columns of a file to read as inputs, targets, weights and lengths.

    inputs: names of arrays or columns; by default all columns without another role ("x" of arrays).
    targets: names of arrays or columns.
    weights: name of the array or column of weights; default None, all equal.
    lengths: name of the array of lengths; by default "lengths", if the file has it.
    case: name of the column with the case of each row; default None, one case.
    whole: True if each case has one target, in its last row (tables only); default False.
    cases_first: True if arrays are (cases, time, ...), not (time, cases, ...); default False.
    pieces: maximum number of time steps of a segment, see Sequences.pieces; default None, cases are not cut.

    >>> choice = rnn.data.Choice(inputs=("temperature", "hour"), targets=("demand",), case="city")
    >>> choice.targets
    ('demand',)
    """

    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    weights: str | None = None
    lengths: str | None = None
    case: str | None = None
    whole: bool = False
    cases_first: bool = False
    pieces: Count | None = None

    def __post_init__(self) -> None:
        require_kinds(self)


@dataclass(frozen=True)
class Columns:
    """The columns of a table that a network reads and predicts, by name and in order.

    inputs: names of the input columns.
    targets: names of the predicted columns.

    `rnn.save` stores them, so the same columns are read from another table, whatever their order there. Raises
    UsageError.

    >>> rnn.data.Columns(inputs=("temperature", "hour"), targets=("demand",)).targets
    ('demand',)
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]

    def __post_init__(self) -> None:
        for what in ("inputs", "targets"):
            names = tuple(listed(f"Columns: {what}", getattr(self, what), "names"))
            if not names or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
                raise UsageError(f"Columns: {what} must be different names, not {shown(list(names))}")
            object.__setattr__(self, what, names)


def of_columns(path: Path, columns: Mapping[str, Array], choice: Choice) -> Sequences:
    if not choice.targets:
        raise UsageError(f"{path}: name the target columns; the columns are {_listed(columns)}")
    _require_one_role(path, choice)
    index, lengths, series = index_of_rows(path, columns, choice)
    w = None if choice.weights is None else _stacked(path, columns, (choice.weights,))[:, 0]
    t = _stacked(path, columns, choice.targets, None if w is None else w == 0)
    if len(choice.targets) == 1 and (t == np.floor(t)).all() and t.min() >= 0 and t.max() < 2**31:
        t = t[:, 0].astype(np.int64)  # labels
    x = inputs_of(path, columns, choice)
    ends = np.full(index.shape[1], len(index)) if lengths is None else lengths
    last = index[ends - 1, np.arange(index.shape[1])]
    return Sequences(
        x[index],
        t[last] if choice.whole else t[index],
        lengths,
        None if w is None else _weights_of_cases(path, w[index], choice),
        series=series,
    )


def _require_one_role(path: Path, choice: Choice) -> None:
    roles: dict[str, str] = {}
    for role, names in (
        ("among the inputs", choice.inputs),
        ("among the targets", choice.targets),
        ("the weights", [choice.weights]),
        ("the cases", [choice.case]),
    ):
        for name in filter(None, names):
            if name in roles:
                raise UsageError(
                    f"{path}: {shown(name)} is {roles[name]} and {role}; a column can have only one role"
                )
            roles[name] = role


def _weights_of_cases(path: Path, w: Array, choice: Choice) -> Array:
    """Returns (cases,) if all rows of each case have the same weight, otherwise (time, cases)."""
    differ = (w != w[0]).any(axis=0)
    if not differ.any():
        return w[0]
    if choice.whole:
        n = int(differ.argmax()) + 1
        raise DataError(
            f"{path}: the rows of case {n} have different weights; with one target for each case, they must be equal"
        )
    return w


def _apart(choice: Choice) -> set[str]:
    return {*choice.targets, *(name for name in (choice.case, choice.weights) if name is not None)}


def columns_read(columns: Iterable[str], choice: Choice) -> tuple[str, ...]:
    apart = _apart(choice)
    return tuple(name for name in columns if name not in apart)


def inputs_of(path: Path, columns: Mapping[str, Array], choice: Choice) -> Array:
    """Returns the input columns of a table, (rows, columns), float32."""
    names = choice.inputs or columns_read(columns, choice)
    x = _stacked(path, columns, names)
    with np.errstate(over="ignore"):
        found = x.astype(np.float32)
    over = np.argwhere(np.isinf(found))
    if len(over):
        row, column = over[0]
        value = f"row {row + 1} of the column {shown(names[column])} is {x[row, column]:g}"
        raise DataError(f"{path}: {value}, which float32 cannot hold; scale the column")
    return found


def _stacked(
    path: Path, columns: Mapping[str, Array], names: tuple[str, ...], missing: Array | None = None
) -> Array:
    """Returns (rows, columns). missing: (rows,), 0 where a value may be missing."""
    if not names:
        raise DataError(f"{path}: no column is left for the inputs; the columns are {_listed(columns)}")
    for name in names:
        _require_column(path, columns, name)
    return np.stack([_numbers(path, name, columns[name], missing) for name in names], axis=-1)


def _require_column(path: Path, columns: Mapping[str, Array], name: str) -> None:
    if name not in columns:
        raise DataError(f"{path} has no column {shown(name)}; it has {_listed(columns)}")


def index_of_rows(
    path: Path, columns: Mapping[str, Array], choice: Choice
) -> tuple[Array, Array | None, Array | None]:
    """Returns the rows of each case (time, cases), padded with the first row of the case; the lengths, if they differ;
    and the series of each segment, if cases were cut.
    """
    if choice.cases_first or choice.lengths is not None:
        raise UsageError(
            f"{path}: cases_first and lengths apply only to arrays; each row of a table is a time step. Leave them "
            "out"
        )
    if choice.case is not None:
        _require_column(path, columns, choice.case)
    count = len(next(iter(columns.values())))
    groups, series = _rows_of_cases(
        path, None if choice.case is None else columns[choice.case], count, choice
    )
    lengths = np.array([len(rows) for rows in groups])
    index = np.zeros((lengths.max(), len(groups)), np.int64)
    for n, rows in enumerate(groups):
        index[: len(rows), n] = rows
        index[len(rows) :, n] = rows[0]
    return index, None if (lengths == len(index)).all() else lengths, series


def _rows_of_cases(
    path: Path, case: Array | None, count: int, choice: Choice
) -> tuple[list[Array], Array | None]:
    """Returns the rows of each case or segment, in order, and the case of each segment."""
    if case is None:
        groups = [np.arange(count)]
    else:
        _require_cases(path, choice.case, case)
        _, first, number = np.unique(case, return_index=True, return_inverse=True)
        order = np.argsort(first)
        groups = [np.flatnonzero(number == i) for i in order]
    if choice.pieces is None:
        return groups, None
    if choice.whole:
        raise UsageError(f"{path}: cases with one target for the whole case cannot be cut into segments")
    time = choice.pieces
    counts = [-(-len(rows) // time) for rows in groups]  # the last piece of a case may be shorter
    pieces = [
        rows[i * time : (i + 1) * time] for rows, n in zip(groups, counts, strict=True) for i in range(n)
    ]
    return pieces, np.repeat(np.arange(len(groups)), counts)


def _require_cases(path: Path, name: str | None, column: Array) -> None:
    tests: dict[str, Callable[[Array], Array]] = {"f": np.isnan, "m": np.isnat, "M": np.isnat}
    without = np.vectorize(lambda value: str(value).strip().lower() in ("", "nan", "none"), otypes=[bool])
    absent = np.flatnonzero(tests.get(column.dtype.kind, without)(column))
    if len(absent):
        where = f"row {int(absent[0]) + 1} has no value in the column {shown(name)}"
        raise DataError(
            f"{path}: {where}, which must name the case of each row; fill it in, or delete the row"
        )


def _numbers(path: Path, name: str, column: Array, missing: Array | None) -> Array:
    if column.dtype.kind in "mM":
        raise DataError(
            f"{path}: the column {shown(name)} holds times; name the columns to read, or convert it to numbers, e.g. "
            "hours since the first row"
        )
    try:
        found = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        found = np.array([_number(value) for value in column])
    if column.dtype == object:  # Python reads 1_000 as a number
        found = np.where(["_" in str(value) for value in column], np.nan, found)
    if missing is not None:
        found = np.where(missing, 0, found)
    odd = np.flatnonzero(~np.isfinite(found))
    if len(odd):
        value = f"row {int(odd[0]) + 1} of the column {shown(name)} is {shown(str(column[odd[0]]))}"
        raise DataError(
            f"{path}: {value}; all values must be finite numbers; set the weight of a row with a missing target to 0"
        )
    exact = found
    if np.abs(found).max() > 2**53:  # float64 rounds whole numbers
        present = column if missing is None else column[~missing]
        exact = np.array([np.longdouble(str(value).strip()) for value in present])
    _require_resolution(path, name, exact)
    return found


def _require_resolution(path: Path, name: str, column: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        step, deviation = float(np.spacing(np.float32(np.abs(column).max()))), float(column.std())
    if 0 < deviation < 4 * step < math.inf:
        raise DataError(
            f"{path}: float32 rounds the values of the column {shown(name)}, from {column.min():.16g} to "
            f"{column.max():.16g}, to multiples of {step:g}; subtract the first value, or leave the column out"
        )


def _number(value: Any) -> float:
    with contextlib.suppress(TypeError, ValueError):
        return float(value)
    return math.nan


def _listed(names: Any) -> str:
    some = list(names)
    return ", ".join(map(str, some[:20])) + (f" and {len(some) - 20} more" if len(some) > 20 else "")


def _rows_of_csv(path: Path) -> Iterator[list[str]]:
    """Yields the header and the rows; with semicolons as separators, 1,5 is a decimal number."""
    line = 0  # last line of the last row
    try:
        text = read_bytes(path, DataError).decode("utf-8-sig")
        file = io.StringIO(text, newline="")
        separator = _separator(text)
        reader = csv.reader(file, delimiter=separator, strict=True)
        head = [name.strip() for name in next(filter(None, reader), [])]
        if "" in head:
            raise DataError(
                f"{path}: column {head.index('') + 1} has no name; name it in the first row, or delete the column (an "
                "index that pandas wrote: df.to_csv(path, index=False))"
            )
        if len(set(head)) < len(head):
            raise DataError(f"{path}: two columns have the same name")
        yield head
        empty = 0  # number of the first empty line
        line = reader.line_num
        for row in reader:
            line = reader.line_num
            if not row:
                empty = empty or reader.line_num
                continue
            if empty:
                raise DataError(
                    f"{path}: line {empty} is empty, and rows follow; delete it, or, between sequences, add a column "
                    "with the case of each row"
                )
            yield row if separator != ";" else [DECIMAL.sub(r"\1.\2", value) for value in row]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a table in UTF-8: {error}") from None
    except csv.Error as error:
        raise DataError(
            f"{path}: the row at line {line + 1} cannot be read: {error}. A value with a separator or a quote in it is "
            'written "5"" pipe"'
        ) from None


def _separator(text: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", text[: 1 << 16])
    head = unquoted.lstrip("\r\n").partition("\n")[0]
    return next((mark for mark in ",;\t" if mark in head), ",")


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Context that lifts the global limit of csv, 131,072 characters in a field."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _head_of_csv(path: Path) -> list[str]:
    with _long_fields():
        return next(_rows_of_csv(path))


def _csv(path: Path) -> dict[str, Array]:
    with _long_fields():
        head, *rows = _rows_of_csv(path)
    if not rows:
        raise DataError(f"{path} must have a row of column names, then rows of numbers")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(head):
            raise DataError(f"{path}: row {number} has {len(row)} values for {len(head)} columns")
    columns = zip(*rows, strict=True)
    # dtype object: a string array would reserve the longest string for each row.
    return {name: np.array(column, dtype=object) for name, column in zip(head, columns, strict=True)}


def _of_parquet(path: Path, read: Callable[[Any, io.BytesIO], T]) -> T:
    parquet = package_for(f"reading {path}", "pyarrow.parquet", "pyarrow")
    with no_file_of(path, "Parquet table"):
        return read(parquet, io.BytesIO(read_bytes(path, DataError)))


def _head_of_parquet(path: Path) -> list[str]:
    return _of_parquet(path, lambda parquet, file: list(parquet.read_schema(file).names))


def _parquet(path: Path) -> dict[str, Array]:
    def read(parquet: Any, file: io.BytesIO) -> dict[str, Array]:
        # Repeated rows compress well in the file, but need eight bytes per value here.
        about = parquet.read_metadata(file)
        require_memory(8 * about.num_rows * about.num_columns, f"the table {path}", "name a smaller file")
        names = parquet.read_schema(file).names
        if len(set(names)) < len(names):
            raise DataError(f"{path}: two columns have the same name")
        table = parquet.read_table(file)
        return {name: _plain(table.column(name)).to_numpy() for name in table.column_names}

    columns = _of_parquet(path, read)
    if not columns or not len(next(iter(columns.values()))):
        raise DataError(f"{path} has no rows")
    return columns


def _plain(column: Any) -> Any:
    """Decodes a dictionary-encoded column; Arrow's null becomes a value."""
    kind = column.type
    return column.cast(kind.value_type) if hasattr(kind, "index_type") else column


#: File ending -> reader of the columns.
TABLES: dict[str, Callable[[Path], dict[str, Array]]] = {".csv": _csv, ".parquet": _parquet}
#: File ending -> reader of the column names.
HEADS: dict[str, Callable[[Path], list[str]]] = {".csv": _head_of_csv, ".parquet": _head_of_parquet}


def is_table(path: str | Path) -> bool:
    """True if the file is a table, by its ending."""
    return Path(path).suffix.lower() in TABLES
