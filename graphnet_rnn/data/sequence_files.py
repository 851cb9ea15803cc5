"""Sequences from files of arrays and music."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.arrays import array_names, read_arrays
from graphnet_rnn.data.music import read_midi
from graphnet_rnn.data.sequences import Sequences, named_sequences
from graphnet_rnn.data.table_files import TABLES, is_table
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import path, shown, text, whole_number, yes_or_no

#: Default name of the array of lengths.
LENGTHS = "lengths"


def read_sequences(
    path: str | Path,
    *,
    inputs: str = "x",
    targets: str = "y",
    weights: str | None = None,
    lengths: str | None = None,
    cases_first: bool = False,
    by_step: bool | None = None,
    pieces: int | None = None,
) -> Sequences:
    """Reads the sequences of a file of arrays (.npz) or music (.mid); rnn.data.Table reads tables

    path: the file; its ending selects the format.
    inputs, targets: names of arrays. Music has none: its inputs are the keys that sound in each
    tenth of a second (time, 1, 88), its targets those of the next.
    weights: name of the array of weights; default None, all equal.
    lengths: name of the array of lengths; by default "lengths", if the file has it.
    cases_first: True if arrays are (cases, time, ...), not (time, cases, ...); default False.
    by_step: True if targets are of time steps, False if of whole cases; default None, inferred from their shape.
    pieces: maximum number of time steps of a segment, see Sequences.pieces; default None, cases are not cut.
    Raises DataError, UsageError.

    >>> np.savez("sums.npz", x=np.ones((4, 2, 1)), total=np.arange(1.0, 5)[:, None, None].repeat(2, axis=1))
    >>> data = rnn.data.read_sequences("sums.npz", targets="total")
    >>> data.inputs.shape, data.targets[:, 0].ravel().tolist()
    ((4, 2, 1), [1.0, 2.0, 3.0, 4.0])
    """
    file = _checked(path, cases_first, inputs=inputs, targets=targets, weights=weights, lengths=lengths)
    if file.suffix.lower() in MUSIC:
        roll = read_midi(file)
        if len(roll) < 2:
            raise DataError(f"{file} must have at least two frames, to predict the next one; got one")
        found = named_sequences(str(file), roll[:-1, None], roll[1:, None], None, None, by_step)
    else:
        chosen = [inputs, targets, lengths or LENGTHS]
        arrays = read_arrays(file, chosen if weights is None else [*chosen, weights])
        x, t = _inputs(file, arrays, inputs), _array(file, arrays, targets)
        w = None if weights is None else _array(file, arrays, weights)
        kind = Sequences.cases_first if cases_first else Sequences
        found = named_sequences(str(file), x, t, _lengths(file, arrays, lengths), w, by_step, kind=kind)
    return found if pieces is None else found.pieces(whole_number("read_sequences: pieces", pieces))


def read_inputs(
    path: str | Path,
    *,
    inputs: str = "x",
    lengths: str | None = None,
    cases_first: bool = False,
    pieces: int | None = None,
) -> tuple[Array, Array | None]:
    """Reads the inputs of arrays or music, and the length of each case (None: all equal); the file may lack targets."""
    file = _checked(path, cases_first, inputs=inputs, lengths=lengths)
    n = None
    if file.suffix.lower() in MUSIC:
        x = read_midi(file)[:, None]
    else:
        arrays = read_arrays(file, [inputs, lengths or LENGTHS])
        x, n = _inputs(file, arrays, inputs), _lengths(file, arrays, lengths)
        x = np.swapaxes(x, 0, 1) if cases_first else x
    if pieces is None:
        return x, n
    cut = Sequences(x, np.zeros(x.shape[:2]), n).pieces(whole_number("read_sequences: pieces", pieces))
    return cut.inputs, cut.lengths


def _checked(given: str | Path, cases_first: bool, **names: str | None) -> Path:
    """Returns the path of a file of arrays or music. Raises UsageError for others, and for names in music."""
    file = path("read_sequences: path", given)
    if is_table(file):
        raise UsageError(
            f"{file} is a table, but must be arrays (.npz) or music; rnn.data.Table reads tables"
        )
    if file.suffix.lower() not in ENDINGS:
        raise UsageError(f"{file}: a file of sequences must end in {', '.join(ENDINGS)}")
    usual = {"inputs": "x", "targets": "y"}
    chosen = [
        what
        for what, name in names.items()
        if name is not None and text(f"read_sequences: {what}", name) != usual.get(what)
    ]
    if (yes_or_no("read_sequences: cases_first", cases_first) or chosen) and file.suffix.lower() in MUSIC:
        raise UsageError(
            f"{file}: the inputs of music are the keys of a frame, its targets those of the next frame; leave "
            "out inputs, targets, weights, lengths and cases_first"
        )
    return file


def _lengths(file: Path, arrays: Mapping[str, Array], name: str | None) -> Array | None:
    if name is None and LENGTHS not in arrays:
        return None
    found = _array(file, arrays, name or LENGTHS)
    return found.astype(np.int64) if found.dtype.kind == "u" and found.max(initial=0) < 2**63 else found


def _inputs(file: Path, arrays: Mapping[str, Array], name: str) -> Array:
    x = _array(file, arrays, name)
    if x.ndim not in (2, 3) or not x.size:
        raise DataError(
            f"{file}: inputs must be (time, cases, width), or symbols (time, cases), not {list(x.shape)}"
        )
    return x


def _array(file: Path, arrays: Mapping[str, Array], name: str) -> Array:
    if name not in arrays:
        raise DataError(f"{file} has no array {shown(name)}; it has {', '.join(array_names(file)) or 'none'}")
    return arrays[name]


ARRAYS, MUSIC = ".npz", (".mid", ".midi")
#: Suffixes of files of sequences, with those of tables.
ENDINGS = (ARRAYS, *TABLES, *MUSIC)
