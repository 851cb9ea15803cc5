"""Means of blocks of an array, for heat maps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphnet.graph.node import Array

Grid = npt.NDArray[np.float64]


def block_means(array: Array, rows: int, columns: int) -> Grid:
    """Means of blocks of nearly equal size, at most rows × columns of them; (0, 0) for an empty array.

    Leading axes are stacked vertically. A block with NaN, or with infinities of both signs, is NaN.
    """
    if not array.size:
        return np.zeros((0, 0))
    table = np.asarray(array, "float64").reshape(-1, array.shape[-1] if array.ndim else 1)
    with np.errstate(all="ignore"):
        return _along(_along(table, rows, 0), columns, 1)


def _along(table: Grid, most: int, axis: int) -> Grid:
    size = table.shape[axis]
    if size <= most:
        return table
    starts = np.arange(most) * size // most
    counts = np.diff(starts, append=size)
    sums: Grid = np.add.reduceat(table, starts, axis)
    return sums / (counts[:, None] if axis == 0 else counts)
