"""Sequences: cases of equally many steps, side by side, from arrays, tables and music."""

from __future__ import annotations

import csv
import importlib
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
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import read_bytes
from graphnet_rnn.settings import shown, whole_number, yes_or_no

__all__ = ["ENDINGS", "TASK", "Choice", "Sequences", "is_file", "read_inputs", "read_sequences"]

#: What begins the name of a problem that draws its sequences.
TASK = "task:"
#: The lowest and highest key of a piano, by their numbers in MIDI, and frames of a second of music.
KEYS, FRAMES = (21, 108), 10
#: Seconds of a piece of music at most.
LONGEST = 36_000


def is_file(data: str | None) -> TypeGuard[str]:
    """Whether what a run learns from is the name of a file: not of a problem, nor nothing."""
    return bool(data) and not str(data).startswith(TASK)


@dataclass(frozen=True)
class Sequences:
    """Cases side by side.

    inputs: (time, cases, width), or symbols (time, cases). targets: (time, cases, width), or symbols (time, cases), or
    the labels of each case, (cases, most), -1 behind the last. weights: of the cases, (cases,), None for all the same.
    unscored: steps at the start that have no target: all but the last where a case has one target, (cases,).
    """

    inputs: Array
    targets: Array
    weights: Array | None = None
    unscored: int = 0

    def __len__(self) -> int:
        """How many cases."""
        return int(self.inputs.shape[1])

    @property
    def time(self) -> int:
        return len(self.inputs)

    def chosen(self, cases: Any) -> Sequences:
        """These cases alone."""
        axis = 1 if self.targets.shape[:2] == self.inputs.shape[:2] else 0
        weights = None if self.weights is None else self.weights[cases]
        targets = self.targets.take(cases, axis=axis)
        return Sequences(self.inputs.take(cases, axis=1), targets, weights, self.unscored)

    def fold(self, fold: int, folds: int, seed: int = 0) -> tuple[Sequences, Sequences]:
        """Cases to train on, and one of so many equal shares of them, drawn by the seed, to validate on."""
        folds = whole_number("Sequences: folds", folds, least=2)
        fold = whole_number("Sequences: fold", fold, least=0)
        if not fold < folds <= len(self):
            raise UsageError(
                f"Sequences: fold must be in 0 ... {folds - 1}, and of {len(self)} cases there are at most as many "
                f"folds, not fold {fold} of {folds}"
            )
        parts = np.array_split(np.random.default_rng(seed).permutation(len(self)), folds)
        others = np.sort(np.concatenate([part for i, part in enumerate(parts) if i != fold]))
        return self.chosen(others), self.chosen(np.sort(parts[fold]))

    def pieces(self, time: int) -> Sequences:
        """Each case cut into pieces of so many steps; what is left at its end is left out."""
        time, cases = whole_number("Sequences: time", time), len(self)
        if self.targets.shape[:2] != self.inputs.shape[:2] or self.unscored:
            raise UsageError("Sequences: what has a target for a whole case cannot be cut into pieces")
        count = self.time // time
        if not count:
            raise DataError(f"Sequences: no case has the {time} steps of a piece; they have {self.time}")

        def cut(array: Array) -> Array:
            whole = array[: count * time].reshape(count, time, cases, *array.shape[2:])
            return np.ascontiguousarray(np.moveaxis(whole, 0, 2)).reshape(
                time, cases * count, *array.shape[2:]
            )

        weights = None if self.weights is None else np.repeat(self.weights, count)
        return Sequences(cut(self.inputs), cut(self.targets), weights)


@dataclass(frozen=True)
class Choice:
    """What of a file is what.

    inputs, targets: names of arrays or columns; no inputs: all columns that are nothing else ("x" of arrays). weights:
    the name of the cases' weights. case: the column that says of which case a row is; without it there is one case.
    cases_first: arrays are (cases, time, ...), not (time, cases, ...). pieces: see Sequences.pieces; rows of tables are
    cut before cases are put side by side, so their cases may have any numbers of steps.
    """

    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    weights: str | None = None
    case: str | None = None
    cases_first: bool = False
    pieces: int | None = None

    def __post_init__(self) -> None:
        yes_or_no("Choice: cases_first", self.cases_first)
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


def read_inputs(path: str | Path, choice: Choice) -> Array:
    """What is read of such a file alone: it may have no targets."""
    path, ending = _named(path)
    if ending in TABLES:
        columns = TABLES[ending](path)
        apart = {*choice.targets, *(name for name in (choice.case, choice.weights) if name in columns)}
        inputs = choice.inputs or tuple(name for name in columns if name not in apart)
        return _stacked(path, columns, inputs)[_index(path, columns, choice)].astype(np.float32)
    x = _piano_roll(path)[:, None] if ending in MUSIC else _inputs(path, _arrays(path), choice)
    if choice.pieces is None:
        return x
    return Sequences(x, np.zeros(x.shape[:2])).pieces(choice.pieces).inputs


def _named(path: str | Path) -> tuple[Path, str]:
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"{path}: sequences are in files of {', '.join(ENDINGS)}")
    return Path(path), ending


# -- arrays ------------------------------------------------------------------------------------


def _of_arrays(path: Path, choice: Choice) -> Sequences:
    arrays = _arrays(path)
    x, t = _inputs(path, arrays, choice), _array(path, arrays, choice.targets, "y")
    if choice.cases_first and t.shape[:2] == x.shape[1::-1]:
        t = np.swapaxes(t, 0, 1)
    weights = None if choice.weights is None else _array(path, arrays, (choice.weights,), "")
    return _with_targets(path, x, t, weights)


def _inputs(path: Path, arrays: Mapping[str, Array], choice: Choice) -> Array:
    if choice.case is not None:
        raise UsageError(f"{path}: a column of cases is of tables; arrays have an axis of cases")
    x = _array(path, arrays, choice.inputs, "x")
    if x.ndim not in (2, 3) or not x.size:
        raise DataError(
            f"{path}: inputs must be (time, cases, width), or symbols (time, cases), not {list(x.shape)}"
        )
    return np.swapaxes(x, 0, 1) if choice.cases_first else x


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


def _with_targets(path: Path, x: Array, t: Array, weights: Array | None) -> Sequences:
    """A target for each step, for each case, or labels of each case."""
    time, cases = x.shape[:2]
    if weights is not None and weights.shape != (cases,):
        raise DataError(f"{path}: weights must be ({cases},), one for each case, not {list(weights.shape)}")
    if t.shape[:1] == (cases,) and t.ndim == 1:
        return Sequences(x, np.broadcast_to(t, (time, cases)), weights, time - 1)
    if t.shape[:2] != (time, cases) and not (t.ndim == 2 and len(t) == cases):
        raise DataError(
            f"{path}: targets must be ({time}, {cases}, ...), one for each step, or ({cases},), one for each case, not "
            f"{list(t.shape)}"
        )
    return Sequences(x, t, weights)


# -- tables ------------------------------------------------------------------------------------


def _of_columns(path: Path, columns: Mapping[str, Array], choice: Choice) -> Sequences:
    if not choice.targets:
        raise UsageError(f"{path}: say which columns are targets; it has {_listed(columns)}")
    apart = {*choice.targets, *(name for name in (choice.case, choice.weights) if name is not None)}
    for name in sorted(apart):
        _require_column(path, columns, name)
    x = _stacked(path, columns, choice.inputs or tuple(name for name in columns if name not in apart))
    t = _stacked(path, columns, choice.targets)
    if len(choice.targets) == 1 and (t == np.floor(t)).all() and t.min() >= 0 and t.max() < 2**31:
        t = t[:, 0].astype(np.int64)  # labels
    w = None if choice.weights is None else _stacked(path, columns, (choice.weights,))[:, 0]
    index = _index(path, columns, choice)
    return Sequences(x[index].astype(np.float32), t[index], None if w is None else w[index[0]])


def _stacked(path: Path, columns: Mapping[str, Array], names: tuple[str, ...]) -> Array:
    """(rows, columns)"""
    if not names:
        raise DataError(f"{path} has no column that is read; it has {_listed(columns)}")
    for name in names:
        _require_column(path, columns, name)
    return np.stack([_numbers(path, name, columns[name]) for name in names], axis=-1)


def _require_column(path: Path, columns: Mapping[str, Array], name: str) -> None:
    if name not in columns:
        raise DataError(f"{path} has no column {shown(name)}; it has {_listed(columns)}")


def _index(path: Path, columns: Mapping[str, Array], choice: Choice) -> Array:
    """The rows, (time, cases)."""
    if choice.cases_first:
        raise UsageError(f"{path}: rows of a table are steps; which axis comes first is a matter of arrays")
    if choice.case is not None:
        _require_column(path, columns, choice.case)
    count = len(next(iter(columns.values())))
    return np.stack(_rows_of_cases(path, columns.get(choice.case or ""), count, choice), axis=1)


def _rows_of_cases(path: Path, case: Array | None, count: int, choice: Choice) -> list[Array]:
    """The rows of each case, or piece of one, in their order."""
    if case is None:
        groups = [np.arange(count)]
    else:
        _, first, number = np.unique(case, return_index=True, return_inverse=True)
        order = np.argsort(first)
        groups = [np.flatnonzero(number == i) for i in order]
    if choice.pieces is not None:
        time = choice.pieces
        groups = [rows[i * time : (i + 1) * time] for rows in groups for i in range(len(rows) // time)]
        if not groups:
            raise DataError(f"{path}: no case has the {time} rows of a piece")
    lengths = sorted({len(rows) for rows in groups})
    if len(lengths) > 1:
        raise DataError(
            f"{path}: its cases have {lengths[0]} to {lengths[-1]} rows; say pieces, a number of rows, into which they "
            "are cut"
        )
    return groups


def _numbers(path: Path, name: str, column: Array) -> Array:
    """DataError with the row of what is no finite number."""
    try:
        found = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        found = np.array([_number(value) for value in column])
    odd = np.flatnonzero(~np.isfinite(found))
    if len(odd):
        raise DataError(
            f"{path}: row {int(odd[0]) + 1} of the column {shown(name)} is {shown(str(column[odd[0]]))}; all must be "
            "finite numbers"
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
    parquet = _package("pyarrow.parquet", "pyarrow", path)
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


def _package(module: str, package: str, path: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"reading {path} needs {package}: pip install {package}") from None


# -- music -------------------------------------------------------------------------------------


def _of_music(path: Path, choice: Choice) -> Sequences:
    """Keys of a piano that sound in each tenth of a second (time, 1, 88), and those of the next."""
    if choice.inputs or choice.targets or choice.case or choice.weights or choice.cases_first:
        raise UsageError(
            f"{path}: of music, keys are read and the next ones predicted; there is nothing to choose"
        )
    roll = _piano_roll(path)
    return Sequences(roll[:-1, None], roll[1:, None])


def _piano_roll(path: Path) -> Array:
    mido = _package("mido", "mido", path)
    try:
        file = mido.MidiFile(file=io.BytesIO(read_bytes(path, DataError)))
        notes: list[tuple[int, float, float]] = []
        sounding: dict[tuple[int, int], float] = {}
        now = 0.0
        for message in file:
            now += message.time
            if message.type in ("note_on", "note_off"):
                begun = sounding.pop((message.channel, message.note), None)
                if begun is not None:
                    notes.append((message.note, begun, now))
                if message.type == "note_on" and message.velocity:
                    sounding[message.channel, message.note] = now
    except Exception as error:
        if isinstance(error, (DataError, MemoryError)):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} is no file of MIDI: {reason[:200]}") from None
    frames = math.ceil(now * FRAMES)
    if not notes or frames < 2 or now > LONGEST:
        raise DataError(f"{path} has no music: {len(notes)} notes in {now:.0f} seconds")
    roll = np.zeros((frames, KEYS[1] - KEYS[0] + 1), np.float32)
    for note, begun, ended in notes:
        if KEYS[0] <= note <= KEYS[1]:
            first = int(begun * FRAMES)
            roll[first : max(first + 1, round(ended * FRAMES)), note - KEYS[0]] = 1
    return roll


#: What reads the columns of which tables.
TABLES: dict[str, Callable[[Path], dict[str, Array]]] = {".csv": _csv, ".parquet": _parquet}
ARRAYS, MUSIC = ".npz", (".mid", ".midi")
ENDINGS = (ARRAYS, *TABLES, *MUSIC)
