"""Summaries of arrays in a few hundred characters."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from viz.blocks import block_means

#: Maximum size of arrays that are shown number by number.
FEW = 12
_DIGITS = 6
_LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_ZERO = len(_LEVELS) // 2
_NOT_FINITE = "!"


def summary(array: Array, side: int) -> list[Any]:
    """[min, mean, max, norm, columns, heat map, numbers]: an array in a few hundred characters.

    The heat map has at most side × side cells, row by row. Each is a letter of 64 levels from -m to m; m is the largest
    absolute value of a cell. A larger array is shown by the means of blocks; leading axes are stacked vertically.
    Numbers are there for arrays of few elements. Strings stand for values that JSON lacks: "NaN", "inf", "-inf".
    """
    if not array.size:
        return [0, 0, 0, 0, 0, "", []]
    exact = np.asarray(array, "float64")
    with np.errstate(all="ignore"):
        facts = [exact.min(), exact.mean(), exact.max(), np.sqrt(np.sum(np.square(exact)))]
        cells = block_means(exact, side, side)
        heat = _letters(cells)
    numbers = [_number(x) for x in array.ravel().tolist()] if array.size <= FEW else []
    return [*(_number(float(x)) for x in facts), cells.shape[1], heat, numbers]


def _number(x: float | int | bool) -> float | int | str:
    if isinstance(x, (bool, int)):
        return int(x)
    if not math.isfinite(x):
        return "NaN" if math.isnan(x) else str(x)
    short = float(f"{x:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 10**_DIGITS else short


def _letters(cells: Array) -> str:
    finite = np.isfinite(cells)
    size = np.abs(cells[finite]).max(initial=0.0)
    scaled = np.where(finite, cells, 0.0) / (size or 1.0) * (_ZERO - 1)
    levels = np.rint(scaled).astype(int) + _ZERO
    letters: Collection[str] = [
        _LEVELS[level] if is_finite else _NOT_FINITE
        for level, is_finite in zip(levels.ravel().tolist(), finite.ravel().tolist(), strict=True)
    ]
    return "".join(letters)
