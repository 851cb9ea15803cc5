"""Comparison of runs: their curves, and the best value of a hyperparameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.settings import shown
from viz.charts import parts as chart
from viz.charts.history import (
    TRAINED,
    VALIDATED,
    History,
    Measures,
    is_number,
    measures_of,
    order_of,
    rows_of,
)
from viz.charts.labels import Ending, colour_of, label_ends
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viz.charts.figure import Chart

_AXES = {"epoch": "epoch", "step": "step", "seconds": "seconds of a core"}
_MARKERS = "osD^vPX"


@by_matplotlib()
def compare_runs(
    histories: Mapping[str, History], by: str = "epoch", title: str | None = None, log: str = ""
) -> Chart:
    """Validation (solid) and training (dotted) cost of several runs, with the best epoch of each.

    histories: name -> rows, path of a history or of the folder of a run, or the result of a run; see `training_curve`.
    by: horizontal axis, "epoch" (default), "step" for runs whose epochs differ in length, or "seconds" for rows that
    have them. title: title of the chart. log: logarithmic axes, "x", "y" or "xy"; none by default.
    Logarithmic axes leave out values <= 0.
    Without any validation, training is solid. Training is left out if it has another measure than validation, such as
    the loss of a task and the share of wrong answers.
    Raises DrawingError without runs, for a run with nothing to draw, or for runs with different measures.
    Source: Lynge 2016, fig. 5.4.

    >>> rows = [{"event": "epoch", "epoch": n, "train_loss": 1 / n, "valid_loss": 2 / n} for n in range(1, 4)]
    >>> viz.compare_runs({"GRU": rows, "LSTM": rows}).axes[0].get_ylabel()
    'loss'
    """
    from viz.charts.figure import Chart

    if not isinstance(by, str) or by not in _AXES:
        raise DrawingError(f"by must be one of {', '.join(map(repr, _AXES))}, not {by!r}.")
    if log not in ("", "x", "y", "xy"):
        raise DrawingError(f"log must be one of '', 'x', 'y', 'xy', not {shown(log)}.")
    if not isinstance(histories, Mapping) or not histories:
        raise DrawingError(
            "histories must be a dict of histories by name, e.g. {'GRU': 'runs/gru', 'LSTM': 'runs/lstm'}."
        )
    runs = {str(name): rows_of(history, f"histories[{name!r}]") for name, history in histories.items()}
    measures = _measures(runs)
    figure = Chart(7.5, 4.4)
    axes = figure.add_subplot()
    endings = []
    drawn = {name: _lines(name, rows, by, measures.measure) for name, rows in runs.items()}
    seen = {key for lines in drawn.values() for key in lines}
    for number, (name, lines) in enumerate(drawn.items()):
        endings.append(_draw_run(axes, name, lines, number, alone=VALIDATED not in seen))
    axes.set_xlabel(_AXES[by], fontsize=12)
    axes.set_ylabel(chart.plain(measures.words(measures.measure)), fontsize=12)
    axes.margins(x=0.02)
    if "x" in log:
        axes.set_xscale("log")
    elif np.diff(axes.get_xlim()) > 2:
        chart.whole_numbers(axes.xaxis, 9)
    if "y" in log:
        chart.logarithmic(
            axes, np.concatenate([y for lines in drawn.values() for _, y in lines.values()]), plain=True
        )
    chart.frame(axes)
    axes.set_ylim(axes.get_ylim())
    label_ends(axes, endings, 3.6, 11)
    words = {VALIDATED: ("validation", "-"), TRAINED: ("training", chart.DOTS if VALIDATED in seen else "-")}
    for key, (label, style) in words.items():
        if key in seen:
            axes.plot([], [], color=chart.GREY, linestyle=style, label=label)
    if VALIDATED in seen:
        axes.plot([], [], "o", color=chart.GREY, fillstyle="none", markersize=9, label="best")
    chart.caption(axes, title or "")
    return figure


_Line = tuple[chart.Numbers, chart.Numbers]


def _measures(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Measures:
    found = {name: each for name, rows in runs.items() if (each := measures_of(rows)).measure}
    if len({each.measure for each in found.values()}) > 1:
        listed = ", ".join(f"{name!r} {each.measure}" for name, each in found.items())
        raise DrawingError(
            f"histories have different measures: {listed}; compare histories with the same measure."
        )
    return next(iter(found.values()), Measures("train_bits", "valid_bits"))


def _lines(name: str, rows: Sequence[Mapping[str, Any]], by: str, measure: str) -> dict[str, _Line]:
    """Validation and training of a run in this measure: by epochs, or by steps if no epoch has ended."""
    points: dict[str, list[tuple[float, float]]] = {VALIDATED: [], TRAINED: []}
    early: list[tuple[float, float]] = []
    for row in rows:
        event = row.get("event")
        x = row.get(by)
        if event not in ("step", "epoch") or not is_number(x):
            continue
        for key, found in points.items() if event == "epoch" else [(TRAINED, early)]:
            if is_number(row.get(key + measure)):
                found.append((float(x), float(row[key + measure])))
    points[TRAINED] = points[TRAINED] or early
    lines = {key: (np.array(p).T[0], np.array(p).T[1]) for key, p in points.items() if p}
    if not lines:
        raise DrawingError(
            f"histories[{name!r}] holds nothing to draw: it needs rows with event 'step' or 'epoch', numbers {by!r}, "
            f"and '{TRAINED}{measure}' or '{VALIDATED}{measure}'."
        )
    return lines


def _draw_run(axes: Axes, name: str, lines: Mapping[str, _Line], number: int, alone: bool) -> Ending:
    """alone: no run has validation, so training is solid."""
    colour = colour_of(number)
    # If there are more lines than colors, markers distinguish them.
    marker = _MARKERS[number // 8 % len(_MARKERS)] if number >= 8 else "."
    if TRAINED in lines:
        x, y = lines[TRAINED]
        if alone:
            axes.plot(x, y, color=colour, linewidth=1.8, marker=marker, markersize=5)
            return Ending(float(y[-1]), f"{name} {y[-1]:.3f}", colour, float(x[-1]))
        axes.plot(x, y, color=colour, linestyle=chart.DOTS, linewidth=1.5)
    if VALIDATED in lines:
        x, y = lines[VALIDATED]
        axes.plot(x, y, color=colour, linewidth=1.8, marker=marker, markersize=5)
        best = int(y.argmin())
        axes.plot(x[best], y[best], "o", color=colour, fillstyle="none", markersize=9, markeredgewidth=1.5)
        return Ending(float(y[-1]), f"{name} {y[best]:.3f}", colour, float(x[-1]))
    return Ending(float(y[-1]), f"{name} {y[-1]:.3f} (training)", colour, float(x[-1]))


@by_matplotlib()
def best_setting(
    runs: History,
    best: str,
    against: str,
    by: str | None = None,
    panels: str | None = None,
    score: str | None = None,
    title: str | None = None,
) -> Chart:
    """Value of the hyperparameter `best` with the lowest score, against another hyperparameter; a line for each value
    of `by`.

    runs: rows, or the path of a JSON-lines file of rows, one for each run: {"units": 128, "dropout": 0.2, "rate": 0.01,
    "layers": 2, "valid_bits": 1.83}. Of runs with equal settings, the lowest score counts.
    best: name of the hyperparameter on the vertical axis, a number. against: that on the horizontal axis, a number. by:
    that of the lines; panels: that of the panels; None by default. score: name of the score, lower is better; the
    validation measure of the rows ("valid_bits", "valid_loss") by default. title: title of the chart.
    Optimal dropout by size, as in the source: best_setting(runs, "dropout", "units", by="rate", panels="layers").
    Raises DrawingError if no run has all of these.
    Source: Lynge 2016, fig. 5.5.

    >>> runs = [{"units": n, "dropout": p, "valid_loss": abs(p - n / 100)} for n in (10, 20) for p in (0.1, 0.2)]
    >>> viz.best_setting(runs, "dropout", "units").axes[0].lines[0].get_ydata().tolist()
    [0.1, 0.2]
    """
    from viz.charts.figure import Chart

    for argument, name in (
        ("best", best),
        ("against", against),
        ("by", by),
        ("panels", panels),
        ("score", score),
    ):
        if not isinstance(name, str) and not (name is None and argument in ("by", "panels", "score")):
            raise DrawingError(f"{argument} must be the name of a setting, a str, not {shown(name)}.")
    rows = rows_of(runs, "runs")
    validated = (name for row in rows for name in row if str(name).startswith(VALIDATED))
    score = score or next(validated, "valid_bits")
    found = _found(rows, (best, against, score), (panels, by))
    pages = sorted({page for page, _, _ in found}, key=order_of)
    groups = sorted({group for _, group, _ in found}, key=order_of)
    width = 5.5 if len(pages) == 1 else 3.9
    figure = Chart(width * len(pages) + (0.9 if by else 0.2), 3.9)
    grid = figure.subplots(1, len(pages), squeeze=False, sharey=True)[0]
    for axes, page in zip(grid, pages, strict=True):
        endings = []
        for number, group in enumerate(groups):
            line = sorted((x, value) for (p, g, x), (_, value) in found.items() if (p, g) == (page, group))
            if line:
                x, y = np.array(line).T
                marker = _MARKERS[number % len(_MARKERS)]
                # Those drawn first are broader, so that they show where lines coincide.
                more = len(groups) - 1 - number
                axes.plot(
                    x,
                    y,
                    color=colour_of(number),
                    marker=marker,
                    markersize=6 + 2.2 * more,
                    linewidth=1.6 + 1.6 * more,
                )
                endings.append(Ending(float(y[-1]), f"{by} {group}", colour_of(number)))
        chart.along_numbers(axes, sorted({x for _, _, x in found}), against)
        chart.frame(axes)
        chart.caption(axes, f"{panels} {page}" if panels else "")
        if by:
            _roomy(axes, [value for _, value in found.values()])
            label_ends(axes, endings, 3.2)
    grid[0].set_ylabel(chart.plain(f"best {best}"), fontsize=12)
    figure.suptitle(chart.plain(title or ""), x=0.01, horizontalalignment="left", fontsize=13)
    return figure


def _found(
    rows: Sequence[Mapping[str, Any]], numbers: tuple[str, str, str], groups: tuple[str | None, str | None]
) -> dict[tuple[Any, Any, float], tuple[float, float]]:
    """(panel, group, x) -> (lowest score, its setting)"""
    best, against, score = numbers
    found: dict[tuple[Any, Any, float], tuple[float, float]] = {}
    for row in rows:
        if not all(is_number(row.get(name)) for name in numbers):
            continue
        if any(name is not None and name not in row for name in groups):
            continue
        page, group = (None if name is None else row[name] for name in groups)
        candidate = float(row[score]), float(row[best])
        key = (page, group, float(row[against]))
        found[key] = min(found.get(key, candidate), candidate)
    if not found:
        wanted = ", ".join(map(repr, [*numbers, *(name for name in groups if name)]))
        raise DrawingError(
            f"runs holds nothing to draw: no row has {wanted}, the first three of them numbers."
        )
    return found


def _roomy(axes: Axes, values: Sequence[float]) -> None:
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.5 * abs(high) or 0.5
    axes.set_ylim(low - room, high + room)
