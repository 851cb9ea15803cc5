"""Images and their reconstructions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from viz.charts import parts as chart
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from viz.charts.figure import Chart

#: Inches of an image, between rows, and of a letter of their names.
SIDE, BETWEEN, LETTER = 0.72, 0.09, 0.08


@by_matplotlib()
def image_rows(rows: Mapping[str, Any], width: int | None = None, title: str | None = None) -> Chart:
    """A row of images for each name, e.g. inputs above their reconstructions.

    rows: name -> array (count, pixels), row by row, or (count, rows, columns). width: width of an image in pixels;
    squares by default. title: title of the chart.
    All images share the gray scale of the first row: its minimum is black and its maximum white. If it is constant,
    they share that of all rows.
    Raises DrawingError for arrays that do not fit.
    Source: Hinton & Salakhutdinov 2006, figure 2.

    >>> chart = viz.image_rows({"input": np.eye(4), "reconstruction": np.eye(4)})
    >>> len(chart.axes)
    2
    """
    from viz.charts.figure import Chart

    if not isinstance(rows, Mapping) or not rows:
        raise DrawingError("image_rows: rows holds nothing to draw: pass a dict {name: images}.")
    shown = {str(name): _checked(str(name), given, width) for name, given in rows.items()}
    first = next(iter(shown.values()))
    for name, images in shown.items():
        if images.shape != first.shape:
            raise DrawingError(
                f"image_rows: {name} must be {list(first.shape)}, the shape of the first row, not {list(images.shape)}."
            )
    count, high, wide = first.shape
    scale = first if np.ptp(first) else np.stack(list(shown.values()))
    before = 0.2 + LETTER * max(map(len, shown))
    figure = Chart(before + SIDE * count, 0.3 * bool(title) + (SIDE * high / wide + BETWEEN) * len(shown))
    grid = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for axes, (name, images) in zip(grid, shown.items(), strict=True):
        # One picture for a row, its images a pixel apart.
        strip = np.full((high, count * (wide + 1) - 1), np.nan)
        for i, image in enumerate(images):
            strip[:, i * (wide + 1) : i * (wide + 1) + wide] = image
        axes.imshow(
            strip, cmap="gray", vmin=scale.min(), vmax=scale.max(), aspect="auto", interpolation="nearest"
        )
        axes.set_yticks([(high - 1) / 2], [chart.plain(name)], fontsize=10)
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    if title:
        grid[0].set_title(chart.plain(title), loc="left", fontsize=11)
    return figure


def _checked(name: str, given: Any, width: int | None) -> chart.Numbers:
    images = chart.numbers_of(f"image_rows: {name}", "an array (count, pixels)", given)
    if images.ndim == 2 and images.size:
        pixels = images.shape[1]
        wide = math.isqrt(pixels) if width is None else width
        if not 0 < wide <= pixels or pixels % wide or (width is None and wide * wide != pixels):
            shape = "are not a square number; pass width" if width is None else f"are not rows of {width}"
            raise DrawingError(f"image_rows: the {pixels} pixels of {name} {shape}.")
        images = images.reshape(len(images), -1, wide)
    if images.ndim != 3 or not images.size or not np.isfinite(images).all():
        raise DrawingError(
            f"image_rows: {name} must be finite numbers (count, pixels) or (count, rows, columns), not "
            f"{list(images.shape)}."
        )
    return images
