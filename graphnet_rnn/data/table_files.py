"""Reading and writing of tables: CSV and Parquet, as columns by name."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.memory import require_memory
from graphnet_rnn.data.arrays import no_file_of, package_for
from graphnet_rnn.errors import DataError
from graphnet_rnn.files.whole import read_bytes
from graphnet_rnn.settings import shown

#: A number with a decimal comma.
DECIMAL = re.compile(r"^(\s*[-+]?\d*),(\d+(?:[eE][-+]?\d+)?\s*)$")
#: A number with a decimal point.
POINT = re.compile(r"^\s*[-+]?\d*\.\d+(?:[eE][-+]?\d+)?\s*$")
#: A number whose mark may be of thousands.
THOUSANDS = re.compile(r"^\s*[-+]?[1-9]\d{0,2}[.,]\d{3}\s*$")


def require_distinct(where: str | Path, names: Sequence[str]) -> None:
    """Raises DataError if two columns have the same name."""
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise DataError(f"{where}: two columns have the same name, {shown(twice[0])}; rename one")


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
        require_distinct(path, head)
        yield head
        empty = 0  # number of the first empty line
        rows: list[list[str]] = []  # of a table with semicolons, whose decimal marks depend on whole columns
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
            if separator == ";":
                rows.append(row)
            else:
                yield row
        yield from _with_points(path, head, rows)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a table in UTF-8: {error}") from None
    except csv.Error as error:
        raise DataError(
            f"{path}: the row at line {line + 1} cannot be read: {error}. A value with a separator or a quote in it is "
            'written "5"" pipe"'
        ) from None


def _with_points(path: Path, head: list[str], rows: Sequence[list[str]]) -> list[list[str]]:
    """Numbers get decimal points, but not in columns with both marks: in 1.234 and 999,5 the point is of thousands.

    Raises DataError if a column may have thousands by the mark of another: 1,500 beside 2.5.
    """
    columns = list(zip(*(row for row in rows if len(row) == len(head)), strict=True))
    commas, points = (
        {k: [value for value in column if mark.match(value)] for k, column in enumerate(columns)}
        for mark in (DECIMAL, POINT)
    )
    commas, points = ({k: found for k, found in each.items() if found} for each in (commas, points))
    only = {k for k in commas if k not in points}
    for k, found in (commas | points).items():
        others = {j for j in (points if k in only else commas) if j != k}
        if others and all(map(THOUSANDS.match, found)):
            j = min(others)
            other = (points if k in only else commas)[j][0]
            raise DataError(
                f"{path}: in the column {shown(head[k])}, {shown(found[0].strip())} may be a fraction or thousands, as "
                f"{shown(other.strip())} in the column {shown(head[j])} has the other mark; write numbers without "
                "marks between thousands, and with the same decimal mark"
            )
    return [[DECIMAL.sub(r"\1.\2", v) if k in only else v for k, v in enumerate(row)] for row in rows]


def _separator(text: str) -> str:
    """The mark that most rows have as often as the header; ; before , since a number or a name may have a comma."""
    unquoted = re.sub(r'"[^"]*"', "", text[: 1 << 16])
    head, *rows = [line for line in unquoted.splitlines() if line.strip(" ")] or [""]
    if len(text) > 1 << 16:
        rows = rows[:-1]  # the last one is cut
    there = [mark for mark in ",;\t" if mark in head]
    return max(
        there[::-1], key=lambda mark: sum(row.count(mark) == head.count(mark) for row in rows), default=","
    )


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Context that lifts the global limit of csv, 131,072 characters in a field."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _csv(path: Path) -> dict[str, Array]:
    with _long_fields():
        head, *rows = _rows_of_csv(path)
    if not rows:
        raise DataError(f"{path} must have a row of column names, then rows of values")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(head):
            raise DataError(f"{path}: row {number} has {len(row)} values for {len(head)} columns")
    columns = zip(*rows, strict=True)
    # dtype object: a string array would reserve the longest string for each row.
    return {name: np.array(column, dtype=object) for name, column in zip(head, columns, strict=True)}


def _parquet(path: Path) -> dict[str, Array]:
    parquet = package_for(f"reading {path}", "pyarrow.parquet", "pyarrow")
    with no_file_of(path, "Parquet table"):
        # Threads of pyarrow that still start when Python ends with an error abort the process.
        file = parquet.ParquetFile(io.BytesIO(read_bytes(path, DataError)), pre_buffer=False)
        # Repeated rows compress well in the file, but need eight bytes per value here.
        about = file.metadata
        require_memory(8 * about.num_rows * about.num_columns, f"the table {path}", "name a smaller file")
        require_distinct(path, file.schema_arrow.names)
        table = file.read(use_threads=False)
        columns = {name: _array_of(table.column(name)) for name in table.column_names}
    if not columns or not len(next(iter(columns.values()))):
        raise DataError(f"{path} has no rows")
    return columns


def _array_of(column: Any) -> Array:
    """Returns a column, decoded. Times with a zone are texts in UTC. Whole numbers with nulls are floats, or objects if
    floats would round them."""
    if hasattr(column.type, "index_type"):
        column = column.cast(column.type.value_type)
    found: Array = column.to_numpy()
    if getattr(column.type, "tz", None):
        return np.datetime_as_string(found, timezone="UTC").astype(object)
    if column.null_count and str(column.type) in ("int64", "uint64"):
        there = found[~np.isnan(found)]
        if len(there) and np.abs(there).max() >= 2**53:
            return np.array(column.to_pylist(), dtype=object)
    return decoded(found)


def decoded(array: Array) -> Array:
    """Returns an array whose bytes are texts, from UTF-8; other bytes become \\xff."""

    def text(cell: Any) -> Any:
        return cell.decode(errors="backslashreplace") if isinstance(cell, bytes) else cell

    if array.dtype.kind not in "SO":
        return array
    return np.asarray(np.frompyfunc(text, 1, 1)(array), dtype=object)  # also of no axis


#: File ending -> reader of the columns.
TABLES: dict[str, Callable[[Path], dict[str, Array]]] = {".csv": _csv, ".parquet": _parquet}


def is_table(path: str | Path) -> bool:
    """True if the file is a table, by its ending."""
    return Path(path).suffix.lower() in TABLES


def table_bytes(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Returns the content of a table file: Parquet if `path` ends in .parquet, else CSV."""
    if Path(path).suffix.lower() == ".parquet":
        return _parquet_bytes(path, columns)
    return csv_text([list(columns), *zip(*columns.values(), strict=True)]).encode()


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Returns lines of a CSV file; quotes cells with a carriage return, too, which Python before 3.13 does not."""
    lines: list[str] = []
    csv.writer(_Lines(lines), lineterminator="\r\n").writerows(rows)
    return "".join(lines)


class _Lines:
    """A file to which csv.writer writes one line at a time."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def write(self, line: str) -> None:
        self.lines.append(line.removesuffix("\r\n") + "\n")


def _parquet_bytes(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A column of several types, or of numbers that no type holds, is written as texts."""
    arrow, parquet = _writer(path)
    arrays = {}
    for name, column in columns.items():
        try:
            arrays[name] = arrow.array(column)
        except (arrow.ArrowException, OverflowError):
            arrays[name] = arrow.array([None if cell is None else str(cell) for cell in column])
    file = io.BytesIO()
    parquet.write_table(arrow.table(arrays, metadata={"written by": "graphnet"}), file)
    return file.getvalue()


def _writer(path: str | Path) -> tuple[Any, Any]:
    what = f"writing {path}"
    return package_for(what, "pyarrow", "pyarrow"), package_for(what, "pyarrow.parquet", "pyarrow")


def require_writer(path: str | Path) -> None:
    """Raises UsageError if the package is missing that writes this table file."""
    if Path(path).suffix.lower() == ".parquet":
        _writer(path)
