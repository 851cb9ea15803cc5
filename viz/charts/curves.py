"""Learning curves from the history of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viz.charts.history import History, is_number, measures_of, rows_of
from viz.charts.parts import BLUE, GREEN, VERMILION, frame, plain
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viz.charts.figure import Chart

_TRAINING = BLUE
_VALIDATION = VERMILION


@by_matplotlib()
def training_curve(history: History) -> Chart:
    """Learning curve: training cost (lightly smoothed), validation cost, and its minimum; in bits per character for
    texts.

    history: rows, or the path of a JSON-lines file of rows: `{"event": "step", "epoch": 0.1, "train_bits": 4.2, ...}`
    and `{"event": "epoch", "epoch": 1, "train_bits": 3.1, "valid_bits": 3.2}`. Other rows are skipped. Other measures
    work as well: "train_loss" and "valid_loss". A validation measure that differs from training, such as "valid_wrong",
    gets its own axes, and so does each metric of a Trainer.
    Raises DrawingError if the file cannot be read or contains nothing to draw.

    >>> rows = [{"event": "epoch", "epoch": n, "train_loss": 1 / n, "valid_loss": 2 / n} for n in range(1, 4)]
    >>> chart = viz.training_curve(rows)
    >>> chart.axes[0].get_xlabel(), chart.axes[0].get_ylabel()
    ('epoch', 'loss')
    """
    from viz.charts.figure import Chart

    rows = rows_of(history)
    found = measures_of(rows)
    training = _points(rows, "step", found.trained) or _points(rows, "epoch", found.trained)
    validation = _points(rows, "epoch", found.validated)
    if not training and not validation:
        raise DrawingError(
            "history holds nothing to draw: it needs rows with event 'step' or 'epoch', an 'epoch', and "
            "'train_bits' or 'valid_bits', or another measure: 'train_loss', 'valid_wrong'."
        )
    names = {found.words(name): name for name in (found.trained, found.validated) if name}
    metrics = _metrics(rows)
    figure = Chart(7, (4.2 if len(names) == 1 else 6) + 2.2 * len(metrics))
    whole = figure.subplots(len(names) + len(metrics), squeeze=False, sharex=True)[:, 0]
    grid = whole[: len(names)]
    _draw_training(grid[0], training)
    _draw_validation(grid[-1], validation)
    for axes, words in zip(grid, names, strict=True):
        _finish(axes, words)
    for axes, (name, points) in zip(whole[len(names) :], metrics.items(), strict=True):
        epochs, values = np.array(points).T
        axes.plot(epochs, values, color=GREEN, linewidth=1.2, marker="o", markersize=5)
        axes.set_ylabel(plain(name.replace("_", " ")), fontsize=12)
        frame(axes)
    whole[-1].set_xlabel("epoch", fontsize=12)
    return figure


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        measured = row.get("metrics")
        if row.get("event") == "epoch" and is_number(row.get("epoch")) and isinstance(measured, Mapping):
            for name, value in measured.items():
                if is_number(value):
                    found.setdefault(str(name), []).append((float(row["epoch"]), float(value)))
    return found


def _points(rows: Sequence[Mapping[str, Any]], event: str, key: str) -> list[tuple[float, float]]:
    return [
        (float(row["epoch"]), float(row[key]))
        for row in rows
        if row.get("event") == event and is_number(row.get("epoch")) and is_number(row.get(key))
    ]


def _draw_training(axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    if not points:
        return
    epochs, costs = np.array(points).T
    if len(points) < 20:
        axes.plot(epochs, costs, color=_TRAINING, linewidth=1.8, marker=".", label="training")
        return
    axes.plot(epochs, costs, color=_TRAINING, linewidth=0.6, alpha=0.25)
    axes.plot(epochs, _smoothed(costs), color=_TRAINING, linewidth=1.8, label="training (smoothed)")


def _smoothed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Centered running mean over about 2 % of the steps, over fewer near the ends."""
    half = max(1, len(values) // 100)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    reach = np.minimum(half, np.minimum(index, index[::-1]))
    return np.asarray((sums[index + reach + 1] - sums[index - reach]) / (2 * reach + 1))


def _draw_validation(axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    if not points:
        return
    epochs, costs = np.array(points).T
    best = int(costs.argmin())
    # In the legend: next to the ring, text would hide a curve.
    label = f"validation: best {costs[best]:.3f}, epoch {epochs[best]:g}"
    axes.plot(epochs, costs, color=_VALIDATION, linewidth=1.2, marker="o", markersize=5, label=label)
    axes.plot(
        epochs[best],
        costs[best],
        "o",
        markersize=13,
        color=_VALIDATION,
        fillstyle="none",
        markeredgewidth=1.8,
    )


def _finish(axes: Axes, words: str) -> None:
    axes.set_ylabel(plain(words), fontsize=12)
    frame(axes)
    axes.legend(frameon=False, fontsize=11, loc="upper right")
