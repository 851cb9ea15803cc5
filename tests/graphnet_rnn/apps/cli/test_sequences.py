"""Training on sequence files from the command line matches rnn.Arrays, evaluation and prediction by loops."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.apps.cli import main
from tests.graphnet_rnn.training.runs import rows

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((5, 30, 2)).astype("f4")
SMALL = ["--epochs", "2", "--batch", "8", "--quiet"]
TRAIN = ["train", "d.npz", "--cell", "GRU(4)", *SMALL]
MODEL = "run/model.safetensors"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    signs = (X.sum(axis=2) > 0).astype(int)
    np.savez("d.npz", x=X, y=X.sum(axis=2), signs=signs, bits=X > 0, last=signs[-1], w=np.arange(30.0))
    return tmp_path


def softmax(o: np.ndarray) -> np.ndarray:
    e = np.exp(o - o.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def deviations(network: rnn.Network) -> np.ndarray:
    """Of the targets that it was trained on: in these units its loss is."""
    return np.array(network.scaling.outputs[1])


def table(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def written(path: str, head: str, *columns: np.ndarray) -> None:
    np.savetxt(path, np.stack(columns, axis=1), "%.17g", ",", header=head, comments="")


KINDS = ["y squared", "signs softmax", "bits sigmoid", "last softmax last", "last softmax mean"]


@pytest.mark.parametrize(("target", "loss", "pool"), [[*kind.split(), ""][:3] for kind in KINDS])
def test_trained_models_are_evaluated_and_predict(capsys: Any, target: str, loss: str, pool: str) -> None:
    chosen, whole = ["--target", target, "--weights", "w"], target == "last"
    how = ["--pool", "mean"] if pool == "mean" else []
    assert main([*TRAIN[:-1], "--no-live", *chosen, *how, "--out", "run"]) == 0
    assert f"predict {MODEL} d.npz --out new.npz" in capsys.readouterr().out
    network = rnn.load(MODEL)
    assert (network.loss, network.pool) == (loss, pool or None)
    outputs, _ = rnn.run(network, X)
    t, w = np.load("d.npz")[target], np.arange(30.0)
    name, predicted = "probability", softmax(outputs)
    if loss == "softmax":
        losses = -np.log(np.take_along_axis(predicted, t[..., None], -1))[..., 0]
    elif loss == "squared":
        losses = ((outputs[..., 0] - t) / deviations(network)) ** 2
        name, predicted = "prediction", outputs
    else:
        losses = (np.logaddexp(0, outputs) - t * outputs).sum(axis=2)
        predicted = 1 / (1 + np.exp(-outputs))
    expected = losses.reshape(-1, 30).mean(axis=0) @ w / w.sum()
    assert main(["evaluate", MODEL, "d.npz", *chosen]) == 0
    said = capsys.readouterr().out
    unit = "standardized squared error" if loss == "squared" else "nats"
    assert f"{expected:.4f} {unit} a {'case' if whole else 'step'}" in said
    assert f"over {'29 of 30' if whole else '30'} cases" in said  # the first has the weight 0
    assert main(["predict", MODEL, "d.npz", "--out", "p.npz"]) == 0
    with np.load("p.npz") as file:
        found = dict(file)
    np.testing.assert_allclose(found[name], predicted, rtol=1e-5)
    if loss == "softmax":
        right = (outputs.argmax(axis=-1) == t).reshape(-1, 30).mean(axis=0) @ w / w.sum()
        assert f"accuracy {right:.2%}" in said
        np.testing.assert_array_equal(found["label"], outputs.argmax(axis=-1))
    assert main(["predict", MODEL, "d.npz", "--out", "p.csv"]) == 0
    found_rows = table("p.csv")
    row = found_rows[7]
    assert (len(found_rows), row["case"], row.get("step")) == ((30, "7", None) if whole else (150, "1", "2"))
    number = float(row[name if loss == "squared" else "probability_0"])
    assert number == pytest.approx(found[name][(7, 0) if whole else (2, 1, 0)])


def test_true_and_false_are_classes_as_0_and_1_are() -> None:
    signs = np.load("d.npz")["y"] > 0
    for name, y in (("bits", signs), ("ints", signs.astype(np.uint8))):
        np.savez(f"{name}.npz", x=X, y=y)
        assert main(["train", f"{name}.npz", *TRAIN[2:], "--out", name]) == 0
    trained = [rnn.load(f"{name}/model.safetensors") for name in ("bits", "ints")]
    assert trained[0].loss == "softmax"
    np.testing.assert_array_equal(trained[0].theta, trained[1].theta)


def test_labels_of_as_many_cases_as_steps_are_no_targets_of_steps() -> None:
    for name, cases in (("ctc", 4), ("valid", 2)):
        np.savez(f"{name}.npz", x=X[:4, :cases], y=np.tile([0, 1, 0, -1], (cases, 1)))
    how = "--loss ctc --valid valid.npz --units 2 --epochs 1 --quiet --out run"
    assert main(["train", "ctc.npz", *how.split()]) == 0
    assert main(["evaluate", MODEL, "valid.npz"]) == 0


def test_output_bias_starts_at_the_frequencies_of_weighted_targets() -> None:
    """Counts steps within the lengths whose weight is above 0."""
    lengths = RANDOM.integers(1, 6, 30)
    w = 2.0 * (RANDOM.random((5, 30)) > 0.5)
    y, bits = RANDOM.integers(0, 3, (5, 30)), 1.0 * (X > 0.5)
    there = (w > 0) & (np.arange(5)[:, None] < lengths)
    bits[~there] = np.nan
    classes = np.array([(y[there] == k).sum() + 1 for k in range(3)])
    ones = bits[there].sum(axis=0) + 0.5
    shares = {"y": classes / classes.sum(), "bits": ones / (there.sum() + 1)}
    np.savez("e.npz", x=X, lengths=lengths, w=w, y=y, bits=bits)
    for target, expected in shares.items():
        how = f"train e.npz --valid e.npz --weights w --target {target} --cell GRU(4) --steps 1 --rate 1e-9"
        assert main([*how.split(), *SMALL, "--out", target]) == 0
        bias = rnn.load(f"{target}/model.safetensors").parameters["output.b_o"].value
        predicted = softmax(bias) if target == "y" else 1 / (1 + np.exp(-bias))
        np.testing.assert_allclose(predicted, expected, rtol=1e-5)


def test_cases_of_several_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    """For arrays and tables: training, evaluation and prediction ignore padding."""
    lengths = np.random.default_rng(1).integers(1, 6, 30)
    inside = np.arange(5)[:, None] < lengths
    y = X.sum(axis=2)
    ragged = {"x": np.where(inside[..., None], X, np.nan), "y": np.where(inside, y, np.nan)}
    np.savez("r.npz", **ragged, lengths=lengths)
    who = np.repeat(np.arange(30), lengths)
    written("r.csv", "who,a,b,y", who, *(each.T[inside.T] for each in (X[..., 0], X[..., 1], y)))
    how, cases = [*TRAIN[2:], "--buckets", "2"], ["--case", "who", "--target", "y"]
    assert main(["train", "r.npz", *how, "--out", "run"]) == 0
    assert main(["train", "r.csv", *cases, *how, "--out", "table"]) == 0
    network = rnn.load(MODEL)
    np.testing.assert_array_equal(network.theta, rnn.load("table/model.safetensors").theta)
    outputs, _ = rnn.run(network, X, lengths=lengths)
    expected = ((outputs[..., 0] - y) ** 2)[inside].mean() / deviations(network)[0] ** 2
    capsys.readouterr()
    assert main(["evaluate", MODEL, "r.csv", *cases]) == 0
    said = capsys.readouterr().out
    assert f"{expected:.4f} standardized squared error a step, MAE" in said
    assert f"over 30 cases, {lengths.sum():,} steps in all" in said
    assert main(["predict", MODEL, "r.csv", *cases, "--out", "p.csv"]) == 0
    assert main(["predict", MODEL, "r.npz", "--out", "p.npz"]) == 0
    for name, values in {"prediction": outputs, "lengths": lengths}.items():
        np.testing.assert_array_equal(np.load("p.npz")[name], values)
    found = table("p.csv")
    assert len(found) == lengths.sum()
    steps = np.concatenate([np.arange(n) for n in lengths])
    assert [float(row["who"]) for row in found] == who.tolist()
    predicted = [float(row["predicted_y"]) for row in found]
    np.testing.assert_allclose(predicted, outputs[steps, who, 0], rtol=1e-6)


def test_columns_are_read_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns may be in another order, beside other columns."""
    a, b, who = X[..., 0].T.ravel(), X[..., 1].T.ravel(), np.repeat(np.arange(30), 5)
    y, z = a + b, a - b
    written("train.csv", "who,a,b,y,z", who, a, b, y, z)
    written("valid.csv", "z,b,y,a,who", z, b, y, a, who)
    written("more.csv", "noise,b,who,a", y * 9, b, who, a)
    written("less.csv", "b,who", b, who)
    train = ["train", "train.csv", "--case", "who", "--target", "y,z", *TRAIN[2:]]
    assert main([*train, "--valid", "valid.csv", "--out", "run"]) == 0
    network = rnn.load(MODEL)
    assert network.columns == rnn.data.Columns(("a", "b"), ("y", "z"), case="who")
    outputs, _ = rnn.run(network, X)
    errors = outputs - np.stack([y, z], axis=-1).reshape(30, 5, 2).swapaxes(0, 1)
    loss = ((errors / deviations(network)) ** 2).sum(axis=-1).mean()
    assert rows(Path("run"), "epoch")[-1]["valid_loss"] == pytest.approx(loss, rel=1e-5)
    capsys.readouterr()
    assert main(["evaluate", MODEL, "valid.csv", "--case", "who"]) == 0
    assert f"{loss:.4f} standardized squared error" in capsys.readouterr().out
    predict = ["predict", MODEL, "more.csv", "--case", "who", "--out", "p.csv"]
    assert main(predict) == 0
    found = [[float(row["predicted_y"]), float(row["predicted_z"])] for row in table("p.csv")]
    np.testing.assert_allclose(np.reshape(found, (30, 5, 2)).swapaxes(0, 1), outputs, rtol=1e-6)
    assert main([*predict, "--inputs", "a,noise"]) == 2
    assert (
        "inputs (--inputs) is fixed by the columns of the model, which reads a, b; leave it out"
        in capsys.readouterr().err
    )
    assert main(["predict", MODEL, "less.csv", "--case", "who", "--out", "p.csv"]) == 1
    assert "less.csv has no column 'a'; it has b, who" in capsys.readouterr().err


def test_integer_targets_rounded_by_float32_are_rejected(capsys: Any) -> None:
    np.savez("large.npz", x=X, y=10**9 + RANDOM.integers(0, 30, X.shape[:2]))
    assert main(["train", "large.npz", "--loss", "squared", *SMALL, "--out", "run"])
    assert "float32 rounds column 0 of the targets" in capsys.readouterr().err


def test_command_matches_training_on_arrays() -> None:
    assert main([*TRAIN, "--out", "run", "--rate", "0.01"]) == 0
    t = X.sum(axis=2)[..., None]
    scaling = rnn.data.Scaling.of(rnn.data.Sequences(X[:, :27], t[:, :27]))
    network = rnn.Network([rnn.GRU(4)], 2, 1, "squared", scaling=scaling)
    problem = rnn.Arrays(network, X, t, batch=8)
    settings = rnn.Training(rnn.Adam(0.01, clip_norm=1.0), epochs=2)
    outcome = rnn.Trainer(problem, settings, "own").run()
    epochs = rows(Path("run"), "epoch")
    assert epochs == rows(Path("own"), "epoch")
    assert outcome.best == min(row["valid_loss"] for row in epochs)


@pytest.mark.parametrize("data", ["d.npz", "task:addition(10)"])
def test_resumed_run_matches_an_uninterrupted_run(here: Path, data: str) -> None:
    """Includes moved files."""
    train = ["train", data, *TRAIN[2:], "--optimizer", "adam", "--gradient-batches", "1"]
    assert main([*train, "--epochs", "4", "--out", "whole"]) == 0
    assert main([*train, "--steps", "5", "--out", "parts"]) == 0
    again = ["train", "--resume", "parts", "--epochs", "4", "--steps", "1000", "--quiet"]
    if data == "d.npz":
        Path("d.npz").rename("moved.npz")
        again.append("moved.npz")
    assert main(again) == 0
    for name in ("history.jsonl", "model.safetensors"):
        assert (here / "parts" / name).read_bytes() == (here / "whole" / name).read_bytes()


def test_folds_are_validated_with_weights() -> None:
    found = []
    for fold in range(3):
        assert main([*TRAIN, "--weights", "w", "--fold", f"{fold + 1}/3", "--out", f"f{fold}"]) == 0
        network = rnn.load(f"f{fold}/model.safetensors")
        _, valid = rnn.data.read_sequences("d.npz", weights="w").fold(fold, 3)
        errors = rnn.run(network, valid.inputs)[0][..., 0] - valid.targets
        losses = ((errors / deviations(network)) ** 2).mean(axis=0)
        found.append(min(row["valid_loss"] for row in rows(Path(f"f{fold}"), "epoch")))
        assert found[-1] == pytest.approx(losses @ valid.weights / valid.weights.sum(), rel=1e-5)
    assert len(set(found)) == 3


def test_folds_of_series_validate_on_a_block_of_time() -> None:
    """Steps next to the block are not used for training."""
    x = np.random.default_rng(0).standard_normal((48, 2))

    def trained(folder: str, x: np.ndarray) -> bytes:
        written("w.csv", "a,b", *x.T)
        command = ["train", "w.csv", "--target", "b", "--pieces", "4", "--fold", "2/3", "--gap", "3"]
        assert main([*command, *TRAIN[2:], "--out", folder]) == 0
        return Path(folder, "history.jsonl").read_bytes()

    before = trained("run", x)
    beside, inside = x.copy(), x.copy()
    beside[[12, 15, 32, 35]] += 1.0
    inside[16] += 1.0
    assert trained("two", beside) == before
    assert trained("three", inside) != before
    block = x[16:32].astype(np.float32).reshape(4, 4, 2).swapaxes(0, 1)
    network = rnn.load(MODEL)
    loss = (((rnn.run(network, block[..., :1])[0] - block[..., 1:]) / deviations(network)) ** 2).mean()
    best = min(row["valid_loss"] for row in rows(Path("run"), "epoch"))
    assert best == pytest.approx(loss, rel=1e-5)


def test_classes_of_both_files_count_and_large_labels_are_rejected(capsys: Any) -> None:
    np.savez("v.npz", x=X[:, :9], signs=np.full((5, 9), 2))
    assert main([*TRAIN, "--target", "signs", "--valid", "v.npz", "--out", "run"]) == 0
    assert rnn.load(MODEL).outputs == 3
    np.savez("n.npz", x=X, signs=1_000_003 * np.arange(150).reshape(5, 30))
    assert main(["train", "n.npz", "--target", "signs", *TRAIN[2:], "--out", "new"]) == 2
    assert (
        "makes 149,000,448 classes for 150 targets; number the classes from 0 on" in capsys.readouterr().err
    )
    assert not Path("new").exists()


def test_symbols_and_horizons_that_cannot_be_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("s.npz", x=np.arange(60).reshape(6, 10) * 10**6, y=np.zeros((6, 10), int))
    assert main(["train", "s.npz", "--units", "2"]) == 2
    assert "the symbols are whole numbers up to 59,000,000; the most is 999,999" in capsys.readouterr().err
    lines = [f"{i % 4},{i // 4},{20_000 + i / 8}" for i in range(40)]  # four series of ten rows
    Path("q.csv").write_text("s,t,y\n" + "\n".join(lines), encoding="utf-8")
    options = ["--target", "y", "--case", "s", "--time-column", "t", "--horizon", "12", "--units", "2"]
    assert main(["train", "q.csv", *options]) == 1
    assert "no training case has a value of y +10, so it cannot be learned" in capsys.readouterr().err


def test_classes_and_symbols_of_padded_steps_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0).integers
    lengths, labels, symbols = draw(1, 9, 20), draw(0, 3, (8, 20)), draw(0, 4, (8, 20))
    inside = np.arange(8)[:, None] < lengths
    models = []
    for padding in (0, -1, 99):
        x, y = np.where(inside, symbols, abs(padding)), np.where(inside, labels, padding)
        np.savez("p.npz", x=x, y=y, lengths=lengths)
        assert main(["train", "p.npz", "--units", "2", "--epochs", "1", "--out", f"run{padding}"]) == 0
        models.append(rnn.load(f"run{padding}/model.safetensors"))
    assert [(model.inputs, model.outputs) for model in models] == [(4, 3)] * 3
    np.testing.assert_array_equal(models[1].theta, models[0].theta)
    np.testing.assert_array_equal(models[2].theta, models[0].theta)


def test_long_tables_and_validation_tables_with_chosen_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{i},{i % 7},{i % 2},{i + 0.5}" for i in range(300)]
    Path("s.csv").write_text("t,x,s,y\n" + "\n".join(lines), encoding="utf-8")
    given = ["--inputs", "x", "--target", "y", "--time-column", "t", "--units", "2", "--epochs", "1"]
    assert main(["train", "s.csv", *given, "--horizon", "3", "--valid", "s.csv"]) == 0
    assert main(["train", "s.csv", *given, "--case", "s", "--categories", "s", "--loss", "squared"]) == 0
