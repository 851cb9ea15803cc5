"""Objectives and runs that several processes share: the same numbers, and the same files, as of one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.parallel import Ranks
from graphnet_rnn.parallel.mpi import alone, rank_and_size
from graphnet_rnn.training.trainer import Listener, Trainer
from tests.graphnet_rnn.parallel.threads import by_threads
from tests.graphnet_rnn.training.runs import contents, require_same_files

TEXT = "the cat sat on the mat, and the rat sat on the hat.\n" * 30
CORPUS = rnn.data.Corpus.split(TEXT)
SYMBOLS = len(CORPUS.vocabulary)


def network(**how: Any) -> rnn.Network:
    return rnn.Network([rnn.GRU(5), rnn.Elman(4)], SYMBOLS, SYMBOLS, **how)


def drawn(optimizer: Any, epochs: int, folder: Path, ranks: Ranks) -> Trainer:
    curved = {"curvature_batches": 3} if isinstance(optimizer, rnn.HessianFree) else {}
    problem = rnn.DrawnText(network(), CORPUS, 6, 4, gradient_batches=5, sample=5, threads=1, **curved)
    return Trainer(problem, rnn.Training(optimizer, epochs=epochs), folder, parallel=ranks)


def carried(optimizer: Any, epochs: int, folder: Path, ranks: Ranks) -> Trainer:
    net = network(dropout=0.2, initial_state="learned")
    problem = rnn.CarriedText(net, CORPUS, 6, 8, stride=3, shares=4, sample=5, threads=1)
    return Trainer(problem, rnn.Training(optimizer, epochs=epochs), folder, parallel=ranks)


def cases(optimizer: Any, epochs: int, folder: Path, ranks: Ranks) -> Trainer:
    random = np.random.default_rng(0)
    x, t = random.standard_normal((5, 30, 3)), random.standard_normal((5, 30, 2))
    net = rnn.Network([rnn.Elman(4)], 3, 2, loss="squared", reads="vectors")
    problem = rnn.Arrays(net, x, t, batch=4, gradient_batches=5, threads=1)
    return Trainer(problem, rnn.Training(optimizer, epochs=epochs), folder, parallel=ranks)


Run = Callable[[Any, int, Path, Ranks], Trainer]
RUNS: dict[str, tuple[Run, Callable[[], Any]]] = {
    "independent sequences, Hessian-free": (
        drawn,
        lambda: rnn.HessianFree(cg_steps=3, preconditioner=0.75),
    ),
    "independent sequences, KFAC": (drawn, lambda: rnn.NaturalGradient("kfac", rate=0.01)),
    "independent sequences, LBFGS": (drawn, rnn.LBFGS),
    "carried states, Adam": (carried, lambda: rnn.Adam(0.01, clip_norm=1.0)),
    "carried states, Nesterov": (carried, lambda: rnn.Nesterov(0.01)),
    "carried states, Hessian-free": (carried, lambda: rnn.HessianFree(cg_steps=3, structural=0.1)),
    "carried states, Riemannian": (carried, rnn.Riemannian),
    "carried states, KFAC": (carried, lambda: rnn.NaturalGradient("kfac", rate=0.01)),
    "arrays, momentum": (cases, lambda: rnn.Momentum(0.01)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_shared_run_has_the_files_of_one_alone(name: str, tmp_path: Path) -> None:
    make, optimizer = RUNS[name]
    make(optimizer(), 2, tmp_path / "alone", rnn.parallel.ALONE).run()
    for size in (2, 3):
        by_threads(size, lambda ranks, size=size: make(optimizer(), 2, tmp_path / str(size), ranks).run())
        require_same_files(contents(tmp_path / str(size)), contents(tmp_path / "alone"))


@pytest.mark.parametrize("name", ["independent sequences, Hessian-free", "carried states, Adam"])
def test_a_shared_run_goes_on_with_another_number_of_processes(name: str, tmp_path: Path) -> None:
    make, optimizer = RUNS[name]

    def resumed(ranks: Ranks) -> None:
        trainer = make(optimizer(), 2, tmp_path / "run", ranks)
        trainer.resume()
        trainer.run()

    by_threads(3, lambda ranks: make(optimizer(), 1, tmp_path / "run", ranks).run())
    by_threads(2, resumed)
    make(optimizer(), 2, tmp_path / "alone", rnn.parallel.ALONE).run()
    require_same_files(contents(tmp_path / "run"), contents(tmp_path / "alone"))


def test_one_that_is_told_to_end_ends_all_after_the_same_step(tmp_path: Path) -> None:
    class Stops(Listener):
        def stepped(self, trainer: Trainer, report: Any) -> None:
            if trainer.progress.step == 3:
                trainer._interruption.came = True

    def work(ranks: Ranks) -> tuple[str, int]:
        trainer = carried(rnn.Adam(0.01), 2, tmp_path / "run", ranks)
        trainer.listeners = [Stops()] if ranks.rank == 1 else []
        outcome = trainer.run()
        return outcome.reason, outcome.steps

    assert set(by_threads(3, work)) == {("interrupted", 3)}


def test_what_differs_is_refused_before_the_first_step(tmp_path: Path) -> None:
    def work(ranks: Ranks) -> str:
        trainer = drawn(rnn.SGD(0.1 if ranks.is_first else 0.2), 1, tmp_path / "run", ranks)
        with pytest.raises(UsageError) as caught:
            trainer.run()
        return str(caught.value)

    (sentence,) = set(by_threads(2, work))
    assert (
        "process 1 is not about to do what process 0 does: optimizer.rate was 0.1, now it is 0.2" in sentence
    )
    assert not (tmp_path / "run").exists()


def test_weights_that_part_are_found_at_the_end_of_the_epoch(tmp_path: Path) -> None:
    class Parts(Listener):
        def stepped(self, trainer: Trainer, report: Any) -> None:
            trainer.theta[0] += 1e-3

    def work(ranks: Ranks) -> None:
        trainer = drawn(rnn.SGD(0.1), 1, tmp_path / "run", ranks)
        trainer.listeners = [Parts()] if ranks.rank == 1 else []
        with pytest.raises(
            TrainingError, match="processes 1 have come to other weights than process 0 by step"
        ):
            trainer.run()

    by_threads(2, work)


def test_an_error_of_the_first_is_one_of_all(tmp_path: Path) -> None:
    drawn(rnn.SGD(0.1), 1, tmp_path / "run", rnn.parallel.ALONE).run()

    def work(ranks: Ranks) -> None:
        with pytest.raises(UsageError, match="holds a run already"):
            drawn(rnn.SGD(0.1), 1, tmp_path / "run", ranks).run()

    by_threads(2, work)


def test_steps_that_are_not_divided_are_refused(tmp_path: Path) -> None:
    def work(ranks: Ranks) -> None:
        with pytest.raises(UsageError, match="4 processes cannot share a batch that is no more than 1 part"):
            Trainer(rnn.CarriedText(network(), CORPUS, 6, 8), folder=tmp_path, parallel=ranks)
        with pytest.raises(UsageError, match="4 processes cannot share the 2 batches of a step"):
            Trainer(
                rnn.DrawnText(network(), CORPUS, 6, 4, gradient_batches=2), folder=tmp_path, parallel=ranks
            )
        rbm = rnn.energy.RBM(4, 3)
        with pytest.raises(UsageError, match="EnergyCases cannot be shared by 4 processes"):
            Trainer(rnn.EnergyCases(rbm, np.zeros((8, 4)), batch=2), folder=tmp_path, parallel=ranks)

    by_threads(4, work)
    with pytest.raises(UsageError, match='parallel must be "mpi"'):
        Trainer(rnn.CarriedText(network(), CORPUS, 6, 8), folder=tmp_path, parallel="tcp")
    with pytest.raises(UsageError, match="shares must divide the batch of 8; 3 does not"):
        rnn.CarriedText(network(), CORPUS, 6, 8, shares=3)


def test_without_mpiexec_there_is_one() -> None:
    assert rnn.parallel.launched() is rnn.parallel.ALONE
    assert rnn.parallel.as_ranks("x", "mpi").size == 1


def test_what_mpiexec_says_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "4")
    assert rank_and_size() == (1, 4)
    assert not {"PMI_RANK", "PMI_SIZE"} & alone(os.environ).keys()
    monkeypatch.setenv("PMI_SIZE", "many")
    assert rank_and_size() == (0, 1)


def test_shares_carry_their_states_as_whole_batches_do(tmp_path: Path) -> None:
    """Whatever an optimizer asks for: a gradient, a metric, losses on the way."""
    for optimizer in (
        rnn.SGD(1e-9),
        rnn.Riemannian(rate=1e-9),
        rnn.NaturalGradient("kfac", rate=1e-9),
        rnn.HessianFree(),
    ):
        states = []
        for shares in (1, 2):
            net = rnn.Network([rnn.Elman(4)], SYMBOLS, SYMBOLS, dtype="float64")
            problem = rnn.CarriedText(net, CORPUS, 6, 4, shares=shares, sample=0, threads=1)
            trainer = Trainer(problem, rnn.Training(optimizer), tmp_path / "none")
            for step in range(3):
                report = optimizer.step(problem.feed(0, step), trainer.theta, trainer.state)
                problem.stepped(problem.network.theta, report)
            states.append(np.concatenate([s.ravel() for s in problem.carried]))
        assert np.abs(states[0]).max() > 1e-3
        if not isinstance(optimizer, rnn.HessianFree):  # whose steps are rounded otherwise
            np.testing.assert_allclose(states[1], states[0], rtol=1e-5, atol=1e-7)


def test_a_run_that_was_interrupted_goes_on_in_the_same_trainer(tmp_path: Path) -> None:
    class Stops(Listener):
        def stepped(self, trainer: Trainer, report: Any) -> None:
            if trainer.progress.step == 2:
                trainer._interruption.came = True

    trainer = carried(rnn.Adam(0.01), 1, tmp_path / "run", rnn.parallel.ALONE)
    trainer.listeners = [Stops()]
    assert trainer.run().reason == "interrupted"
    trainer.resume()
    assert trainer.run().reason == "epochs"


def test_a_listener_that_fails_is_an_error_of_all(tmp_path: Path) -> None:
    class Fails(Listener):
        def stepped(self, trainer: Trainer, report: Any) -> None:
            raise OSError("the pipe is closed")

    def work(ranks: Ranks) -> None:
        trainer = carried(rnn.Adam(0.01), 1, tmp_path / "run", ranks)
        trainer.listeners = [Fails()] if ranks.is_first else []
        with pytest.raises(OSError, match="the pipe is closed"):
            trainer.run()

    by_threads(3, work)
    assert list((tmp_path / "run").glob("checkpoint-*"))


def test_batches_that_are_made_when_they_are_asked_for() -> None:
    """Each is another, though none is held by anybody else."""
    net = rnn.Network([rnn.Elman(3)], SYMBOLS, SYMBOLS)
    u = net.unroll(4, 2, initial="zero")
    symbols = np.random.default_rng(0).integers(0, SYMBOLS, (6, 2, 4, 2))
    found = []
    for batches in (symbols, [tuple(each) for each in symbols]):
        objective = rnn.BatchedObjective(rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets]))
        objective.feed(batches)  # type: ignore[arg-type]
        found.append(objective.gradient(net.theta)[0])
    assert found[0] == found[1]
