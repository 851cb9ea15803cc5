"""Weights of hidden units as images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from viz.charts.parts import numbers_of, plain
from viz.charts.video import images_of
from viz.errors import DrawingError, by_matplotlib, count_of

if TYPE_CHECKING:
    from viz.charts.figure import Chart

#: Inches of each map, and the quantile of weights at the end of the scale.
SIDE, SHARE = 4.8, 0.995
#: Width of lines between fields, in their pixels.
LINE = 1


@by_matplotlib()
def receptive_fields(W: Any, recurrent: Any = None, units: int = 36, title: str | None = None) -> Chart:
    """Column j of W as an image, for the first `units` units, next to their recurrent weights

    W: (pixels, units), of square images, row by row, or (height, width, units). recurrent: (units, units) as in
    h @ recurrent, from the unit of a row to that of a column; None for none. It is drawn transposed: row i, from the
    top, shows the weights into the unit of the ith image, counted left to right, then down. units: maximum number of
    units; 36 by default. title: title of the chart.
    White is 0, blue negative, red positive; each side has its own scale, and outliers are clipped.
    Raises DrawingError for arrays that do not fit.
    Source: Sutskever 2013, figure 3.4.

    >>> chart = viz.receptive_fields(np.eye(9), recurrent=np.eye(9), units=4)
    >>> len(chart.axes)
    4
    """
    from viz.charts.figure import Chart

    weights = numbers_of("receptive_fields: W", "an array (pixels, units)", W)
    fields = images_of("receptive_fields", "the columns of W", np.moveaxis(np.atleast_1d(weights), -1, 0))
    every, count = len(fields), min(count_of("receptive_fields: units", units), len(fields))
    between = None if recurrent is None else _between(recurrent, every)[:count, :count].T
    figure = Chart(SIDE * (1 if between is None else 2) + 0.6, SIDE + 0.5)
    grid = figure.subplots(1, 1 if between is None else 2, squeeze=False)[0]
    _draw(
        figure, grid[0], _tiled(fields[:count]), title or f"input weights of {count} of {every} hidden units"
    )
    if between is not None:
        _draw(figure, grid[1], between, "recurrent weights: to each (row) from each (column)")
    return figure


def _between(given: Any, units: int) -> Any:
    found = numbers_of("receptive_fields: recurrent", f"an array ({units}, {units})", given)
    if found.shape != (units, units) or not np.isfinite(found).all():
        raise DrawingError(
            f"receptive_fields: recurrent must be finite, ({units}, {units}), as W has {units} units, not "
            f"{list(found.shape)}."
        )
    return found


def _tiled(fields: Any) -> Any:
    count, height, width = fields.shape
    columns = math.ceil(math.sqrt(count))
    rows = -(-count // columns)
    found = np.full((rows * (height + LINE) - LINE, columns * (width + LINE) - LINE), np.nan)
    for n, field in enumerate(fields):
        y, x = n // columns * (height + LINE), n % columns * (width + LINE)
        found[y : y + height, x : x + width] = field
    return found


def _draw(figure: Chart, axes: Any, values: Any, words: str) -> None:
    from matplotlib import colormaps

    end = float(np.nanquantile(np.abs(values), SHARE)) or 1.0
    colours = colormaps["RdBu_r"].with_extremes(bad="#cccccc")
    image = axes.imshow(values, cmap=colours, vmin=-end, vmax=end, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(plain(words), loc="left", fontsize=11)
    bar = figure.colorbar(image, ax=axes, shrink=0.5, aspect=18, pad=0.02)
    bar.ax.tick_params(labelsize=8.5)
    bar.outline.set_visible(False)
