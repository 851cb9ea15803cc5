"""Piano rolls and their predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from viz.charts import parts as chart
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viz.charts.figure import Chart

#: MIDI number of the key of column 0; each C is a multiple of an octave.
LOWEST, OCTAVE = 21, 12
#: Color of missing keys.
MISSED = "#d0d0d0"


@by_matplotlib()
def piano_roll(truth: Any, predicted: Any = None, title: str | None = None) -> Chart:
    """Piano roll: keys against time, black where a key sounds; below, the prediction of each frame from those before it

    truth: array (time, 88), or (time, keys) from the lowest key of a piano, with values 0 and 1. predicted: array of
    the same shape, 0 and 1 or probabilities; keys above 0.5 sound. None by default. Blue marks correct keys, vermilion
    false ones, gray missing ones. Octaves that are silent in both are left out. title: title of the chart.
    Raises DrawingError for arrays that do not fit.

    >>> chart = viz.piano_roll(np.eye(88)[40:48], predicted=np.eye(88)[40:48])
    >>> len(chart.axes)
    2
    """
    from matplotlib.patches import Patch

    from viz.charts.figure import Chart

    roll = _checked("truth", truth) > 0.5
    found = None if predicted is None else _checked("predicted", predicted) > 0.5
    if found is not None and found.shape != roll.shape:
        raise DrawingError(
            f"piano_roll: predicted must be {list(roll.shape)}, the shape of truth, not {list(found.shape)}."
        )
    rows = 1 if found is None else 2
    wide = min(12.0, max(3.0 * (1 + rows), 3.0 + 0.1 * len(roll)))  # room for the legend beside the title
    figure = Chart(wide, 0.6 + 2.7 * rows)
    axes = figure.subplots(rows, 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    _draw(axes[0], [(roll, chart.BLACK)])
    if found is not None:
        _draw(
            axes[1], [(roll & found, chart.BLUE), (~roll & found, chart.VERMILION), (roll & ~found, MISSED)]
        )
        named = ((chart.BLUE, "right"), (chart.VERMILION, "wrong"), (MISSED, "missed"))
        handles = [Patch(color=colour, label=name) for colour, name in named]
        axes[1].legend(
            handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False, fontsize=9.5,
            borderaxespad=0, borderpad=0.25, handlelength=1.0,
        )  # fmt: skip
        axes[1].set_title("predicted from the frames before", loc="left", fontsize=11)
    axes[0].set_title(chart.plain(title or "what sounds"), loc="left", fontsize=11)
    _scale(axes[0], roll if found is None else roll | found)
    axes[-1].set_xlabel("frame", fontsize=11)
    return figure


def _checked(what: str, given: Any) -> chart.Numbers:
    roll = chart.numbers_of(f"piano_roll: {what}", "an array (time, keys)", given)
    if roll.ndim != 2 or not roll.size:
        raise DrawingError(
            f"piano_roll: {what} must be (time, keys) of one piece, not {list(roll.shape)}; for several "
            f"pieces, pass {what}[:, case]."
        )
    if not ((roll >= 0) & (roll <= 1)).all():
        raise DrawingError(f"piano_roll: {what} must be in 0 ... 1, not {roll.min():g} ... {roll.max():g}.")
    return roll


def _draw(axes: Axes, kinds: list[tuple[Any, str]]) -> None:
    for sounds, colour in kinds:
        silence = np.zeros((1, sounds.shape[1]), bool)
        changes = np.diff(np.concatenate([silence, sounds, silence]).astype(np.int8), axis=0)
        # Beginnings and ends alternate along the time of a key.
        begun, ended = (np.argwhere(steps) for steps in (changes.T > 0, changes.T < 0))
        axes.barh(
            LOWEST + begun[:, 0], ended[:, 1] - begun[:, 1], left=begun[:, 1], height=0.8, color=colour,
            linewidth=0,
        )  # fmt: skip


def _scale(axes: Axes, sounds: Any) -> None:
    keys = np.flatnonzero(sounds.any(axis=0)) + LOWEST
    low, high = (int(keys[0]), int(keys[-1])) if len(keys) else (60, 60)
    first, last = (low // OCTAVE) * OCTAVE, (high // OCTAVE + 1) * OCTAVE
    axes.set_ylim(first - 0.5, last + 0.5)
    axes.set_yticks(
        range(first, last + 1, OCTAVE), [f"C{c // OCTAVE - 1}" for c in range(first, last + 1, OCTAVE)]
    )
    axes.set_xlim(0, len(sounds))
    for each in axes.figure.axes:
        chart.frame(each, 9)
