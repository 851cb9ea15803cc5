"""Arrays of MATLAB files (.mat), read by SciPy once the file is found to be sound."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from graphnet.system.memory import require_memory
from graphnet_rnn.data.arrays import REMEDY, no_file_of, package_for
from graphnet_rnn.errors import DataError
from graphnet_rnn.files.whole import read_bytes

_FORMAT = "MATLAB file (.mat, versions 4 to 7.2)"
#: MATLAB's name of a number type -> bytes of a number.
WIDTHS = {"double": 8, "single": 4} | {f"{u}int{8 * n}": n for u in ("", "u") for n in (1, 2, 4, 8)}
#: Codes of elements in a MATLAB 5 file: numbers and characters, a matrix, a compressed element.
NUMBERS, MATRIX, COMPRESSED = (*range(1, 8), 9, 12, 13, 16, 17, 18), 14, 15
#: Classes of matrices that hold matrices: cells, structures, objects, functions, and objects of other kinds.
NESTED = (1, 2, 3, 16, 17)
#: Classes of characters, sparse matrices and numbers.
ARRAYS, SPARSE = range(4, 16), 5


def matlab_arrays(path: str | Path) -> list[tuple[str, tuple[int, ...]]]:
    """Lists the names and shapes in a .mat file; reads its headers only. Raises DataError."""
    return [(name, shape) for name, shape, _ in _heads(path, read_bytes(path, DataError))]


def read_matlab(path: str | Path, names: Iterable[str]) -> dict[str, Any]:
    """Reads the named arrays of a .mat file (MATLAB 4 to 7.2) with SciPy; names that the file lacks are left out.

    Raises UsageError without SciPy, DataError for another file, and NotEnoughMemoryError before memory is allocated.
    """
    wanted, content = set(names), read_bytes(path, DataError)
    heads = [head for head in _heads(path, content) if head[0] in wanted]
    size = sum(math.prod(shape) * WIDTHS.get(kind, 1) for _, shape, kind in heads)
    require_memory(size, f"reading the arrays of {path}", REMEDY)
    with no_file_of(path, _FORMAT):
        _require_sound(content)
        found = _scipy(path).loadmat(io.BytesIO(content), variable_names=sorted(wanted))
        logical = {name for name, _, kind in heads if kind == "logical"}  # which SciPy reads as bytes
        return {
            name: found[name].astype(bool) if name in logical else found[name]
            for name in found
            if name in wanted
        }


def _heads(path: str | Path, content: bytes) -> list[tuple[str, tuple[int, ...], str]]:
    scipy = _scipy(path)
    with no_file_of(path, _FORMAT):
        found: list[tuple[str, tuple[int, ...], str]] = scipy.whosmat(io.BytesIO(content))
        return found


def _scipy(path: str | Path) -> Any:
    return package_for(f"reading {path}", "scipy.io", "scipy")


# -- elements: SciPy crashes on wrong codes ------------------------------------------------------


def _require_sound(content: bytes) -> None:
    """Raises ValueError for a MATLAB 5 file with an element of another kind than its place needs."""
    if 0 in content[:4]:  # version 4, which holds no elements
        return
    order = "<" if content[126:128] == b"IM" else ">"
    for code, data in _elements(memoryview(content)[128:], order, padded=False):
        if code == COMPRESSED:
            unpacking = zlib.decompressobj()
            head = unpacking.decompress(data, 8)
            (size,) = struct.unpack_from(f"{order}4xI", head)
            require_memory(size, "an array of the file", REMEDY)
            whole = head + unpacking.decompress(unpacking.unconsumed_tail, size or 1)
            ((code, data),) = _elements(memoryview(whole), order)
        if code != MATRIX:
            raise ValueError(f"an element of code {code} stands in place of a matrix")
        _require_matrix(data, order)


def _require_matrix(data: memoryview, order: str) -> None:
    if not data:
        return  # an empty array
    (_, flags), (_, sizes), _, *parts = _elements(data, order)
    (word,) = struct.unpack_from(f"{order}I", flags)
    kind, is_complex = word & 255, word >> 11 & 1
    for code, part in parts:
        if code == MATRIX and kind in NESTED:
            _require_matrix(part, order)
        elif code not in NUMBERS:
            raise ValueError(f"an element of code {code} stands in an array of class {kind}")
    count = math.prod(struct.unpack(f"{order}{len(sizes) // 4}i", sizes))
    if kind in NESTED and count > max(1, sum(code == MATRIX for code, _ in parts)):
        raise ValueError(f"an array of {count:,} cells has {len(parts)}")
    if kind in ARRAYS and len(parts) != 1 + 2 * (kind == SPARSE) + is_complex:
        raise ValueError(f"an array of class {kind} has {len(parts)} lists of numbers")


def _elements(data: memoryview, order: str, padded: bool = True) -> Iterator[tuple[int, memoryview]]:
    """Yields code and content of each element. padded: each ends at a multiple of 8 bytes."""
    at = 0
    while at < len(data):
        code, size = struct.unpack_from(f"{order}II", data, at)
        start = at + 8
        if code >> 16:  # short: code and size share four bytes
            start, size, code = at + 4, code >> 16, code & 0xFFFF
        if start + size > len(data):
            raise ValueError(f"an element of {size:,} bytes is longer than the {len(data) - start:,} left")
        yield code, data[start : start + size]
        at = start + size
        at += -at % 8 if padded else 0
