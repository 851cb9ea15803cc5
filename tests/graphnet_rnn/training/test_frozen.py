"""Parameters that a problem freezes stay as they are, for every optimiser, and through a resumed run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import UsageError
from tests.graphnet_rnn.training.runs import contents, require_same_files
from tests.tables import case

X = np.random.default_rng(0).standard_normal((5, 24, 2))
T = np.cumsum(X, axis=0)
FROZEN = ("layer0.*", "output.b_o")
OPTIMIZERS = [
    rnn.Adam(0.01), rnn.SGD(0.01, weight_decay=0.1), rnn.HessianFree(damping=1.0, structural=0.1), rnn.LBFGS(),
    rnn.NonlinearConjugateGradient(), rnn.Riemannian("kfac", rate=0.01), rnn.NaturalGradient(),
]  # fmt: skip


def problem(**how: object) -> rnn.Arrays:
    net = rnn.Network([rnn.Elman(3), rnn.Elman(4)], 2, 2, "squared")
    return rnn.Arrays(net, X, T, batch=12, valid=None, **{"frozen": FROZEN, **how})  # type: ignore[arg-type]


def is_frozen(name: str) -> bool:
    return name.startswith("layer0.") or name == "output.b_o"


def test_what_is_frozen_stays_and_the_rest_learns() -> None:
    """As if it were constant: the objective over the others alone makes the same steps."""
    for optimizer in OPTIMIZERS:
        with case(optimizer):
            p = problem()
            before = {name: node.value.copy() for name, node in p.model.parameters.items()}
            trainer = rnn.Trainer(p, rnn.Training(optimizer, epochs=2, stopping=None))
            trainer.run()
            trainer.take_best()
            for name, node in p.model.parameters.items():
                assert np.array_equal(node.value, before[name]) == is_frozen(name), name


def test_the_gradient_is_that_of_the_others() -> None:
    some, every = problem(), problem(frozen=())
    assert some.objective.size < every.objective.size == every.model.theta.size
    for each in (some, every):
        each.feed(0, 0)
    loss, g = some.objective.gradient(some.objective.start())
    whole_loss, whole_g = every.objective.gradient(every.objective.start())
    chosen = [~is_frozen(n) & np.ones(node.size, bool) for n, node in every.model.parameters.items()]
    assert np.isclose(loss, whole_loss, rtol=1e-6)
    assert np.allclose(g, whole_g[np.concatenate(chosen) == 1], rtol=1e-5, atol=1e-7)


def test_a_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    def trainer(folder: Path, epochs: int, **how: object) -> rnn.Trainer:
        settings = rnn.Training(rnn.Adam(0.01), epochs=epochs, average=0.9, stopping=None)
        return rnn.Trainer(problem(**how), settings, folder)

    trainer(tmp_path / "whole", 4).run()
    trainer(tmp_path / "parts", 2).run()
    rest = trainer(tmp_path / "parts", 4)
    rest.resume()
    rest.run()
    require_same_files(contents(tmp_path / "parts"), contents(tmp_path / "whole"))
    with pytest.raises(UsageError, match="frozen"):
        trainer(tmp_path / "parts", 6, frozen=()).resume()


def test_texts_and_commas_and_what_cannot_be_frozen() -> None:
    corpus = rnn.data.Corpus.split("a text of some length, " * 40)
    symbols = len(corpus.vocabulary)
    network = rnn.Network([rnn.GRU(4), rnn.GRU(4)], symbols, symbols)
    before = network.parameters["layer0.W_xz"].value.copy()
    p = rnn.CarriedText(network, corpus, time=5, batch=4, frozen="layer0.*, output.b_o")
    rnn.Trainer(p, rnn.Training(epochs=1)).run()
    assert p.frozen == FROZEN
    assert np.array_equal(network.parameters["layer0.W_xz"].value, before)
    for frozen, said in (
        ("layer7.*", r"frozen names 'layer7\.\*', but no parameter is called so; there are layer0\.W_xh"),
        ("*", "frozen leaves no parameter"),
        ([3], "frozen must be patterns of names"),
    ):
        with case(frozen), pytest.raises(UsageError, match=said):
            problem(frozen=frozen)
