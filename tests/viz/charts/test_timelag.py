"""The chart of time lags: a line for each model, the zero line, and what is right."""

from __future__ import annotations

import numpy as np

import graphnet_rnn as rnn
import viz


def lag(height: float, runs: int = 3) -> rnn.TimeLag:
    ratios = np.random.default_rng(0).normal(0, 0.1, (2, runs, 40))
    ratios[0] += height
    return rnn.TimeLag(("[[", "Th"), ratios, 10)


def test_lines_are_the_differences_and_zero_is_drawn() -> None:
    lags = {"one": lag(2.0), "other": lag(0.5, runs=1)}
    (axes,) = viz.time_lag(lags, ideal=2.5).axes
    lines = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
    for each, line in zip(lags.values(), lines, strict=False):
        np.testing.assert_allclose(line, each.difference)
    assert [float(line[0]) for line in lines[2:]] == [0.0, 2.5]
    assert {text.get_text() for text in axes.texts} == {"one", "other", "ideal"}
    assert len(axes.collections) == 1  # one run has no error
