"""Drawing what a run recorded, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphnet_rnn as rnn
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
    (here / "run.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert main(["draw", "run.jsonl", "--out", "run.svg"]) == 0
    assert capsys.readouterr().out == "wrote run.svg (drawn by matplotlib)\n"
    text = (here / "run.svg").read_text(encoding="utf-8")
    assert words in text
    assert others not in text


def test_training_with_curvature_draws_its_flight(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "text.txt").write_text("to be or not to be, that is the question. " * 60, encoding="utf-8")
    small = "--cell Elman --units 4 --time 10 --batch 5 --sample 0 --gradient-batches 4 --steps 2 --out run"
    arguments = ["train", "text.txt", *small.split(), "--optimizer", "hf(cg_steps=3)"]
    assert main(arguments) == 0
    assert "run/curve.png and run/flight.png" in capsys.readouterr().out
    assert (here / "run" / "flight.png").read_bytes().startswith(b"\x89PNG")
    assert main(["draw", "run/history.jsonl", "--out", "again.png"]) == 0
    assert (here / "again.png").read_bytes() == (here / "run" / "flight.png").read_bytes()


def run_of(folder: Path, valid: float) -> None:
    folder.mkdir()
    norms = {"layer0.W_xh": 1.0, "output.W_ho": 2.0}
    rows = [
        {"event": "initial", "epoch": 0, "weight_norms": norms, "sample": "zq"},
        {**BITS, "valid_bits": valid, "weight_norms": norms, "sample": "to be"},
    ]
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_runs_are_compared_by_their_names(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    run_of(here / "gru", 3.1)
    run_of(here / "lstm", 2.9)
    (here / "third.jsonl").write_text(
        (here / "gru" / "history.jsonl").read_text(encoding="utf-8"), encoding="utf-8"
    )
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert main(["draw", "gru", "lstm/history.jsonl", "third.jsonl", "--out", "all.svg"]) == 0
    text = (here / "all.svg").read_text(encoding="utf-8")
    assert all(f">{words}<" in text for words in ("gru 3.100", "lstm 2.900", "third 3.100", "validation"))
    assert capsys.readouterr().out == "wrote all.svg (drawn by matplotlib)\n"
    assert main(["draw", "gru", "./gru", "--out", "same.svg"]) == 0  # the names are then the paths


@pytest.mark.parametrize(
    ("kind", "words"), [("curve", "bits per character"), ("weights", "W_xh"), (None, "best 3.100")]
)
def test_a_run_is_drawn_as_what_is_asked_for(here: Path, kind: str | None, words: str) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    run_of(here / "run", 3.1)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert main(["draw", "run", *(["--chart", kind] if kind else []), "--out", "run.svg"]) == 0
    assert words in (here / "run.svg").read_text(encoding="utf-8")


def test_samples_are_printed_or_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of(here / "run", 3.1)
    assert main(["draw", "run", "--chart", "samples"]) == 0
    out = capsys.readouterr().out
    assert "before training" in out
    assert "validation 3.100 bits/char" in out
    assert main(["draw", "run", "--chart", "samples", "--out", "samples.html"]) == 0
    assert "to be" in (here / "samples.html").read_text(encoding="utf-8")
    assert not (here / "graph.svg").exists()


def test_the_weights_of_a_model(here: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    rnn.save(rnn.Network([rnn.GRU(3)], 2, 2), "model.safetensors")
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert main(["draw", "model.safetensors", "--chart", "weights", "--out", "w.svg"]) == 0
    assert "W_xz" in (here / "w.svg").read_text(encoding="utf-8")


def test_what_cannot_be_drawn_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What else is among the bad invocations."""
    (here / "number.jsonl").write_text("3\n", encoding="utf-8")
    (here / "empty.jsonl").touch()
    run_of(here / "run", 3.1)
    before = set(here.iterdir())
    for words, sentence in (
        ("empty.jsonl", "history holds nothing to draw"),
        ("number.jsonl", "line 1, must be an object"),
        ("run --chart samples --out x.png", "must end in one of .html, .svg, .txt, .ansi"),
        ("run run --out x.html", "must end in one of .svg, .png, .pdf"),
    ):
        assert main(["draw", *words.split()]) in (1, 2)
        said = capsys.readouterr().err
        assert sentence in said
        assert said.count("\n") == 1
        assert set(here.iterdir()) == before
