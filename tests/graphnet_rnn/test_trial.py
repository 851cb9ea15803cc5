"""A trial that is kept in a file and taken up again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.__main__ import main
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.optimizers import Adam, AugmentedHessianFree, HessianFree, Nesterov, Optimizer, Stepwise
from graphnet_rnn.tasks import TASKS, Trial

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
    run = rnn.Trainer(
        rnn.Network([rnn.Elman(3)], 2, 2), rnn.data.Corpus.given("abab" * 20, "abab" * 9), folder=tmp_path / "run",
        time=4, batch=2, epochs=1, sample_length=0,
    )  # fmt: skip
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
    assert picture.read_text().startswith("<?xml")
    assert main([*COMMAND, "--steps", "6", "--seed", "4", "--checkpoint", second]) == 2
    assert "seed was 3, now it is 4" in capsys.readouterr().err


def test_the_command_refuses_a_place_where_nothing_can_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it has trained for an hour."""
    assert main([*COMMAND, "--checkpoint", str(tmp_path / "none" / "x.safetensors")]) == 2
    assert main([*COMMAND, "--checkpoint", str(tmp_path / "x.json")]) == 2
    assert capsys.readouterr().err.count("--checkpoint") == 2
