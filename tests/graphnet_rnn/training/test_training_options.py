"""Averaged and frozen weights, callbacks, metrics, runs without a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
import viz
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.training import Trainer, Training
from tests.graphnet_rnn.training import problems
from tests.graphnet_rnn.training.problems import begin
from tests.graphnet_rnn.training.reports import Told
from tests.graphnet_rnn.training.runs import contents, interrupt_at, require_same_files, rows
from tests.tables import case

KEEP = 0.7


def averaged(weights: list[Array], keep: float) -> Array:
    average = 0 * weights[0]
    for t, theta in enumerate(weights, start=1):
        kept = min(keep, (t - 1) / t)
        average = kept * average + (1 - kept) * theta
    return average


@pytest.mark.parametrize("keep", [KEEP, 1.0])
def test_averaged_weights_are_validated_and_saved(keep: float, tmp_path: Path) -> None:
    passed: list[Array] = []
    told = Told(lambda: passed.append(np.asarray(trainer.theta, np.float64).copy()))
    trainer = begin("arrays", tmp_path / "run", average=keep, listeners=[told])
    outcome = trainer.run()
    expected = averaged(passed, keep)
    assert np.allclose(trainer.weights, expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(trainer.weights, trainer.theta, rtol=1e-3)
    if keep == 1:
        assert np.allclose(expected, np.mean(passed, axis=0))
    best = averaged(passed[: outcome.best_epoch * len(trainer.problem)], keep)
    saved = rnn.load(trainer.folder.model)
    assert np.allclose(saved.theta, best, rtol=1e-5, atol=1e-6)
    trainer.problem.model.theta = saved.theta
    assert trainer.problem.validate() == outcome.best


def test_functions_are_called_after_each_epoch(tmp_path: Path) -> None:
    told: list[Mapping[str, Any]] = []

    def look(trainer: Trainer, row: Mapping[str, Any]) -> bool:
        assert trainer.progress.epoch == row["epoch"]
        told.append(row)
        return len(told) == 2

    outcome = begin("arrays", tmp_path / "run", epochs=5, listeners=[look, lambda trainer, row: None]).run()
    assert (outcome.reason, outcome.epochs) == ("callback", 2)
    assert [dict(row) for row in told] == rows(tmp_path / "run", "epoch")


def test_metrics_are_in_the_rows_and_in_the_curve(tmp_path: Path) -> None:
    """Metrics by name; callbacks see the model with the validated weights."""
    problem = problems.carried()

    def largest_weight(model: rnn.Model) -> float:
        return float(np.abs(model.theta).max())

    trainer = Trainer(problem, Training(epochs=3), tmp_path / "run", metrics=["accuracy", largest_weight])
    trainer.run()
    found = [row["metrics"] for row in rows(tmp_path / "run", "epoch")]
    assert len(found) == 3
    assert found[-1]["largest_weight"] == float(np.abs(trainer.theta).max())
    assert found[-1]["accuracy"] == problem._evaluator(problem.corpus.valid, context=problem.time).accuracy  # type: ignore[attr-defined]
    words = [axes.get_ylabel() for axes in viz.training_curve(tmp_path / "run").axes]
    assert words[-2:] == ["accuracy", "largest weight"]
    for metrics, says in (
        ("accuracy", "metrics must be a list of names and functions of the model, not 'accuracy'"),
        (["accuracy"], r"names of metrics of Fit \(none\), not 'accuracy'"),
        ([max, max], "two metrics have the name max"),
        ([lambda model: "good"], "the metric <lambda> must give a number, not 'good'"),
    ):
        with case(says), pytest.raises(UsageError, match=says):
            Trainer(problems.own(), metrics=metrics).run()  # type: ignore[arg-type]


def test_run_without_a_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results match a run with a folder; a second call continues the run."""
    monkeypatch.chdir(tmp_path)
    kept = begin("arrays", tmp_path / "run")
    kept.run()
    trainer = begin("arrays", None, listeners=[interrupt_at(3)])
    with pytest.raises(UsageError, match="take_best: no epoch has ended yet"):
        trainer.take_best()
    assert trainer.run().reason == "interrupted"
    trainer.listeners.clear()
    trainer._interruption = rnn.training.Interruption()
    outcome = trainer.run()
    assert [each.name for each in tmp_path.iterdir()] == ["run"]
    assert trainer.theta.tobytes() == kept.theta.tobytes()
    lines = (tmp_path / "run" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(json.dumps(outcome.history)) == [json.loads(line) for line in lines]
    assert "<svg" in outcome._repr_mimebundle_()["image/svg+xml"]
    trainer.take_best()
    assert np.array_equal(trainer.problem.model.theta, rnn.load(tmp_path / "run" / "model.safetensors").theta)
    with pytest.raises(UsageError, match=r"Trainer\.resume: this run has no folder, and so no checkpoint"):
        trainer.resume()


X = np.random.default_rng(0).standard_normal((5, 24, 2))
T = np.cumsum(X, axis=0)
FROZEN = ("layer0.*", "output.b_o")
OPTIMIZERS = [
    rnn.Adam(0.01), rnn.SGD(0.01, weight_decay=0.1), rnn.HessianFree(damping=1.0, structural=0.1), rnn.LBFGS(),
    rnn.NonlinearConjugateGradient(), rnn.Riemannian("kfac", rate=0.01), rnn.NaturalGradient(),
]  # fmt: skip


def freezing(**how: Any) -> rnn.Arrays:
    net = rnn.Network([rnn.Elman(3), rnn.Elman(4)], 2, 2, "squared")
    return rnn.Arrays(net, X, T, batch=8, valid=None, **{"frozen": FROZEN, **how})


def is_frozen(name: str) -> bool:
    return name.startswith("layer0.") or name == "output.b_o"


def test_only_unfrozen_weights_change() -> None:
    """Steps match those of an objective over the other weights alone."""
    for optimizer in OPTIMIZERS:
        with case(optimizer):
            p = freezing()
            before = {name: node.value.copy() for name, node in p.model.parameters.items()}
            trainer = Trainer(p, Training(optimizer, epochs=2, stopping=None))
            trainer.run()
            trainer.take_best()
            for name, node in p.model.parameters.items():
                assert np.array_equal(node.value, before[name]) == is_frozen(name), name


def test_gradient_covers_unfrozen_weights_only() -> None:
    some, every = freezing(), freezing(frozen=())
    assert some.objective.size < every.objective.size == every.model.theta.size
    for each in (some, every):
        each.feed(0, 0)
    loss, g = some.objective.gradient(some.objective.start())
    whole_loss, whole_g = every.objective.gradient(every.objective.start())
    chosen = [~is_frozen(n) & np.ones(node.size, bool) for n, node in every.model.parameters.items()]
    assert np.isclose(loss, whole_loss, rtol=1e-6)
    assert np.allclose(g, whole_g[np.concatenate(chosen) == 1], rtol=1e-5, atol=1e-7)


def test_resumed_run_with_averaged_and_frozen_weights_has_the_same_bytes(tmp_path: Path) -> None:
    """Resumed within an epoch, at its end, and after a shorter run."""

    def trainer(folder: str, epochs: int = 4, listeners: Any = (), **how: Any) -> Trainer:
        settings = Training(rnn.Adam(0.01), epochs=epochs, average=KEEP, stopping=None)
        return Trainer(freezing(**how), settings, tmp_path / folder, listeners=listeners)

    trainer("whole").run()
    trainer("parts", listeners=[interrupt_at(1)]).run()
    for changed in ({"listeners": [interrupt_at(3)]}, {"epochs": 2}, {}):
        rest = trainer("parts", **changed)
        rest.resume()
        rest.run()
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))
    with pytest.raises(UsageError, match="frozen"):
        trainer("parts", 6, frozen=()).resume()


def test_frozen_patterns_with_commas_and_invalid_patterns() -> None:
    corpus = rnn.data.Corpus.split("a text of some length, " * 40)
    symbols = len(corpus.vocabulary)
    network = rnn.Network([rnn.GRU(4), rnn.GRU(4)], symbols, symbols)
    before = network.parameters["layer0.W_xz"].value.copy()
    p = rnn.CarriedText(network, corpus, time=5, batch=4, frozen="layer0.*, output.b_o")
    Trainer(p, Training(epochs=1)).run()
    assert p.frozen == FROZEN
    assert np.array_equal(network.parameters["layer0.W_xz"].value, before)
    for frozen, said in (
        (
            "layer7.*",
            r"frozen names 'layer7\.\*', which no parameter matches; the parameters are layer0\.W_xh",
        ),
        ("*", "frozen must leave at least one parameter"),
        (3, "frozen must be patterns of names"),
        ([3], "frozen must be patterns of names"),
    ):
        with case(frozen), pytest.raises(UsageError, match=said):
            freezing(frozen=frozen)


def test_progress_is_shown_on_terminals_or_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trained(**how: Any) -> list[str]:
        net = rnn.Network([rnn.GRU(3)], 1, 1, "squared", seed=0)
        problem = rnn.Arrays(net, np.ones((5, 12, 1)), np.ones((5, 12, 1)), batch=4)
        rnn.Trainer(problem, rnn.Training(epochs=2), **how).run()
        return capsys.readouterr().out.splitlines()

    assert trained() == trained(progress=False) == []
    lines = trained(progress=True)
    assert [line.split(":")[0] for line in lines] == ["epoch   1", "epoch   2", "ended (epochs)"]
    assert "(best so far)" in lines[0]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert trained() == lines
    assert trained(progress=False) == []
    assert trained(listeners=[rnn.training.ProgressBar()]) == lines
    with pytest.raises(UsageError, match="progress must be True or False, or None"):
        trained(progress=1)
