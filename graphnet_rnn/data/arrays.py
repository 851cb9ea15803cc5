"""Arrays of files: of NumPy (.npz), of MATLAB (.mat) and of the format idx. Nothing in a file is executed."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.memory import require_memory
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import read_bytes

__all__ = ["matlab_arrays", "no_file_of", "package_for", "read_arrays", "read_idx", "read_matlab"]

#: What is known beforehand of what will be read.
REMEDY = "name a smaller file"


def package_for(what: str | Path, module: str, package: str) -> Any:
    """The module; UsageError with the remedy where its package is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"{what} needs {package}: pip install {package}") from None


@contextlib.contextmanager
def no_file_of(path: str | Path, what: str, errors: Any = Exception) -> Iterator[None]:
    """Within it, these errors (by default whatever a package raises of a damaged file) are a DataError."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except errors as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} is no {what}: {reason[:200]}") from None


# -- NumPy ---------------------------------------------------------------------------------------


def read_arrays(path: Path) -> dict[str, Array]:
    """Those of a file that `np.savez` wrote. Raises DataError, and NotEnoughMemoryError before memory is taken."""
    content = io.BytesIO(read_bytes(path, DataError))
    with no_file_of(path, "file of arrays, as np.savez writes it"), zipfile.ZipFile(content) as archive:
        size = sum(info.file_size for info in archive.infolist())
        require_memory(size, f"reading the arrays of {path}", REMEDY)
        return {info.filename.removesuffix(".npy"): _member(archive, info) for info in archive.infolist()}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """An array of the file; ValueError for one whose head says more numbers than follow it."""
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        head = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in head:
            raise ValueError(f"{info.filename} is of version {version}")
        shape, _, dtype = head[version](file)
        if dtype.hasobject or not dtype.itemsize:
            raise ValueError(f"{info.filename} holds Python objects, or nothing; arrays must be of numbers")
        if math.prod(shape) * dtype.itemsize > info.file_size:
            raise ValueError(f"{info.filename} ends before its {math.prod(shape):,} numbers")
    with archive.open(info) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


# -- MATLAB --------------------------------------------------------------------------------------


def matlab_arrays(path: str | Path) -> list[tuple[str, tuple[int, ...]]]:
    """The names and shapes of what a .mat file holds, of its heads alone. DataError."""
    return [(name, shape) for name, shape, _ in _heads(path, read_bytes(path, DataError))]


def read_matlab(path: str | Path, names: Iterable[str]) -> dict[str, Any]:
    """Those of these names that a .mat file of MATLAB 4 to 7.2 has, with SciPy.

    Raises UsageError without SciPy, DataError for another file, and NotEnoughMemoryError before memory is taken.
    """
    wanted, content = set(names), read_bytes(path, DataError)
    size = sum(
        math.prod(shape) * WIDTHS.get(kind, 1)
        for name, shape, kind in _heads(path, content)
        if name in wanted
    )
    require_memory(size, f"reading the arrays of {path}", REMEDY)
    found = _matlab(path, "loadmat", io.BytesIO(content), variable_names=sorted(wanted))
    return {name: found[name] for name in found if name in wanted}


#: Bytes of a number, by what MATLAB calls its kind.
WIDTHS = {"double": 8, "single": 4} | {f"{u}int{8 * n}": n for u in ("", "u") for n in (1, 2, 4, 8)}


def _heads(path: str | Path, content: bytes) -> list[tuple[str, tuple[int, ...], str]]:
    found: list[tuple[str, tuple[int, ...], str]] = _matlab(path, "whosmat", io.BytesIO(content))
    return found


def _matlab(path: str | Path, function: str, *arguments: Any, **options: Any) -> Any:
    """What a function of scipy.io makes of the file."""
    module = package_for(f"reading {path}", "scipy.io", "scipy")
    with no_file_of(path, ".mat file of MATLAB 4 to 7.2"):
        return getattr(module, function)(*arguments, **options)


# -- idx -----------------------------------------------------------------------------------------

#: The third byte of a file -> its numbers, whose bytes stand with the largest first.
IDX = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP = b"\x1f\x8b"
#: What a byte of it stands for at most (zlib's Technical Details).
DEFLATED = 1032
#: At most so many.
AXES = 8


def read_idx(path: str | Path) -> Array:
    """The array of a file of the format idx, as MNIST is in, also within gzip.

    Two bytes of 0, the kind of the numbers, the number of axes, each one's size in four bytes, the numbers. How much
    that is, is known before memory is taken, and no more is read of what gzip holds.
    Raises DataError for another file, and one that ends early or goes on; NotEnoughMemoryError.
    """
    content = read_bytes(path, DataError)
    packed = content[:2] == GZIP
    with (
        gzip.GzipFile(fileobj=io.BytesIO(content)) if packed else io.BytesIO(content) as file,
        no_file_of(path, "whole file of gzip", (gzip.BadGzipFile, EOFError, zlib.error)),
    ):
        return _idx(path, file, DEFLATED * len(content))


def _idx(path: str | Path, file: Any, most: int) -> Array:
    """most: bytes that can follow the head."""
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX:
        raise DataError(
            f"{path} is no file of the format idx: it begins with {head.hex(' ') or 'nothing'}, not with 00 00 and the "
            f"kind of its numbers, {', '.join(f'{kind:02x}' for kind in IDX)}"
        )
    axes, dtype = head[3], np.dtype(IDX[head[2]])
    sizes = file.read(4 * axes)
    shape = struct.unpack(f">{len(sizes) // 4}I", sizes[: len(sizes) // 4 * 4])
    if not 0 < axes <= AXES or len(shape) < axes or not all(shape):
        raise DataError(
            f"{path}: its head must name 1 to {AXES} axes and their sizes, but names {axes}, of {list(shape[:AXES])}"
        )
    size = math.prod(shape) * dtype.itemsize
    if size > most:
        raise DataError(f"{path} cannot hold the {size:,} bytes that {list(shape)} numbers of {dtype} take")
    require_memory(size, f"reading the {' x '.join(map(str, shape))} numbers of {path}", REMEDY)
    # One byte more than there must be tells whether the file goes on.
    content = file.read(min(size + 1, sys.maxsize))
    if len(content) != size:
        what = "goes on behind" if len(content) > size else f"has {len(content):,} bytes of"
        raise DataError(f"{path} {what} the {size:,} bytes that {list(shape)} numbers of {dtype} take")
    return np.frombuffer(content, dtype).reshape(shape)
