"""Curves of Braille characters for terminals, 2 × 4 dots each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from viz.errors import DrawingError

#: Bits of the dots of a Braille character, by row and column; the empty character is U+2800.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_POINT = "●"
_BLUE, _RED, _PLAIN = "\x1b[34m", "\x1b[31m", "\x1b[0m"

_Points = Sequence[tuple[float, float]]


def text_curve(
    line: _Points, points: _Points = (), width: int = 80, height: int = 8, colour: bool = False
) -> list[str]:
    """A line through (x, y) and single points, in `height` rows of at most `width` characters.

    The y axis shows the minimum and maximum. Several points of the line in one column of dots are averaged. The first 2
    % of the line, where a loss falls fastest, may lie above the picture. colour: True for escape codes, with a blue
    line and red points. Values that are not finite are left out.
    Raises DrawingError if nothing is left, or for less than 2 rows or 16 characters.
    """
    if width < 16 or height < 2:
        raise DrawingError(f"a curve of text needs 16 characters and 2 rows, not {width} and {height}.")
    curve, single = (np.array(p, np.float64).reshape(-1, 2) for p in (line, points))
    curve, single = (p[np.isfinite(p).all(axis=1)] for p in (curve, single))
    if not len(curve) and not len(single):
        raise DrawingError("line and points hold nothing to draw: no (x, y) is finite.")
    xs = np.concatenate([curve[:, 0], single[:, 0]])
    ys = np.concatenate([curve[len(curve) // 50 :, 1], single[:, 1]])
    (left, right), (low, high) = (float(xs.min()), float(xs.max())), (float(ys.min()), float(ys.max()))
    labels = [f"{high:.3g}", f"{low:.3g}"]
    margin = max(map(len, labels))
    columns = width - margin - 1

    def dot(p: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        x = (p[:, 0] - left) / (right - left or 1) * (2 * columns - 1)
        y = (high - p[:, 1]) / (high - low or 1) * (4 * height - 1)
        return np.rint(x).astype(np.intp), np.rint(np.clip(y, 0, 4 * height - 1)).astype(np.intp)

    cells = np.zeros((height, columns), np.intp)
    for x, first, last in _strokes(*dot(_by_column(curve, left, right, 2 * columns))):
        for y in range(first, last + 1):
            cells[y // 4, x // 2] |= _DOTS[y % 4, x % 2]
    marked = {(int(y) // 4, int(x) // 2) for x, y in zip(*dot(single), strict=True)}
    beside = [labels[0], *[""] * (height - 2), labels[1]]
    return [
        f"{beside[r]:>{margin}}{'┤' if beside[r] else '│'}"
        + _row(cells[r], {c for at, c in marked if at == r}, colour)
        for r in range(height)
    ]


def _by_column(curve: npt.NDArray[Any], left: float, right: float, columns: int) -> npt.NDArray[Any]:
    if not len(curve):
        return curve
    column = np.rint((curve[:, 0] - left) / (right - left or 1) * (columns - 1)).astype(np.intp)
    count = np.bincount(column)
    used = count > 0
    return np.stack([np.bincount(column, v)[used] / count[used] for v in curve.T], axis=1)


def _strokes(x: npt.NDArray[np.intp], y: npt.NDArray[np.intp]) -> list[tuple[int, int, int]]:
    """(column, first row, last row) of a line without gaps through these dots, in order of columns."""
    strokes = [(int(x[0]), int(y[0]), int(y[0]))] if len(x) else []
    for k in range(1, len(x)):
        steps = max(1, int(x[k] - x[k - 1]))
        before = int(y[k - 1])
        for i in range(1, steps + 1):
            here = round(y[k - 1] + (y[k] - y[k - 1]) * i / steps)
            # Vertical between neighbors in time, without the dot that is already there.
            first, last = (
                (before + 1, here) if here > before else (here, before - 1) if here < before else (here, here)
            )
            strokes.append((int(x[k - 1]) + i, first, last))
            before = here
    return strokes


def _row(cells: npt.NDArray[np.intp], marked: set[int], colour: bool) -> str:
    row, now = "", ""
    for c, bits in enumerate(cells):
        want = _RED if c in marked else _BLUE if bits else now
        if colour and want != now:
            row, now = row + want, want
        row += _POINT if c in marked else chr(0x2800 + int(bits)) if bits else " "
    row = row.rstrip(" ")
    return row + _PLAIN if now else row
