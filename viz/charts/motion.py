"""Charts of motion sequences and their predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.settings import shown
from viz.charts import parts as chart
from viz.charts.labels import colour_of
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from viz.charts.figure import Chart

#: Default number of columns.
MOST = 6


@by_matplotlib()
def joint_curves(
    truth: Any,
    others: Mapping[str, Any] | None = None,
    columns: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> Chart:
    """Columns of a sequence against time, in panels: the truth thick and gray, others thin and colored

    truth: (time, width). others: name -> array of the same shape; None by default. columns: columns to draw; by default
    the six with the largest mean change between frames. names: names of all columns; "column 0", "column 1", ... by
    default.
    Raises DrawingError for arrays that do not fit.

    >>> truth = np.sin(np.linspace(0, 6, 20))[:, None] * [1.0, 2.0]
    >>> chart = viz.joint_curves(truth, {"model": truth + 0.1}, names=["hip", "knee"])
    >>> len(chart.axes)
    2
    """
    from viz.charts.figure import Chart

    frames = _checked("truth", truth)
    curves = {name: _checked(name, given) for name, given in (others or {}).items()}
    for name, given in curves.items():
        if given.shape != frames.shape:
            raise DrawingError(
                f"joint_curves: {name} must be {list(frames.shape)}, the shape of truth, not {list(given.shape)}."
            )
    width = frames.shape[1]
    if names is not None and len(names) != width:
        raise DrawingError(f"joint_curves: names must be {width}, one for each column, not {len(names)}.")
    chosen = _liveliest(frames) if columns is None else list(columns)
    whole = all(isinstance(column, (int, np.integer)) and type(column) is not bool for column in chosen)
    if not chosen or not whole or not all(0 <= column < width for column in chosen):
        raise DrawingError(f"joint_curves: columns must be among 0 ... {width - 1}, not {shown(columns)}.")
    figure = Chart(8.0, 0.9 + 1.25 * len(chosen))
    axes = figure.subplots(len(chosen), 1, squeeze=False, sharex=True)[:, 0]
    for each, column in zip(axes, chosen, strict=True):
        each.plot(frames[:, column], color="#bbbbbb", linewidth=4.0, label="what is", solid_capstyle="round")
        for number, (name, given) in enumerate(curves.items()):
            each.plot(given[:, column], color=colour_of(number), linewidth=1.3, label=chart.plain(name))
        each.set_ylabel(f"column {column}" if names is None else chart.plain(names[column]), fontsize=9)
        chart.frame(each, 9)
    axes[-1].set_xlabel("frame", fontsize=11)
    axes[-1].set_xlim(0, max(1, len(frames) - 1))
    axes[0].legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize=9.5, borderaxespad=0.2
    )
    return figure


def _checked(what: str, given: Any) -> chart.Numbers:
    frames = chart.numbers_of(f"joint_curves: {what}", "an array (time, width)", given)
    if frames.ndim != 2 or not frames.size:
        raise DrawingError(
            f"joint_curves: {what} must be (time, width) of one case, not {list(frames.shape)}; for several "
            "cases, pass frames[:, case]."
        )
    return frames


def _liveliest(frames: chart.Numbers) -> list[int]:
    steps = np.abs(np.diff(frames, axis=0))  # NaN beside a gap
    moved = np.nansum(steps, axis=0) / np.maximum(np.isfinite(steps).sum(axis=0), 1)
    return sorted(np.argsort(-moved, kind="stable")[:MOST].tolist())
