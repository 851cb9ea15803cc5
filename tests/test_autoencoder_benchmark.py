"""The benchmark of autoencoders on small nets: what it measures, that a killed run goes on, what its table says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphnet_rnn as rnn
from benchmarks import autoencoders
from benchmarks.runs import Row
from graphnet_rnn.cells.feedforward import AUTOENCODERS
from graphnet_rnn.errors import DataError
from graphnet_rnn.optimizers import Optimizer


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AUTOENCODERS, "CURVES", (784, 20, 3))
    monkeypatch.setattr(autoencoders, "MEASURED", 50)


def job(method: str, folder: Path) -> autoencoders.Job:
    return autoencoders.Job(None, None, "CURVES", method, 0, 400, 40, 0.1, folder)


def adam(net: str, updates: int) -> Optimizer:
    return rnn.Adam(0.01)


@pytest.mark.parametrize("method", ["adam", "sgd", "unitwise", "kfac", "hf"])
def test_a_run_is_judged_by_its_last_weights(method: str, tmp_path: Path) -> None:
    row = autoencoders.train(job(method, tmp_path))
    share = autoencoders.METHODS[method].share
    assert row["steps"] == (row["updates"] or row["steps"]) > 0
    assert row["updates"] == round(40 * share)
    (folder,) = tmp_path.iterdir()
    net, images = rnn.load(folder / "last.safetensors"), rnn.tasks.curve_images(np.random.default_rng(0), 400)
    o, _ = rnn.run(net, images[None])
    each = ((1 / (1 + np.exp(-o[0].astype(float))) - images) ** 2).sum(axis=1)
    assert row["error"] == pytest.approx(each.mean(), rel=1e-5)
    assert row["curve"][-1][2] == pytest.approx(each[:50].mean(), rel=1e-3)
    assert row["curve"][-1][0] == row["steps"]
    assert 0 < row["curve"][-1][1] <= row["seconds"] + 0.06


def test_a_killed_run_goes_on_with_its_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken off in the middle of an epoch, it comes to the same weights, and has counted each step once."""
    monkeypatch.setitem(autoencoders.METHODS, "adam", autoencoders.Method(adam, batch=50))
    whole = autoencoders.train(job("adam", tmp_path / "whole"))
    stepped = autoencoders.Images.stepped

    def broken(self: autoencoders.Images, point: object, report: object) -> None:
        stepped(self, point, report)  # type: ignore[arg-type]
        if self.updates == 21:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(autoencoders.Images, "stepped", broken)
        patch.setattr(
            rnn, "Training", lambda *a, **how: rnn.training.Training(*a, **how, checkpoint_seconds=0.0)
        )
        with pytest.raises(KeyboardInterrupt):
            autoencoders.train(job("adam", tmp_path / "cut"))
    again = autoencoders.train(job("adam", tmp_path / "cut"))
    assert again["error"] == whole["error"]
    assert [point[0] for point in again["curve"]] == [8, 16, 24, 32, 40]
    seconds = [point[1] for point in again["curve"]]
    assert seconds == sorted(seconds)


def test_an_interrupted_run_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rnn.Trainer, "run", lambda self: rnn.training.Outcome("interrupted", 1.0, 0, 0, 0))
    with pytest.raises(DataError, match="was interrupted; the same command goes on from there"):
        autoencoders.train(job("adam", tmp_path))


def test_a_run_that_explodes_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        autoencoders.METHODS, "sgd", autoencoders.Method(lambda net, n: rnn.SGD(3e38), batch=50)
    )
    row = autoencoders.train(job("sgd", tmp_path))
    assert row["error"] is None
    assert "step" in row["ended"]
    assert "| CURVES | sgd | diverged |" in autoencoders.table([row], [1], [])


def row(method: str, seed: int, error: float) -> Row:
    curve = [[100, 1.0, 4 * error], [200, 2.0, 2 * error], [300, 3.0, error]]
    key = {"data": "curves", "net": "CURVES", "method": method, "seed": seed, "images": 9, "updates": 300}
    return {**key, "error": error, "steps": 300, "seconds": 3.0, "curve": curve}


def test_the_table_has_means_and_standard_errors() -> None:
    rows = [row("nag", 0, 1.0), row("nag", 1, 2.0), row("adam", 0, 0.5)]
    head, _, adam_line, nag_line = autoencoders.table(rows, [2.5, 30], [150]).splitlines()
    assert head.split(" | ")[2:] == [
        "error at the end", "the source", "updates", "core s", "after 2.5 s", "after 30 s", "after 150 updates",
        "seeds |",
    ]  # fmt: skip
    assert adam_line == "| CURVES | adam | 0.50 |  | 300 | 3 | 1.00 |  | 2.00 | 1 |"
    assert nag_line == "| CURVES | nag | 1.50 ± 0.50 | 0.078 | 300 | 3 | 3.00 ± 1.00 |  | 6.00 ± 2.00 | 2 |"
    (first, *_) = autoencoders.histories(rows)["nag"]
    assert (first["step"], first["seconds"], first["train_squared_error"]) == (100, 1, 6)


def test_a_run_by_seconds_is_made_again_only_for_more_of_them(tmp_path: Path) -> None:
    made = {"updates": 0, "asked": 10.0}
    assert autoencoders.enough(made, 10.0)
    assert not autoencoders.enough(made, 11.0)
    assert autoencoders.enough(made | {"updates": 5}, 11.0)
    assert replace(job("hf", tmp_path), seconds=9.0).place == job("hf", tmp_path).place


@pytest.mark.parametrize(("pixels", "net"), [(784, "MNIST"), (625, "FACES")])
def test_a_file_has_the_net_that_reads_its_pixels(pixels: int, net: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((3, pixels)))
    assert autoencoders.net_of(tmp_path / "x.npz", None) == net
    assert autoencoders.images_of(tmp_path / "x.npz", None, net, 2).shape == (2, pixels)
    np.savez(tmp_path / "y.npz", x=np.ones((3, 9)))
    with pytest.raises(DataError, match=r"images are \[3, 9\]; the nets read 784"):
        autoencoders.net_of(tmp_path / "y.npz", None)


def test_a_command_with_a_file_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["autoencoders", "--data", str(tmp_path / "train-images-idx3-ubyte.gz")])
    with pytest.raises(SystemExit) as ended:
        autoencoders.main()
    assert ended.value.code == 2
    assert "there is no file" in capsys.readouterr().err


def test_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, so that the nets are small: two methods, the table, both pictures."""
    monkeypatch.setitem(autoencoders.METHODS, "adam", autoencoders.Method(adam, share=0.01))
    monkeypatch.setattr(
        autoencoders, "complete", lambda path, jobs, key, names, run, *_: [run(j) for j in jobs]
    )
    words = f"autoencoders --methods adam hf --seeds 0 --updates 1000 --seconds 0.2 --images 300 --folder {tmp_path}/f"
    words += f" --after 0.2 --picture {tmp_path}/images.png --curves {tmp_path}/error.png"
    monkeypatch.setattr(sys, "argv", words.split())
    autoencoders.main()
    printed = capsys.readouterr().out
    assert "| CURVES | adam |" in printed
    assert "| CURVES | hf |" in printed
    assert (tmp_path / "images.png").stat().st_size > 1000
    assert (tmp_path / "error.png").stat().st_size > 1000
