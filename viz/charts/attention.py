"""Attention weights, as a map or as arrows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.settings import has_items, shown
from viz.charts.parts import BLUE, numbers_of, plain
from viz.errors import DrawingError, by_matplotlib, whether

if TYPE_CHECKING:
    from viz.charts.figure import Chart

#: Inches of a cell of the map, of the margin, and maximum of a side.
CELL, BESIDE, MOST = 0.32, 1.2, 12.0
#: Smaller attention has no arrow.
LEAST = 0.01


@by_matplotlib()
def attention_map(shares: Any, read: Any = None, written: Any = None, arrows: bool = False) -> Chart:
    """a_ts, the attention of step t to position s: a row for each step, a column for each position, dark where it is
    large

    shares: array (steps, positions) with values in [0, 1], of one case, from gn.compile(u.course("attention"), ...).
    read: labels of the positions; numbers by default. written: labels of the steps; numbers by default. arrows: True
    for an arrow from each position to each step, wide and dark where the attention is large, instead of a map.
    Raises DrawingError for arrays that do not fit.

    >>> chart = viz.attention_map([[0.9, 0.1], [0.2, 0.8]], read=["le", "chat"], written=["the", "cat"])
    >>> [label.get_text() for label in chart.axes[0].get_xticklabels()]
    ['le', 'chat']
    """
    from viz.charts.figure import Chart

    a = numbers_of("attention_map: shares", "an array", shares)
    if a.ndim != 2 or not a.size:
        raise DrawingError(
            f"attention_map: shares must be (steps, places) of one case, not {list(a.shape)}; for several cases, "
            "pass shares[:, case]."
        )
    if not np.isfinite(a).all() or a.min() < -1e-6 or a.max() > 1 + 1e-6:
        raise DrawingError(f"attention_map: shares must be in 0 ... 1, not {a.min():g} ... {a.max():g}.")
    names = [
        _names(what, given, count)
        for what, given, count in (("written", written, len(a)), ("read", read, a.shape[1]))
    ]
    if whether("attention_map: arrows", arrows):
        return _with_arrows(a, *names)
    height, width = (min(MOST, BESIDE + CELL * count) for count in a.shape)
    figure = Chart(width, height)
    axes = figure.subplots()
    axes.imshow(a, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(a)), names[0])
    axes.set_xticks(range(a.shape[1]), names[1])
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.set_xlabel("read")
    axes.xaxis.set_label_position("top")
    axes.set_ylabel("written")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks(np.arange(a.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(a) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#E4E7EB", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    return figure


def _names(what: str, given: Sequence[Any] | None, count: int) -> list[str]:
    if given is not None and not has_items(given):
        raise DrawingError(f"attention_map: {what} must be {count} names, not {shown(given)}.")
    names = [str(i + 1) for i in range(count)] if given is None else [plain(each) for each in given]
    if len(names) != count:
        raise DrawingError(f"attention_map: {what} must be {count}, not {len(names)}.")
    return names


def _with_arrows(a: Array, written: list[str], read: list[str]) -> Chart:
    """Positions below, steps above, both across the whole width."""
    from viz.charts.figure import Chart

    count = max(a.shape)
    figure = Chart(min(MOST, max(3.0, (0.15 + 0.09 * max(map(len, [*written, *read]))) * count)), 3.0)
    axes = figure.subplots()
    axes.set_axis_off()
    (above, below) = (np.linspace(0, 1, 2 * n + 1)[1::2] for n in a.shape)
    for x, label in zip(above, written, strict=True):
        axes.text(x, 1.04, label, ha="center", va="bottom", clip_on=False)
    for x, label in zip(below, read, strict=True):
        axes.text(x, -0.04, label, ha="center", va="top", clip_on=False)
    for t, s in np.ndindex(a.shape):
        share = float(np.clip(a[t, s], 0, 1))
        if share >= LEAST:
            look = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 6 + 6 * share}
            axes.annotate(
                "", (above[t], 1), (below[s], 0), zorder=share,
                arrowprops={**look, "lw": 0.3 + 2.7 * share, "alpha": 0.15 + 0.85 * share, "color": BLUE},
            )  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.15, 1.15)
    return figure
