"""Results of many settings: mean and standard error against one setting, a line for each value of another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.settings import shown
from viz.charts import parts as chart
from viz.charts.history import is_number, order_of, rows_of
from viz.charts.labels import Ending, colour_of, label_ends
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viz.charts.figure import Chart

_MARKERS = "osD^vPX"
#: Maximum numbers of lines in a legend, and of panels.
_LINES, _PANELS = 16, 5
#: Columns of a row besides settings.
_MEAN, _ERROR, _CUT = "mean", "error", "cut"

#: x -> (mean, error, True if a run ended early)
_Line = dict[Any, tuple[float, float, bool]]
#: (panel, line) -> points
_Found = dict[tuple[Any, Any], _Line]


@by_matplotlib()
def compare_settings(
    results: Sequence[Mapping[str, Any]],
    against: str | None = None,
    by: str | None = None,
    panels: str | None = None,
    unit: str = "",
    title: str | None = None,
) -> Chart:
    """mean ± standard error over seeds and folds, against a setting; a line for each value of `by`, panels for another.

    results: rows such as {"cell": "GRU", "units": 64, "layers": 2, "mean": 1.93, "error": 0.01}; error is NaN or None
    for a single run; "cut": True marks results of runs that ended early, which are drawn hollow and without a line.
    against: setting on the horizontal axis; by default the number with most values, else the setting
    with most. by, panels: settings of the lines and panels; the next ones by default. For other settings, the best mean
    of each point is drawn. unit: unit of the means. title: title of the chart.
    Raises DrawingError if no row has a mean and these settings.
    Source: Lynge 2016, table 5.1, figures 5.2 and 5.4.

    >>> rows = [{"cell": c, "units": n, "mean": 8 / n, "error": 0.1} for c in ("GRU", "LSTM") for n in (4, 8)]
    >>> viz.compare_settings(rows).axes[0].get_xlabel()
    'units'
    """
    from matplotlib.lines import Line2D

    from viz.charts.figure import Chart

    for argument, name in (("against", against), ("by", by), ("panels", panels)):
        if name is not None and not isinstance(name, str):
            raise DrawingError(f"{argument} must be the name of a setting, a str, not {shown(name)}.")
    rows = [row for row in rows_of(results, "results") if is_number(row.get(_MEAN))]
    against, by, panels = _chosen(rows, against, by, panels)
    found = _points(rows, against, by, panels)
    pages = sorted({page for page, _ in found}, key=order_of)
    names = sorted({name for _, name in found}, key=order_of)
    places = _places(found)
    width = 5.5 if len(pages) == 1 else 3.9
    figure = Chart(width * len(pages) + (1.4 if by else 0.2), 3.9)
    grid = figure.subplots(1, len(pages), squeeze=False, sharey=True)[0]
    for axes, page in zip(grid, pages, strict=True):
        endings = []
        for number, name in enumerate(names):
            line = found.get((page, name))
            if line:
                endings.append(_draw_line(axes, line, places, f"{name}" if by else "", number))
        _x_axis(axes, places, against)
        chart.frame(axes)
        chart.caption(axes, f"{panels} {page}" if panels else "")
        if by:
            label_ends(axes, endings, 3.2)
    if any(cut for line in found.values() for _, _, cut in line.values()):
        hollow = Line2D([], [], color="black", marker="o", markerfacecolor="white", linestyle="none")
        grid[-1].legend([hollow], ["ended early"], frameon=False)
    grid[0].set_ylabel(chart.plain(unit or "mean"), fontsize=12)
    figure.suptitle(chart.plain(title or ""), x=0.01, horizontalalignment="left", fontsize=13)
    return figure


def _chosen(
    rows: Sequence[Mapping[str, Any]], against: str | None, by: str | None, panels: str | None
) -> tuple[str, str | None, str | None]:
    known = {name for row in rows for name in row} - {_MEAN, _ERROR, _CUT}
    for argument, name in (("against", against), ("by", by), ("panels", panels)):
        if name is not None and name not in known:
            raise DrawingError(
                f"results have no setting {shown(name)} ({argument}); they have {', '.join(sorted(known)) or 'none'}."
            )
    values = {name: {repr(row[name]) for row in rows if name in row} for name in sorted(known)}
    differ = [name for name in values if len(values[name]) > 1 and name not in (against, by, panels)]
    if against is None:
        numbers = [name for name in differ if all(is_number(row.get(name, 0)) for row in rows)]
        if not differ:
            taken = [shown(name) for name in (by, panels) if name is not None]
            other = f" besides {' and '.join(taken)}; leave this argument out" if taken else ""
            raise DrawingError(f"results hold nothing to draw: no setting has two values{other}.")
        against = max(numbers or differ, key=lambda name: len(values[name]))
        differ.remove(against)
    most = sorted(
        (name for name in differ if len(values[name]) <= _LINES), key=lambda name: -len(values[name])
    )
    if by is None and most:
        by = most.pop(0)
    few = [name for name in most if len(values[name]) <= _PANELS]
    return against, by, panels or (few[0] if few else None)


def _points(rows: Sequence[Mapping[str, Any]], against: str, by: str | None, panels: str | None) -> _Found:
    found: _Found = {}
    for row in rows:
        if all(name is None or name in row for name in (against, by, panels)):
            key = tuple(None if name is None else row[name] for name in (panels, by))
            error = row.get(_ERROR)
            point = float(row[_MEAN]), float(error) if is_number(error) else math.nan, bool(row.get(_CUT))
            line = found.setdefault((key[0], key[1]), {})
            line[row[against]] = min(line.get(row[against], point), point)
    if not found:
        wanted = ", ".join(name for name in (against, by, panels) if name)
        raise DrawingError(f"results hold nothing to draw: no row has a mean and {wanted}.")
    return found


def _places(found: _Found) -> list[Any]:
    places = {x for line in found.values() for x in line}
    if all(is_number(x) for x in places):
        return sorted(places)
    best = {x: min(line[x][0] for line in found.values() if x in line) for x in places}
    return sorted(places, key=lambda x: (best[x], str(x)))


def _draw_line(axes: Axes, line: _Line, places: Sequence[Any], name: str, number: int) -> Ending:
    numeric = all(is_number(x) for x in places)
    colour, x, y = colour_of(number), 0.0, 0.0
    for cut in (True, False):
        ends = [x for x in places if x in line and line[x][2] is cut]
        if ends:
            across = [float(end) if numeric else float(places.index(end)) for end in ends]
            axes.errorbar(
                across, [line[end][0] for end in ends], yerr=[np.nan_to_num(line[end][1]) for end in ends],
                color=colour, linewidth=1.8, capsize=3, linestyle="-" if numeric and not cut else "none",
                marker=_MARKERS[number % len(_MARKERS)], markersize=5.5, markerfacecolor="white" if cut else colour,
            )  # fmt: skip
            x, y = across[-1], line[ends[-1]][0]
    return Ending(y, name, colour, x)


def _x_axis(axes: Axes, places: Sequence[Any], against: str) -> None:
    if all(is_number(x) for x in places):
        chart.along_numbers(axes, places, against)
        return
    axes.set_xlabel(chart.plain(against), fontsize=12)
    shown = places[:: -(-len(places) // chart.TICKS)]
    axes.set_xticks([places.index(x) for x in shown], labels=[chart.plain(x) for x in shown])
    if max(len(str(x)) for x in shown) * len(shown) > 40:
        axes.tick_params(axis="x", rotation=30)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
    axes.minorticks_off()
