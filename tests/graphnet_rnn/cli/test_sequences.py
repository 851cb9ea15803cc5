"""Training on sequences of files by the command line: what is trained is rnn.Arrays, judged and predicted by loops."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.cli import main

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((5, 30, 2)).astype("f4")
SMALL = ["--units", "4", "--epochs", "2", "--batch", "8", "--no-live", "--cell", "GRU"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    signs = (X.sum(axis=2) > 0).astype(int)
    np.savez("d.npz", x=X, y=X.sum(axis=2), signs=signs, bits=X > 0, last=signs[-1], w=np.arange(30.0))
    return tmp_path


def softmax(o: np.ndarray) -> np.ndarray:
    e = np.exp(o - o.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("target", "loss"), [("y", "squared"), ("signs", "softmax"), ("bits", "sigmoid"), ("last", "softmax")]
)
def test_what_is_trained_is_judged_and_predicted(
    here: Path, capsys: pytest.CaptureFixture[str], target: str, loss: str
) -> None:
    chosen = ["--target", target, "--weights", "w"]
    assert main(["train", "d.npz", *chosen, *SMALL, "--out", "run"]) == 0
    said = capsys.readouterr().out
    assert f"predict run/model.safetensors d.npz {' '.join(chosen)} --out new.npz" in said
    network = rnn.load("run/model.safetensors")
    assert isinstance(network, rnn.Network)
    assert network.loss == loss
    outputs, _ = rnn.run(network, X)
    t, w = np.load("d.npz")[target], np.arange(30.0)
    whole = target == "last"
    assert network.pool == ("last" if whole else None)
    if loss == "softmax":
        losses = -np.log(np.take_along_axis(softmax(outputs), t[..., None], -1))[..., 0]
        right = (outputs.argmax(axis=-1) == t).reshape(-1, 30).mean(axis=0) @ w / w.sum()
    elif loss == "squared":
        losses = (outputs[..., 0] - t) ** 2
    else:
        losses = (np.logaddexp(0, outputs) - t * outputs).sum(axis=2)
    expected = losses.reshape(-1, 30).mean(axis=0) @ w / w.sum()
    assert main(["evaluate", "run/model.safetensors", "d.npz", *chosen]) == 0
    said = capsys.readouterr().out
    assert (
        f"{expected:.4f} {'squared error' if loss == 'squared' else 'nats'} a {'case' if whole else 'step'}"
        in said
    )
    if loss == "softmax":
        assert f"accuracy {right:.2%}" in said
    assert main(["predict", "run/model.safetensors", "d.npz", *chosen, "--out", "p.npz"]) == 0
    found = np.load("p.npz")
    if loss == "softmax":
        np.testing.assert_allclose(found["probability"], softmax(outputs), rtol=1e-5)
        np.testing.assert_array_equal(found["label"], outputs.argmax(axis=-1))
    elif loss == "squared":
        np.testing.assert_array_equal(found["prediction"], outputs)
    else:
        np.testing.assert_allclose(found["probability"], 1 / (1 + np.exp(-outputs)), rtol=1e-5)
    assert main(["predict", "run/model.safetensors", "d.npz", "--out", "p.csv"]) == 0
    with open("p.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    first = "prediction" if loss == "squared" else "probability_0"
    array = found["prediction" if loss == "squared" else "probability"]
    if whole:
        assert len(rows) == 30
        assert (rows[7]["case"], "step" in rows[7]) == ("7", False)
        assert float(rows[7][first]) == pytest.approx(array[7, 0])
        return
    assert len(rows) == 150
    assert float(rows[7][first]) == pytest.approx(array[2, 1, 0])
    assert (rows[7]["case"], rows[7]["step"]) == ("1", "2")


def test_cases_of_several_lengths(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From arrays and from a table alike: what is trained, judged and predicted has the steps that there are."""
    lengths = np.random.default_rng(1).integers(1, 6, 30)
    inside = np.arange(5)[:, None] < lengths
    y = X.sum(axis=2)
    np.savez(
        "r.npz", x=np.where(inside[..., None], X, np.nan), y=np.where(inside, y, np.nan), lengths=lengths
    )
    with open("r.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["who", "a", "b", "y"])
        for n in range(30):
            writer.writerows([n, *X[t, n].tolist(), y[t, n]] for t in range(lengths[n]))
    small = [*SMALL, "--quiet", "--buckets", "2"]
    table = ["--case", "who", "--target", "y"]
    assert main(["train", "r.npz", *small, "--out", "arrays"]) == 0
    assert main(["train", "r.csv", *table, *small, "--out", "table"]) == 0
    arrays, tables = (rnn.load(f"{run}/model.safetensors") for run in ("arrays", "table"))
    np.testing.assert_array_equal(arrays.theta, tables.theta)
    network = rnn.load("arrays/model.safetensors")
    assert isinstance(network, rnn.Network)
    outputs, _ = rnn.run(network, X, lengths=lengths)
    expected = ((outputs[..., 0] - y) ** 2)[inside].mean()
    capsys.readouterr()
    assert main(["evaluate", "arrays/model.safetensors", "r.csv", *table]) == 0
    said = capsys.readouterr().out
    assert f"{expected:.4f} squared error a step, over 30 cases of {lengths.sum():,} steps" in said
    assert main(["predict", "arrays/model.safetensors", "r.csv", *table, "--out", "p.csv"]) == 0
    assert main(["predict", "arrays/model.safetensors", "r.npz", "--out", "p.npz"]) == 0
    np.testing.assert_array_equal(np.load("p.npz")["prediction"], outputs)
    np.testing.assert_array_equal(np.load("p.npz")["lengths"], lengths)
    with open("p.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == lengths.sum()
    for row in rows:
        assert int(row["step"]) < lengths[int(row["case"])]
        assert float(row["prediction"]) == pytest.approx(outputs[int(row["step"]), int(row["case"]), 0])


def written(path: str, head: str, rows: np.ndarray) -> None:
    np.savetxt(path, rows, "%.17g", ",", header=head, comments="")


def test_columns_are_read_by_their_names(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of training, wherever they stand in another table, and whatever else it has."""
    a, b, who = X[..., 0].T.ravel(), X[..., 1].T.ravel(), np.repeat(np.arange(30), 5)
    y, z = a + b, a - b
    written("train.csv", "who,a,b,y,z", np.stack([who, a, b, y, z], axis=1))
    written("valid.csv", "z,b,y,a,who", np.stack([z, b, y, a, who], axis=1))
    written("more.csv", "noise,b,who,a", np.stack([y * 9, b, who, a], axis=1))
    train = ["train", "train.csv", "--case", "who", "--target", "y,z", *SMALL, "--quiet"]
    assert main([*train, "--valid", "valid.csv", "--out", "run"]) == 0
    network = rnn.load("run/model.safetensors")
    assert isinstance(network, rnn.Network)
    assert network.columns == rnn.data.Columns(("a", "b"), ("y", "z"))
    outputs, _ = rnn.run(network, X)
    loss = ((outputs - np.stack([y, z], axis=-1).reshape(30, 5, 2).swapaxes(0, 1)) ** 2).sum(axis=-1).mean()
    row = [json.loads(line) for line in Path("run/history.jsonl").read_text(encoding="utf-8").splitlines()][
        -1
    ]
    assert row["valid_loss"] == pytest.approx(loss, rel=1e-5)
    capsys.readouterr()
    assert main(["evaluate", "run/model.safetensors", "valid.csv", "--case", "who"]) == 0
    assert f"{loss:.4f} squared error" in capsys.readouterr().out
    predict = ["predict", "run/model.safetensors", "more.csv", "--case", "who", "--out", "p.csv"]
    assert main(predict) == 0
    with open("p.csv", encoding="utf-8") as file:
        found = [[float(row["prediction_y"]), float(row["prediction_z"])] for row in csv.DictReader(file)]
    np.testing.assert_allclose(np.reshape(found, (30, 5, 2)).swapaxes(0, 1), outputs, rtol=1e-6)
    capsys.readouterr()
    assert main([*predict, "--inputs", "a,b,noise"]) == 2
    assert "3 columns cannot stand for the 2 that the network reads: a, b" in capsys.readouterr().err
    written("less.csv", "b,who", np.stack([b, who], axis=1))
    assert main(["predict", "run/model.safetensors", "less.csv", "--case", "who", "--out", "p.csv"]) == 1
    assert "less.csv has no column 'a'; it has b, who" in capsys.readouterr().err


def test_one_output_for_a_whole_case(here: Path) -> None:
    """Of a table the last row of each case has its target."""
    with open("c.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["who", "a", "b", "kind"])
        for n in range(30):
            writer.writerows([n, *X[t, n].tolist(), n % 3 if t == 1 + n % 4 else 0] for t in range(2 + n % 4))
    given = ["--case", "who", "--target", "kind", "--pool", "mean"]
    cell = ["--cell", "Bidirectional(GRU(3))"]
    plain = [each for each in SMALL if each not in ("--units", "4", "--cell", "GRU")]
    assert main(["train", "c.csv", *given, *plain, *cell, "--quiet", "--out", "run"]) == 0
    network = rnn.load("run/model.safetensors")
    assert isinstance(network, rnn.Network)
    assert (network.pool, network.outputs, network.loss) == ("mean", 3, "softmax")
    assert main(["predict", "run/model.safetensors", "c.csv", *given[:4], "--out", "p.csv"]) == 0
    with open("p.csv", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 30


def test_it_is_the_run_of_arrays(here: Path) -> None:
    assert main(["train", "d.npz", *SMALL, "--quiet", "--out", "run", "--rate", "0.01"]) == 0
    network = rnn.Network([rnn.GRU(4)], 2, 1, "squared")
    problem = rnn.Arrays(network, X, X.sum(axis=2)[..., None], batch=8)
    settings = rnn.Training(rnn.Adam(0.01, clip_norm=5.0), epochs=2)
    outcome = rnn.Trainer(problem, settings, "own").run()
    rows = [json.loads(line) for line in Path("run/history.jsonl").read_text(encoding="utf-8").splitlines()]
    epochs = [row for row in rows if row["event"] == "epoch"]
    own = [json.loads(line) for line in Path("own/history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert epochs == [row for row in own if row["event"] == "epoch"]
    assert outcome.best == min(row["valid_loss"] for row in epochs)


@pytest.mark.parametrize("data", ["d.npz", "task:addition(10)"])
def test_a_run_goes_on_as_if_unbroken(here: Path, data: str) -> None:
    """Also where the file has moved."""
    small = [*SMALL, "--optimizer", "adam", "--gradient-batches", "1", "--quiet"]
    assert main(["train", data, *small, "--epochs", "4", "--out", "whole"]) == 0
    assert main(["train", data, *small, "--steps", "5", "--out", "parts"]) == 0
    again = ["train", "--resume", "parts", "--epochs", "4", "--steps", "1000", "--quiet"]
    if data == "d.npz":
        Path("d.npz").rename("moved.npz")
        again.append("moved.npz")
    assert main(again) == 0
    for name in ("history.jsonl", "model.safetensors"):
        assert (here / "parts" / name).read_bytes() == (here / "whole" / name).read_bytes()


def test_validation_is_weighed_too(here: Path) -> None:
    assert main(["train", "d.npz", "--weights", "w", *SMALL, "--fold", "1/3", "--out", "run", "--quiet"]) == 0
    network = rnn.load("run/model.safetensors")
    assert isinstance(network, rnn.Network)
    data = rnn.data.read_sequences("d.npz", rnn.data.Choice(weights="w"))
    _, valid = data.fold(0, 3)
    losses = ((rnn.run(network, valid.inputs)[0][..., 0] - valid.targets) ** 2).mean(axis=0)
    assert valid.weights is not None
    rows = [json.loads(line) for line in Path("run/history.jsonl").read_text(encoding="utf-8").splitlines()]
    best = min(row["valid_loss"] for row in rows if row["event"] == "epoch")
    assert best == pytest.approx(losses @ valid.weights / valid.weights.sum(), rel=1e-5)


def test_a_share_is_validated_on_by_its_number(here: Path) -> None:
    found = []
    for fold in range(1, 4):
        assert main(["train", "d.npz", *SMALL, "--fold", f"{fold}/3", "--out", f"f{fold}", "--quiet"]) == 0
        rows = [
            json.loads(line)
            for line in Path(f"f{fold}/history.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        found.append(rows[-1]["valid_loss"])
    assert len(set(found)) == 3


def test_of_a_series_a_block_of_time_is_validated_on(here: Path) -> None:
    """And what is next to it is not learned from: other values there make the same run."""
    random = np.random.default_rng(0)
    x = random.standard_normal((48, 2))

    def written(folder: str, x: np.ndarray) -> bytes:
        Path("w.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in x), encoding="utf-8")
        command = ["train", "w.csv", "--target", "b", "--pieces", "4", "--fold", "2/3", "--gap", "3", *SMALL]
        assert main([*command, "--out", folder, "--quiet"]) == 0
        return Path(folder, "history.jsonl").read_bytes()

    before = written("one", x)
    beside, inside = x.copy(), x.copy()
    beside[[12, 15, 32, 35]] += 1.0
    inside[16] += 1.0
    assert written("two", beside) == before
    assert written("three", inside) != before
    network = rnn.load("one/model.safetensors")
    assert isinstance(network, rnn.Network)
    block = x[16:32].astype(np.float32).reshape(4, 4, 2).swapaxes(0, 1)
    loss = ((rnn.run(network, block[..., :1])[0] - block[..., 1:]) ** 2).mean()
    best = min(row["valid_loss"] for row in map(json.loads, before.splitlines()) if row["event"] == "epoch")
    assert best == pytest.approx(loss, rel=1e-5)


def test_another_file_is_validated_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("v.npz", x=X[:, :9], signs=np.full((5, 9), 2))
    assert main(["train", "d.npz", "--target", "signs", *SMALL, "--valid", "v.npz", "--out", "run"]) == 0
    assert re.search(r"outputs=3", capsys.readouterr().out)


def test_numbers_that_are_names_are_no_classes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("d.csv").write_text(
        "who,ax,kind\n" + "".join(f"{i},{i / 30},{1_000_003 * i}\n" for i in range(30)), encoding="utf-8"
    )
    assert main(["train", "d.csv", "--target", "kind", "--case", "who", "--out", "run", *SMALL]) == 2
    assert "makes 29,000,088 classes of 30 targets; number the classes from 0 on" in capsys.readouterr().err
    assert not Path("run").exists()
