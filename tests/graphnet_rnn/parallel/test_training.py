"""Shared objectives and runs give the same numbers and files as one process."""

from __future__ import annotations

import itertools
import os
import re
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
from graphnet_rnn.parallel import ALONE, Ranks
from graphnet_rnn.parallel.launcher import alone, rank_and_size
from graphnet_rnn.parallel.ranks import branches, joined, summed
from graphnet_rnn.training.processes import made_by
from graphnet_rnn.training.trainer import Trainer
from tests.graphnet_rnn.parallel.program import parts_of
from tests.graphnet_rnn.parallel.threads import by_threads
from tests.graphnet_rnn.training.problems import PROBLEMS
from tests.graphnet_rnn.training.runs import At, contents, require_same_files
from tests.graphnet_rnn.training.test_problems import QUICK
from tests.tables import case, some_quick

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


RUNS: dict[str, tuple[Callable[..., Trainer], Callable[[], Any]]] = {
    "drawn, Hessian-free": (drawn, lambda: rnn.HessianFree(cg_steps=3, preconditioner=0.75)),
    "carried, Adam": (carried, lambda: rnn.Adam(0.01, clip_norm=1.0)),
    "carried, Hessian-free": (carried, lambda: rnn.HessianFree(cg_steps=3, structural=0.1)),
    "carried, Riemannian": (carried, rnn.Riemannian),
    "carried, KFAC": (carried, lambda: rnn.NaturalGradient("kfac", rate=0.01)),
}


@pytest.mark.parametrize("name", some_quick(RUNS, ("drawn, Hessian-free", "carried, Adam", "carried, KFAC")))
def test_shared_run_has_the_same_files(name: str, tmp_path: Path) -> None:
    """Two of the runs are stopped after an epoch and resumed with another number of processes."""
    make, optimizer = RUNS[name]
    make(optimizer(), 2, tmp_path / "alone", ALONE).run()
    parts = name in ("drawn, Hessian-free", "carried, Adam")

    def resumed(ranks: Ranks) -> None:
        trainer = make(optimizer(), 2, tmp_path / "shared", ranks)
        trainer.resume()
        trainer.run()

    by_threads(3, lambda ranks: make(optimizer(), 1 if parts else 2, tmp_path / "shared", ranks).run())
    if parts:
        by_threads(2, resumed)
    require_same_files(contents(tmp_path / "shared"), contents(tmp_path / "alone"))


#: Settings that need sums, where the defaults don't.
SETTINGS: dict[str, dict[str, Any]] = {
    "adamw": {"weight_decay": 0.1, "groups": {"layer0.b_*": {"weight_decay": 0}, "layer1.*": {"rate": 0.5}}},
    "hf": {"structural": 0.1},
}


@pytest.mark.parametrize("name", ALL)
def test_every_optimizer_takes_the_same_steps_on_several_processes(name: str) -> None:
    """Rows of the history, weights and their running mean have the same bits for any number of ranks."""
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


def test_stopped_process_ends_all_after_the_same_step(tmp_path: Path) -> None:
    def work(ranks: Ranks) -> tuple[str, int]:
        trainer = carried(rnn.Adam(0.01), 2, tmp_path / "run", ranks)
        stops = At(3, lambda: setattr(trainer._interruption, "requested", True))
        trainer.listeners = [stops] if ranks.rank == 1 else []
        outcome = trainer.run()
        return outcome.reason, outcome.steps

    assert set(by_threads(3, work)) == {("interrupted", 3)}


def refused(size: int, make: Callable[[Ranks], Trainer]) -> str:
    """The error message of a refused run, which is the same on all ranks."""

    def work(ranks: Ranks) -> str:
        with pytest.raises(UsageError) as caught:
            make(ranks).run()
        return str(caught.value)

    (sentence,) = set(by_threads(size, work))
    return sentence


def test_different_settings_are_rejected_before_the_first_step(tmp_path: Path, monkeypatch: Any) -> None:
    """Settings, versions and processors must be equal, since results would differ after some steps."""
    rate = refused(2, lambda ranks: drawn(rnn.SGD(0.2 - ranks.rank / 10), 1, tmp_path / "run", ranks))
    differs = "process 1 differs from process 0: "
    assert f"{differs}optimizer.rate was 0.2, now it is 0.1" in rate
    found = made_by(drawn(rnn.SGD(), 1, Path("none"), ALONE).problem)
    version = ".".join(map(str, sys.version_info[:3]))
    known = {"numpy": np.__version__, "numba": numba.__version__, "Python": version, "backend": "numba"}
    assert found == found | known
    assert found["processor"]
    odd: list[rnn.Problem] = []

    def make(ranks: Ranks) -> Trainer:
        trainer = drawn(rnn.SGD(0.1), 1, tmp_path / "run", ranks)
        odd.extend([] if ranks.is_first else [trainer.problem])
        return trainer

    for name in found:
        told = lambda problem, name=name: made_by(problem) | ({name: "9.9"} if problem in odd else {})
        monkeypatch.setattr("graphnet_rnn.training.processes.made_by", told)
        with case(name):
            assert re.search(f"{differs}{name} was .*now it is 9.9", refused(2, make))
    assert not (tmp_path / "run").exists()


def test_errors_and_diverging_weights_end_all_processes(tmp_path: Path) -> None:
    """An error on the first rank ends all, and so does an error of a listener, after a checkpoint."""

    def fails(trainer: Trainer) -> None:
        raise OSError("the pipe is closed")

    def parts(trainer: Trainer) -> None:
        trainer.theta[0] += 1e-3

    for does, who, error, said in (
        (fails, 0, OSError, "the pipe is closed"),
        (parts, 1, TrainingError, "processes 1 have other weights than process 0 after step"),
    ):

        def work(ranks: Ranks) -> None:
            trainer = carried(rnn.Adam(0.01), 1, tmp_path / said, ranks)
            trainer.listeners = [At(1, lambda: does(trainer))] if ranks.rank == who else []
            with pytest.raises(error, match=said):
                trainer.run()

        by_threads(2, work)
    folder = tmp_path / "the pipe is closed"
    assert list(folder.glob("checkpoint-*"))
    assert "already contains a run" in refused(2, lambda ranks: carried(rnn.Adam(0.01), 1, folder, ranks))


def test_indivisible_steps_are_rejected(tmp_path: Path) -> None:
    whole = rnn.CarriedText(network(), CORPUS, 6, 8)
    two = rnn.DrawnText(network(), CORPUS, 6, 4, gradient_batches=2)
    for problem, said in (
        (whole, "4 processes need at least as many shares; got 1"),
        (two, "4 processes cannot share the 2 batches of a step"),
    ):
        make = lambda ranks, problem=problem: Trainer(problem, folder=tmp_path, parallel=ranks)
        assert said in refused(4, make)
    with pytest.raises(UsageError, match='parallel must be "mpi"'):
        Trainer(whole, folder=tmp_path, parallel="tcp")
    with pytest.raises(UsageError, match=r"shares must divide the batch size \(8\); got 3"):
        rnn.CarriedText(network(), CORPUS, 6, 8, shares=3)


def test_one_process_without_mpiexec_and_mpi_variables_are_not_inherited(monkeypatch: Any) -> None:
    assert rnn.parallel.launched() is ALONE
    assert rnn.parallel.as_ranks("x", "mpi").size == 1
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "4")
    assert rank_and_size() == (1, 4)
    assert not {"PMI_RANK", "PMI_SIZE"} & alone(os.environ).keys()
    monkeypatch.setenv("PMI_SIZE", "many")
    assert rank_and_size() == (0, 1)


def test_shares_carry_the_same_states_as_whole_batches(tmp_path: Path) -> None:
    """Carried states with two shares equal those with one, if an optimizer needs a gradient or a metric."""
    steps = (rnn.SGD(1e-9), rnn.Riemannian(rate=1e-9), rnn.NaturalGradient("kfac", rate=1e-9))
    for optimizer in (*steps, rnn.HessianFree()):
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


def test_lazy_batches() -> None:
    """A list of batches gives the same loss as an array, although no other object holds its items."""
    net = rnn.Network([rnn.Elman(3)], SYMBOLS, SYMBOLS)
    u = net.unroll(4, 2, initial="zero")
    symbols = np.random.default_rng(0).integers(0, SYMBOLS, (6, 2, 4, 2))
    found = []
    for batches in (symbols, [tuple(each) for each in symbols]):
        objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
        objective.feed_batches(batches)  # type: ignore[arg-type]
        found.append(objective.gradient(net.theta)[0])
    assert found[0] == found[1]


UNSHARED = [name for name, row in PROBLEMS.items() if not row.shared]


@pytest.mark.parametrize("name", some_quick(PROBLEMS, (*QUICK, *UNSHARED)))
def test_every_problem_is_shared_or_gives_a_reason(name: str, tmp_path: Path) -> None:
    row = PROBLEMS[name]

    def work(ranks: Ranks) -> None:
        settings = rnn.Training(row.optimizer(), epochs=1, log_every=1, stopping=None)
        Trainer(row.make(), settings, tmp_path / str(ranks.size), parallel=ranks).run()

    if name in UNSHARED:
        with pytest.raises(UsageError, match=r"2 processes.*[;.] (give|start|Increase)"):
            by_threads(2, work)
        assert not (tmp_path / "2").exists()
        return
    for size in (1, 2):
        by_threads(size, work)
    require_same_files(contents(tmp_path / "2"), contents(tmp_path / "1"))


def test_plain_batches_are_divided() -> None:
    """A batch is divided into batches of the objective's size; their mean equals that of the whole batch."""
    net = rnn.Network([rnn.Elman(3)], SYMBOLS, SYMBOLS, dtype="float64")

    def objective(batch: int, ranks: Ranks | None = None) -> rnn.Objective:
        u = net.unroll(5, batch, initial="zero")
        return rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets], threads=1, parallel=ranks)

    x, t = np.random.default_rng(0).integers(0, SYMBOLS, (2, 5, 12))
    whole = objective(12)
    whole.feed(x, t)
    loss, g = whole.gradient(net.theta.copy())

    def work(ranks: Ranks) -> tuple[float, Any]:
        found = objective(2, ranks)
        found.feed_batches(found.divided(x, t))
        return found.gradient(net.theta.copy())

    ((alone, slopes),) = by_threads(1, work)
    for shared, same in by_threads(3, work):
        assert shared == alone
        assert same.tobytes() == slopes.tobytes()
    np.testing.assert_allclose(alone, loss, rtol=1e-12)
    np.testing.assert_allclose(slopes, g, atol=1e-12)
    batched = objective(2)
    assert len(batched.divided(x[:, :2], t[:, :2])) == 1
    for wrong, said in (
        ((x,), "2 arrays are needed, one for each input, not 1"),
        ((x[:, :4], t[:, :6]), "they make 2 and 3 batches"),
        *(((x[cut], t[cut]), "must be a whole number of batches") for cut in (np.s_[:, :3], np.s_[:2], 0)),
    ):
        with pytest.raises(UsageError, match=said):
            batched.divided(*wrong)


def test_one_curvature_batch_has_the_same_bits_for_any_number_of_processes() -> None:
    """Its product stays float32, and l2 is added in float32, also where another process computes it."""
    x = np.random.default_rng(0).integers(0, SYMBOLS, (3, 2, 4, 2))
    optimizer = rnn.HessianFree(cg_steps=5)

    def work(ranks: Ranks, weights: Any) -> tuple[bytes, bytes]:
        net = rnn.Network([rnn.Elman(3)], SYMBOLS, SYMBOLS, seed=1)
        u = net.unroll(4, 2, initial="zero")
        found = rnn.Objective(
            u.cost, net.parameters, [u.inputs, u.targets], l2=0.1, threads=1, parallel=ranks
        )
        theta = found.start()
        state = optimizer.init(theta, found)
        for _ in range(3):
            found.feed_batches([tuple(each) for each in x], weights=weights)
            optimizer.step(found, theta, state)
        return found.curvature(theta)(np.ones_like(theta)).tobytes(), theta.tobytes()

    for weights in (None, [0.5, 2.0, 1.0]):
        (alone,) = by_threads(1, lambda ranks, w=weights: work(ranks, w))
        for size in (2, 3):
            with case(weights, size):
                assert by_threads(size, lambda ranks, w=weights: work(ranks, w)) == [alone] * size


# -- sums of parts: the same bits, whoever has which ---------------------------------------------

COUNTS = (1, 2, 3, 5, 8, 13, 31, 64)


def test_any_division_gives_the_same_bits() -> None:
    for count in COUNTS:
        with case(count):
            given = parts_of(count, 3)
            whole = summed(iter(given), 0, count)
            np.testing.assert_allclose(whole, np.sum(given, axis=0), rtol=1e-6)
            # Another order gives other bits, so equal bits are significant.
            assert count != 13 or np.sum(given, axis=0).tobytes() != whole.tobytes()
            random = np.random.default_rng(0)
            for _ in range(20):
                cuts = sorted(random.integers(0, count + 1, random.integers(0, 6)))
                ends, known = [0, *map(int, cuts), count], {}
                for first, end in itertools.pairwise(ends):
                    own = iter(given[first:end])
                    known |= {each: summed(own, *each) for each in branches(first, end, count)}
                assert sorted(known)[0][0] == 0
                assert joined(known, 0, count).tobytes() == whole.tobytes()


def test_ranks_send_few_branches() -> None:
    for count in COUNTS:
        with case(count):
            for first, end in itertools.combinations(range(count + 1), 2):
                assert len(branches(first, end, count)) <= 2 * max(1, (end - first).bit_length())
            assert branches(0, count, count) == [(0, count)]
            assert branches(2, 2, count) == []


def test_ranks_share_parts_and_have_the_same_sums() -> None:
    """Ranks without a part have the same sums, too."""
    for size, count in ((1, 11), (2, 11), (3, 11), (8, 11), (5, 3)):
        given = parts_of(count, 3)

        def work(ranks: Ranks) -> tuple[list[int], bytes, float]:
            own = ranks.own(count)
            total = ranks.sum(count, (given[i] for i in own), 3)
            return list(own), total.tobytes(), ranks.sum_numbers(count, [given[i][0] for i in own])

        with case(size):
            found = by_threads(size, work)
            assert [i for own, _, _ in found for i in own] == list(range(count))
            alone = ALONE.sum(count, given, 3)
            assert {total for _, total, _ in found} == {alone.tobytes()}
            assert {number for _, _, number in found} == {float(alone[0])}
