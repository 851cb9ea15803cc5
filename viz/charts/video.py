"""Frames of grayscale videos, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from viz.charts.parts import GREY, numbers_of, plain
from viz.errors import DrawingError, by_matplotlib, count_of

if TYPE_CHECKING:
    from viz.charts.figure import Chart

#: By name (time, height, width), float64.
Videos = dict[str, npt.NDArray[np.float64]]

#: Inches of a frame's side, and maximum width of a strip.
FRAME, MOST = 0.85, 12.0


@by_matplotlib()
def filmstrip(videos: Any, count: int = 12, every: int = 1, first: int = 0) -> Chart:
    """Frames of videos in a row each: frames first, first + every, ...

    videos: array (time, pixels) of square frames, row by row, or (time, height, width), 0 black and 1 white; or several
    by name: {"truth": v[:, 0], "predicted": p[:, 0]}. Values outside [0, 1] are clipped.
    count: number of frames; 12 by default. every: distance of frames; 1 by default. first: first frame; 0 by default.
    Raises DrawingError for arrays that do not fit.

    >>> chart = viz.filmstrip(np.zeros((20, 25)), count=4, every=5)
    >>> len(chart.axes)
    4
    """
    from viz.charts.figure import Chart

    shown = videos_of("filmstrip", videos)
    time, height, width = next(iter(shown.values())).shape
    count, every = count_of("filmstrip: count", count), count_of("filmstrip: every", every)
    frames = range(count_of("filmstrip: first", first, least=0), time, every)[:count]
    if not frames:
        raise DrawingError(f"filmstrip: first is {first}, but a video has only {time} frames.")
    side = min(FRAME, MOST / len(frames))
    figure = Chart(side * len(frames) + 0.2, (side * height / width + 0.28) * len(shown) + 0.2)
    figure.set_layout_engine("constrained", w_pad=0.015, h_pad=0.015, wspace=0, hspace=0)
    grid = figure.subplots(len(shown), len(frames), squeeze=False)
    for row, (name, video) in zip(grid, shown.items(), strict=True):
        for axes, frame in zip(row, frames, strict=True):
            axes.imshow(video[frame], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set_axis_off()
        row[0].set_title(plain(name), fontsize=9.5, pad=2, loc="left")
    for axes, frame in zip(grid[-1], frames, strict=True):
        axes.text(
            0.5, -0.03, str(frame), transform=axes.transAxes, fontsize=8, color=GREY, ha="center", va="top"
        )
    return figure


def videos_of(owner: str, given: Any) -> Videos:
    """Videos by name, all of one shape; raises DrawingError, which names the owner, for other arrays."""
    several = given if isinstance(given, Mapping) else {"": given}
    found = {
        str(name): images_of(owner, f"videos[{name!r}]" if name else "videos", v)
        for name, v in several.items()
    }
    shapes = {video.shape for video in found.values()}
    if len(shapes) != 1:
        raise DrawingError(
            f"{owner}: videos must hold one or more videos of the same shape, not {sorted(shapes)}."
        )
    return found


def images_of(owner: str, what: str, given: Any) -> npt.NDArray[np.float64]:
    """Images (count, height, width), also from (count, pixels) of squares; raises DrawingError for other arrays."""
    images = numbers_of(f"{owner}: {what}", "an array of images", given)
    if images.ndim == 2 and images.size and math.isqrt(images.shape[1]) ** 2 == images.shape[1]:
        images = images.reshape(len(images), math.isqrt(images.shape[1]), -1)
    if images.ndim != 3 or not images.size or not np.isfinite(images).all():
        raise DrawingError(
            f"{owner}: {what} must be finite, (count, pixels) of square images or (count, height, width), not "
            f"{list(images.shape)}; for several cases, pass v[:, case]."
        )
    return images
