"""A network with a scaling matches one without it on standardized data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet_rnn.apps.cli import main
from graphnet_rnn.data import Scaling, Sequences
from graphnet_rnn.errors import UsageError
from graphnet_rnn.formats import from_torch, to_torch
from tests.tables import case

RANDOM = np.random.default_rng(0)
M, S = np.array([85.0, -3.0]), np.array([2.0, 0.01])
N, R = np.array([1000.0, 0.5]), np.array([50.0, 4.0])
SCALING = Scaling((M, S), (N, R))
RAW, OWN = RANDOM.standard_normal((2, 6, 8, 2))
X, T = M + S * RAW, N + R * OWN


def pair(cell: rnn.Cell, **how: Any) -> tuple[rnn.Network, rnn.Network]:
    """With the scaling, and without it."""
    how = {"loss": "squared", "dtype": "float64", **how}
    return rnn.Network([cell], 2, 2, scaling=SCALING, **how), rnn.Network([cell], 2, 2, **how)


def test_outputs_have_the_units_of_the_data_and_the_loss_is_standardized() -> None:
    """At every step and pooled, with lengths and missing targets; includes the gradient."""
    lengths, there = np.array([6, 3, 4, 6, 1, 2, 5, 6]), RANDOM.random((6, 8)) > 0.3
    for pool, ragged, weights in (
        (None, None, None), ("mean", lengths, None), (None, lengths, there), ("last", None, None),
    ):  # fmt: skip
        with case(pool, ragged, weights):
            scaled, plain = pair(rnn.GRU(3), pool=pool)
            (o, _), (raw, _) = (rnn.run(net, x, lengths=ragged) for net, x in ((scaled, X), (plain, RAW)))
            inside = np.ones((6, 8), bool) if ragged is None or pool else np.arange(6)[:, None] < ragged
            shown = slice(None) if pool else inside
            np.testing.assert_allclose(o[shown], (N + R * raw)[shown], rtol=1e-9)
            found = []
            for net, x, t in ((scaled, X, T), (plain, RAW, OWN)):
                t = t[-1] if pool else np.where(there[..., None] | (weights is None), t, np.nan)
                w = None if weights is None else 1.0 * weights
                problem = rnn.Arrays(net, x, t, 8, valid=None, lengths=ragged, weights=w)
                problem.objective.feed(*problem._arrays_of(np.arange(8), 1.0))
                found.append(problem.objective.gradient(problem.objective.start()))
            (loss, slope), (expected, own) = found
            assert loss == pytest.approx(expected, rel=1e-9)
            np.testing.assert_allclose(slope, own, rtol=1e-7, atol=1e-10)


def test_feedback_has_the_units_of_the_data() -> None:
    net = rnn.Network([rnn.GRU(3)], 2, 2, "squared", dtype="float64", scaling=Scaling((M, S), (N, R)))
    u = net.unroll(4, 8, training=False, initial="zero", feedback="likeliest")
    (o,) = gn.compile([u.logits], [u.inputs])(X[:1])
    states, read = None, X[:1]
    for t in range(4):
        made, states = rnn.run(net, read, states)
        np.testing.assert_allclose(o[t], made[0], rtol=1e-9)
        read = made
    scaled, plain = pair(rnn.GRU(3))
    assert viz.generation(scaled).dot == viz.generation(plain).dot


def test_means_and_deviations_ignore_padding_and_missing_targets() -> None:
    """Over all steps within the lengths and weighted targets; binary and constant columns are not scaled."""
    lengths, weights = np.array([6, 3, 4, 6, 1, 2, 5, 6]), RANDOM.integers(0, 2, (6, 8))
    inside = np.arange(6)[:, None] < lengths
    x = np.concatenate([X, RAW[..., :1] > 0, np.full((6, 8, 1), 7.0)], axis=2)
    t = np.where((weights > 0)[..., None], T, np.nan)
    found = Scaling.of(Sequences(np.where(inside[..., None], x, np.inf), t, lengths, weights))
    means, deviations = np.array(found.inputs)
    np.testing.assert_allclose(means, [*X[inside].mean(axis=0), 0, 7], rtol=1e-8)
    np.testing.assert_allclose(deviations, [*X[inside].std(axis=0), 1, 1], rtol=1e-8)
    counted = T[inside & (weights > 0)]
    np.testing.assert_allclose(found.outputs, [counted.mean(axis=0), counted.std(axis=0)], rtol=1e-8)
    whole = Sequences(X, np.arange(96).reshape(6, 8, 2))
    np.testing.assert_allclose(Scaling.of(whole).outputs[0], [47, 48])
    some = np.where(RANDOM.random(RAW.shape) < 0.7, np.nan, RAW)
    filled_in = Sequences(rnn.data.with_missing(some, lengths=lengths), T, lengths)
    some[~inside] = np.nan
    means, deviations = np.array(Scaling.of(filled_in, masked=True).inputs)[:, : RAW.shape[2]]
    np.testing.assert_allclose(means, np.nanmean(some, (0, 1)), rtol=1e-8)
    np.testing.assert_allclose(deviations, np.nanstd(some, (0, 1)), rtol=1e-8)
    for unit in (1e-25, 2.0**-600, 2.0**1000):  # the squares of the last two are 0 and infinite
        deviations = np.array(Scaling.of(Sequences(unit * X, T)).inputs[1])
        np.testing.assert_allclose(deviations / unit, X.std((0, 1)), rtol=1e-8)
    largest = np.array([0.0, 1.7e308, -1.7e308]).reshape(3, 1, 1)
    assert Scaling.of(Sequences(largest, largest)).inputs == ((0.0,), (1.38804419e308,))
    numbers = np.random.default_rng(0).integers(400, 600, (8, 2))
    assert Scaling.of(Sequences(X, numbers)) == Scaling.of(Sequences(X, 1.0 * numbers))
    spelled = np.where(np.arange(2) < [[1], [2], [2], [1], [0], [2], [2], [1]], numbers, -1)
    assert Scaling.of(Sequences(X, spelled)).outputs is None
    # What is wrong with these rnn.Arrays says.
    odd = np.array([1.0, np.nan, np.inf, 3.0, np.nan, -np.inf]).reshape(6, 1, 1)
    assert Scaling.of(Sequences(odd, odd)) == Scaling(((2.0,), (1.0,)), ((2.0,), (1.0,)))
    labels = Sequences(np.zeros((6, 8), int), np.zeros((6, 8), int))
    assert Scaling.of(labels) == Scaling() == Scaling.of(Sequences(1.0 * (RAW > 0), 1.0 * (OWN > 0)))


def test_scaling_is_kept_in_model_files_and_torch_weights(tmp_path: Path) -> None:
    scaled, _ = pair(rnn.LSTM(3))
    rnn.save(scaled, tmp_path / "m.safetensors")
    again = rnn.load(tmp_path / "m.safetensors")
    assert again.scaling == SCALING
    expected, _ = rnn.run(scaled, X)
    np.testing.assert_array_equal(rnn.run(again, X)[0], expected)
    for both in (scaled, pair(rnn.LSTM(3), output_bias=False)[0]):
        torch = from_torch(to_torch(both), loss="squared")
        assert torch.scaling is None
        np.testing.assert_allclose(rnn.run(torch, X)[0], rnn.run(both, X)[0], rtol=1e-9)
    assert not any("linear" in name for name in to_torch(rnn.Network([rnn.LSTM(3)], 2, 0, reads="vectors")))


def test_fit_output_with_standardized_targets() -> None:
    scaled, plain = pair(rnn.Elman(3))
    assert rnn.fit_output(scaled, X, T) == pytest.approx(rnn.fit_output(plain, RAW, OWN), rel=1e-6)
    np.testing.assert_allclose(rnn.run(scaled, X)[0], N + R * rnn.run(plain, RAW)[0], rtol=1e-6)


def test_training_on_unscaled_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a column around 85 and targets around 1,000, the error is below that of the mean."""
    monkeypatch.chdir(tmp_path)
    x = 85 + RANDOM.standard_normal(1600)
    y = 1000 + 50 * (x - 85)
    np.savetxt("t.csv", np.stack([x, y], axis=1), "%.6f", ",", header="x,y", comments="")
    command = [
        "train",
        "t.csv",
        "--target=y",
        "--pieces=8",
        "--cell=GRU(8)",
        "--rate=0.02",
        "--epochs=4",
        "--no-live",
    ]
    errors = []
    for out, how, told in (("run", [], True), ("raw", ["--no-scaling"], False)):
        assert main([*command, "--out", out, *how]) == 0
        assert ("t.csv: inputs and targets are standardized" in capsys.readouterr().out) == told
        assert main(["predict", f"{out}/model.safetensors", "t.csv", "--pieces", "8", "--out", "p.npz"]) == 0
        predicted = np.load("p.npz")["prediction"][..., 0].T.ravel()
        errors.append(np.sqrt(np.mean((predicted - y) ** 2)))
    assert errors[0] < 0.5 * y.std() < 500 < errors[1]


def test_invalid_arguments_are_rejected() -> None:
    for made, error, words in (
        (lambda: Scaling(([1], [0])), UsageError, "a deviation must be a finite number > 0"),
        (lambda: Scaling(([1, 2], [1])), UsageError, "got 2 means and 1 deviations"),
        (lambda: Scaling.of(X), UsageError, r"rnn.data.Sequences\(x, t\)"),
        (lambda: Scaling.of(Sequences(X, T), masked=True), UsageError, "masked needs inputs from rnn.data.with_m"),
        (
            lambda: rnn.Network([rnn.GRU(2)], 1, 2, reads="vectors", scaling=Scaling(([1e300], [1]))),
            UsageError,
            "of inputs that are 0 or infinite in float32",
        ),
        (lambda: rnn.Network([rnn.GRU(2)], 3, 2, "squared", scaling=SCALING), UsageError, "means of 2 inputs"),
        (lambda: rnn.Network([rnn.GRU(2)], 2, 2, "sigmoid", scaling=SCALING), UsageError, 'loss="squared"'),
        (lambda: rnn.Network([rnn.GRU(2)], 2, 2, scaling=SCALING), UsageError, 'reads="vectors"'),
        (lambda: rnn.Network([rnn.GRU(2)], 2, 2, "squared", scaling=85), UsageError, "must be an rnn.data.Scaling"),
    ):  # fmt: skip
        with case(words), pytest.raises(error, match=words):
            made()


def test_empty_cells_of_a_table_are_not_measured() -> None:
    generator = np.random.default_rng(0)
    lab = np.where(generator.random(2000) < 0.05, generator.normal(100, 15, 2000), np.nan)
    rows = {"lab": lab, "t": generator.normal(size=2000), "y": generator.normal(size=2000)}
    table = rnn.data.Table(rows, targets="y", inputs="lab,t")
    scaling = rnn.data.Scaling.of(table.sequences, table.columns)
    means, deviations = scaling.inputs
    np.testing.assert_allclose(means, [np.nanmean(lab), 0, rows["t"].mean()], rtol=1e-6)
    np.testing.assert_allclose(deviations, [np.nanstd(lab), 1, rows["t"].std()], rtol=1e-6)
