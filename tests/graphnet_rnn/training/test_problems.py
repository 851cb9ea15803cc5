"""Interrupted and resumed runs end with the same files as uninterrupted runs, for every problem."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
import viz
from graphnet.errors import GraphnetError
from graphnet_rnn.errors import DataError, ModelFileError, UsageError
from graphnet_rnn.formats.model_file import ModelFile, read_model_file
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.training import Listener, Problem, Trainer, Training
from graphnet_rnn.training.problem import ObjectiveProblem
from tests.graphnet_rnn.training import problems
from tests.graphnet_rnn.training.problems import PROBLEMS, Line, begin, bits, draws, rbm
from tests.graphnet_rnn.training.runs import contents, interrupt_at, require_same_files, rows, settings_of
from tests.tables import case, require_rows, some_quick

#: One of each kind that is resumed in another way; the others differ in batches, weights or stride.
QUICK = (
    "carried, overlapping", "drawn", "arrays, several batches", "composed, attention", "arrays, ragged", "fresh",
    "energy, drawn", "movements", "symbols", "stream, truncated", "one's own",
)  # fmt: skip


def own_kinds(kind: type = Problem) -> set[type]:
    """The problems of the project but for those of a single experiment's runs."""
    below = set[type]().union(*map(own_kinds, kind.__subclasses__()))
    is_one = (
        not inspect.isabstract(kind)
        and kind.__module__.startswith("graphnet_rnn.")
        and kind.__name__[0] != "_"
    )
    return below | {kind} if is_one else below


def test_every_problem_has_a_row() -> None:
    missing = own_kinds() - {type(row.make()) for row in PROBLEMS.values()}
    require_rows(missing, "PROBLEMS in problems.py", "a small one of it, and an optimizer that fits")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """name -> the run that nobody stopped: its Outcome, and its files."""
    folder = tmp_path_factory.mktemp("whole")

    @cache
    def run(name: str) -> tuple[Any, dict[str, bytes]]:
        outcome = begin(name, folder / name).run()
        return outcome, contents(folder / name)

    return run


@pytest.mark.parametrize("name", some_quick(PROBLEMS, QUICK))
def test_interrupted_run_resumes_to_the_same_files(name: str, whole: Any, tmp_path: Path) -> None:
    """Interrupted after the first step, within an epoch, at its end, and before the last step."""
    outcome, files = whole(name)
    per_epoch = outcome.steps // 3
    stops = sorted({1, per_epoch, per_epoch + max(1, per_epoch // 2), outcome.steps - 1})
    for step in stops:
        run = begin(name, tmp_path / "run", listeners=[interrupt_at(step)])
        if step != stops[0]:
            run.resume()
        assert run.run().reason == "interrupted"
        assert run.progress.step == step
    last = begin(name, tmp_path / "run")
    last.resume()
    assert last.run() == outcome
    require_same_files(contents(tmp_path / "run"), files)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_run_resumes_to_the_same_files(whole: Any, tmp_path: Path) -> None:
    """Killed by SIGKILL after the second step, before its checkpoint."""
    names, root = ("carried", "drawn", "arrays", "stream"), Path(rnn.__file__).parents[1]
    command = [sys.executable, "-m", problems.__name__, str(tmp_path), *names]
    subprocess.run(command, check=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    for name in names:
        with case(name):
            last = begin(name, tmp_path / name)
            last.resume()
            assert last.progress.step == 1
            last.run()
            require_same_files(contents(tmp_path / name), whole(name)[1])


@pytest.mark.slow
def test_best_model_is_saved_and_charts_show_the_run(whole: Any, tmp_path: Path) -> None:
    for name in PROBLEMS:
        with case(name):
            outcome, files = whole(name)
            (tmp_path / "model.safetensors").write_bytes(files["model.safetensors"])
            model = rnn.load(tmp_path / "model.safetensors", [Line, problems.pair, problems.speller])
            assert model.description() == PROBLEMS[name].make().model.description()
            history = [json.loads(line) for line in files["history.jsonl"].splitlines()]
            assert viz.training_curve(history).axes
            assert viz.compare_runs({"one": history, "again": history}).axes
            epochs = [row for row in history if row["event"] == "epoch"]
            trained, validated = PROBLEMS[name].make().row_names
            costs = [row[trained] if row[validated] is None else row[validated] for row in epochs]
            assert outcome.best == min(costs)
            assert outcome.best_epoch == 1 + costs.index(min(costs))
            falls = [cost < min([np.inf, *costs[:i]]) for i, cost in enumerate(costs)]
            assert [row["best"] for row in epochs] == falls


#: Changes of the settings of ObjectiveProblem; clip_values needs a first-order optimizer.
OF_OBJECTIVES: dict[str, problems.Change] = {
    "clip_values": ({"clip_values": 1.0}, "clip_values was None, now it is 1.0"),
    "l2": ({"l2": 0.1}, "l2 was 0.0, now it is 0.1"),
    "frozen": ({"frozen": "*.b_*"}, "frozen"),
}
#: Those that change how numbers are rounded at most; and what test_run_identity has, which has the texts' too.
FREE = {"threads", "memory", "backend", "network"}


def test_resume_with_other_settings_names_the_setting(tmp_path: Path) -> None:
    for name, row in PROBLEMS.items():
        if not row.changed:
            continue
        both = isinstance(row.make(), ObjectiveProblem) and isinstance(row.optimizer(), FirstOrder)
        others = {**row.changed, **(OF_OBJECTIVES if both else {})}
        folder = tmp_path / name
        begin(name, folder, epochs=1, listeners=[interrupt_at(1)]).run()
        before = {p.name: p.read_bytes() for p in folder.iterdir()}
        for setting, (changed, said) in others.items():
            with case(name, setting):
                other = begin(name, folder, problem=row.make(**changed))
                with pytest.raises(UsageError, match=re.escape(said)) as caught:
                    other.resume()
                assert "cannot be continued" in str(caught.value)
                assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_every_problem_describes_its_settings() -> None:
    """Otherwise, a run could be resumed with other settings."""
    for kind in sorted(own_kinds() - {rnn.CarriedText, rnn.DrawnText}, key=str):
        with case(kind):
            assert kind.description is not Problem.description, (
                f"{kind.__name__}: add `description`, with every setting that its numbers depend on, arrays included"
            )
            named = {s for row in PROBLEMS.values() if type(row.make()) is kind for s in row.changed}
            missing = settings_of(kind) - named - OF_OBJECTIVES.keys() - FREE
            require_rows(
                missing, f"changed of a Row for {kind.__name__}", "another value, and a part of the error"
            )


def test_resume_with_another_problem_names_both(tmp_path: Path) -> None:
    begin("arrays", tmp_path / "run", epochs=1, listeners=[interrupt_at(1)]).run()
    with pytest.raises(
        UsageError, match=r"problem was Arrays, now it is CarriedText\. Use the same settings"
    ):
        begin("carried", tmp_path / "run").resume()


class Bare(Problem):
    """One that has these attributes alone."""

    def __init__(self, **has: Any) -> None:
        vars(self).update(has)

    def __len__(self) -> int:
        return 0

    def feed(self, epoch: int, step: int) -> Any: ...


OWN, EM = problems.own(), rnn.ExpectationMaximization()
EXPONENT = rnn.HessianFree(preconditioner=0.75)
#: what -> (the call, what the UsageError names)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "unfit, energy": (lambda: begin("energy", None, optimizer=rnn.LBFGS()), "EnergyCases: optimizer must"),
    "unfit, arrays": (lambda: begin("arrays", None, optimizer=EXPONENT), "Arrays: an exponent as preconditioner"),
    "unfit, symbols": (lambda: begin("symbols", None, optimizer=rnn.Adam()), "optimizer must be"),
    "unfit, stream": (lambda: begin("stream", None, optimizer=rnn.LBFGS()), "optimizer must be first-order"),
    "unfit, one's own": (lambda: begin("one's own", None, optimizer=EM).run(), "needs the objective of an HMM"),
    "a network": (lambda: Trainer(rnn.Network([rnn.Elman(2)], 2, 2)), "problem must be a Problem, e.g. rnn.Arrays"),
    "an optimizer": (lambda: Trainer(OWN, rnn.Adam()), "settings must be a Training, not Adam("),
    "no model": (lambda: Trainer(Bare()), "Bare must have an rnn.Model as self.model"),
    "no objective": (lambda: Trainer(Bare(model=Line(3))), "as self.objective"),
    "no step": (lambda: Trainer(Bare(model=Line(3), objective=OWN.objective)), "an epoch of Bare has no"),
    "one listener": (lambda: Trainer(OWN, listeners=Listener()), "listeners must be a list of Listeners, or"),
    "a class that listens": (lambda: Trainer(OWN, listeners=[Listener]), "listeners must be a list of"),
    "a folder of numbers": (lambda: Trainer(OWN, folder=5), "Trainer: folder must be a str"),
    "notes of numbers": (lambda: Trainer(OWN, notes=5), "Trainer: notes must be a"),
    "notes of arrays": (lambda: Trainer(OWN, notes={"a": np.ones(2)}), "Trainer: notes must be a"),
    "two rules": (lambda: Training(patience=2, stopping=rnn.EarlyStopping()), "give only one of them"),
    "a class that stops": (lambda: Training(stopping=rnn.EarlyStopping), "Training: stopping must be an object"),
    "log_every": (lambda: Training(log_every=0), "log_every must be a whole number >= 1, not 0"),
    "checkpoint_seconds": (lambda: Training(checkpoint_seconds=float("nan")), "checkpoint_seconds must"),
    "a schedule without a rate": (
        lambda: Training(rnn.LBFGS(), schedule=rnn.Warmup(5)), "the learning rate, but LBFGS has none; leave it out"
    ),
    "schedule": (lambda: Training(schedule=0.9), "schedule must be a Schedule, e.g. rnn.Warmup(500), or"),
    "stopping": (lambda: Training(stopping=True), "stopping must be an object with a method should_stop"),
    "goal": (lambda: Training(goal="0.1"), "goal must be a number or None, not '0.1'"),
    "optimizer": (lambda: Training("adam"), "optimizer must be an optimizer, e.g. rnn.Adam(rate=0.01)"),
}  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    for what, (call, said) in REFUSED.items():
        with case(what), pytest.raises(UsageError, match=re.escape(said)):
            call()


def test_listeners_are_called_in_order() -> None:
    seen: list[tuple[str, str]] = []

    def writes(name: str) -> Listener:
        listener = Listener()
        listener.started = lambda trainer: seen.append((name, "started"))
        listener.epoch_ended = lambda trainer, row: seen.append((name, f"epoch {row['epoch']}"))
        listener.ended = lambda trainer, outcome: seen.append((name, outcome.reason))
        return listener

    run = begin("one's own", None, epochs=2, listeners=[writes("a")])
    run.listeners.append(writes("b"))
    run.run()
    assert seen == [(who, what) for what in ("started", "epoch 1", "epoch 2", "epochs") for who in "ab"]


def test_costs_have_the_unit_of_the_problem_and_may_be_numpy_numbers(tmp_path: Path) -> None:
    run = begin("symbols", tmp_path / "run", log_every=1)
    first = run.problem.model.bits(draws().integers(0, 4, (20, 5)))  # type: ignore[attr-defined]
    run.run()
    start, step = rows(tmp_path / "run", "start")[0], rows(tmp_path / "run", "step")[0]
    assert start["unit"] == "bits/symbol"
    assert step["train_bits"] == pytest.approx(first, rel=1e-12)
    problem = problems.own()
    problem.validate = lambda: np.float32(0.25)  # type: ignore[method-assign]
    assert Trainer(problem, Training(epochs=1), tmp_path / "own").run().best == 0.25


def test_failed_start_leaves_no_files(tmp_path: Path) -> None:
    """The run needs more memory than allowed."""
    for number, name in enumerate(["carried", "arrays, several batches"]):
        with case(name):
            folder = tmp_path / str(number)
            folder.mkdir()
            problem = PROBLEMS[name].make(memory=1)
            with pytest.raises(GraphnetError, match="memory"):
                begin(name, folder / "run", problem=problem).run()
            assert not list((folder / "run").glob("*.*")), "nothing that would be in the way of a run"
            begin(name, folder / "run", epochs=1).run()


def test_goal_ends_a_run(tmp_path: Path) -> None:
    """A task is solved with at most 1 % errors; without validation data, the goal is for the training cost."""
    run = begin("fresh", tmp_path / "a", goal=1.0)
    assert run.run().reason == "goal"
    assert run.progress.epoch == 1
    again = begin("fresh", tmp_path / "a", goal=1.0, epochs=9)
    again.resume()
    assert again.run().epochs == 1, "what has ended stays ended"
    assert begin("one's own", tmp_path / "b", goal=1e9).run().reason == "goal"


@pytest.mark.parametrize("name", some_quick(PROBLEMS, QUICK))
def test_invalid_checkpoint_states_are_rejected(name: str, tmp_path: Path) -> None:
    """States that are missing or have a wrong shape are rejected before anything is restored."""
    run = begin(name, tmp_path, listeners=[interrupt_at(2)])
    run.run()
    *others, path = run.folder.checkpoints()
    for other in others:
        other.unlink()
    file, content = read_model_file(path), path.read_bytes()
    again = begin(name, tmp_path)
    for key in [key for key in file.tensors if key.startswith("state.")]:
        rest = {k: v for k, v in file.tensors.items() if k != key}
        for tensors in (rest, {**rest, key: np.zeros(17, np.float32)}):
            with case(key):
                path.write_bytes(ModelFile(tensors, file.description).to_bytes())
                with pytest.raises(ModelFileError, match=re.escape(key.removeprefix("state."))):
                    again.resume()
    path.write_bytes(content)
    again.resume()


def test_metrics_use_the_current_weights() -> None:
    """Metrics match those of a new problem, also for weights that are not learned."""
    measured = lambda problem: [measure() for measure in problem.metrics().values()]
    names = [name for name, row in PROBLEMS.items() if row.make().metrics() and " batches" not in name]
    assert len(names) == 8
    for name in names:
        with case(name):
            problem, untouched = PROBLEMS[name].make(), PROBLEMS[name].make()
            problem.validate()
            before = measured(problem)
            for model in (problem.model, untouched.model):
                model.theta = draws(3).normal(size=model.theta.size)
            assert measured(problem) == measured(untouched) != before
    net = rnn.Network([rnn.EchoState(5)], 3, 2, "squared")
    x = draws().normal(size=(7, 10, 3))
    problem = rnn.Arrays(net, x, x[..., :2], valid=0.5)
    before = measured(problem)
    for node in net.fixed.values():
        node.value[...] *= 0.5
    assert measured(problem) != before


def test_epochs_validate_once_and_metrics_use_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, count = PROBLEMS["arrays"].make(), itertools.count()
    validate = problem.validate
    monkeypatch.setattr(problem, "validate", lambda: (next(count), validate())[1])
    name, *_ = problem.metrics()
    found: list[float] = []
    note = lambda trainer, row: found.append(row["metrics"][name])
    settings = Training(rnn.SGD(1.0), epochs=4, stopping=None)
    trainer = Trainer(problem, settings, metrics=[name], listeners=[note])
    outcome = trainer.run()
    assert next(count) == 4
    assert outcome.best_epoch < 4
    trainer.take_best()
    assert problem.metrics()[name]() == found[outcome.best_epoch - 1] != found[-1]


def test_expectation_maximization_matches_fit(tmp_path: Path) -> None:
    s = draws().integers(0, 4, (20, 5))
    for smoothing in [0.0, 0.5]:
        with case(smoothing):
            model, other = rnn.HMM(3, 4, seed=2), rnn.HMM(3, 4, seed=2)
            first = model.bits(s)
            settings = Training(rnn.ExpectationMaximization(smoothing), epochs=6)
            Trainer(rnn.SymbolSequences(model, s), settings, tmp_path / str(smoothing)).run()
            assert len(other.fit(s, 6, smoothing=smoothing)) >= 6
            for table, node in model.parameters.items():
                np.testing.assert_allclose(node.value, other.parameters[table].value, rtol=1e-12)
            costs = [row["train_bits"] for row in rows(tmp_path / str(smoothing), "epoch")]
            assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(costs)) or smoothing
            assert costs[0] == pytest.approx(first, rel=1e-12)


def test_energy_cases_match_contrastive_divergence_by_hand(tmp_path: Path) -> None:
    """Each epoch uses each case once; steps follow the gradient of the objective."""
    v = bits(45, 6)
    model, other = rbm(), rbm()
    problem = rnn.EnergyCases(model, v, 10, gibbs_steps=2, seed=3)
    fed: list[Any] = []
    own = problem.objective.feed
    problem.objective.feed = lambda data: (fed.append(np.array(data)), own(data))[1]  # type: ignore[method-assign]
    settings = Training(rnn.Momentum(0.05), epochs=2, schedule=rnn.Constant(), stopping=None, log_every=1)
    Trainer(problem, settings, tmp_path / "run").run()
    kept = v[-4:]  # a tenth, rounded
    assert len(problem) == 4
    assert [len(batch) for batch in fed] == [10] * 8
    listed = {tuple(case): int((v[:41] == case).all(axis=1).sum()) for case in v[:41]}
    for epoch in (fed[:4], fed[4:]):
        seen = np.concatenate(epoch)
        assert all(int((seen == case).all(axis=1).sum()) <= count for case, count in listed.items())
    objective = rnn.energy.ContrastiveDivergence(other, 2, seed=3)
    theta, velocity, errors = objective.start(), np.zeros_like(other.theta), []
    for batch in fed:
        objective.feed(batch)
        loss, gradient = objective.gradient(theta)
        errors.append(loss)
        velocity = (0.9 * velocity - 0.05 * gradient).astype(velocity.dtype)
        theta = theta + velocity
    np.testing.assert_allclose(model.theta, theta, rtol=1e-5, atol=1e-7)
    assert [row["train_error"] for row in rows(tmp_path / "run", "step")] == pytest.approx(errors, rel=1e-6)
    other.theta = theta
    (last,) = rows(tmp_path / "run", "epoch")[-1:]
    assert last["valid_error"] == pytest.approx(np.mean((kept - other.reconstruct(kept)) ** 2), rel=1e-5)


def test_drawn_energy_cases_are_used_once() -> None:
    """Each epoch draws new cases; validation cases are fixed; draws are reproducible."""
    asked: list[int] = []

    def draw(generator: np.random.Generator, count: int, more: int = 0) -> Any:
        asked.append(count)
        return generator.random((count + more, 6))

    how: dict[str, Any] = {"valid": 0.2, "drawn": 50, "seed": 3}
    problem, same = (rnn.EnergyCases(rbm(), draw, 10, **how) for _ in range(2))
    assert (len(problem), asked[:2]) == (4, [40, 10])
    assert problem.description()["data"] == same.description()["data"]
    fed: list[Any] = []
    problem.objective.feed = lambda data: fed.append(np.array(data))  # type: ignore[method-assign]
    for epoch in (0, 1, 2, 0):
        for step in range(4):
            problem.feed(epoch, step)
    np.testing.assert_array_equal(fed[:4], fed[12:])
    seen = np.concatenate([*fed[:12], problem._kept])
    assert len(np.unique(seen, axis=0)) == len(seen) == 3 * 40 + 10
    assert rnn.EnergyCases(rbm(), draw, 10, valid=0, drawn=50).validate() is None
    with pytest.raises(DataError, match=r"data\(generator, 50\) must return 50 cases; it returned 51"):
        rnn.EnergyCases(rbm(), partial(draw, more=1), 10, valid=0, drawn=50)


@pytest.mark.parametrize("pool", [None, "last"])
def test_balanced_classes_have_equal_totals_of_scored_weights(pool: str | None) -> None:
    """With constant outputs, the loss is the mean of -ln p over classes, for any weights and unscored targets."""
    generator, share = draws(0), np.array([0.2, 0.3, 0.5])
    net = rnn.Network([rnn.GRU(2)], 1, 3, reads="vectors", dtype="float64", pool=pool)
    net.theta = np.zeros_like(net.theta)
    net.parameters["output.b_o"].value = np.log(share)
    t = np.repeat([0, 1, 2], [7, 4, 1])
    if pool is None:
        t = np.stack([np.zeros(12, int)] * 3 + [t, t])
    w = generator.uniform(0.1, 9, t.shape)
    how = {"weights": w, "batch": 12, "valid": None, "unscored": 0 if pool else 3, "balanced": True}
    loss = rnn.Arrays(net, np.zeros((5, 12, 1)), t, **how).feed(0, 0).loss(net.theta)
    assert loss == pytest.approx(-np.log(share).mean(), rel=1e-9)


def test_balanced_classes_weigh_only_training_cases() -> None:
    x = draws(4).normal(size=(3, 40, 2))
    t = np.digitize(x.sum((0, 2)), [1.0, 3.0])
    first, last = slice(0, 30), slice(30, 40)
    weights = rnn.data.balanced_weights(t[first])
    found = []
    for how in (
        {"inputs": x, "targets": t, "valid": 0.25, "balanced": True},
        {"inputs": x[:, first], "targets": t[first], "weights": weights, "valid": (x[:, last], t[last])},
    ):
        net = rnn.Network([rnn.Elman(3)], 2, 3, reads="vectors", pool="last")
        outcome = rnn.Trainer(rnn.Arrays(net, batch=7, **how), rnn.Training(epochs=2), metrics=["f1"]).run()
        found.append([outcome.best, outcome.metrics["f1"], *net.theta])
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-7)


def test_preconditioner_exponent_needs_single_case_gradients(tmp_path: Path) -> None:
    for name in ("movements", "arrays", "carried"):
        with case(name), pytest.raises(UsageError, match="needs the gradients of single cases"):
            Trainer(
                PROBLEMS[name].make(), rnn.Training(rnn.HessianFree(preconditioner=0.75)), tmp_path / name
            )
