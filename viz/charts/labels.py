"""Labels at the ends of lines, in place of a legend, and colors for many lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from viz.charts import parts as chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colors in the order of lines; the first ones differ most.
COLOURS = (
    chart.BLUE, chart.VERMILION, chart.GREEN, chart.PURPLE, chart.ORANGE, chart.SKY, chart.BLACK, chart.BROWN,
)  # fmt: skip


class Ending(NamedTuple):
    """End of a line in data coordinates, and its label. x: of its end, if the line ends before the others."""

    y: float
    words: str
    colour: str
    x: float | None = None


def colour_of(number: int) -> str:
    """Color of line `number`; repeats from the ninth on."""
    return COLOURS[number % len(COLOURS)]


def label_ends(axes: Axes, endings: Sequence[Ending], height: float, size: float = 10) -> None:
    """Writes labels to the right of the axes, near the ends of their lines, without overlap.

    Ends that a logarithmic axis cannot show are below it. height: approximate height of the axes, in inches. Set the
    limits of y before.
    """
    scale = axes.yaxis.get_transform()
    low, high = (float(v) for v in scale.transform(np.array(axes.get_ylim())))
    ends = np.array([float(scale.transform(np.array([ending.y]))[0]) for ending in endings])
    at = np.clip((np.where(np.isfinite(ends), ends, low) - low) / (high - low), 0.0, 1.0)
    for ending, true, shown in zip(endings, at, spread(at, size * 1.3 / 72 / height), strict=True):
        start, where = (ending.x, ending.y), "data"
        if ending.x is None or not np.isfinite(axes.transData.transform((ending.x, ending.y))).all():
            start, where = (1.0, true), "axes fraction"
        # Faint, so that it is not taken for more of a line that ends early.
        line = {"linewidth": 0.7, "alpha": 1.0 if ending.x is None else 0.5}
        axes.annotate(
            chart.plain(ending.words), start, (1.035, shown), xycoords=where, textcoords="axes fraction",
            color=ending.colour, fontsize=size, verticalalignment="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": ending.colour, "shrinkA": 0, "shrinkB": 1, **line},
        )  # fmt: skip


def spread(places: chart.Numbers, gap: float) -> chart.Numbers:
    """Positions in [0, 1] nearest to the given ones (least squares), in the same order and at least `gap` apart.

    Evenly spaced if there is no room for that.
    """
    count = len(places)
    gap = min(gap, 1 / max(1, count - 1))
    order = np.argsort(places, kind="stable")
    # After subtracting k gaps from the k-th: isotonic regression, which averages neighbors in the wrong order.
    blocks: list[list[float]] = []
    for k, place in enumerate(places[order]):
        blocks.append([place - k * gap, 1.0])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    level = np.clip(
        np.repeat([b[0] for b in blocks], [int(b[1]) for b in blocks]), 0.0, 1 - (count - 1) * gap
    )
    result = np.empty(count)
    result[order] = level + gap * np.arange(count)
    return result
