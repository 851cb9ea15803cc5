"""Drawing what a run recorded, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphnet_rnn.cli import main

pytest.importorskip("matplotlib")

BITS = {"event": "epoch", "epoch": 1, "train_bits": 3.0, "valid_bits": 3.1}
STEP = {"event": "step", "step": 1, "before": 2.0, "after": 1.0, "ratio": 0.9, "damping": 0.1}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("row", "words", "others"),
    [(BITS, "bits per character", "HF step"), (STEP, "HF step", "bits per character")],
    ids=["bits", "Hessian-free"],
)
def test_a_history_is_drawn_by_what_it_holds(
    here: Path, capsys: pytest.CaptureFixture[str], row: dict[str, object], words: str, others: str
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    (here / "run.jsonl").write_text(json.dumps(row) + "\n")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert main(["draw", "run.jsonl", "--out", "run.svg"]) == 0
    assert capsys.readouterr().out == "wrote run.svg (drawn by matplotlib)\n"
    text = (here / "run.svg").read_text(encoding="utf-8")
    assert words in text
    assert others not in text


def test_training_with_curvature_draws_its_flight(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "text.txt").write_text("to be or not to be, that is the question. " * 60)
    arguments = [
        *[
            "train",
            "text.txt",
            "--cell",
            "Elman",
            "--units",
            "4",
            "--time",
            "10",
            "--batch",
            "5",
            "--sample",
            "0",
        ],
        *["--gradient-batches", "4", "--epochs", "1", "--out", "run", "--optimizer", "hf(cg_steps=3)"],
    ]
    assert main(arguments) == 0
    assert "run/curve.png and run/flight.png" in capsys.readouterr().out
    assert (here / "run" / "flight.png").read_bytes().startswith(b"\x89PNG")
    assert main(["draw", "run/history.jsonl", "--out", "again.png"]) == 0
    assert (here / "again.png").read_bytes() == (here / "run" / "flight.png").read_bytes()


@pytest.mark.parametrize(
    ("content", "arguments", "code", "sentence"),
    [
        ("", [], 1, "history holds nothing to draw"),
        ("3\n", [], 1, "line 1, must be an object"),
        (None, [], 1, "history 'run.jsonl' cannot be read"),
        (json.dumps(STEP), ["--out", "run.dot"], 2, "must end in one of .svg, .png, .pdf"),
        (json.dumps(STEP), ["--out", "no/folder/run.png"], 1, "No such file or directory"),
    ],
    ids=["empty", "no row", "missing", "ending", "folder"],
)
def test_what_cannot_be_drawn_is_said(
    here: Path, capsys: pytest.CaptureFixture[str], content: str | None, arguments: list[str], code: int,
    sentence: str,
) -> None:  # fmt: skip
    if content is not None:
        (here / "run.jsonl").write_text(content)
    assert main(["draw", "run.jsonl", *arguments]) == code
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert {path.name for path in here.iterdir()} <= {"run.jsonl"}
