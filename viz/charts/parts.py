"""Parts of charts: the colors of Okabe and Ito for all kinds of color vision, a light grid, captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphnet.graph.dtypes import require_unmasked
from graphnet.settings import shown
from viz.errors import DrawingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Numbers = npt.NDArray[np.float64]

BLACK, GREY, BLUE, GREEN = "#000000", "#555555", "#0072B2", "#009E73"
ORANGE, PURPLE, VERMILION, SKY = "#E69F00", "#CC79A7", "#D55E00", "#56B4E9"
#: Not one of theirs, but darker than all their warm colors.
BROWN = "#6B4423"
DOTS, DASHES = (0, (1, 2)), (0, (4, 1.5))

#: Maximum number of tick labels of a setting.
TICKS = 8
#: Approximate number of markers on a line.
_MARKERS = 40


def numbers_of(what: str, wanted: str, given: Any) -> Numbers:
    """Returns the array in float64. Raises DrawingError for other objects, DtypeError for a masked array."""
    require_unmasked(what, given)
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise DrawingError(f"{what} must be {wanted}, not {shown(given)}.") from None


def frame(axes: Axes, label_size: float = 11) -> None:
    """Adds a light grid, and removes the lines above and to the right."""
    axes.tick_params(labelsize=label_size)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def line(axes: Axes, x: Numbers, y: Numbers, label: str, color: str, marker: str, style: Any = "-") -> None:
    """Draws a line with some markers. An empty label keeps the line out of the legend."""
    few, every = len(x) <= _MARKERS, -(-len(x) // _MARKERS)
    # Markers of solid and dashed lines are at different places.
    axes.plot(
        x, y, color=color, linestyle=style, linewidth=1.4 if few else 1.0, marker=marker, markersize=5 if few else 4,
        markevery=(0 if few or style == "-" else every // 2, every), label=label or None,
    )  # fmt: skip


def mark(
    axes: Axes, x: Numbers, y: Numbers, marker: str, *, color: str = BLACK, label: str = "", size: float = 1.0,
    hollow: bool = False,
) -> None:  # fmt: skip
    """Draws markers without a line, not clipped; larger if there are few."""
    points = 5.0 if len(x) <= _MARKERS else 3.5 if len(x) <= 100 else 2.5
    (drawn,) = axes.plot(
        x, y, linestyle="none", marker=marker, color=color, label=label or None, clip_on=False, zorder=3,
        markersize=size * points, markerfacecolor="white" if hollow else color,
        markeredgewidth=1.6 if marker == "x" else 1.0,
    )  # fmt: skip
    # Unclipped artists would affect the layout, even where they are empty.
    drawn.set_in_layout(False)


def plain(words: object) -> str:
    """Escapes "$" in names and titles: between two of them, matplotlib reads mathematics."""
    return str(words).replace("$", r"\$")


def caption(axes: Axes, words: str) -> None:
    """Writes a caption above the axes, with the legend next to the caption."""
    axes.set_title(plain(words), loc="left", fontsize=11)
    count = len(axes.get_legend_handles_labels()[1])
    if count:
        rows = 1 if count <= 5 else -(-count // 4)
        columns = -(-count // rows)
        axes.legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, frameon=False, fontsize=9.5, borderaxespad=0,
            borderpad=0.25, handlelength=2.2, handletextpad=0.4, columnspacing=1.1,
        )  # fmt: skip


def logarithmic(axes: Axes, values: Numbers, plain: bool = False) -> None:
    """Sets a logarithmic y axis if any value is positive. plain: 0.01 instead of 10⁻² for all ranges."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    positive = values[np.isfinite(values) & (values > 0)]
    if not positive.size:
        return
    axes.set_yscale("log", nonpositive="mask")
    decades = np.log10(positive.max()) - np.log10(positive.min())
    if decades < 2:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    if decades < 2 or plain:
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if decades < 0.3:
        axes.set_ylim(positive.min() / 2, positive.max() * 2)


def whole_numbers(axis: Axis, most: int) -> None:
    """Sets about `most` ticks, at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=True))


def along_numbers(axes: Axes, places: Sequence[float], name: str) -> None:
    """Sets the x axis of a setting, with ticks at its values if they are few; logarithmic for wide ranges."""
    axes.set_xlabel(plain(name), fontsize=12)
    if len(places) > 1 and places[0] > 0 and places[-1] / places[0] >= 4:
        axes.set_xscale("log")
    shown = places[:: -(-len(places) // TICKS)]
    axes.set_xticks(shown, labels=[f"{x:g}" for x in shown])
    axes.minorticks_off()
