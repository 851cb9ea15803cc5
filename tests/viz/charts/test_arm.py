"""Charts of an arm: lines are the numbers, limbs end at the hand, what does not fit is said."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet_rnn as rnn
import viz
from graphnet_rnn.models.control import Arm, CenterOut, Controller, Trajectories

ROWS = [{"event": "epoch", "calls": c, "valid_loss": v} for c, v in ((3, 2.0), (9, 0.5), (20, 0.7))]


@pytest.fixture(scope="module")
def moved() -> Trajectories:
    return CenterOut(Controller([rnn.Elman(3)]), directions=3, time=5).trajectories()


def test_loss_by_calls_is_the_best_so_far() -> None:
    (axes,) = viz.loss_by_calls({"a": ROWS, "b": ROWS[:2]}, least=0.1).axes
    first, second, least = axes.get_lines()
    assert np.asarray(first.get_data()).tolist() == [[3, 9, 20], [2, 0.5, 0.5]]
    assert np.asarray(second.get_data()).tolist() == [[3, 9], [2, 0.5]]
    assert np.asarray(least.get_ydata()).tolist() == [0.1, 0.1]
    assert {text.get_text() for text in axes.texts} == {"a 0.5", "b 0.5", "iLQR 0.1"}
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_movements_are_the_trajectories(moved: Trajectories) -> None:
    """The limb goes from the shoulder by the elbow to the hand; what is pushed lies over the way."""
    pushed = np.zeros((5, 3), bool)
    pushed[3:, 1] = True
    figure = viz.arm_movements({"one": moved, "two": moved}, Arm(), pushed, torques_of=1)
    above, below = figure.axes[0], figure.axes[2]
    limb, _, *ways = above.get_lines()
    ends = np.asarray(limb.get_xydata())
    np.testing.assert_allclose(np.hypot(*np.diff(ends, axis=0).T), [Arm().length1, Arm().length2])
    np.testing.assert_allclose(ends[[0, 2]], [[0, 0], moved.hands[0, 1]], atol=1e-6)
    np.testing.assert_allclose(np.asarray(ways[1].get_xydata()), moved.hands[:, 1], atol=1e-6)
    over = np.asarray(ways[2].get_xydata())
    assert np.isfinite(over[:, 0]).tolist() == [False, False, False, True, True, True]
    torques = [np.asarray(line.get_ydata()) for line in below.get_lines()]
    np.testing.assert_allclose(np.transpose(torques), moved.torques[:, 1])
