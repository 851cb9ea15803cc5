"""Piano rolls: a bar for as long as a key sounds; colours tell right, wrong and missed."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import to_hex

import viz
from viz.charts import parts as chart
from viz.charts.music import MISSED


def bars(axes: Any) -> dict[str, set[tuple[float, float, float]]]:
    """By colour (key, first frame, frames)."""
    found: dict[str, set[tuple[float, float, float]]] = {}
    for patch in axes.patches:
        place = (patch.get_y() + patch.get_height() / 2, patch.get_x(), patch.get_width())
        found.setdefault(to_hex(patch.get_facecolor()), set()).add(tuple(round(x, 6) for x in place))
    return found


def test_a_bar_is_a_key_for_as_long_as_it_sounds() -> None:
    truth, predicted = np.zeros((6, 88)), np.zeros((6, 88))
    truth[0:3, 39] = truth[5, 39] = truth[2:6, 43] = 1
    predicted[1:5, 39] = 0.9
    predicted[:, 43] = 0.5
    above, below = viz.piano_roll(truth, predicted).axes
    assert bars(above) == {chart.BLACK: {(60, 0, 3), (60, 5, 1), (64, 2, 4)}}
    assert bars(below) == {
        chart.BLUE.lower(): {(60, 1, 2)},
        chart.VERMILION.lower(): {(60, 3, 2)},
        MISSED: {(60, 0, 1), (60, 5, 1), (64, 2, 4)},
    }
    assert [label.get_text() for label in above.get_yticklabels()] == ["C4", "C5"]
    assert below.get_xlim() == (0, 6)


def test_silence_and_the_truth_alone_are_drawn() -> None:
    (axes,) = viz.piano_roll(np.zeros((4, 88)), title="nothing").axes
    assert not axes.patches
    assert axes.get_title(loc="left") == "nothing"
