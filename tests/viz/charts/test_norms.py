"""Norms of weights and of gradients: which lines and bars there are."""

from __future__ import annotations

import numpy as np
import pytest

import viz

pytest.importorskip("matplotlib")

NORMS = {"layer0.W_xh": 3.0, "layer0.b_h": 0.0, "output.W_ho": 2.0}


def words(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_history_is_lines_by_layer():
    rows = [
        {"event": "start"},
        *(
            {"event": "epoch", "epoch": e, "weight_norms": {k: v + e for k, v in NORMS.items()}}
            for e in range(4)
        ),
    ]
    hidden, output = viz.weight_norms(rows).axes
    assert (hidden.get_title(loc="left"), output.get_title(loc="left")) == ("layer0", "output")
    np.testing.assert_allclose(hidden.get_lines()[0].get_ydata(), [3, 4, 5, 6])
    assert words(hidden) == ["W_xh", "b_h"]
    assert words(output) == ["W_ho"]


def test_snapshots_are_bars():
    hidden, _output = viz.weight_norms(NORMS).axes
    assert [bar.get_height() for bar in hidden.patches] == [3, 0]
    assert [label.get_text() for label in hidden.get_xticklabels()] == ["W_xh", "b_h"]
    figure = viz.weight_norms({"before": NORMS, "after": {"layer0.W_xh": 5.0}})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["before", "after"]
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights[:3] == [3, 0, 5]
    assert np.isnan(heights[3])


def test_more_layers_than_fit_beside_each_other():
    norms = {f"layer{i}.W": 1.0 + i for i in range(7)}
    rows = [{"epoch": e, "weight_norms": norms} for e in range(3)]
    assert len(viz.weight_norms(rows).axes) == 7


# -- gradients -----------------------------------------------------------------------------------


def fading(rate: float, steps: int = 30) -> np.ndarray:
    return rate ** np.arange(steps)


def test_a_line_for_each_state_and_a_panel_for_each_moment():
    figure = viz.gradient_by_distance(
        {
            "at initialisation": {"layer0.h": fading(0.5)},
            "at the end": {"layer0.h": fading(0.9), "layer0.c": fading(0.99)},
        }
    )
    first, last = figure.axes
    assert first.get_title(loc="left") == "at initialisation"
    assert first.get_yscale() == last.get_yscale() == "log"
    np.testing.assert_allclose(first.get_lines()[0].get_ydata(), fading(0.5))
    assert [line.get_color() for line in first.get_lines()] == [last.get_lines()[0].get_color()]
    assert words(last) == ["layer0.h", "layer0.c"]


def test_one_measurement_is_one_panel():
    assert len(viz.gradient_by_distance({"h": list(fading(0.8))}).axes) == 1


def test_a_line_ends_where_the_gradient_has_vanished_altogether():
    line = viz.gradient_by_distance({"h": [1.0, 0.1, 0.0, np.inf, 0.2]}).axes[0].get_lines()[0]
    np.testing.assert_array_equal(line.get_ydata(), [1.0, 0.1, np.nan, np.nan, 0.2])
