"""The curves of schedules: what the lines hold, what must be said, what notebooks show."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphnet_rnn as rnn
import viz
from tests.tables import case
from viz.errors import DrawingError

COSTS = [3.0, 2.0, 2.0, 2.0, 1.0]


def test_a_curve_is_the_schedule() -> None:
    for schedule, how, last, words in [
        (rnn.Warmup(10).then(rnn.Cosine(30)), {}, 44, "step"),
        (rnn.Warmup(1000).then(rnn.Cosine(30_000)), {}, 34_100, "step"),
        (rnn.Stepwise({0: 1, 50: 2}), {}, 55, "step"),
        (rnn.Constant(), {}, 1000, "step"),
        (rnn.Cosine(20).by_epoch(), {}, 22, "epoch"),
        (rnn.OnPlateau(0.5, 1), {"costs": COSTS}, 5, "epoch"),
        (rnn.Warmup(30) * rnn.OnPlateau(0.5, 1), {"costs": COSTS, "epoch": 20}, 100, "step"),
        (rnn.Cosine(20), {"until": 7}, 7, "step"),
    ]:
        with case(schedule, how, last, words):
            (axes,) = viz.schedule_curve(schedule, **how).axes
            (line,) = axes.get_lines()
            at, values = np.asarray(line.get_data())
            assert (at[0], at[-1], axes.get_xlabel()) == (0, last, words)
            each = how.get("epoch", 1)
            expected = [schedule.now(int(t), int(t) // each, COSTS[: int(t) // each]) for t in at]
            assert values.tolist() == expected


def test_what_must_be_said() -> None:
    for make, says in (
        (lambda: viz.schedule_curve(0.5), "schedule must be a Schedule, e.g. rnn.Warmup(500), not 0.5"),
        (lambda: viz.schedule_curve(rnn.OnPlateau()), "follows validated costs; give some"),
        (lambda: viz.schedule_curve(rnn.Warmup(5) * rnn.Cosine(9).by_epoch()), "say how many steps make one"),
        (lambda: viz.schedule_curve(rnn.Warmup(5), 0), "until must be a whole number >= 1, not 0"),
        (lambda: viz.schedule_curve(rnn.OnPlateau(), costs=["low"]), "costs must be a list of numbers"),
        (lambda: viz.draw(rnn.Warmup(5)), "is no graph but a curve: viz.schedule_curve"),
    ):
        with pytest.raises(DrawingError, match=re.escape(says)):
            make()


def test_a_notebook_shows_it() -> None:
    assert "<svg" in rnn.Warmup(5).then(rnn.Cosine(9))._repr_mimebundle_()["image/svg+xml"]
    assert set(rnn.OnPlateau()._repr_mimebundle_()) == {"text/plain"}
