"""The command `tasks`: training on fresh sequences, output, pictures, folders and resuming."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.__main__ import main
from graphnet_rnn.experiments.tasks import FreshSequences
from graphnet_rnn.optimizers import Report
from graphnet_rnn.training import RunFolder
from tests.tables import case

QUICK = ["tasks", "--length", "10", "--units", "8", "--batch", "20", "--test", "30", "--steps", "2"]
KEPT = [
    "tasks", "--length", "10", "--batch", "10", "--units", "8", "--test", "50", "--test-every", "2", "--threads", "1",
    "--seed", "3",
]  # fmt: skip


def test_printed_output_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--task", "addition", "--gradient-batches", "2", "--test-every", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Addition(length=10): 11 steps; Network([Elman(units=8)]")
    assert re.fullmatch(r" +2  loss .*  wrong [\d.]+%", lines[4])
    assert re.match(r"addition, T = 10: not solved; [\d.]+% of 30 test .* after 2 steps", lines[5])


def test_settings_of_the_optimizer(capsys: pytest.CaptureFixture[str]) -> None:
    """Given optimizer settings replace those of the source; others are kept."""
    for optimizer, told in (
        (["hf(cg_steps=7, damping=1)"], ["cg_steps=7", "damping=1.0, structural=0.0333"]),
        (["hf", "--no-structural"], ["damping=0.3, structural=0.0"]),
        (["nesterov", "--rate", "0.01"], ["Nesterov(rate=0.01, clip_norm=1.0", "0.0 minibatches"]),
        (["momentum(rate={0: 1e-4, 2: 1e-3})"], ["Stepwise"]),
        (["greedy_hf(cg_steps=3)"], []), (["augmented_hf(cg_steps=3)"], []), (["lbfgs(iterations=2)"], []),
        (["nonlinear_cg"], []),
    ):  # fmt: skip
        with case(optimizer):
            assert main([*QUICK, "--optimizer", *optimizer]) == 0
            shown = capsys.readouterr().out
            assert not [words for words in told if words not in shown], shown


def test_command_matches_a_trainer_in_python(tmp_path: Path) -> None:
    """The command gives the same bits as a Trainer in Python, with a schedule, too."""
    run = ["--optimizer", "adam", "--rate", "0.01", "--schedule", "Warmup(3)", "--steps", "4"]
    assert main([*KEPT, *run, "--out", str(tmp_path / "run")]) == 0
    task = rnn.tasks.Addition(10)
    problem = FreshSequences(task, rnn.tasks.elman(task, 8, 3), 10, 1, 50, seed=3, threads=1, steps=2)
    settings = rnn.Training(rnn.Adam(0.01, clip_norm=1.0), epochs=2, schedule=rnn.Warmup(3), stopping=None)
    trainer = rnn.Trainer(problem, settings)
    trainer.run()
    assert np.array_equal(kept_theta(tmp_path / "run"), trainer.theta)


def kept_theta(folder: Path) -> Any:
    return rnn.load(RunFolder(folder).checkpoints()[-1]).theta


def test_interrupted_command_resumes_to_the_same_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted and a resumed command give the same files as one command; the picture has all steps."""
    first, second, picture = tmp_path / "first", tmp_path / "second", tmp_path / "run.svg"
    stepped, counted = FreshSequences.stepped, itertools.count(1)

    def third(problem: FreshSequences, point: Any, report: Report) -> None:
        stepped(problem, point, report)
        if next(counted) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    assert main([*KEPT, "--steps", "6", "--out", str(first)]) == 0
    with monkeypatch.context() as planted:
        planted.setattr(FreshSequences, "stepped", third)
        assert main([*KEPT, "--steps", "6", "--out", str(second)]) == 130
    shown = capsys.readouterr().out
    assert f"repeat the command to resume {second}" in shown
    assert "resuming after" not in shown
    assert main([*KEPT, "--steps", "6", "--out", str(second), "--picture", str(picture)]) == 0
    assert "second: resuming after step 3" in capsys.readouterr().out
    rows = [json.loads(line) for line in (second / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["step"] for row in rows if row["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    for name in ("history.jsonl", "model.safetensors", "checkpoint-000000006.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    assert main([*KEPT, "--steps", "6", "--seed", "4", "--out", str(second)]) == 2
    assert "seed was 3, now it is 4" in capsys.readouterr().err
    before = {path.name: path.read_bytes() for path in second.iterdir()}
    assert main([*KEPT, "--steps", "6", "--out", str(second)]) == 0, "nothing is left to do"
    assert {path.name: path.read_bytes() for path in second.iterdir()} == before


def test_resumed_runs_end_at_the_same_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A resumed run is solved at the same step as an uninterrupted run."""
    where = ["--task", "temporal-order", "--length", "10", "--test-every", "7", "--threads", "1"]
    solves = ["tasks", *where, "--units", "30", "--batch", "200", "--test", "500"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main([*solves, "--steps", "20", "--out", str(whole)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.match(r"temporal-order, T = 10: solved; [\d.]+% of 500 test .* after \d+ steps", last)
    for steps in (4, 5, 9, 20):
        assert main([*solves, "--steps", str(steps), "--out", str(parts)]) == 0
    assert RunFolder(whole).checkpoints()[-1].name < "checkpoint-000000020"
    assert (whole / "history.jsonl").read_bytes() == (parts / "history.jsonl").read_bytes()
    assert np.array_equal(kept_theta(whole), kept_theta(parts))


def test_picture_is_drawn_after_success_and_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "run.png"
    assert main([*QUICK, "--picture", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    broken = ["--optimizer", "sgd(rate={0: 1e-6, 1: 1e30})", "--steps", "30", "--test-every", "1"]
    assert main([*QUICK, *broken, "--picture", str(picture)]) == 1
    assert "the loss is" in capsys.readouterr().err
    assert picture.read_bytes().startswith(b"\x89PNG")
