"""Curves of joints: the truth and others in panels by column."""

from __future__ import annotations

import numpy as np

import viz


def test_a_panel_has_the_column_of_each() -> None:
    generator = np.random.default_rng(0)
    truth, other = generator.standard_normal((2, 30, 9))
    figure = viz.joint_curves(truth, {"rnn": other}, columns=[2, 7], names=[f"joint {i}" for i in range(9)])
    assert [axes.get_ylabel() for axes in figure.axes] == ["joint 2", "joint 7"]
    for axes, column in zip(figure.axes, (2, 7), strict=True):
        for line, wanted in zip(axes.lines, (truth, other), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), wanted[:, column])
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["what is", "rnn"]


def test_the_columns_that_move_most_are_drawn() -> None:
    truth = np.zeros((10, 8))
    truth[:, [0, 2, 3, 4, 6, 7]] = np.arange(10)[:, None] % 2
    assert [axes.get_ylabel() for axes in viz.joint_curves(truth).axes] == [
        f"column {c}" for c in (0, 2, 3, 4, 6, 7)
    ]
