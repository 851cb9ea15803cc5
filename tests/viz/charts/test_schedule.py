"""The curves of schedules: what the lines hold, what must be said, what notebooks show."""

from __future__ import annotations

import numpy as np

import graphnet_rnn as rnn
import viz
from tests.tables import case

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


def test_a_notebook_shows_it() -> None:
    assert "<svg" in rnn.Warmup(5).then(rnn.Cosine(9))._repr_mimebundle_()["image/svg+xml"]
    assert set(rnn.OnPlateau()._repr_mimebundle_()) == {"text/plain"}
