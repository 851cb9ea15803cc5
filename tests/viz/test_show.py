"""What notebooks show of runs, readings and graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz

pytest.importorskip("matplotlib")

TEXT = "to be or not to be, that is the question. " * 30


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[rnn.Network, rnn.training.Outcome]:
    corpus = rnn.data.Corpus.split(TEXT)
    net = rnn.Network([rnn.GRU(4)], len(corpus.vocabulary), len(corpus.vocabulary))
    folder = tmp_path_factory.mktemp("run")
    problem = rnn.CarriedText(net, corpus, time=10, batch=4, sample=9)
    return net, rnn.Trainer(problem, rnn.Training(epochs=2), folder).run()


def result(steps: int = 5) -> rnn.optimizers.minimize.Result:  # type: ignore[name-defined]
    w = gn.parameter(np.ones(3), name="w")
    return rnn.minimize(rnn.Objective(gn.sum(w * w), [w]), rnn.Adam(0.1), steps=steps)


def test_an_outcome_shows_its_curve(trained) -> None:
    _, outcome = trained
    bundle = outcome._repr_mimebundle_()
    assert bundle["image/svg+xml"] == viz.training_curve(outcome).svg
    assert outcome.history not in bundle["text/plain"]


def test_a_result_shows_its_steps() -> None:
    found = result()
    assert found._repr_mimebundle_()["image/svg+xml"] == viz.flight_recorder(found).svg
    assert [row["step"] for row in found.__history__()] == [1, 2, 3, 4, 5]
    assert len(repr(found)) < 200, "its reports could be thousands"


def test_all_charts_of_a_run_take_what_it_returned(trained) -> None:
    _, outcome = trained
    viz.compare_runs({"a": outcome, "b": str(Path(outcome.history).parent)})
    assert [axes.get_title(loc="left") for axes in viz.weight_norms(outcome).axes] == ["layer0", "output"]
    assert "before training" in str(viz.samples(outcome))


def test_readings_and_costs_show_themselves(trained) -> None:
    net, _ = trained
    bundle = rnn.read(net, TEXT[:50])._repr_mimebundle_()
    assert "cold start" in bundle["text/html"]
    assert "image/svg+xml" in rnn.cost_over_text(net, TEXT, characters=100)._repr_mimebundle_()


def test_graphs_still_do() -> None:
    assert "<svg" in (gn.parameter(np.ones(3), name="w") * 2)._repr_mimebundle_()["image/svg+xml"]


def test_what_cannot_be_shown_is_text_and_never_raises(trained, monkeypatch: pytest.MonkeyPatch) -> None:
    net, outcome = trained
    broken = rnn.training.Outcome("epochs", 1.0, 1, 1, 1, "no/such/history.jsonl")
    assert set(broken._repr_mimebundle_()) == {"text/plain"}
    assert set(rnn.training.Outcome("epochs", 1.0, 1, 1, 1)._repr_mimebundle_()) == {"text/plain"}
    monkeypatch.setattr(viz, "mimebundle", lambda thing: 1 / 0)
    for thing in (outcome, result(1), rnn.read(net, "to be"), net):
        assert set(thing._repr_mimebundle_()) == {"text/plain"}
