"""Charts of runs with many settings: means with standard errors, and the choice of axes."""

from __future__ import annotations

import math

import numpy as np

import viz

ROWS = [
    {"cell": c, "units": u, "layers": n, "dropout": d, "mean": u / 100 + n + d + len(c), "error": e}
    for c in ("GRU", "LSTM")
    for u in (32, 64, 256)
    for n in (1, 2)
    for d, e in ((0.5, 0.01), (0.0, 0.25))
]


def test_means_and_errors_by_the_settings_with_most_values() -> None:
    figure = viz.compare_settings(ROWS, unit="bits/char", by="cell", panels="layers")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["layers 1", "layers 2"]
    for layers, axes in zip((1, 2), figure.axes, strict=True):
        assert axes.get_xlabel() == "units"
        assert len(axes.containers) == 2
        for cell, container in zip(("GRU", "LSTM"), axes.containers, strict=True):
            line, _, (bars,) = container.lines
            np.testing.assert_array_equal(np.asarray(line.get_xdata(), float), [32, 64, 256])
            expected = np.array([0.32, 0.64, 2.56]) + layers + len(cell)  # of the better dropout
            np.testing.assert_allclose(np.asarray(line.get_ydata(), float), expected)
            ends = [np.asarray(segment)[:, 1] for segment in bars.get_segments()]
            np.testing.assert_allclose(ends, np.stack([expected - 0.25, expected + 0.25], axis=1))
        assert {text.get_text() for text in axes.texts} >= {"GRU", "LSTM"}
    assert figure.axes[0].get_ylabel() == "bits/char"


def test_default_axis_is_the_setting_with_most_values() -> None:
    figure = viz.compare_settings(ROWS)
    assert figure.axes[0].get_xlabel() == "units"
    assert len(figure.axes) == 2
    assert viz.compare_settings(ROWS, "dropout").axes[0].get_xlabel() == "dropout"


def test_categories_are_sorted_by_score() -> None:
    rows = [{"cell": c, "mean": m, "error": math.nan} for c, m in (("b", 2.0), ("a", 3.0), ("c", 1.0))]
    (axes,) = viz.compare_settings(rows).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c", "b", "a"]
    (line, _, _) = axes.containers[0].lines
    assert line.get_linestyle() == "None"
    np.testing.assert_array_equal(line.get_ydata(), [1.0, 2.0, 3.0])
