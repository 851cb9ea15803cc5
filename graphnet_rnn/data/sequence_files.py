"""Sequences of files: arrays, tables and music."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.memory import require_memory
from graphnet_rnn.data.music import read_midi
from graphnet_rnn.data.packages import package_for
from graphnet_rnn.data.sequences import Sequences, named_sequences
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import read_bytes
from graphnet_rnn.settings import shown, whole_number, yes_or_no

__all__ = ["ENDINGS", "LENGTHS", "TASK", "Choice", "is_file", "read_inputs", "read_sequences"]

#: What begins the name of a problem that draws its sequences.
TASK = "task:"
#: What the array of how many steps each case has is called.
LENGTHS = "lengths"


def is_file(data: str | None) -> TypeGuard[str]:
    """Whether what a run learns from is the name of a file: not of a problem, nor nothing."""
    return bool(data) and not str(data).startswith(TASK)


@dataclass(frozen=True)
class Choice:
    """What of a file is what.

    inputs, targets: names of arrays or columns; no inputs: all columns that are nothing else ("x" of arrays). weights:
    the name of the cases' weights. lengths: the array of how many steps each case has ("lengths", if there is one).
    case: the column that says of which case a row is; without it there is one case. whole: of tables, a case has one
    target, that of its last row. cases_first: arrays are (cases, time, ...), not (time, cases, ...). pieces: see
    Sequences.pieces.
    """

    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    weights: str | None = None
    lengths: str | None = None
    case: str | None = None
    whole: bool = False
    cases_first: bool = False
    pieces: int | None = None

    def __post_init__(self) -> None:
        yes_or_no("Choice: cases_first", self.cases_first)
        yes_or_no("Choice: whole", self.whole)
        if self.pieces is not None:
            object.__setattr__(self, "pieces", whole_number("Choice: pieces", self.pieces))


def read_sequences(path: str | Path, choice: Choice) -> Sequences:
    """The sequences of a file of arrays (.npz), a table (.csv, .parquet) or music (.mid). DataError, UsageError."""
    path, ending = _named(path)
    if ending in MUSIC:
        found = _of_music(path, choice)
    elif ending == ARRAYS:
        found = _of_arrays(path, choice)
    else:
        return _of_columns(path, TABLES[ending](path), choice)
    return found if choice.pieces is None else found.pieces(choice.pieces)


def read_inputs(path: str | Path, choice: Choice) -> tuple[Array, Array | None]:
    """What is read of such a file alone, and how many steps each case has (None: all); it may have no targets."""
    path, ending = _named(path)
    lengths = None
    if ending in TABLES:
        columns = TABLES[ending](path)
        inputs = choice.inputs or _columns_read(columns, choice)
        x = _stacked(path, columns, inputs)
        index, lengths = _index(path, columns, choice)
        x = x[index].astype(np.float32)
    elif ending in MUSIC:
        x = read_midi(path)[:, None]
    else:
        arrays = _arrays(path)
        x, lengths = _inputs(path, arrays, choice), _lengths(path, arrays, choice)
    if choice.pieces is None:
        return x, lengths
    cut = Sequences(x, np.zeros(x.shape[:2]), lengths).pieces(choice.pieces)
    return cut.inputs, cut.lengths


def _named(path: str | Path) -> tuple[Path, str]:
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"{path}: sequences are in files of {', '.join(ENDINGS)}")
    return Path(path), ending


# -- arrays ------------------------------------------------------------------------------------


def _of_arrays(path: Path, choice: Choice) -> Sequences:
    arrays = _arrays(path)
    x, t = _array_of_inputs(path, arrays, choice), _array(path, arrays, choice.targets, "y")
    weights = None if choice.weights is None else _array(path, arrays, (choice.weights,), "")
    kind = Sequences.cases_first if choice.cases_first else Sequences
    return named_sequences(str(path), x, t, _lengths(path, arrays, choice), weights, kind=kind)


def _lengths(path: Path, arrays: Mapping[str, Array], choice: Choice) -> Array | None:
    if choice.lengths is None and LENGTHS not in arrays:
        return None
    return _array(path, arrays, (choice.lengths or LENGTHS,), "")


def _inputs(path: Path, arrays: Mapping[str, Array], choice: Choice) -> Array:
    """(time, cases, ...)"""
    x = _array_of_inputs(path, arrays, choice)
    return np.swapaxes(x, 0, 1) if choice.cases_first else x


def _array_of_inputs(path: Path, arrays: Mapping[str, Array], choice: Choice) -> Array:
    """As the file has it."""
    if choice.case is not None:
        raise UsageError(f"{path}: a column of cases is of tables; arrays have an axis of cases")
    x = _array(path, arrays, choice.inputs, "x")
    if x.ndim not in (2, 3) or not x.size:
        raise DataError(
            f"{path}: inputs must be (time, cases, width), or symbols (time, cases), not {list(x.shape)}"
        )
    return x


def _array(path: Path, arrays: Mapping[str, Array], names: tuple[str, ...], default: str) -> Array:
    name = ", ".join(names) or default
    if name not in arrays:
        raise DataError(f"{path} has no array {shown(name)}; it has {', '.join(sorted(arrays)) or 'none'}")
    return arrays[name]


def _arrays(path: Path) -> dict[str, Array]:
    """Those of a file that `np.savez` wrote; nothing in it is executed."""
    content = io.BytesIO(read_bytes(path, DataError))
    try:
        with zipfile.ZipFile(content) as archive:
            size = sum(info.file_size for info in archive.infolist())
            require_memory(size, f"reading the arrays of {path}", "name a smaller file")
            return {info.filename.removesuffix(".npy"): _member(archive, info) for info in archive.infolist()}
    except (
        zipfile.BadZipFile,
        ValueError,
        OSError,
        EOFError,
        KeyError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} is no file of arrays, as np.savez writes it: {reason[:200]}") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """An array of the file; ValueError for one whose head says more numbers than follow it."""
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        head = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in head:
            raise ValueError(f"{info.filename} is of version {version}")
        shape, _, dtype = head[version](file)
        if math.prod(shape) * dtype.itemsize > info.file_size:
            raise ValueError(f"{info.filename} ends before its {math.prod(shape):,} numbers")
    with archive.open(info) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


# -- tables ------------------------------------------------------------------------------------


def _of_columns(path: Path, columns: Mapping[str, Array], choice: Choice) -> Sequences:
    if not choice.targets:
        raise UsageError(f"{path}: say which columns are targets; it has {_listed(columns)}")
    for name in sorted(_apart(choice)):
        _require_column(path, columns, name)
    x = _stacked(path, columns, choice.inputs or _columns_read(columns, choice))
    w = None if choice.weights is None else _stacked(path, columns, (choice.weights,))[:, 0]
    t = _stacked(path, columns, choice.targets, None if w is None else w == 0)
    if len(choice.targets) == 1 and (t == np.floor(t)).all() and t.min() >= 0 and t.max() < 2**31:
        t = t[:, 0].astype(np.int64)  # labels
    index, lengths = _index(path, columns, choice)
    ends = np.full(index.shape[1], len(index)) if lengths is None else lengths
    last = index[ends - 1, np.arange(index.shape[1])]
    return Sequences(
        x[index].astype(np.float32),
        t[last] if choice.whole else t[index],
        lengths,
        None if w is None else _weights_of_cases(path, w[index], choice),
    )


def _weights_of_cases(path: Path, w: Array, choice: Choice) -> Array:
    """(cases,) where all rows of each case have one weight, otherwise (time, cases)."""
    differ = (w != w[0]).any(axis=0)
    if not differ.any():
        return w[0]
    if choice.whole:
        raise DataError(
            f"{path}: the rows of case {int(differ.argmax()) + 1} have several weights, and one target for all of "
            "them; give all its rows one"
        )
    return w


def _apart(choice: Choice) -> set[str]:
    return {*choice.targets, *(name for name in (choice.case, choice.weights) if name is not None)}


def _columns_read(columns: Mapping[str, Array], choice: Choice) -> tuple[str, ...]:
    apart = _apart(choice)
    return tuple(name for name in columns if name not in apart)


def _stacked(
    path: Path, columns: Mapping[str, Array], names: tuple[str, ...], missing: Array | None = None
) -> Array:
    """(rows, columns). missing: (rows,), where 0 stands for what need not be there."""
    if not names:
        raise DataError(f"{path} has no column that is read; it has {_listed(columns)}")
    for name in names:
        _require_column(path, columns, name)
    return np.stack([_numbers(path, name, columns[name], missing) for name in names], axis=-1)


def _require_column(path: Path, columns: Mapping[str, Array], name: str) -> None:
    if name not in columns:
        raise DataError(f"{path} has no column {shown(name)}; it has {_listed(columns)}")


def _index(path: Path, columns: Mapping[str, Array], choice: Choice) -> tuple[Array, Array | None]:
    """The rows, (time, cases), the first again behind the end of a case, and lengths, where cases have their own."""
    if choice.cases_first:
        raise UsageError(f"{path}: rows of a table are steps; which axis comes first is a matter of arrays")
    if choice.lengths is not None:
        raise UsageError(
            f"{path}: a table has the rows of each case; an array of lengths is a matter of arrays"
        )
    if choice.case is not None:
        _require_column(path, columns, choice.case)
    count = len(next(iter(columns.values())))
    groups = _rows_of_cases(path, columns.get(choice.case or ""), count, choice)
    lengths = np.array([len(rows) for rows in groups])
    index = np.zeros((lengths.max(), len(groups)), np.int64)
    for n, rows in enumerate(groups):
        index[: len(rows), n] = rows
        index[len(rows) :, n] = rows[0]
    return index, None if (lengths == len(index)).all() else lengths


def _rows_of_cases(path: Path, case: Array | None, count: int, choice: Choice) -> list[Array]:
    """The rows of each case, or piece of one, in their order."""
    if case is None:
        groups = [np.arange(count)]
    else:
        _, first, number = np.unique(case, return_index=True, return_inverse=True)
        order = np.argsort(first)
        groups = [np.flatnonzero(number == i) for i in order]
    if choice.pieces is None:
        return groups
    if choice.whole:
        raise UsageError(f"{path}: what has a target for a whole case cannot be cut into pieces")
    time = choice.pieces
    # Of one case all pieces are of one length; of several, the last of each may be shorter.
    most = [len(rows) // time if case is None else -(-len(rows) // time) for rows in groups]
    pieces = [rows[i * time : (i + 1) * time] for rows, n in zip(groups, most, strict=True) for i in range(n)]
    if not pieces:
        raise DataError(f"{path}: no case has the {time} rows of a piece")
    return pieces


def _numbers(path: Path, name: str, column: Array, missing: Array | None) -> Array:
    """DataError with the row of what is no finite number, but where it is missing."""
    try:
        found = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        found = np.array([_number(value) for value in column])
    if missing is not None:
        found = np.where(missing, 0, found)
    odd = np.flatnonzero(~np.isfinite(found))
    if len(odd):
        raise DataError(
            f"{path}: row {int(odd[0]) + 1} of the column {shown(name)} is {shown(str(column[odd[0]]))}; all must be "
            "finite numbers; a target that is missing is said by the weight 0 of its row, in a column of weights"
        )
    return found


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _listed(names: Any) -> str:
    some = list(names)
    return ", ".join(map(str, some[:20])) + (f" and {len(some) - 20} more" if len(some) > 20 else "")


def _csv(path: Path) -> dict[str, Array]:
    try:
        text = read_bytes(path, DataError).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no table in UTF-8: {error}") from None
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise DataError(f"{path} must have a row of names, and rows of numbers")
    head = [name.strip() for name in rows[0]]
    if len(set(head)) < len(head):
        raise DataError(f"{path}: two columns have the same name")
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(head):
            raise DataError(f"{path}: row {number} has {len(row)} values for {len(head)} columns")
    columns = zip(*rows[1:], strict=True)
    return {name: np.array(column) for name, column in zip(head, columns, strict=True)}


def _parquet(path: Path) -> dict[str, Array]:
    parquet = package_for(f"reading {path}", "pyarrow.parquet", "pyarrow")
    try:
        table = parquet.read_table(io.BytesIO(read_bytes(path, DataError)))
        columns: dict[str, Array] = {name: table.column(name).to_numpy() for name in table.column_names}
    except Exception as error:
        if isinstance(error, (DataError, MemoryError)):
            raise
        raise DataError(f"{path} is no table of Parquet: {' '.join(str(error).split())[:200]}") from None
    if not columns or not len(next(iter(columns.values()))):
        raise DataError(f"{path} has no rows")
    return columns


# -- music -------------------------------------------------------------------------------------


def _of_music(path: Path, choice: Choice) -> Sequences:
    """Keys of a piano that sound in each tenth of a second (time, 1, 88), and those of the next."""
    if choice.inputs or choice.targets or choice.case or choice.weights or choice.cases_first:
        raise UsageError(
            f"{path}: of music, keys are read and the next ones predicted; there is nothing to choose"
        )
    roll = read_midi(path)
    return Sequences(roll[:-1, None], roll[1:, None])


#: What reads the columns of which tables.
TABLES: dict[str, Callable[[Path], dict[str, Array]]] = {".csv": _csv, ".parquet": _parquet}
ARRAYS, MUSIC = ".npz", (".mid", ".midi")
ENDINGS = (ARRAYS, *TABLES, *MUSIC)
