"""Objectives and runs that several processes share: the same numbers, and the same files, as of one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers import ALL
from graphnet_rnn.parallel import Ranks
from graphnet_rnn.parallel.launcher import alone, rank_and_size
from graphnet_rnn.training.rounding import made_by
from graphnet_rnn.training.trainer import Listener, Trainer
from tests.graphnet_rnn.parallel.threads import by_threads
from tests.graphnet_rnn.training.problems import PROBLEMS
from tests.graphnet_rnn.training.runs import contents, require_same_files

TEXT = "the cat sat on the mat, and the rat sat on the hat.\n" * 15
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
    by_threads(3, lambda ranks: make(optimizer(), 2, tmp_path / "shared", ranks).run())
    require_same_files(contents(tmp_path / "shared"), contents(tmp_path / "alone"))


#: Where defaults would leave out what sums are made for.
SETTINGS: dict[str, dict[str, Any]] = {
    "adamw": {"weight_decay": 0.1, "groups": {"layer0.b_*": {"weight_decay": 0}, "layer1.*": {"rate": 0.5}}},
    "hf": {"structural": 0.1},
}


@pytest.mark.parametrize("name", ALL)
def test_every_optimizer_takes_the_same_steps_on_several_processes(name: str) -> None:
    """All that is in the rows, and the running mean of the weights, to the bit."""
    kind = ALL[name]
    few = {field: 3 for field in ("cg_steps",) if hasattr(kind, field)}
    optimizer = kind(**few | SETTINGS.get(name, {}))

    def work(ranks: Ranks) -> tuple[Any, bytes, bytes]:
        net = rnn.Network([rnn.Elman(3), rnn.Elman(2)], SYMBOLS, SYMBOLS)
        problem = rnn.DrawnText(net, CORPUS, 4, 2, gradient_batches=5, sample=0, threads=1)
        trainer = Trainer(problem, rnn.Training(optimizer, steps=3, log_every=1, average=0.9), parallel=ranks)
        rows = trainer.run().history
        return rows, trainer.theta.tobytes(), trainer.weights.tobytes()

    (alone,) = by_threads(1, work)
    first, *others = by_threads(3, work)
    assert first == alone
    assert {other[1:] for other in others} == {alone[1:]}
    steps = [row for row in alone[0] if row["event"] == "step"]
    assert len(steps) == 3
    assert len({row["train_bits"] for row in steps}) > 1  # it went somewhere


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


def test_processes_that_compute_by_other_things_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other versions, another processor: numbers would be rounded otherwise, and part after some steps."""
    odd: list[rnn.Problem] = []
    names = list(made_by(drawn(rnn.SGD(), 1, Path("none"), rnn.parallel.ALONE).problem))

    def told(problem: rnn.Problem) -> dict[str, Any]:
        return made_by(problem) | ({names[0]: "9.9"} if problem in odd else {})

    def work(ranks: Ranks) -> str:
        trainer = drawn(rnn.SGD(0.1), 1, tmp_path / "run", ranks)
        odd.extend([] if ranks.is_first else [trainer.problem])
        with pytest.raises(UsageError) as caught:
            trainer.run()
        return str(caught.value)

    monkeypatch.setattr("graphnet_rnn.training.trainer.made_by", told)
    while names:
        (sentence,) = set(by_threads(2, work))
        assert f"process 1 is not about to do what process 0 does: {names[0]} was" in sentence
        assert "now it is 9.9" in sentence
        assert not (tmp_path / "run").exists()
        del names[0]


def test_what_numbers_are_made_by() -> None:
    problem = drawn(rnn.SGD(), 1, Path("none"), rnn.parallel.ALONE).problem
    found = made_by(problem)
    assert found["numpy"] == np.__version__
    assert found["numba"] == numba.__version__
    assert found["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["processor"]
    assert found["backend"] == "numba"


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


#: What of the problems cannot be shared as it stands, and what is said.
UNSHARED = {
    "carried": "2 processes cannot share a batch that is no more than 1 part",
    "carried, overlapping": "2 processes cannot share a batch that is no more than 1 part",
    "arrays": "Arrays: 2 processes cannot share the 1 batch of a step; give more gradient_batches",
    "arrays, ragged": "Arrays: 2 processes cannot share the 1 batch of a step; give more gradient_batches",
    "composed, attention": "GraphCases: 2 processes cannot share the 1 batch of a step; give more gradient_batches",
    "composed": "GraphCases: 2 processes cannot share the 1 batch of a step; give more gradient_batches",
    "movements": "Movements: 2 processes cannot share the 1 batch of a step; give more gradient_batches",
    "symbols": "2 processes cannot share sequences that are no more than 1 part",
    "energy": "the chains of a step are drawn together",
    "energy, curved": "the chains of a step are drawn together",
    "energy, drawn": "the chains of a step are drawn together",
    "energy over time": "the chains of a step are drawn together",
    "stream": "each step needs what the learner remembers",
    "stream, by weight": "each step needs what the learner remembers",
    "stream, truncated": "each step needs what the learner remembers",
    "one's own": "a step must be of several batches, its objective a BatchedObjective",
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_is_shared_or_says_why_not(name: str, tmp_path: Path) -> None:
    row = PROBLEMS[name]

    def work(ranks: Ranks) -> None:
        settings = rnn.Training(row.optimizer(), epochs=1, log_every=1, stopping=None)
        Trainer(row.make(), settings, tmp_path / str(ranks.size), parallel=ranks).run()

    if name in UNSHARED:
        with pytest.raises(UsageError, match=UNSHARED[name]):
            by_threads(2, work)
        assert not (tmp_path / "2").exists()
        return
    for size in (1, 2):
        by_threads(size, work)
    require_same_files(contents(tmp_path / "2"), contents(tmp_path / "1"))


def test_a_plain_batch_is_divided() -> None:
    """Into parts of the objective's size: the mean over them is that over the whole, for any number of processes."""
    net = rnn.Network([rnn.Elman(3)], SYMBOLS, SYMBOLS, dtype="float64")

    def objective(batch: int) -> rnn.Objective:
        u = net.unroll(5, batch, initial="zero")
        return rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets], threads=1)

    x, t = np.random.default_rng(0).integers(0, SYMBOLS, (2, 5, 12))
    whole = objective(12)
    whole.feed(x, t)
    loss, g = whole.gradient(net.theta.copy())

    def work(ranks: Ranks) -> tuple[float, Any]:
        found = rnn.BatchedObjective(objective(2), parallel=ranks)
        found.feed(found.divided(x, t))
        return found.gradient(net.theta.copy())

    ((alone, slopes),) = by_threads(1, work)
    for shared, same in by_threads(3, work):
        assert shared == alone
        assert same.tobytes() == slopes.tobytes()
    np.testing.assert_allclose(alone, loss, rtol=1e-12)
    np.testing.assert_allclose(slopes, g, atol=1e-12)
    batched = rnn.BatchedObjective(objective(2))
    assert len(batched.divided(x[:, :2], t[:, :2])) == 1
    for wrong, said in (
        ((x,), "2 arrays are needed, not 1"),
        ((x[:, :3], t[:, :3]), "no whole number of batches"),
        ((x[:, :4], t[:, :6]), "they make 2 and 3 batches"),
        ((x[:2], t[:2]), "no whole number of batches"),
        ((x[0], t[0]), "no whole number of batches"),
    ):
        with pytest.raises(UsageError, match=said):
            batched.divided(*wrong)
