"""A trial that is kept in a file and taken up again."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.system.files import locked
from graphnet.system.json_lines import append_row
from graphnet_rnn.__main__ import main
from graphnet_rnn.errors import ModelFileError, TrainingError, UsageError
from graphnet_rnn.optimizers import Adam, AugmentedHessianFree, HessianFree, Nesterov, Optimizer, Stepwise
from graphnet_rnn.tasks import TASKS, Trial
from graphnet_rnn.training.state import read_training_state

KINDS: list[Optimizer] = [
    HessianFree(structural=0.03, cg_steps=8, preconditioner=0.75),
    HessianFree(structural=0.03, adapts="structural", damping=0, cg_steps=8),
    AugmentedHessianFree(cg_steps=4),
    Nesterov(rate=Stepwise({0: 1e-3, 3: 1e-4}), momentum=Stepwise({0: 0.5, 2: 0.9}), clip_norm=1.0),
    Adam(),
]


def made(optimizer: Optimizer | None = None, task: str = "addition", **how: int) -> Trial:
    given = {"batch": 10, "gradient_batches": 2, "test": 50, "seed": 1, "threads": 1, **how}
    return Trial(TASKS[task](10), optimizer or KINDS[0], **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("optimizer", KINDS, ids=lambda o: type(o).__name__)
def test_a_trial_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path, optimizer: Optimizer) -> None:
    """Every byte: weights, λ, μ, the last direction, moments, counts, and the sequences that are drawn next."""
    whole = made(optimizer)
    for _ in range(5):
        whole.step()
    stopped = made(optimizer)
    for step in range(5):
        stopped.step()
        if step in (1, 3):
            stopped.save(tmp_path / "trial.safetensors")
            stopped = made(optimizer)
            stopped.resume(tmp_path / "trial.safetensors")
    for trial, name in ((whole, "a"), (stopped, "b")):
        trial.save(tmp_path / f"{name}.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert (whole.steps, whole.sequences) == (stopped.steps, stopped.sequences) == (5, whole.sequences)
    assert whole.wrong() == stopped.wrong()


def test_what_a_trial_kept_is_a_model(tmp_path: Path) -> None:
    trial = made()
    trial.step()
    trial.save(tmp_path / "trial.safetensors")
    assert np.array_equal(rnn.load(tmp_path / "trial.safetensors").theta, trial.network.theta)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: made(HessianFree(cg_steps=9)), r"optimizer.cg_steps was 8, now it is 9"),
        (lambda: made(Adam()), r"optimizer.name was HessianFree, now it is Adam"),
        (lambda: made(seed=2), "seed was 1, now it is 2"),
        (lambda: made(batch=11), "batch was 10, now it is 11"),
        (lambda: made(gradient_batches=3), "gradient_batches was 2, now it is 3"),
        (lambda: made(task="multiplication"), "task.name was addition, now it is multiplication"),
    ],
    ids=["setting", "optimizer", "seed", "batch", "batches", "task"],
)
def test_another_trial_does_not_go_on_from_it(tmp_path: Path, other, words: str) -> None:
    made().save(tmp_path / "trial.safetensors")
    trial = other()
    before = trial.network.theta
    with pytest.raises(UsageError, match=rf"trial\.safetensors cannot be continued: .*{words}"):
        trial.resume(tmp_path / "trial.safetensors")
    assert np.array_equal(trial.network.theta, before)
    assert trial.steps == 0


def test_files_that_are_no_trials(tmp_path: Path) -> None:
    trial = made()
    with pytest.raises(ModelFileError, match=r"none\.safetensors"):
        trial.resume(tmp_path / "none.safetensors")
    rnn.save(trial.network, tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match="is a model alone, without the state of a training run"):
        trial.resume(tmp_path / "model.safetensors")
    text = rnn.data.Corpus.given("abab" * 20, "abab" * 9)
    problem = rnn.CarriedText(rnn.Network([rnn.Elman(3)], 2, 2), text, time=4, batch=2, sample=0)
    run = rnn.Trainer(problem, rnn.Training(epochs=1), tmp_path / "run")
    run.run()
    with pytest.raises(ModelFileError, match="is of another kind of training than a Trial"):
        trial.resume(run.folder.checkpoints()[-1])


COMMAND = [
    "tasks",
    "--length",
    "10",
    "--batch",
    "10",
    "--units",
    "8",
    "--test",
    "50",
    "--test-every",
    "2",
    "--threads",
    "1",
    "--seed",
    "3",
]


def test_the_command_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two commands leave what one does; the record and the picture have all steps."""
    first, second = str(tmp_path / "first.safetensors"), str(tmp_path / "second.safetensors")
    record, picture = tmp_path / "run.jsonl", tmp_path / "run.svg"
    assert main([*COMMAND, "--steps", "6", "--checkpoint", first]) == 0
    assert main([*COMMAND, "--steps", "3", "--checkpoint", second, "--record", str(record)]) == 0
    assert "goes on" not in capsys.readouterr().out
    again = [
        *COMMAND,
        "--steps",
        "6",
        "--checkpoint",
        second,
        "--record",
        str(record),
        "--picture",
        str(picture),
    ]
    assert main(again) == 0
    said = capsys.readouterr().out
    assert "second.safetensors: goes on after step 3" in said
    assert "is there already" not in said
    assert "\nafter step 3 " in said
    assert Path(first).read_bytes() == Path(second).read_bytes()
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert [row["step"] for row in rows if row["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    assert main([*COMMAND, "--steps", "6", "--seed", "4", "--checkpoint", second]) == 2
    assert "seed was 3, now it is 4" in capsys.readouterr().err


def outcomes(record: Path) -> list[str]:
    return [
        row["event"]
        for row in map(json.loads, record.read_text(encoding="utf-8").splitlines())
        if row["event"] == "outcome"
    ]


def test_a_command_with_nothing_left_to_do_changes_nothing(tmp_path: Path) -> None:
    file, record = tmp_path / "run.safetensors", tmp_path / "run.jsonl"
    how = [*COMMAND, "--checkpoint", str(file), "--record", str(record)]
    assert main([*how, "--steps", "3"]) == 0
    before = file.read_bytes()
    assert main([*how, "--steps", "2"]) == 0
    assert main([*how, "--steps", "3"]) == 0
    assert file.read_bytes() == before
    assert len(outcomes(record)) == 1


def test_where_it_was_stopped_does_not_decide_where_it_ends(tmp_path: Path) -> None:
    """Solved is what is solved at a step that is tested, as in a run that was never stopped."""
    task, size = TASKS["temporal-order"](10), {"units": 30, "batch": 200, "test": 500}
    solves = ["tasks", "--task", task.name, "--length", "10", "--test-every", "7", "--threads", "1"]
    for option, value in size.items():
        solves += [f"--{option}", str(value)]
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    assert main([*solves, "--steps", "20", "--checkpoint", str(whole)]) == 0
    probe = Trial(
        task, rnn.tasks.settings(task).optimizer(), rnn.tasks.elman(task, 30, 0), 200, 1, 500, threads=1
    )
    probe.resume(whole)
    assert 4 < probe.steps < 20
    for steps in (*range(4, probe.steps), 20):
        assert main([*solves, "--steps", str(steps), "--checkpoint", str(parts)]) == 0
    assert whole.read_bytes() == parts.read_bytes()


def test_an_interrupted_step_is_finished_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the third step: the same command ends as if it had not been."""
    files = [tmp_path / f"{name}.safetensors" for name in "ab"]
    assert main([*COMMAND, "--steps", "5", "--checkpoint", str(files[0])]) == 0
    step = Trial.step

    def interrupted(trial: Trial) -> object:
        if trial.steps == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(trial)

    monkeypatch.setattr(Trial, "step", interrupted)
    assert main([*COMMAND, "--steps", "5", "--checkpoint", str(files[1])]) == 130
    monkeypatch.undo()
    capsys.readouterr()
    assert main([*COMMAND, "--steps", "5", "--checkpoint", str(files[1])]) == 0
    assert "goes on after step 3" in capsys.readouterr().out
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_is_kept_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its first step and by the clock, not only at its end: a killed one has lost little."""
    monkeypatch.setattr("graphnet_rnn.cli.tasks.CHECKPOINT_SECONDS", 0.0)
    kept: list[int] = []
    monkeypatch.setattr(Trial, "save", lambda trial, path: kept.append(trial.steps))
    assert main([*COMMAND, "--steps", "3", "--checkpoint", str(tmp_path / "run.safetensors")]) == 0
    assert kept == [0, 1, 2, 3, 3]


def test_infinite_weights_reach_no_file(tmp_path: Path) -> None:
    trial = made()
    trial.save(tmp_path / "trial.safetensors")
    before = (tmp_path / "trial.safetensors").read_bytes()
    trial.theta[3] = np.inf
    with pytest.raises(
        TrainingError, match=r"no longer finite after step 0.*trial\.safetensors is untouched"
    ):
        trial.save(tmp_path / "trial.safetensors")
    assert (tmp_path / "trial.safetensors").read_bytes() == before


def test_a_record_of_another_run_is_no_part_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a torn line, which a killed run leaves, does not matter."""
    file, record = str(tmp_path / "run.safetensors"), tmp_path / "run.jsonl"
    record.write_text('{"event": "step", "step": 1, "loss": 9.0}\n{"event": "st')
    assert main([*COMMAND, "--steps", "3", "--checkpoint", file]) == 0
    how = [*COMMAND, "--steps", "4", "--checkpoint", file, "--record", str(record)]
    assert main([*how, "--picture", str(tmp_path / "run.svg")]) == 0
    assert "is there already: this run is added to it" in capsys.readouterr().out


def without_times(record: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


class Killed(BaseException):
    """Nothing catches it but what runs whatever happens."""


@pytest.mark.parametrize("often", [True, False], ids=["checkpoint each step", "first checkpoint only"])
def test_a_killed_run_ends_with_the_record_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: bool
) -> None:
    """At each of its rows, which is torn in its middle; then again, at the first that the resumed run writes."""
    monkeypatch.setattr("graphnet_rnn.cli.tasks.CHECKPOINT_SECONDS", 0.0 if often else 1e9)
    record, file = tmp_path / "run.jsonl", tmp_path / "run.safetensors"
    how = [*COMMAND, "--steps", "5", "--record", str(record), "--checkpoint", str(file)]
    assert main(how) == 0
    whole, checkpoint = without_times(record), file.read_bytes()
    assert [row["step"] for row in whole if row["event"] == "step"] == [1, 2, 3, 4, 5]
    assert [row["step"] for row in whole if row["event"] == "test"] == [0, 2, 4, 5]
    for killed_at in range(len(whole)):
        record.unlink()
        file.unlink()
        left = [killed_at, 0]

        def tearing(path: Path, row: Mapping[str, Any]) -> None:
            if left and not left[0]:
                left.pop(0)
                with path.open("ab") as torn:
                    torn.write(json.dumps(row).encode()[:20])
                raise Killed
            if left:
                left[0] -= 1
            append_row(path, row)

        with monkeypatch.context() as planted:
            planted.setattr("graphnet_rnn.cli.tasks.append_line", tearing)
            for times in (1, 2):
                with contextlib.suppress(Killed):
                    assert main(how) == 1  # where it tells whatever ends it
                assert len(left) == 2 - times, "it was killed"
        assert main(how) == 0
        assert without_times(record) == whole, f"killed at row {killed_at}"
        assert file.read_bytes() == checkpoint


def test_more_steps_end_with_the_record_of_a_longer_run(tmp_path: Path) -> None:
    """The test at an end and the outcome there are of that end alone."""
    for name, all_steps in (("whole", ["7"]), ("parts", ["3", "3", "4", "5", "7"])):
        for steps in all_steps:
            files = [
                "--record", str(tmp_path / f"{name}.jsonl"), "--checkpoint", str(tmp_path / f"{name}.safetensors")
            ]  # fmt: skip
            assert main([*COMMAND, "--steps", steps, *files]) == 0
    assert without_times(tmp_path / "parts.jsonl") == without_times(tmp_path / "whole.jsonl")
    assert (tmp_path / "parts.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_runs_before_this_one_stay_in_the_record(tmp_path: Path) -> None:
    """Of other settings, or the same; and one whose rows the record does not have is added."""
    record = tmp_path / "run.jsonl"
    other = [*COMMAND[:-1], "4", "--steps", "6", "--record", str(record)]
    assert main(other) == 0
    before = record.read_bytes()
    this = [*COMMAND, "--checkpoint", str(tmp_path / "run.safetensors"), "--record", str(record)]
    for steps in ("3", "5"):
        assert main([*this, "--steps", steps]) == 0
        assert record.read_bytes().startswith(before)
    added = without_times(record)[before.count(b"\n") :]
    assert [row["step"] for row in added if row["event"] == "step"] == [1, 2, 3, 4, 5]
    assert main(other) == 0
    before = record.read_bytes()
    for steps in ("7", "8"):  # its own rows are not the last ones any more
        assert main([*this, "--steps", steps]) == 0
        assert record.read_bytes().startswith(before)
    added = without_times(record)[before.count(b"\n") :]
    assert [row["step"] for row in added if row["event"] == "step"] == [6, 7, 8]
    assert added[0]["event"] == "test"
    assert added[0]["step"] == 5


def test_a_damaged_record_is_refused_before_a_step_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "book.jsonl"
    record.write_text("It was the best of times,\nit was")
    assert main([*COMMAND, "--record", str(record)]) == 2
    assert "book.jsonl, line 1, is not JSON" in capsys.readouterr().err
    assert record.read_text() == "It was the best of times,\nit was"


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("checkpoint", "x.safetensors"),
        ("model", "x.safetensors"),
        ("record", "x.jsonl"),
        ("picture", "x.svg"),
    ],
)
def test_two_processes_do_not_write_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    """The second is refused at once, whatever else it was given; the first goes on."""
    path = tmp_path / name
    how = [*COMMAND, "--steps", "2", f"--{option}", str(path)]
    with locked(path):
        assert main(how) == 2
    said = capsys.readouterr()
    assert f"another process writes {path} now; wait for it, or name another file with --{option}" in said.err
    assert said.err.count("\n") == 1
    assert not said.out
    assert not path.exists()
    assert main(how) == 0
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_what_a_killed_run_was_writing_is_removed(tmp_path: Path) -> None:
    """And nothing else."""
    mine, other = tmp_path / ".a[1].safetensors.0123.part", tmp_path / ".a1.safetensors.0123.part"
    for path in (mine, other):
        path.touch()
    assert main([*COMMAND, "--steps", "1", "--checkpoint", str(tmp_path / "a[1].safetensors")]) == 0
    assert not mine.exists()
    assert other.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_signals_end_a_run_like_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Without a checkpoint at once, and the network that was asked for is written; with one, after the step."""
    step = Trial.step

    def signalled(trial: Trial) -> object:
        if trial.steps == 2:
            os.kill(os.getpid(), number)
        return step(trial)

    monkeypatch.setattr(Trial, "step", signalled)
    model, file = tmp_path / "model.safetensors", tmp_path / "run.safetensors"
    before = signal.getsignal(number)
    assert main([*COMMAND, "--steps", "5", "--model", str(model)]) == 130
    assert rnn.load(model).settings() == rnn.tasks.elman(TASKS["addition"](10), 8, 3).settings()
    assert main([*COMMAND, "--steps", "5", "--checkpoint", str(file)]) == 130
    assert read_training_state(file).training["steps"] == 3
    assert signal.getsignal(number) == before


def test_a_terminal_that_has_gone_loses_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no more words, some time before SIGHUP comes or without one."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("   3  loss"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().write(text)

    file = tmp_path / "run.safetensors"
    with monkeypatch.context() as planted:
        planted.setattr("sys.stdout", Gone())
        assert main([*COMMAND, "--steps", "5", "--checkpoint", str(file)]) == 1
    assert read_training_state(file).training["steps"] == 3


def test_a_checkpoint_knows_no_step_that_a_power_cut_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is on the disk first."""
    monkeypatch.setattr("graphnet_rnn.cli.tasks.CHECKPOINT_SECONDS", 0.0)
    record, synced, fsync, save, seen = tmp_path / "run.jsonl", {}, os.fsync, Trial.save, []

    def watched_fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced[found.st_ino] = found.st_size
        fsync(descriptor)

    def watched_save(trial: Trial, path: str) -> None:
        if record.exists():
            assert record.stat().st_size == synced[record.stat().st_ino]
            seen.append(trial.steps)
        save(trial, path)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Trial, "save", watched_save)
    files = ["--record", str(record), "--checkpoint", str(tmp_path / "run.safetensors")]
    assert main([*COMMAND, "--steps", "3", *files]) == 0
    assert seen == [1, 2, 3, 3]


def test_outputs_are_different_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "run.safetensors")
    assert main([*COMMAND, "--checkpoint", file, "--model", file]) == 2
    assert "--model and --checkpoint are the same file" in capsys.readouterr().err


def test_the_command_refuses_a_place_where_nothing_can_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it has trained for an hour."""
    assert main([*COMMAND, "--checkpoint", str(tmp_path / "none" / "x.safetensors")]) == 2
    assert main([*COMMAND, "--checkpoint", str(tmp_path / "x.json")]) == 2
    assert capsys.readouterr().err.count("--checkpoint") == 2
