"""Rows of symbols, one, two or four bytes each; long rows in a memory-mapped file."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array, Dtype
from graphnet_rnn.errors import DataError
from graphnet_rnn.settings import shown

#: Longer rows (bytes) are memory-mapped files.
MAPPED = 1 << 26


def dtype_of(count: int) -> Dtype:
    """Returns the smallest dtype for the symbols 0 ... count - 1."""
    return np.min_scalar_type(max(0, count - 1))


def stored(pieces: Iterable[Array], dtype: Dtype) -> Array:
    """Concatenates the pieces; beyond MAPPED bytes into an anonymous memory-mapped file.

    Raises DataError if there is no disk space for it.
    """
    held: list[Array] = []
    size, file = 0, None
    with contextlib.ExitStack() as stack:
        for piece in pieces:
            piece = piece.astype(dtype)
            held.append(piece)
            size += piece.nbytes
            if size > MAPPED:
                with _room(size):
                    file = file or stack.enter_context(tempfile.TemporaryFile())
                    for each in held:
                        file.write(each.data)
                held.clear()
        if file is None:
            return np.concatenate([np.empty(0, dtype), *held])
        with _room(size):
            file.flush()
            return np.memmap(file, dtype, "r")


@contextlib.contextmanager
def _room(size: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"a text of more than {size:,} bytes needs a file in {tempfile.gettempdir()}, which cannot be written: "
            f"{error.strerror or error}. Choose a folder with enough free space: TMPDIR=FOLDER."
        ) from None


def symbol_row(what: str, symbols: Any, count: int | None = None) -> Array:
    """Converts symbols to an array; DataError unless they are one row of whole numbers in 0 ... count - 1."""
    require_unmasked(what, symbols)
    try:
        row = np.asarray(symbols if isinstance(symbols, (np.ndarray, Sequence)) else list(symbols))
    except (TypeError, ValueError):
        row = np.array(None)
    if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
        found = f"{shown(symbols)} ({row.dtype} of shape {list(row.shape)})"
        raise DataError(f"{what} must be one-dimensional, of whole numbers (symbols), not {found}")
    if row.size and (row.min() < 0 or (count is not None and row.max() >= count)):
        wrong = int(row.min() if row.min() < 0 else row.max())
        last = "" if count is None else f" ... {count - 1}"
        raise DataError(f"{what}: symbols must be 0{last or ' or more'}; got {wrong}.")
    return row
