"""Runs that begin with the network of a model file: what follows from it, what may differ, and what is refused."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.cli import main
from graphnet_rnn.errors import DataError
from graphnet_rnn.training.state import digest_of
from tests.graphnet_rnn.training.runs import contents, require_same_files

TEXT = "a cat sat on a mat, and a rat sat on the cat. " * 30
FIRST = ("--cell", "Elman", "--units", "3", "--layers", "2", "--skip", "--seed", "3")
SMALL = ("--time", "10", "--batch", "4", "--sample", "0", "--quiet")
HF = ("--optimizer", "hf(cg_steps=2)", "--gradient-batches", "2")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, and a run of it by Adam."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    with contextlib.chdir(folder):
        assert main(["train", "text.txt", *FIRST, *SMALL, "--epochs", "1", "--out", "adam"]) == 0
    return folder


@pytest.fixture
def here(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def row(folder: Path, event: str) -> dict[str, Any]:
    rows = map(json.loads, (folder / "history.jsonl").read_text(encoding="utf-8").splitlines())
    return next(row for row in rows if row["event"] == event)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence of a command that could not begin, and left nothing."""
    before = sorted(Path.cwd().rglob("*"))
    assert main(["train", "text.txt", "--start", "adam/model.safetensors", *SMALL, *arguments]) in (1, 2)
    assert sorted(Path.cwd().rglob("*")) == before
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_another_optimizer_goes_on_from_a_model_and_is_resumed(here: Path) -> None:
    start = rnn.load("adam/model.safetensors")
    words = ["train", "text.txt", "--start", "adam/model.safetensors", *SMALL, *HF]
    assert main([*words, "--epochs", "2", "--out", "whole"]) == 0
    assert main([*words, "--epochs", "1", "--out", "run"]) == 0
    described = row(here / "whole", "start")
    assert described["start"] == digest_of(start.theta)
    assert described["model"] == start.description()
    assert row(here / "whole", "initial")["weight_norms"] == row(here / "adam", "epoch")["weight_norms"]
    shutil.rmtree(here / "adam")  # the run has its own weights by now
    assert main(["train", "--resume", "run", "--epochs", "2", "--quiet"]) == 0
    require_same_files(contents(here / "run"), contents(here / "whole"))


def test_a_run_from_a_model_is_that_of_a_program(here: Path) -> None:
    """`rnn.load`, a problem, a Trainer: the same history."""
    words = ["train", "text.txt", "--start", "adam/model.safetensors", *SMALL, *HF, "--epochs", "1"]
    assert main([*words, "--out", "run"]) == 0
    net = rnn.load("adam/model.safetensors")
    problem = rnn.DrawnText(net, rnn.data.Corpus.read("text.txt"), 10, 4, gradient_batches=2, sample=0)
    start = digest_of(net.theta)
    rnn.Trainer(problem, rnn.Training(rnn.HessianFree(cg_steps=2), epochs=1), "program", start=start).run()
    assert np.array_equal(
        rnn.load("program/model.safetensors").theta, rnn.load("run/model.safetensors").theta
    )


def test_what_training_does_with_it_may_differ(here: Path) -> None:
    words = ["train", "text.txt", "--start", "adam/model.safetensors", *SMALL, "--epochs", "1"]
    assert main([*words, "--dropout", "0.25", "--seed", "9", "--out", "run"]) == 0
    described = row(here / "run", "start")["model"]
    assert (described["dropout"], described["seed"], described["skip"]) == (0.25, 9, True)
    assert main(["train", "--resume", "run", "--epochs", "2", "--quiet"]) == 0


def test_what_the_model_says_is_not_said_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "so leave out --layers, --units" in refused(capsys, "--units", "5", "--layers", "2")
    assert "so leave out --cell" in refused(capsys, "--cell", "Elman")
    assert "so leave out --pool" in refused(capsys, "--pool", "last")
    assert "leave out --batch, --sample, --start, --time" in refused(capsys, "--resume", "adam")


def test_another_text_is_read_by_the_model_s_characters(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--start", "adam/model.safetensors", *SMALL, "--epochs", "1"]
    (here / "few.txt").write_text("a mat sat on a hat. " * 40, encoding="utf-8")
    assert main(["train", "few.txt", *words, "--out", "few"]) == 0
    assert rnn.load("few/model.safetensors").vocabulary == rnn.load("adam/model.safetensors").vocabulary
    (here / "text.txt").write_text("a zebra sat on a mat. " * 40, encoding="utf-8")
    assert "2 character(s) that the model has not seen in training: 'b' 'z'" in refused(capsys)
    assert main(["train", "text.txt", *words, "--unknown", "a", "--out", "zebra"]) == 0


def test_a_cell_of_one_s_own(here: Path) -> None:
    (here / "cells.py").write_text(
        'import graphnet_rnn as rnn\n\nclass Mine(rnn.Elman):\n    """h\' = tanh(x W_xh + h W_hh + b_h)"""\n',
        encoding="utf-8",
    )
    words = ["train", "text.txt", *SMALL, "--epochs", "1", "--cell", "cells.py:Mine"]
    assert main([*words, "--units", "4", "--out", "first"]) == 0
    assert main([*words, "--start", "first/model.safetensors", "--out", "second"]) == 0
    assert main(["train", "--resume", "second", "--epochs", "2", "--quiet"]) == 0


def test_sequences_are_read_as_the_model_reads_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its loss, and its columns in another table, in whatever order; a table of others is refused."""
    random = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{c}" for a, b, c in random.standard_normal((200, 3)).round(2)]
    (here / "one.csv").write_text("\n".join(["a,b,c", *rows]), encoding="utf-8")
    (here / "two.csv").write_text(
        "\n".join(["c,b,a", *(",".join(row.split(",")[::-1]) for row in rows)]), encoding="utf-8"
    )
    words = ["train", "--pieces", "10", "--epochs", "1", "--quiet"]
    assert main([*words, "one.csv", "--target", "c", "--units", "3", "--out", "first"]) == 0
    for name in ("one", "two"):
        assert main([*words, f"{name}.csv", "--start", "first/model.safetensors", "--out", name]) == 0
    one, two = (rnn.load(f"{name}/model.safetensors") for name in ("one", "two"))
    assert one.columns == two.columns
    np.testing.assert_array_equal(one.theta, two.theta)
    (here / "three.csv").write_text("x,y\n1,2\n" * 20, encoding="utf-8")
    assert main([*words, "three.csv", "--start", "first/model.safetensors", "--out", "three"]) != 0
    assert "has no column 'c'" in capsys.readouterr().err


def test_a_text_by_other_characters() -> None:
    known = rnn.data.Vocabulary.of("abcd")
    corpus = rnn.data.Corpus.split("abca" * 10, vocabulary=known)
    assert corpus.vocabulary == known
    assert corpus.vocabulary.decode(corpus.train) == ("abca" * 10)[:32]
    odd = rnn.data.Corpus.split("axca" * 10, vocabulary=known, unknown="d")
    assert odd.vocabulary.decode(odd.train[:4]) == "adca"
    with pytest.raises(DataError, match="'x'"):
        rnn.data.Corpus.split("axca" * 10, vocabulary=known)
    with pytest.raises(DataError, match="give that"):
        rnn.data.Corpus.split("axca" * 10, unknown="d")
