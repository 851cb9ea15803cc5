"""The benchmarks of music and motion on what is drawn: what they judge, that runs go on, and that no end is crossed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphnet_rnn as rnn
from benchmarks import motion
from benchmarks.music import __main__ as command
from benchmarks.music import collections, learners
from graphnet_rnn.errors import DataError


def test_music_is_judged_frame_by_frame() -> None:
    model = learners.make("Elman", "nade", "adam", 0)
    rolls = [*rnn.tasks.chords(np.random.default_rng(0), 3, 9).swapaxes(0, 1)]
    rolls[1] = rolls[1][:4]
    row = learners.judged(model, rolls)
    each = [model.log_probabilities(roll[:, None]) for roll in rolls]
    frames = sum(map(len, rolls))
    assert row["nats"] == pytest.approx(-sum(x.sum() for x in each) / frames)
    assert row["nats_sequence"] == pytest.approx(-sum(x.sum() for x in each) / 3)
    assert row["nats_after_first"] == pytest.approx(-sum(x[1:].sum() for x in each) / (frames - 3))
    assert 0 <= row["accuracy"] <= 1


def test_pieces_of_music_are_all_of_it() -> None:
    rolls = [np.ones((n, 88), np.float32) for n in (10, collections.PIECE, collections.PIECE + 3)]
    cut = collections.pieces(rolls)
    assert sorted(cut["lengths"].tolist()) == sorted([10, collections.PIECE, collections.PIECE, 3])
    inside = np.arange(len(cut["v"]))[:, None] < cut["lengths"]
    assert cut["v"][inside].sum() == sum(map(len, rolls)) * 88


@pytest.mark.parametrize(
    ("cell", "output", "method"), [("Elman", "logistic", "adam"), ("RTRBM", "rbm", "cd")]
)
def test_a_run_of_music_goes_on(
    cell: str, output: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learners, "UNITS", 4)
    monkeypatch.setattr(learners, "ANNEALED", (5, 2))
    drawn = {
        name: [roll[:30] for roll in v[:10]] for name, v in collections.rolls(tmp_path, "chords").items()
    }
    monkeypatch.setattr(learners, "rolls", lambda *_: drawn | {"test": drawn["test"][:2]})
    monkeypatch.setattr(learners, "BATCH", 8)
    job = learners.Job("chords", cell, output, method, 0, 0.2, tmp_path, tmp_path)
    first = learners.train(job)
    longer = first["seconds"] + 0.3
    again = learners.train(replace(job, seconds=longer))
    assert (first["ended"], again["ended"]) == ("core seconds", "core seconds")
    assert again["epochs"] > first["epochs"]
    assert np.isfinite(again["nats"])
    assert not command.enough(first, longer)
    assert f"| chords | {cell} | {output} | {method} |" in command.table([again])


def test_another_file_than_ours_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        collections.rolls(tmp_path, "jsb")


def test_windows_of_motion_cross_no_end() -> None:
    """Each frame says of which recording it is, and where."""
    numbered = [
        np.stack([np.full(n, which, np.float32), np.arange(n, dtype=np.float32)], axis=1)
        for which, n in enumerate((70, 30, 900))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(motion, "recordings", lambda path: numbered)
        parts = motion.parts(None)
    for windows in parts:
        assert (windows[..., 0] == windows[:1, :, 0]).all()
        assert (np.diff(windows[..., 1], axis=0) == 1).all()
    train, valid, test = parts
    assert set(train[0, :, 0].astype(int)) == {0, 2}
    assert train[..., 1].max() < 300
    assert (valid[..., 1].min(), valid[..., 1].max()) == (300, 599)
    assert (test[..., 1].min(), test[..., 1].max()) == (600, 899)


@pytest.mark.parametrize("method", [motion.BEFORE, "trbm", "rnn-adam"])
def test_a_method_of_motion_is_judged(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion, "UNITS", 5)
    job = motion.Job(None, method, 0, updates=3, seconds=0.2, folder=tmp_path)
    row = motion.train(job)
    _, _, test = motion.parts(None)
    if method == motion.BEFORE:
        assert row["error"] == pytest.approx(np.square(np.diff(test, axis=0)).mean())
        return
    found = motion.predicted(rnn.load(job.place / "model.safetensors"), test)
    assert row["error"] == pytest.approx(np.square(found - test[1:]).mean())
    assert motion.train(replace(job, seconds=0.4))["epochs"] >= row["epochs"]
    assert f"| {method} | 0 |" in motion.table([row])
