"""Sequences from files of arrays, tables and music."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.arrays import array_names, read_arrays
from graphnet_rnn.data.choice import Choice
from graphnet_rnn.data.music import read_midi
from graphnet_rnn.data.sequences import Sequences, named_sequences
from graphnet_rnn.data.table import Table
from graphnet_rnn.data.table_files import TABLES
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import path, shown

__all__ = ["ENDINGS", "LENGTHS", "read_inputs", "read_sequences"]

#: Default name of the array of lengths.
LENGTHS = "lengths"


def read_sequences(path: str | Path, choice: Choice) -> Sequences:
    """Reads the sequences of a file of arrays (.npz), a table (.csv, .parquet) or music (.mid)

    path: the file; its ending selects the format.
    choice: names of the arrays or columns to read, an rnn.data.Choice.
    Raises DataError, UsageError.

    >>> rows = [[1.0, 5.5], [2.0, 6.5], [3.0, 7.5]]
    >>> np.savetxt("demand.csv", rows, delimiter=",", header="temperature,demand", comments="")
    >>> data = rnn.data.read_sequences("demand.csv", rnn.data.Choice(targets=("demand",)))
    >>> data.inputs.shape, data.targets.ravel().tolist()
    ((3, 1, 1), [5.5, 6.5, 7.5])
    """
    path, ending = _named("read_sequences: path", path)
    if ending in MUSIC:
        found = _of_music(path, choice)
    elif ending == ARRAYS:
        found = _of_arrays(path, choice)
    else:
        return Table(path, choice).sequences
    return found if choice.pieces is None else found.pieces(choice.pieces)


def read_inputs(path: str | Path, choice: Choice) -> tuple[Array, Array | None]:
    """Reads the inputs of arrays or music, and the length of each case (None: all equal); the file may lack targets."""
    path, ending = _named("path", path)
    lengths = None
    if ending in MUSIC:
        x = read_midi(path)[:, None]
    else:
        arrays = read_arrays(path, [*(choice.inputs or "x"), choice.lengths or LENGTHS])
        x, lengths = _inputs(path, arrays, choice), _lengths(path, arrays, choice)
        x = np.swapaxes(x, 0, 1) if choice.cases_first else x
    if choice.pieces is None:
        return x, lengths
    cut = Sequences(x, np.zeros(x.shape[:2]), lengths).pieces(choice.pieces)
    return cut.inputs, cut.lengths


def _named(argument: str, given: str | Path) -> tuple[Path, str]:
    file = path(argument, given)
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"{file}: a file of sequences must end in {', '.join(ENDINGS)}")
    return file, ending


def _refuse_tables_only(path: Path, choice: Choice) -> None:
    of_tables = ("time", "calendar", "categories", "horizon", "date_format", "independent")
    odd = [name for name in of_tables if getattr(choice, name)]
    if odd:
        raise UsageError(f"{path}: {odd[0]} applies only to tables; leave it out")


# -- arrays ------------------------------------------------------------------------------------


def _of_arrays(path: Path, choice: Choice) -> Sequences:
    chosen = [*(choice.inputs or "x"), *(choice.targets or "y"), choice.lengths or LENGTHS]
    arrays = read_arrays(path, [*chosen, *([choice.weights] if choice.weights is not None else [])])
    x, t = _inputs(path, arrays, choice), _array(path, arrays, tuple(choice.targets), "y")
    weights = None if choice.weights is None else _array(path, arrays, (choice.weights,), "")
    kind = Sequences.cases_first if choice.cases_first else Sequences
    return named_sequences(str(path), x, t, _lengths(path, arrays, choice), weights, kind=kind)


def _lengths(path: Path, arrays: Mapping[str, Array], choice: Choice) -> Array | None:
    if choice.lengths is None and LENGTHS not in arrays:
        return None
    found = _array(path, arrays, (choice.lengths or LENGTHS,), "")
    return found.astype(np.int64) if found.dtype.kind == "u" and found.max(initial=0) < 2**63 else found


def _inputs(path: Path, arrays: Mapping[str, Array], choice: Choice) -> Array:
    if choice.case is not None:
        raise UsageError(
            f"{path}: a column of cases applies only to tables; the cases of arrays are on an axis"
        )
    _refuse_tables_only(path, choice)
    x = _array(path, arrays, tuple(choice.inputs), "x")
    if x.ndim not in (2, 3) or not x.size:
        raise DataError(
            f"{path}: inputs must be (time, cases, width), or symbols (time, cases), not {list(x.shape)}"
        )
    return x


def _array(path: Path, arrays: Mapping[str, Array], names: tuple[str, ...], default: str) -> Array:
    name = ", ".join(names) or default
    if name not in arrays:
        raise DataError(f"{path} has no array {shown(name)}; it has {', '.join(array_names(path)) or 'none'}")
    return arrays[name]


# -- music -------------------------------------------------------------------------------------


def _of_music(path: Path, choice: Choice) -> Sequences:
    """Returns the keys that sound in each tenth of a second (time, 1, 88) as inputs, those of the next as targets."""
    if (
        choice.inputs
        or choice.targets
        or choice.case
        or choice.weights
        or choice.lengths
        or choice.cases_first
    ):
        raise UsageError(
            f"{path}: the inputs of music are the keys of a frame, its targets those of the next frame; do not "
            "choose columns or arrays"
        )
    _refuse_tables_only(path, choice)
    roll = read_midi(path)
    if len(roll) < 2:
        raise DataError(f"{path} must have at least two frames, to predict the next one; got one")
    return Sequences(roll[:-1, None], roll[1:, None])


ARRAYS, MUSIC = ".npz", (".mid", ".midi")
ENDINGS = (ARRAYS, *TABLES, *MUSIC)
