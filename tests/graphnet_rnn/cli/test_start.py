"""Runs that begin with the network of a model file: what follows from it, what may differ, and what is refused."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.cli import main
from graphnet_rnn.errors import DataError
from graphnet_rnn.training.state import digest_of
from tests.graphnet_rnn.cli.bad_invocations import TEXT
from tests.graphnet_rnn.training.runs import contents, require_same_files, rows

SMALL = ("--time", "10", "--batch", "4", "--sample", "0", "--quiet", "--epochs", "1")
START = ("--start", "adam/model.safetensors", *SMALL)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, and a run of it by Adam."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    how = ("--cell", "Elman", "--units", "3", "--layers", "2", "--skip", "--seed", "3", *SMALL)
    with contextlib.chdir(folder):
        assert main(["train", "text.txt", *how, "--out", "adam"]) == 0
    return folder


@pytest.fixture
def here(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_another_optimizer_goes_on_from_a_model_and_is_resumed(here: Path) -> None:
    """As a program does it: `rnn.load`, a problem, a Trainer."""
    net = rnn.load("adam/model.safetensors")
    words = ["train", "text.txt", *START, "--optimizer", "hf(cg_steps=2)", "--gradient-batches", "2"]
    assert main([*words, "--epochs", "2", "--out", "whole"]) == 0
    assert main([*words, "--out", "run"]) == 0
    described, start = rows(here / "whole", "start")[0], digest_of(net.theta)
    assert described["start"] == start
    assert described["model"] == net.description()
    assert (
        rows(here / "whole", "initial")[0]["weight_norms"] == rows(here / "adam", "epoch")[0]["weight_norms"]
    )
    shutil.rmtree(here / "adam")  # the run has its own weights by now
    assert main(["train", "--resume", "run", "--epochs", "2", "--quiet"]) == 0
    require_same_files(contents(here / "run"), contents(here / "whole"))
    problem = rnn.DrawnText(net, rnn.data.Corpus.read("text.txt"), 10, 4, gradient_batches=2, sample=0)
    rnn.Trainer(problem, rnn.Training(rnn.HessianFree(cg_steps=2), epochs=2), "program", start=start).run()
    theta = rnn.load("program/model.safetensors").theta
    np.testing.assert_array_equal(theta, rnn.load("run/model.safetensors").theta)


def test_what_training_does_with_it_may_differ(here: Path) -> None:
    assert main(["train", "text.txt", *START, "--dropout", "0.25", "--seed", "9", "--out", "run"]) == 0
    described = rows(here / "run", "start")[0]["model"]
    assert (described["dropout"], described["seed"], described["skip"]) == (0.25, 9, True)
    assert main(["train", "--resume", "run", "--epochs", "2", "--quiet"]) == 0


def test_another_text_is_read_by_the_model_s_characters(here: Path, capsys: Any) -> None:
    (here / "few.txt").write_text("a mat sat on a hat. " * 40, encoding="utf-8")
    assert main(["train", "few.txt", *START, "--out", "few"]) == 0
    assert rnn.load("few/model.safetensors").vocabulary == rnn.load("adam/model.safetensors").vocabulary
    (here / "zebra.txt").write_text("a zebra sat on a mat. " * 40, encoding="utf-8")
    before = sorted(here.rglob("*"))
    assert main(["train", "zebra.txt", *START]) == 1
    assert sorted(here.rglob("*")) == before
    said = capsys.readouterr().err
    assert "2 character(s) that the model has not seen in training: 'b' 'z'" in said
    assert said.count("\n") == 1
    assert main(["train", "zebra.txt", *START, "--unknown", "a", "--out", "zebra"]) == 0


def test_a_cell_of_one_s_own(here: Path) -> None:
    mine = (
        'import graphnet_rnn as rnn\n\nclass Mine(rnn.Elman):\n    """h\' = tanh(x W_xh + h W_hh + b_h)"""\n'
    )
    (here / "cells.py").write_text(mine, encoding="utf-8")
    words = ["train", "text.txt", *SMALL, "--cell", "cells.py:Mine"]
    assert main([*words, "--units", "4", "--out", "first"]) == 0
    assert main([*words, "--start", "first/model.safetensors", "--out", "second"]) == 0
    assert main(["train", "--resume", "second", "--epochs", "2", "--quiet"]) == 0


def test_sequences_are_read_as_the_model_reads_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its loss, and its columns in another table, in whatever order; a table of others is refused."""
    table = np.random.default_rng(0).standard_normal((200, 3)).round(2)
    np.savetxt("one.csv", table, "%.3f", ",", header="a,b,c", comments="")
    np.savetxt("two.csv", table[:, ::-1], "%.3f", ",", header="c,b,a", comments="")
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
    for how, said in (({"vocabulary": known}, "'x'"), ({"unknown": "d"}, "give that")):
        with pytest.raises(DataError, match=said):
            rnn.data.Corpus.split("axca" * 10, **how)
