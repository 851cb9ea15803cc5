"""Readers of arrays: NumPy (.npz) and idx. They execute nothing from a file."""

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

#: Remedy for files that need more memory than there is.
REMEDY = "name a smaller file"


def package_for(what: str | Path, module: str, package: str) -> Any:
    """Returns the module; UsageError with the install command if its package is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"{what} needs {package}: pip install {package}") from None


@contextlib.contextmanager
def no_file_of(path: str | Path, what: str, errors: Any = Exception) -> Iterator[None]:
    """Context that converts these errors (default: all) to a DataError that names the file."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except errors as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} is not a valid {what}: {reason[:200]}") from None


# -- NumPy ---------------------------------------------------------------------------------------


def array_names(path: Path) -> list[str]:
    """Lists the names of the arrays in an .npz file. Raises DataError."""
    with _members(path) as (_, members):
        return sorted(members)


def read_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, Array]:
    """Reads the named arrays of an .npz file, or all; names that the file lacks are left out.

    Raises DataError, or NotEnoughMemoryError before memory is allocated.
    """
    with _members(path) as (archive, members):
        wanted = {name: members[name] for name in (members if names is None else names) if name in members}
        size = sum(info.file_size for info in wanted.values())
        require_memory(size, f"reading the arrays of {path}", REMEDY)
        return {name: _member(archive, info) for name, info in wanted.items()}


@contextlib.contextmanager
def _members(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    content = read_bytes(path, DataError)
    with no_file_of(path, "file of arrays (np.savez)"), zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        start = content.rfind(b"PK\5\6")  # the end record, with the number of members
        (count,) = struct.unpack("<H", content[start + 10 : start + 12])
        if count not in (len(members), 0xFFFF):
            raise ValueError(f"its directory lists {len(members)} of {count} arrays")
        for info in members:
            archive.open(info).close()  # raises if the directory has another name than the array's own header
        yield archive, {info.filename.removesuffix(".npy"): info for info in members}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        head = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in head:
            raise ValueError(
                f"{info.filename} has the .npy version {version}, which cannot be read; save it again with np.savez"
            )
        shape, _, dtype = head[version](file)
        if dtype.hasobject or not dtype.itemsize:
            raise ValueError(
                f"{info.filename} must hold numbers; it holds Python objects or values of 0 bytes"
            )
        declared, there = math.prod(shape) * dtype.itemsize, info.file_size - file.tell()
        if declared != there:
            raise ValueError(
                f"{info.filename} has {there:,} bytes of numbers, but its header declares {declared:,}"
            )
    with archive.open(info) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


# -- idx -----------------------------------------------------------------------------------------

#: Type code (third byte of a file) -> big-endian dtype.
IDX = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP = b"\x1f\x8b"
#: Maximum compression factor of gzip (zlib's Technical Details).
DEFLATED = 1032
#: Maximum number of axes.
AXES = 8


def read_idx(path: str | Path) -> Array:
    """Reads the array of an idx file, the format of MNIST, also gzipped.

    The format: two zero bytes, type code, number of axes, size of each axis (4 bytes each), data. The size is checked
    before memory is allocated, and a gzip stream is not read beyond this size.
    Raises DataError for another file and for a file with too few or too many bytes; NotEnoughMemoryError.
    """
    content = read_bytes(path, DataError)
    packed = content[:2] == GZIP
    with (
        gzip.GzipFile(fileobj=io.BytesIO(content)) if packed else io.BytesIO(content) as file,
        no_file_of(path, "gzip file", (gzip.BadGzipFile, EOFError, zlib.error)),
    ):
        return _idx(path, file, DEFLATED * len(content))


def _idx(path: str | Path, file: Any, most: int) -> Array:
    """most: maximum number of bytes after the header."""
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX:
        raise DataError(
            f"{path} is not an idx file: it begins with {head.hex(' ') or 'nothing'}, but must begin with 00 00 and "
            f"the code of a number type, {', '.join(f'{kind:02x}' for kind in IDX)}"
        )
    axes, dtype = head[3], np.dtype(IDX[head[2]])
    sizes = file.read(4 * axes)
    shape = struct.unpack(f">{len(sizes) // 4}I", sizes[: len(sizes) // 4 * 4])
    if not 0 < axes <= AXES or len(shape) < axes or not all(shape):
        raise DataError(
            f"{path}: the header of an idx file must declare 1 to {AXES} axes, with sizes above 0; got {axes}, with "
            f"the sizes {list(shape[:AXES])}"
        )
    size = math.prod(shape) * dtype.itemsize
    if size > most:
        raise DataError(
            f"{path} is damaged: it is too short for the {size:,} bytes ({list(shape)} numbers of {dtype}) that its "
            "header declares"
        )
    require_memory(size, f"reading the {' x '.join(map(str, shape))} numbers of {path}", REMEDY)
    # Read one byte more, to detect a file that is too long.
    content = file.read(min(size + 1, sys.maxsize))
    if len(content) != size:
        what = "is longer than" if len(content) > size else f"has only {len(content):,} bytes of"
        raise DataError(
            f"{path} {what} the {size:,} bytes ({list(shape)} numbers of {dtype}) that its header declares"
        )
    return np.frombuffer(content, dtype).reshape(shape)
