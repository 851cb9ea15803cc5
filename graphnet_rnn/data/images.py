"""Images from files, as rows of pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.memory import require_memory
from graphnet.system.text import matches
from graphnet_rnn.data.arrays import REMEDY, array_names, read_arrays, read_idx
from graphnet_rnn.data.matlab import matlab_arrays, read_matlab
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import path as named_file, shown, whole_number


def read_images(path: str | Path, array: str | None = None, pixels: int | None = None) -> Array:
    """Reads the images of a file, (count, pixels), float32, one row for each image

    path: a file of NumPy (.npz) or MATLAB (.mat, needs SciPy), or an idx file (MNIST), also gzipped.
    array: name of the array, needed if the file has several; `*` is a wildcard, and all matching arrays are
    concatenated in the order of their names ("train*"). Shapes: (count, pixels) or (count, rows, columns); a matrix
    (pixels, count) is transposed if `pixels` shows that.
    pixels: required number of pixels of an image; default None, any number.

    Bytes are divided by 255, so values lie in [0, 1]; other numbers are not changed.
    Raises DataError for another file, or one without images; NotEnoughMemoryError before memory is allocated;
    UsageError without SciPy.

    >>> np.savez("images.npz", train=np.full((5, 2, 3), 255, np.uint8))
    >>> x = rnn.data.read_images("images.npz")
    >>> x.shape, x.max().item()
    ((5, 6), 1.0)
    """
    pixels = None if pixels is None else whole_number("read_images: pixels", pixels)
    if array is not None and not (isinstance(array, str) and array):
        raise UsageError(f"read_images: array must be the name of an array, or None, not {shown(array)}")
    path = named_file("read_images: path", path)
    found = _arrays(path, array)
    parts = [_as_rows(f"{path}: {name}" if name else str(path), each, pixels) for name, each in found.items()]
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) > 1:
        raise DataError(
            f"{path}: all images must have the same number of pixels; those of {', '.join(found)} have {widths}. "
            "Choose arrays of one size"
        )
    if len({part.dtype == np.uint8 for part in parts}) > 1:
        raise DataError(
            f"{path}: {', '.join(found)} are bytes, which are divided by 255, and other numbers, which are not; choose "
            "arrays of one type"
        )
    size = sum(part.size for part in parts) * 4
    require_memory(size, f"the images of {path}", REMEDY)
    return np.concatenate([_as_numbers(str(path), part) for part in parts])


def _arrays(path: Path, array: str | None) -> dict[str, Array]:
    """Reads the requested arrays, by name ("" for a format without names)."""
    match path.suffix.lower():
        case ".npz":
            return read_arrays(path, _chosen(path, array_names(path), array))
        case ".mat":
            names = _chosen(path, [name for name, _ in matlab_arrays(path)], array)
            arrays = read_matlab(path, names)
            return {name: arrays[name] for name in names}
    if array is not None:
        raise UsageError(
            f"{path} is read as an idx file, which has a single array without a name; leave out array"
        )
    return {"": read_idx(path)}


def _chosen(path: Path, names: list[str], array: str | None) -> list[str]:
    fitting = sorted(name for name in names if array is None or matches(name, array))
    if not fitting or (array is None and len(fitting) > 1):
        which = "no array" if array is None else f"no array {shown(array)}"
        some = f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
        what = "several arrays" if fitting else which
        raise DataError(
            f"{path} has {what}; name one, or several with a * (such as 'train*'), of {some or 'none'}"
        )
    return fitting


def _as_rows(what: str, array: Array, pixels: int | None) -> Array:
    """Reshapes to (count, pixels), without scaling."""
    if isinstance(array, np.ndarray) and not array.size:
        raise DataError(f"{what}: there are no images: the array has the shape {list(array.shape)}")
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "uif":
        kind = getattr(array, "dtype", type(array).__name__)
        raise DataError(f"{what}: images must be numbers, not {kind} {list(getattr(array, 'shape', ()))}")
    if array.ndim not in (2, 3):
        raise DataError(
            f"{what}: images must be (count, pixels) or (count, rows, columns), not {list(array.shape)}"
            + ("; the labels of images are in a separate file" if array.ndim == 1 else "")
        )
    rows = array.reshape(len(array), -1)
    if pixels is None or rows.shape[1] == pixels:
        return rows
    if array.ndim == 2 and len(array) == pixels:
        return array.T
    raise DataError(f"{what}: images must have {pixels} pixels, but the array is {list(array.shape)}")


def _as_numbers(what: str, rows: Array) -> Array:
    if rows.dtype == np.uint8:
        return np.divide(rows, np.float32(255), dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.ascontiguousarray(rows, np.float32)
    if not np.isfinite(found).all():
        number = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
        raise DataError(f"{what}: all pixels must be finite; image {number} has nan or infinity")
    return found
