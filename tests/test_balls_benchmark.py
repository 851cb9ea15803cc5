"""The benchmark of bouncing balls: what it judges, that a run is its key, that a layer on top reads the one below."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from benchmarks.balls import __main__ as command
from benchmarks.balls import learners
from graphnet_rnn.errors import DataError


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"UNITS": 6, "UPPER": 4, "DRAWN": 4, "VALID": 0.5, "POOL": 60, "STATIC": 2, "TIME": 12, "SHORT": 6,
             "GIBBS": (1, 2), "CHAINS": 2, "TESTED": 3}  # fmt: skip
    for name, value in small.items():
        monkeypatch.setattr(learners, name, value)
    monkeypatch.setattr(learners, "NETS", {k: (rnn.Elman(5), o) for k, (_, o) in learners.NETS.items()})


def source(size: int) -> Any:
    return learners.videos(size, 3, 12, 1)


@pytest.mark.usefixtures("small")
def test_runs_are_judged(tmp_path: Path) -> None:
    rows = []
    for method in (learners.LOWER, learners.STACK, "trbm", "rnn-adam", learners.BEFORE):
        job = learners.Job(8, method, 0, updates=5, seconds=0.3, folder=tmp_path)
        rows.append(row := learners.train(job))
        assert (row["size"], row["method"]) == (8, method)
        if method == learners.BEFORE:
            continue
        v = learners.held_out(8, learners.SHORT if method in learners.NETS else learners.TIME)
        found = learners.predicted(learners.best(job), v)
        assert row["error"] == pytest.approx(np.square(found - v)[1:].mean())
        if method in learners.ENERGY:
            assert row["curve"][-1][0] == row["updates"] == 5
    lower, stack = (
        learners.best(learners.Job(8, m, 0, 5, 0, tmp_path)) for m in (learners.LOWER, learners.STACK)
    )
    np.testing.assert_array_equal(stack.layers[0].theta, lower.layers[0].theta)
    assert [layer.hidden for layer in stack.layers] == [6, 4]
    written = command.table(rows)
    assert all(f"| 8 x 8 | {row['method']} | 0 |" in written for row in rows)
    jobs = [learners.Job(8, m, 0, 5, 0.3, tmp_path) for m in (learners.STACK, "trbm", "rnn-adam")]
    command.draw(jobs, tmp_path / "balls")
    made = {path.name for path in tmp_path.glob("balls*")}
    assert made == {"balls-next.png", "balls-made.png", "balls.html", "balls.gif", "balls-trbm-fields.png"}


def test_a_prediction_does_not_look_at_its_frame() -> None:
    v = source(6)
    changed, large = v.copy(), {"*": rnn.initializers.normal(1.0)}
    changed[7] = 1 - changed[7]
    stack = rnn.energy.Stack([rnn.energy.RTRBM(36, 5, initial=large), rnn.energy.RTRBM(5, 4, initial=large)])
    net = rnn.Network([rnn.Elman(4)], 36, 36, loss="sigmoid")
    for model in (learners.BEFORE, learners.LINE, stack, net):
        same = learners.predicted(model, v) == learners.predicted(model, changed)
        assert same[:8].all()
        assert not same[8].all()


def test_figures() -> None:
    v = source(6)
    assert learners.error(v, v) == learners.divergence(v, v) == 0
    assert learners.error(v[::-1], v) == pytest.approx(np.square(v[::-1] - v)[1:].mean())
    p, q = np.full((2, 1, 1), 0.25), np.full((2, 1, 1), 0.5)
    assert learners.divergence(p, q) == pytest.approx(29 * 0.5 * (np.log(2) + np.log(2 / 3)))
    before, line = (learners.predicted(kind, v) for kind in (learners.BEFORE, learners.LINE))
    np.testing.assert_array_equal(before[1:], v[:-1])
    np.testing.assert_array_equal(line[2:], np.clip(2 * v[1:-1] - v[:-2], 0, 1))


def test_noise_is_balls_that_stay_and_come_and_go() -> None:
    v = np.zeros((50, 4, 225), np.float32)
    spoilt = learners.noisy(v, 3)
    np.testing.assert_array_equal(spoilt, learners.noisy(v, 3))
    assert ((spoilt >= v) & (spoilt <= 1)).all()
    assert 0 < spoilt.mean() < 0.1
    images = {frame.tobytes() for frame in spoilt[:, 0]}
    assert 1 < len(images) <= 8  # each of three is there or not


def test_floors_are_what_predictors_come_to() -> None:
    lines = command.floors(np.random.default_rng(0), cases=3).splitlines()[2:]
    first = [float(x) for x in lines[0].split("|")[5:9]]
    assert first[3] == pytest.approx(first[1] * 225, rel=0.01)
    assert first[2] < first[1] < first[0]


def test_what_another_run_would_need_is_told(tmp_path: Path) -> None:
    job = learners.Job(8, learners.STACK, 0, 5, 0, tmp_path)
    with pytest.raises(DataError, match="make one of 'rtrbm-adam' first, by --methods"):
        learners.energy_problem(job)
    assert replace(job, method="rnn-hf").key == (8, "rnn-hf", 0, 0)
