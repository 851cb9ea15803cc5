"""Missing inputs: values to fill in, and a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.sequences import array_of_numbers, checked_lengths
from graphnet_rnn.errors import DataError
from graphnet_rnn.settings import shown


def with_missing(x: Any, fill: Any = None, lengths: Any = None) -> Array:
    """Fills in NaN and appends a mask, 1 where a value is present: (..., width) becomes (..., 2 width)

    x: floats, NaN where a value is missing. fill: the value for NaN, a number or one for each column, (width,); default
    None, the mean of the column. For other data than the training data, pass the means of these, without the padding:
    np.nanmean(x, (0, 1), where=data.inside()[..., None]), with data = rnn.data.Sequences(x, t, lengths).
    lengths: number of time steps of each case, for x of shape (time, cases, width). The mean leaves out the padding,
    which becomes missing values. Default None, no padding.
    Source: Lipton, Kale & Wetzel 2016, 3.2.

    >>> x = np.array([[1.0, np.nan], [3.0, 6.0], [np.nan, 8.0]])
    >>> rnn.data.with_missing(x).tolist()
    [[1.0, 7.0, 1.0, 0.0], [3.0, 6.0, 1.0, 1.0], [2.0, 8.0, 0.0, 1.0]]
    >>> rnn.data.with_missing(x[:1], fill=0).tolist()
    [[1.0, 0.0, 1.0, 0.0]]
    """
    array = array_of_numbers("with_missing: x", x)
    if array.dtype.kind != "f" or not array.ndim:
        raise DataError(
            f"with_missing: x must be floats (..., width), with NaN for missing values, not {array.dtype}"
        )
    there = ~np.isnan(array)
    if lengths is not None:
        if array.ndim != 3:
            raise DataError(
                f"with_missing: lengths need x of shape (time, cases, width), not {list(array.shape)}"
            )
        n = checked_lengths("with_missing", lengths, *array.shape[:2])
        there &= (np.arange(len(array))[:, None] < n)[..., None]
    if fill is None:
        rows, counts = (
            np.where(there, array, 0).reshape(-1, array.shape[-1]),
            there.reshape(-1, array.shape[-1]),
        )
        fill = rows.sum(axis=0, dtype=np.float64) / np.maximum(counts.sum(axis=0), 1)
    else:
        fill = array_of_numbers("with_missing: fill", fill)
        if (
            fill.shape not in ((), array.shape[-1:])
            or fill.dtype.kind not in "iuf"
            or not np.isfinite(fill).all()
        ):
            raise DataError(
                f"with_missing: fill must be a finite number, or one for each of {array.shape[-1]} columns, not "
                f"{shown(fill.tolist())}"
            )
    filled = np.where(there, array, fill).astype(array.dtype)
    return np.concatenate([filled, there.astype(array.dtype)], axis=-1)
