"""Figures of the benchmarks are correct."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from benchmarks.gpu.contenders import CELLS, Problem
from benchmarks.gpu.translate import Engine, step_of
from benchmarks.others import ours
from benchmarks.others.cases import CASES, masked, masked_arrays
from benchmarks.others.check import error
from benchmarks.ranks import expected, fitted
from graphnet.graph.node import Array
from graphnet.system.json_lines import read_rows
from graphnet_rnn.cells.feedforward import AUTOENCODERS
from graphnet_rnn.errors import DataError
from graphnet_rnn.experiments.autoencoders import runs as autoencoders
from graphnet_rnn.experiments.balls import learners as balls
from graphnet_rnn.experiments.balls.runs import floors
from graphnet_rnn.experiments.motion import runs as motion
from graphnet_rnn.experiments.music import collections, learners as music
from tests.tables import case


def set_all(patch: pytest.MonkeyPatch, module: object, **values: object) -> None:
    for name, value in values.items():
        patch.setattr(module, name, value)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(AUTOENCODERS, "CURVES", (784, 20, 3))
    monkeypatch.setattr(autoencoders, "MEASURED", 50)
    return monkeypatch


def job(method: str, folder: Path) -> autoencoders.AutoencoderJob:
    return autoencoders.AutoencoderJob(None, None, "CURVES", method, 0, 400, 40, 0.1, folder)


@pytest.mark.parametrize("method", ["adam", "sgd", "unitwise", "kfac", "hf"])
def test_autoencoders_are_evaluated_with_the_last_weights(
    method: str, tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    row = autoencoders.train(job(method, tmp_path))
    assert row["steps"] == (row["updates"] or row["steps"]) > 0
    assert row["updates"] == round(40 * autoencoders.METHODS[method].share)
    (folder,) = tmp_path.iterdir()
    images = rnn.tasks.curve_images(np.random.default_rng(0), 400)
    o, _ = rnn.run(rnn.load(folder / "last.safetensors"), images[None])
    each = ((1 / (1 + np.exp(-o[0].astype(float))) - images) ** 2).sum(axis=1)
    assert row["error"] == pytest.approx(each.mean(), rel=1e-5)
    steps, seconds, measured = row["curve"][-1]
    assert measured == pytest.approx(each[:50].mean(), rel=1e-3)
    assert steps == row["steps"]
    assert 0 < seconds <= row["seconds"] + 0.06


def test_interrupted_run_resumes_to_the_same_weights_and_steps(
    tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    """The resumed run counts each step once."""
    adam = autoencoders.AutoencoderMethod(lambda net, updates: rnn.Adam(0.01), batch=50)
    small.setitem(autoencoders.METHODS, "adam", adam)
    whole = autoencoders.train(job("adam", tmp_path / "whole"))
    stepped = autoencoders._Images.stepped

    def broken(self: autoencoders._Images, point: object, report: object) -> None:
        stepped(self, point, report)  # type: ignore[arg-type]
        if self.updates == 21:
            raise KeyboardInterrupt

    with small.context() as patch:
        patch.setattr(autoencoders._Images, "stepped", broken)
        often = lambda *words, **how: rnn.training.Training(*words, **how, checkpoint_seconds=0.0)
        patch.setattr(rnn, "Training", often)
        with pytest.raises(KeyboardInterrupt):
            autoencoders.train(job("adam", tmp_path / "cut"))
    with small.context() as patch:
        patch.setattr(rnn.Trainer, "run", lambda self: rnn.training.Outcome("interrupted", 1.0, 0, 0, 0))
        with pytest.raises(DataError, match="interrupted"):  # it is no row
            autoencoders.train(job("adam", tmp_path / "cut"))
    again = autoencoders.train(job("adam", tmp_path / "cut"))
    assert again["error"] == whole["error"]
    assert [point[0] for point in again["curve"]] == [8, 16, 24, 32, 40]
    seconds = [point[1] for point in again["curve"]]
    assert seconds == sorted(seconds)
    # A run is repeated only for a larger limit in seconds.
    made = {"updates": 0, "asked": 10.0}
    assert [autoencoders.enough(made, asked) for asked in (10.0, 11.0)] == [True, False]


def test_autoencoder_tables_have_diverged_runs_and_standard_errors(
    tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    explosive = autoencoders.AutoencoderMethod(lambda net, updates: rnn.SGD(3e38), batch=50)
    small.setitem(autoencoders.METHODS, "sgd", explosive)
    exploded = autoencoders.train(job("sgd", tmp_path))
    assert exploded["error"] is None
    assert "| sgd | diverged |" in autoencoders.table([exploded], [1], [])
    rows = []
    for seed, wrong in enumerate((1.0, 2.0)):
        curve = [[100, 1.0, 4 * wrong], [200, 2.0, 2 * wrong], [300, 3.0, wrong]]
        rows.append(exploded | {"method": "nag", "seed": seed, "error": wrong, "steps": 300, "curve": curve})
    written = autoencoders.table(rows, [2.5, 30], [150])
    for found in (
        "| 1.50 ± 0.50 |",
        "| 3.00 ± 1.00 |  | 6.00 ± 2.00 |",
    ):  # at the end; after 2.5 s, 30 s, 150
        assert found in written


def test_ball_predictors_are_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacked models are included."""
    nets = {name: (rnn.Elman(5), optimizer) for name, (_, optimizer) in balls.NETS.items()}
    set_all(monkeypatch, balls, UNITS=6, UPPER=4, DRAWN=4, VALID=0.5, POOL=60, STATIC=2, TIME=12, SHORT=6,
            GIBBS=(1, 2), CHAINS=2, TESTED=3, NETS=nets)  # fmt: skip
    models = {}
    for method in (balls.LOWER, balls.STACK, "trbm", "rnn-adam"):
        what = balls.BallsJob(8, method, 0, updates=5, seconds=0.3, folder=tmp_path)
        row = balls.train(what)
        v = balls.held_out(8, balls.SHORT if method in balls.NETS else balls.TIME)
        models[method] = balls.best(what)
        with case(method):
            assert row["error"] == pytest.approx(np.square(balls.predicted(models[method], v) - v)[1:].mean())
            if method in balls.ENERGY:
                assert row["curve"][-1][0] == row["updates"] == 5
    np.testing.assert_array_equal(models[balls.STACK].layers[0].theta, models[balls.LOWER].layers[0].theta)
    assert [layer.hidden for layer in models[balls.STACK].layers] == [6, 4]


def test_predictions_do_not_depend_on_the_predicted_frame() -> None:
    v = balls.videos(6, 3, 12, 1)
    changed, large = v.copy(), {"*": rnn.initializers.normal(1.0)}
    changed[7] = 1 - changed[7]
    stack = rnn.energy.Stack([rnn.energy.RTRBM(36, 5, initial=large), rnn.energy.RTRBM(5, 4, initial=large)])
    net = rnn.Network([rnn.Elman(4)], 36, 36, loss="sigmoid")
    for model in (balls.BEFORE, balls.LINE, stack, net):
        same = balls.predicted(model, v) == balls.predicted(model, changed)
        assert same[:8].all()
        assert not same[8].all()


def test_ball_errors_noise_and_baselines() -> None:
    v = balls.videos(6, 3, 12, 1)
    assert balls.error(v, v) == balls.divergence(v, v) == 0
    assert balls.error(v[::-1], v) == pytest.approx(np.square(v[::-1] - v)[1:].mean())
    p, q = np.full((2, 1, 1), 0.25), np.full((2, 1, 1), 0.5)
    assert balls.divergence(p, q) == pytest.approx(29 * 0.5 * (np.log(2) + np.log(2 / 3)))
    before, line = (balls.predicted(kind, v) for kind in (balls.BEFORE, balls.LINE))
    np.testing.assert_array_equal(before[1:], v[:-1])
    np.testing.assert_array_equal(line[2:], np.clip(2 * v[1:-1] - v[:-2], 0, 1))
    still = np.zeros((50, 4, 225), np.float32)
    spoilt = balls.noisy(still, 3)  # balls that stay, and ones that flicker
    np.testing.assert_array_equal(spoilt, balls.noisy(still, 3))
    assert 0 <= spoilt.min() < spoilt.max() <= 1
    assert 0 < spoilt.mean() < 0.1
    assert 1 < len({frame.tobytes() for frame in spoilt[:, 0]}) <= 8  # each of three is visible or not
    lines = floors(np.random.default_rng(0), cases=3).splitlines()
    first = [float(x) for x in lines[2].split("|")[5:9]]
    assert first[3] == pytest.approx(first[1] * 225, rel=0.01)
    assert first[2] < first[1] < first[0]


def test_music_is_evaluated_frame_by_frame() -> None:
    model = music.make("Elman", "nade", "adam", 0)
    rolls = [*rnn.tasks.chords(np.random.default_rng(0), 3, 9).swapaxes(0, 1)]
    rolls[1] = rolls[1][:4]
    row = music.judged(model, rolls)
    each = [model.log_probabilities(roll[:, None]) for roll in rolls]
    whole, frames = sum(x.sum() for x in each), sum(map(len, rolls))
    assert (row["nats"], row["nats_sequence"]) == pytest.approx((-whole / frames, -whole / 3))
    assert row["nats_after_first"] == pytest.approx(-sum(x[1:].sum() for x in each) / (frames - 3))
    assert 0 <= row["accuracy"] <= 1
    rolls = [np.ones((n, 88), np.float32) for n in (10, collections.PIECE, collections.PIECE + 3)]
    cut = collections.pieces(rolls)
    assert sorted(cut["lengths"].tolist()) == sorted([10, collections.PIECE, collections.PIECE, 3])
    inside = np.arange(len(cut["v"]))[:, None] < cut["lengths"]
    assert cut["v"][inside].sum() == sum(map(len, rolls)) * 88


def test_music_runs_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chords = collections.rolls(tmp_path, "chords")
    drawn = {name: [roll[:30] for roll in v[: 2 if name == "test" else 10]] for name, v in chords.items()}
    set_all(
        monkeypatch,
        music,
        UNITS=4,
        ANNEALED=(5, 2),
        ROUGH=(5, 2),
        PATIENCE=10**6,
        BATCH=8,
        rolls=lambda *_: drawn,
    )
    for cell, output, method in (
        ("Elman", "logistic", "adam"),
        ("RTRBM", "rbm", "cd"),
        ("Elman", "rbm", "cd"),
    ):
        what = music.MusicJob("chords", cell, output, method, 0, 0.2, tmp_path, tmp_path)
        first = music.train(what)
        again = music.train(replace(what, seconds=first["seconds"] + 0.3))
        with case(cell):
            assert (first["ended"], again["ended"]) == ("core seconds", "core seconds")
            assert again["epochs"] > first["epochs"]
            assert np.isfinite(again["nats"])


def test_motion_windows_stay_within_one_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame contains the number of its recording and its position."""
    numbered = [
        np.stack([np.full(n, i), np.arange(n)], 1, dtype=np.float32) for i, n in enumerate((70, 30, 900))
    ]
    monkeypatch.setattr(motion, "recordings", lambda path: numbered)
    train, valid, test = motion.parts(None)
    for windows in (train, valid, test):
        assert (windows[..., 0] == windows[:1, :, 0]).all()
        assert (np.diff(windows[..., 1], axis=0) == 1).all()
    assert set(train[0, :, 0].astype(int)) == {0, 2}
    assert train[..., 1].max() < 300
    assert (valid[..., 1].min(), valid[..., 1].max()) == (300, 599)
    assert (test[..., 1].min(), test[..., 1].max()) == (600, 899)


def test_motion_predictors_are_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion, "UNITS", 5)
    _, _, test = motion.parts(None)
    before = motion.train(motion.MotionJob(None, motion.BEFORE, 0, updates=3, seconds=0.2, folder=tmp_path))
    assert before["error"] == pytest.approx(np.square(np.diff(test, axis=0)).mean())
    for method in ("trbm", "rnn-adam"):
        what = motion.MotionJob(None, method, 0, updates=3, seconds=0.2, folder=tmp_path)
        row = motion.train(what)
        found = motion.predicted(rnn.load(what.place / "model.safetensors"), test)
        with case(method):
            assert row["error"] == pytest.approx(np.square(found - test[1:]).mean())
            assert motion.train(replace(what, seconds=0.4))["epochs"] >= row["epochs"]


def scattered(x: Array, index: Array, size: int, axis: int) -> Array:
    moved = np.moveaxis(x, axis, 0)
    y = np.zeros((size, *moved.shape[1:]), x.dtype)
    np.add.at(y, index, moved)
    return np.moveaxis(y, 0, axis)


def test_translated_steps_equal_the_cells() -> None:
    """The steps of the other libraries are translated from our graphs."""
    functions = {name: getattr(np, name) for name in ("tanh", "exp", "log", "sqrt")}
    functions["sigmoid"] = lambda x: 1 / (1 + np.exp(-x))
    of_arrays = (np.concatenate, np.stack, np.broadcast_to, np.transpose)
    engine = Engine("NumPy", functions, np.asarray, np.take, scattered, *of_arrays)
    for cell in CELLS:
        problem = Problem(cell, 5, 3, 1)
        net, symbols = problem.network(), problem.data()[0]
        u = net.unroll(1, 3)
        local = np.random.default_rng(0)
        states = [local.standard_normal(n.shape).astype(n.dtype) for n in u.initial]
        right = gn.compile([*u.hidden, *u.final], [u.inputs, *u.initial], "numpy")(symbols, *states)
        weights = {name: node.value for name, node in net.parameters.items()}
        hidden, after = step_of(net, 3).function(engine)(weights, symbols[0], tuple(states))
        with case(cell):
            for found, wanted in zip((hidden[None], *after), right, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_derivatives_of_difficult_cases_match_finite_differences() -> None:
    """Compared with finite differences of plain loops; float32 has 7 digits."""
    for name, problem in CASES.items():
        if name == "masked":
            continue
        steps = {"window": 60, "Hv": 6, "Jv": 6, "each": 6}.get(name, 10)
        arrays = problem.arrays(steps, np.random.default_rng(1))
        results = ours.program(name, problem, arrays, steps)()
        with case(name):
            most = 1e-5 if name in ("Hv", "Jv", "each") else 1e-7
            assert error(problem, name, arrays, steps, results) < most
            if name == "affine":
                value, by_a, by_b = results
                assert error(problem, name, arrays, steps, [value, by_b, by_a]) > 1e-3


def test_where_before_the_function_avoids_nan_gradients() -> None:
    steps = 10
    arrays = masked_arrays(steps, np.random.default_rng(1))
    by_chain_rule = ours.program("masked", CASES["masked"], arrays, steps)()[1]
    assert np.isnan(by_chain_rule).all()  # 0 · NaN
    w, x = gn.input((2,), "float64"), gn.input((steps,), "float64")
    there = gn.equal(x, x)
    safe, h = gn.where(there, x, 0.0), gn.fill(0.0, (), "float64")
    for t in range(steps):
        h = gn.where(there[t], gn.tanh(w[0] * safe[t] + w[1] * h), h)
    results = gn.compile([h * h, *gn.gradient(h * h, [w])], [w, x])(*arrays)
    np.testing.assert_allclose(results[0], masked(*arrays), rtol=1e-12)
    assert error(CASES["masked"], "masked", arrays, steps, results) < 1e-7


def test_latency_bandwidth_and_efficiency_of_many_processes() -> None:
    latency, bandwidth = 20e-6, 2e9
    for ranks, width in ((2, 4), (2, 8), (8, 4), (8, 8)):
        times = {
            n: 2 * (ranks - 1) * latency + 2 * width * n * (ranks - 1) / (ranks * bandwidth)
            for n in (1_000, 10_000, 100_000, 1_000_000)
        }
        np.testing.assert_allclose(fitted(times, ranks, width), (latency, bandwidth), rtol=1e-9)
    assert expected(1.0, 10_000, 5, 1, 1e-3, 1e9) == 1
    # T / (K T(K)) by hand: T(K) = T / K + S (2 (K - 1) α + 16 n (K - 1) / (K β))
    for ranks in (2, 8):
        shared = 1 / ranks + 3 * (ranks - 1) * (2 * 1e-5 + 16 * 1000 / (ranks * 1e9))
        assert expected(1.0, 1000, 3, ranks, 1e-5, 1e9) == pytest.approx(1.0 / (ranks * shared))


def test_experiment_runs_from_the_command_line(tmp_path: Path) -> None:
    """The runs use other processes, which must be able to import the training function."""
    results = tmp_path / "motion.jsonl"
    words = ["--methods", motion.BEFORE, "--results", str(results), "--folder", str(tmp_path / "runs")]
    subprocess.run([sys.executable, "-m", "graphnet_rnn.experiments.motion", *words], check=True, timeout=300)
    (row,) = read_rows(results, DataError)
    assert row["method"] == motion.BEFORE
    assert 0 < row["error"] < 1
