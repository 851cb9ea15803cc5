"""Norms of weights by layer, and of the gradient by distance in time (Suarez 2017, figs 2 to 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.settings import shown
from viz.charts import parts as chart
from viz.charts.history import History, is_number, rows_of
from viz.charts.labels import Ending, colour_of, label_ends
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from viz.charts.figure import Chart

_Norms = Mapping[str, float]


@by_matplotlib()
def weight_norms(norms: History | _Norms | Mapping[str, _Norms], title: str | None = None) -> Chart:
    """‖W‖ of each weight, a panel for each layer: over the epochs of a run, or as bars.

    norms: history (rows with "weight_norms", a path, the folder of a run, the result of a run): a line for each weight.
    Or the result of `rnn.weight_norms(network)`, or several of these by name (at initialization, at the end): bars.
    The layer of a weight is the part of its name before the first dot: "layer0.W_xh". title: title of the chart.
    Raises DrawingError if there is nothing to draw.
    Source: Suarez 2017, figs 2 and 3.

    >>> chart = viz.weight_norms(rnn.weight_norms(rnn.Network([rnn.GRU(4)], inputs=3, outputs=2)))
    >>> [axes.get_title(loc="left") for axes in chart.axes]
    ['layer0', 'output']
    """
    if isinstance(norms, Mapping):
        return _bars(_snapshots(norms), title)
    rows = rows_of(norms, "norms")
    epochs = {
        float(row["epoch"]): row["weight_norms"]
        for row in rows
        if isinstance(row.get("weight_norms"), Mapping) and is_number(row.get("epoch"))
    }
    if not epochs:
        raise DrawingError(
            "norms holds nothing to draw: no row has 'epoch' and 'weight_norms'. Runs record them at each "
            "epoch. For a saved model, pass rnn.weight_norms(rnn.load(path))."
        )
    return _curves(epochs, title)


def _layers(names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.split(".")[0] if "." in name else "", []).append(name)
    return found


def _short(name: str) -> str:
    return name.split(".", 1)[-1]


def _curves(epochs: Mapping[float, _Norms], title: str | None) -> Chart:
    from viz.charts.figure import Chart

    x = np.array(sorted(epochs))
    names = list(dict.fromkeys(name for e in x for name in epochs[e]))
    layers = _layers(names)
    longest = max(map(len, layers.values()))
    height = max(3.2, 0.9 + 0.19 * longest)
    columns = min(3, len(layers))
    rows = -(-len(layers) // columns)
    figure = Chart(0.4 + 3.5 * columns, height * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.ravel()[len(layers) :]:
        axes.remove()
    for axes, (layer, own) in zip(grid.ravel(), layers.items(), strict=False):
        endings = []
        for number, name in enumerate(own):
            y = np.array([_value(epochs[e].get(name)) for e in x])
            known = np.flatnonzero(np.isfinite(y))
            if known.size:
                style = "-" if number < 8 else chart.DASHES
                axes.plot(
                    x,
                    y,
                    color=colour_of(number),
                    linewidth=1.5,
                    linestyle=style,
                    marker="." if x.size < 20 else "",
                )
                endings.append(Ending(float(y[known[-1]]), _short(name), colour_of(number)))
        chart.whole_numbers(axes.xaxis, 5)
        axes.set_xlabel("epoch", fontsize=11)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        chart.frame(axes, 10)
        chart.caption(axes, layer)
        label_ends(axes, endings, height - 1.0, 9)
    grid[0, 0].set_ylabel("‖W‖", fontsize=12)
    figure.suptitle(chart.plain(title or ""), x=0.01, horizontalalignment="left", fontsize=13)
    return figure


def _value(given: Any) -> float:
    return float(given) if is_number(given) else np.nan


def _snapshots(norms: Mapping[str, Any]) -> dict[str, _Norms]:
    several = norms if norms and all(isinstance(value, Mapping) for value in norms.values()) else {"": norms}
    for name, found in several.items():
        if not found or not all(is_number(value) for value in found.values()):
            raise DrawingError(
                f"norms{f'[{name!r}]' if name else ''} must be a dict of finite norms, as rnn.weight_norms(network) "
                f"returns, not {shown(found, 80)}."
            )
    return {str(name): found for name, found in several.items()}


def _bars(snapshots: Mapping[str, _Norms], title: str | None) -> Chart:
    from viz.charts.figure import Chart

    names = list(dict.fromkeys(name for found in snapshots.values() for name in found))
    layers = _layers(names)
    # Panel widths are proportional to their numbers of bars, so that all bars have the same width.
    figure = Chart(max(5.0, 1.2 + 0.34 * (len(names) + 1.5 * len(layers))), 3.6)
    grid = figure.subplots(
        1, len(layers), squeeze=False, sharey=True, width_ratios=[len(v) + 0.6 for v in layers.values()]
    )
    width = 0.8 / len(snapshots)
    for axes, (layer, own) in zip(grid[0], layers.items(), strict=True):
        at = np.arange(len(own))
        for number, (label, found) in enumerate(snapshots.items()):
            y = [_value(found.get(name)) for name in own]
            axes.bar(
                at + (number + 0.5) * width - 0.4, y, width, color=colour_of(number), label=chart.plain(label)
            )
        axes.set_xticks(at, labels=[chart.plain(_short(name)) for name in own], rotation=90)
        axes.set_xlim(-0.8, len(own) - 0.2)
        chart.frame(axes, 9)
        axes.grid(axis="x", visible=False)
        axes.set_title(chart.plain(layer), loc="left", fontsize=11)
    grid[0, 0].set_ylabel("‖W‖", fontsize=12)
    if len(snapshots) > 1:
        handles, words = grid[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, words, loc="outside lower center", ncols=len(snapshots), frameon=False, fontsize=10
        )
    figure.suptitle(chart.plain(title or ""), x=0.01, horizontalalignment="left", fontsize=13)
    return figure


@by_matplotlib()
def gradient_by_distance(
    norms: Mapping[str, Any],
    title: str | None = None,
) -> Chart:
    """‖∂L_T/∂s_{T-k}‖ against the distance k, logarithmic: a panel for each time of training, a line for each state.

    norms: result of `rnn.gradient_by_distance(network, inputs, targets)`, or several by name, with a common axis:
    {"at initialization": ..., "after one epoch": ..., "at the end": ...}. Lines may come from several networks:
    {"at the end": {"LSTM": a["layer0.h"], "Elman": b["layer0.h"]}}. Lines have gaps at norms that are 0 or not finite.
    title: title of the chart.
    Raises DrawingError if there is nothing to draw.
    Source: Suarez 2017, figs 4 to 6.

    >>> chart = viz.gradient_by_distance({"layer0.h": [1.0, 0.5, 0.25]})
    >>> chart.axes[0].get_yscale()
    'log'
    """
    from viz.charts.figure import Chart

    panels = _panels(norms)
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    figure = Chart(0.9 + 3.1 * len(panels) + 0.07 * max(map(len, names)), 3.7)
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    every = np.concatenate([line for lines in panels.values() for line in lines.values()])
    chart.logarithmic(grid[0], every)
    for axes, (moment, lines) in zip(grid, panels.items(), strict=True):
        for number, name in enumerate(names):
            if name in lines:
                y = np.where(lines[name] > 0, lines[name], np.nan)
                style = "-" if number < 8 else chart.DASHES
                chart.line(
                    axes, np.arange(float(len(y))), y, "", colour_of(number), _MARKERS[number % 8], style
                )
        axes.set_xlabel("distance in time k", fontsize=11)
        chart.whole_numbers(axes.xaxis, 6)
        chart.frame(axes, 10)
        chart.caption(axes, moment)
    grid[0].set_ylabel("‖∂L$_T$/∂s$_{T−k}$‖", fontsize=12)
    last = grid[-1]
    endings = []
    for number, name in enumerate(names):
        line = panels[list(panels)[-1]].get(name, np.zeros(0))
        shown = line[line > 0]
        if shown.size:
            endings.append(Ending(float(shown[-1]), name, colour_of(number)))
    last.set_ylim(last.get_ylim())
    label_ends(last, endings, 2.9)
    figure.suptitle(chart.plain(title or ""), x=0.01, horizontalalignment="left", fontsize=13)
    return figure


_MARKERS = "osD^vPX*"


def _panels(norms: Mapping[str, Any]) -> dict[str, dict[str, chart.Numbers]]:
    if not isinstance(norms, Mapping):
        raise DrawingError(f"norms must be a result of rnn.gradient_by_distance, not {shown(norms)}.")
    several = norms if norms and all(isinstance(v, Mapping) for v in norms.values()) else {"": norms}
    panels: dict[str, dict[str, chart.Numbers]] = {}
    for moment, lines in several.items():
        for name, values in lines.items():
            try:
                line = np.asarray(values, np.float64)
            except (TypeError, ValueError):
                line = np.zeros(())
            if line.ndim != 1:
                given = f"an array of shape {list(line.shape)}" if line.ndim else shown(values)
                raise DrawingError(f"norms: {name!r} must be one norm for each distance, not {given}.")
            panels.setdefault(str(moment), {})[str(name)] = np.where(np.isfinite(line), line, np.nan)
    if not any((line > 0).any() for lines in panels.values() for line in lines.values()):
        raise DrawingError(
            "norms holds nothing to draw: no norm is finite and above 0. Pass the result of "
            "rnn.gradient_by_distance(network, inputs, targets)."
        )
    return panels
