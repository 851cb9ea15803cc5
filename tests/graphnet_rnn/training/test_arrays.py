"""rnn.Arrays against hand-written loops."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.data import Sequences
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.optimizers import Constant
from graphnet_rnn.training import Trainer, Training
from tests.graphnet_rnn.training.reports import Told
from tests.graphnet_rnn.training.runs import At, rows
from tests.tables import case as named

TIME, CASES, INPUTS, OUTPUTS = 6, 11, 3, 4
WEIGHTS = np.array([1, 2, 3, 0.5, 1, 1, 4, 2, 1, 0, 3])


def data(loss: str, cases: int = CASES, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(TIME, cases, INPUTS))
    if loss == "softmax":
        return x, generator.integers(0, OUTPUTS, (TIME, cases))
    if loss == "ctc":
        labels = generator.integers(0, OUTPUTS - 1, (cases, 2))
        labels[::3, 1] = -1  # one label alone
        return x, labels
    if loss == "sigmoid":
        return x, generator.integers(0, 2, (TIME, cases, OUTPUTS)) * 1.0
    return x, generator.normal(size=(TIME, cases, OUTPUTS))


def network(loss: str, **how: Any) -> rnn.Network:
    how = {"reads": "vectors", "dtype": "float64", **how}
    return rnn.Network([rnn.GRU(5)], INPUTS, OUTPUTS, loss, **how)


def losses_by_hand(net: rnn.Network, x: Array, t: Array, weights: Array, unscored: int = 0) -> Any:
    """Loss of each case, and gradient of their weighted mean, by a graph of exactly these cases."""
    count, labels = x.shape[1], t.shape[1] if net.loss == "ctc" else None
    initial = "learned" if net.initial_state == "learned" else "zero"
    u = net.unroll(TIME, count, training=False, initial=initial, labels=labels)
    each = u.losses if labels else gn.sum(u.losses[unscored:], axis=0) / (TIME - unscored)
    cost = gn.sum(gn.constant(weights) * each) / float(weights.sum())
    nodes = [each, *gn.gradient(cost, list(net.parameters.values()))]
    cases, *gradients = gn.compile(nodes, [u.inputs, u.targets], backend="numpy")(x, t)
    return cases, np.concatenate([g.ravel() for g in gradients])


def taken(problem: rnn.Arrays, x: Array) -> list[int]:
    """Numbers of the cases that were fed for the step, in their order, without padding cases."""
    objective = problem.objective
    found = []
    for inputs, _, weights in objective.gradient_batches:
        for column, weight in zip(np.moveaxis(inputs, 1, 0), weights, strict=True):
            (case,) = np.flatnonzero((np.moveaxis(x, 1, 0) == column).all(axis=(1, 2)))
            found += [int(case)] if weight or WEIGHTS[case] == 0 else []
    return found


def test_run_matches_a_loop_by_hand(tmp_path: Path) -> None:
    """Two epochs of 3 steps with 3, 3 and 2 weighted cases; the last 3 of 11 are for validation."""
    losses = ["softmax", "sigmoid", "squared", "ctc"]
    for loss, initial_state, unscored in itertools.product(losses, ["zero", "learned"], [0, 2]):
        if loss == "ctc" and unscored:
            continue
        with named(loss, initial_state, unscored):
            folder = tmp_path / f"{loss} {initial_state} {unscored}"
            x, t = data(loss)
            net, other = (network(loss, initial_state=initial_state, seed=1) for _ in range(2))
            problem = rnn.Arrays(net, x, t, 3, valid=0.25, weights=WEIGHTS, unscored=unscored)
            assert len(problem) == 3
            steps: list[list[int]] = []
            listeners = [At(step, lambda: steps.append(taken(problem, x))) for step in range(1, 7)]
            settings = Training(rnn.SGD(0.3), epochs=2, schedule=Constant(), stopping=None, log_every=1)
            run = Trainer(problem, settings, folder, listeners=listeners)
            outcome = run.run()
            orders = [sorted(itertools.chain(*some)) for some in (steps[:3], steps[3:])]
            assert orders == [list(range(8))] * 2, "each case once in an epoch"
            assert steps[:3] != steps[3:], "in another order"

            def at(cases: list[int]) -> tuple[Array, Array, Array]:
                return x[:, cases], t[cases] if loss == "ctc" else t[:, cases], WEIGHTS[cases]

            epochs = rows(folder, "epoch")
            costs = [row["train_loss"] for row in rows(folder, "step")]
            for epoch in range(2):
                total = 0.0
                for step in range(3 * epoch, 3 * epoch + 3):
                    some_x, some_t, w = at(steps[step])
                    cases, gradient = losses_by_hand(other, some_x, some_t, w, unscored)
                    assert costs[step] == pytest.approx(np.average(cases, weights=w), rel=1e-10)
                    total += float(cases @ w)
                    other.theta = other.theta - 0.3 * gradient
                assert epochs[epoch]["train_loss"] == pytest.approx(total / WEIGHTS[:8].sum(), rel=1e-10)
                some_x, some_t, w = at([8, 9, 10])
                cases, _ = losses_by_hand(other, some_x, some_t, w, unscored)
                assert epochs[epoch]["valid_loss"] == pytest.approx(np.average(cases, weights=w), rel=1e-10)
            np.testing.assert_allclose(net.theta, other.theta, rtol=1e-9, atol=1e-12)
            assert outcome.best == min(row["valid_loss"] for row in epochs)


def test_steps_of_several_batches_match_steps_by_hand() -> None:
    """Hessian-free steps equal steps by hand on the same batches; an incomplete last step is left out."""
    x, t = data("softmax", 20)
    net, other = (network("softmax", seed=1) for _ in range(2))
    problem = rnn.Arrays(net, x, t, 3, valid=None, gradient_batches=2, curvature_batches=1)
    assert len(problem) == 20 // 6
    seen: list[list[Any]] = []

    def look() -> None:
        sizes = (problem.objective.gradient_batches, problem.objective.curvature_batches)
        assert [len(batches) for batches in sizes] == [2, 1]
        seen.append([(batch[0], batch[1]) for batch in sizes[0]])

    optimizer = rnn.HessianFree(damping=0.1, cg_steps=5, structural=0.1)
    Trainer(problem, Training(optimizer, epochs=2, stopping=None), listeners=[Told(look)]).run()
    u = other.unroll(TIME, 3, initial="zero")
    damped = {"structure": u.structure, "structure_scale": 1 / TIME}
    objective = rnn.Objective(u.cost, other.parameters, [u.inputs, u.targets], **damped)
    theta = objective.start()
    state = optimizer.init(theta)
    for batches in seen:
        objective.feed_batches(batches, curvature=batches[:1])
        optimizer.step(objective, theta, state)
    np.testing.assert_allclose(net.theta, theta, rtol=1e-7, atol=1e-9)


def test_validation_split_has_the_requested_size(tmp_path: Path) -> None:
    x, t = data("squared")
    pair = data("squared", 4, seed=1)
    assert rnn.Arrays(network("squared"), x, t, 1000, valid=None).batch == CASES, "no more than there is"
    shares = [(0.1, 10, 1), (0.5, 5, 6), (0, 11, 0), (0.01, 11, 0), (None, 11, 0), (pair, 11, 4)]
    for number, (valid, trained, validated) in enumerate(shares):
        with named(number):
            problem = rnn.Arrays(network("squared"), x, t, 4, valid=valid)
            assert len(problem) == -(-trained // 4)
            cost = problem.validate()
            assert (cost is None) == (not validated)
            if validated:
                kept = valid if valid is pair else (x[:, -validated:], t[:, -validated:])
                cases, _ = losses_by_hand(problem.model, *kept, np.ones(validated))
                assert cost == pytest.approx(cases.mean(), rel=1e-10)
            outcome = Trainer(problem, Training(epochs=1), tmp_path / str(number)).run()
            (epoch,) = rows(tmp_path / str(number), "epoch")
            assert outcome.best == epoch["valid_loss" if validated else "train_loss"]


def test_zero_weight_cases_need_no_targets() -> None:
    for pool in [None, "last"]:
        with named(pool):
            x, t = data("squared")
            t = t[0] if pool else t
            weights = np.arange(CASES) != 2
            missing = t.copy()
            missing[2 if pool else slice(None), slice(None) if pool else 2] = np.nan
            outcomes = []
            for given in (t, missing):
                problem = rnn.Arrays(network("squared", pool=pool), x, given, 4, weights=1.0 * weights)
                outcomes.append(Trainer(problem, Training(epochs=2)).run())
            assert outcomes[0].best == outcomes[1].best


def test_zero_weight_batches_change_nothing() -> None:
    x, t = data("squared")
    problem = rnn.Arrays(network("squared"), x, t, 2, valid=None, weights=1.0 * (np.arange(CASES) == 0))
    seen: list[bytes] = [problem.model.theta.tobytes()]
    look = Told(lambda: seen.append(run.theta.tobytes()))
    run = Trainer(problem, Training(rnn.SGD(0.1), epochs=1), listeners=[look])
    outcome = run.run()
    assert len(seen) == 7
    assert len(set(seen)) == 2
    assert np.isfinite(outcome.best)


def test_a_run_without_a_finite_validation_cost_has_a_model(tmp_path: Path) -> None:
    """A missing value of 1e25 among the targets: its square is infinite in float32."""
    x, t = data("squared")
    problem = rnn.Arrays(network("squared", dtype="float32"), x, t, 4, valid=(x, 1e25 * t))
    run = Trainer(problem, Training(rnn.SGD(0.1), epochs=2), tmp_path / "run")
    outcome = run.run()
    assert (outcome.best, outcome.best_epoch) == (np.inf, 1)
    assert [row["valid_loss"] for row in rows(tmp_path / "run", "epoch")] == [None, None]
    run.take_best()
    rnn.load(tmp_path / "run" / "model.safetensors")


def test_entries_of_a_problem_are_checked(tmp_path: Path) -> None:
    x, t = data("squared")
    for entry, told in (
        ({"z": np.float32(0.5)}, ""),
        ({"z": np.array(0.5)}, ""),
        ({"z": object()}, "Own.row: z must be JSON, not <object"),
        ({"z": {"a": np.nan}}, "Own.row: z must be JSON"),
        ({"epoch": 3}, "Own.row: the row of an epoch already has an entry 'epoch'"),
    ):

        class Own(rnn.Arrays):
            def row(self, epoch: int, entry: dict[str, Any] = entry) -> dict[str, Any]:
                return entry

        with named(entry):
            run = Trainer(
                Own(network("squared"), x, t, 4), Training(epochs=1), tmp_path / str(list(entry.items()))
            )
            if told:
                with pytest.raises(UsageError, match=told):
                    run.run()
            else:
                run.run()
                assert rows(run.folder.path, "epoch")[0]["z"] == 0.5

    class Odd(rnn.Arrays):
        found: Any = "good"

        def validate(self) -> Any:
            return self.found

    with pytest.raises(UsageError, match=r"Odd\.validate must return a number or None, not 'good'"):
        Trainer(Odd(network("squared"), x, t, 4), Training(epochs=1)).run()
    Odd.found = np.array(3.0)  # as a compiled function returns it
    assert Trainer(Odd(network("squared"), x, t, 4), Training(epochs=1)).run().best == 3


def test_epochs_without_targets_have_no_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such an epoch neither ends the run nor counts for early stopping, and a run of nothing else has a model."""
    x, t = data("squared")
    weights = 1.0 * (np.arange(CASES) == 3)
    problem = rnn.Arrays(network("squared"), x, t, 1, valid=None, weights=weights, gradient_batches=6)
    settings = Training(rnn.SGD(0.1), epochs=20, stopping=rnn.EarlyStopping(memory=1, tolerance=0.0))
    run = Trainer(problem, settings, tmp_path / "several", progress=True)
    outcome = run.run()
    losses = [row["train_loss"] for row in rows(tmp_path / "several", "epoch")]
    assert {loss is None for loss in losses} == {True, False}
    assert np.isfinite(outcome.best)
    assert "no targets to train on" in capsys.readouterr().out
    assert run.progress.costs == [loss for loss in losses if loss is not None]
    problem = rnn.Arrays(network("squared"), x, t, 1, valid=None, weights=weights)
    outcome = Trainer(problem, Training(rnn.SGD(0.1), steps=1), tmp_path / "one").run()
    assert (outcome.best, outcome.best_epoch) == (np.inf, 1)
    rnn.load(tmp_path / "one" / "model.safetensors")


X, T = data("softmax")
S, CTC = data("squared")[1], data("ctc")
LONGER = np.pad(CTC[1], ((0, 0), (0, 1)), constant_values=-1)
OF_NUMBERS, OF_LABELS = network("squared", dtype="float32"), {"network": network("ctc")}
NUMBERS = {"network": OF_NUMBERS, "targets": S}
WRONG: dict[str, tuple[type[Exception], dict[str, Any], str]] = {
    "no network": (UsageError, {"network": "LSTM"}, "Arrays: the argument must be a Network, not 'LSTM'"),
    "inputs of another width": (DataError, {"inputs": X[..., :2]}, "inputs must be"),
    "inputs that are not finite": (DataError, {"inputs": X * np.nan}, "inputs"),
    "inputs for float32": (DataError, NUMBERS | {"inputs": X + 1e39}, "1e+39, which is infinite in float32"),
    "targets for float32": (DataError, NUMBERS | {"targets": S + 1e39}, "targets at [0, 0, 0] is 1e+39"),
    "weights for float32": (DataError, NUMBERS | {"weights": WEIGHTS * 1e39}, "weights at [0] is 1e+39"),
    "targets of other steps": (DataError, {"targets": T[1:]}, "targets must be (6, 11, ...) for each"),
    "targets that are none": (DataError, {"targets": [[1], [1, 2]]}, "Arrays: targets must be an array"),
    "numbers for symbols": (DataError, {"targets": T * 1.0}, "must be whole numbers in 0 ... 3, (6, 11)"),
    "a symbol too many": (DataError, {"targets": T + 1}, "targets must be whole numbers in 0 ... 3"),
    "no batch": (UsageError, {"batch": 0}, "Arrays: batch must be a whole number >= 1"),
    "weights of others": (DataError, {"weights": [1, 2]}, "weights must be [6, 11], one for each target, (6"),
    "weights below 0": (DataError, {"weights": -WEIGHTS}, "weights must be finite and at least 0; got -"),
    "no weights": (DataError, {"weights": 0 * WEIGHTS}, "to train on, at least one target must have a weight above 0"),
    "an output without targets": (
        DataError, NUMBERS | {"weights": np.ones(S.shape) * (np.arange(S.shape[-1]) != 1)},
        "no training case has a value of output 1, so it cannot be learned",
    ),
    "no weight in given cases to validate": (DataError, {"valid": (X, T, 0 * WEIGHTS)}, "to validate on, at least"),
    "no weight to validate": (DataError, {"weights": np.arange(CASES) < 5}, "cases to validate on, at least"),
    "all to validate": (UsageError, {"valid": 1.0}, "valid = 1 of 11 cases leaves none to train on"),
    "a share below 0": (UsageError, {"valid": -0.1}, "Arrays: valid must be"),
    "four to validate": (UsageError, {"valid": (X, T, None, X)}, "valid must be (inputs, targets), or"),
    "more for the curvature": (UsageError, {"curvature_batches": 2}, "must be at most gradient_batches"),
    "no step": (DataError, {"gradient_batches": 9}, "a step takes 36 cases, but there are 10 to train on"),
    "nothing scored": (UsageError, {"unscored": TIME}, "unscored"),
    "a limit below 0": (UsageError, {"clip_values": -1.0}, "clip_values must be"),
    "labels of other lengths": (
        DataError, OF_LABELS | {"targets": CTC[1], "valid": (CTC[0], LONGER)}, "must have as many labels; got 2",
    ),
    "a label too many": (DataError, OF_LABELS | {"targets": CTC[1] + 1}, "whole numbers in -1 ... 2, (11"),
    "the blank": (DataError, OF_LABELS | {"targets": CTC[1] * 0 + OUTPUTS - 1}, "the last output is the"),
    "padding before a label": (
        DataError, OF_LABELS | {"targets": np.where(np.arange(CTC[1].shape[1]) == 0, -1, CTC[1] * 0)},
        "case 0 have -1 before a label",
    ),
    "labels that nothing spells": (  # equal neighbours take a step between them
        DataError, OF_LABELS | {"targets": CTC[1] * 0, "lengths": [2] + [3] * 10},
        "labels of case 0 need 3 time steps",
    ),
    "targets of cases": (DataError, {"targets": T[0]}, 'needs a network with pool="last"'),
    "targets of steps": (DataError, {"network": network("softmax", pool="last")}, "need a network without"),
    "Sequences of cases": (
        DataError, {"inputs": Sequences(X, T[0]), "targets": None, "valid": None}, 'needs a network with pool="last"',
    ),
}  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    right = {"network": network("softmax"), "inputs": X, "targets": T, "batch": 4, "valid": 0.1}
    for what, (error, changed, said) in WRONG.items():
        with named(what), pytest.raises(error, match=re.escape(said)):
            rnn.Arrays(**right | changed)
    batches = {"gradient_batches": 2, "curvature_batches": 2}
    for how, optimizer, said in (
        (
            {"clip_values": 1.0},
            rnn.LBFGS(),
            "clip_values applies only to first-order optimizers; LBFGS also uses the loss",
        ),
        (batches, rnn.Adam(), "curvature_batches has no effect, since Adam uses no curvature"),
    ):
        with named(said), pytest.raises(UsageError, match=said):
            Trainer(rnn.Arrays(**right | how), Training(optimizer))
    rnn.Arrays(network("ctc"), np.zeros((4, 2, INPUTS)), [[0, 1, 2], [1, 1, 0]], lengths=[3, 4], valid=None)


def test_curvature_comes_from_the_curvature_batches() -> None:
    """The trainer's first step equals a step of the optimizer on the same batches."""
    kfac = rnn.HessianFree(cg_steps=3, preconditioner="kfac")
    for optimizer in [
        kfac,
        rnn.HessianFree(cg_steps=3),
        rnn.HessianFree(preconditioner="qdruop", cg_steps=3),
    ]:
        with named(optimizer):
            found = {}
            for curvature in (1, 2):
                how: Any = {"gradient_batches": 3, "curvature_batches": curvature, "valid": None}
                problem, alone = (rnn.Arrays(network("softmax"), X, T, 3, **how) for _ in range(2))
                Trainer(problem, Training(optimizer, epochs=1, steps=1), None).run()
                objective = alone.feed(0, 0)
                theta = objective.start()
                optimizer.step(objective, theta, optimizer.init(theta, objective))
                found[curvature] = problem.model.theta
                np.testing.assert_array_equal(found[curvature], theta)
            assert (found[1] != found[2]).any()


def ragged(loss: str, by: str, seed: int = 0) -> Sequences:
    """Cases of several lengths, with weights of cases, steps or values, and missing targets."""
    draw = np.random.default_rng(seed)
    x, t = data(loss, seed=seed)
    w = draw.random({"cases": (CASES,), "steps": (TIME, CASES), "values": t.shape}[by]) + 0.5
    missing = draw.random(w.shape) < 0.3
    w[missing] = 0
    if t.dtype.kind == "f" and by != "cases":
        t[missing] = np.nan
    lengths = draw.integers(3 if loss == "ctc" else 1, TIME + 1, CASES)  # two equal labels need three steps
    x[np.arange(TIME)[:, None] >= lengths] = np.nan
    return Sequences(x, t, lengths, w, by_step=loss != "ctc")


def weighed_by_hand(net: rnn.Network, cases: Sequences) -> tuple[float, Array, float]:
    """Σ w L, its gradient and Σ w, with each case alone at its own length."""
    total, gradient, weight = 0.0, 0.0, 0.0
    for n, steps in enumerate(cases.lengths):
        labels = cases.targets.shape[1] if net.loss == "ctc" else None
        u = net.unroll(int(steps), 1, training=False, initial="zero", labels=labels)
        t = cases.targets[[n]] if net.loss == "ctc" else cases.targets[:steps, [n]]
        w = cases.weights[[n]] if cases.weights.ndim == 1 else cases.weights[:steps, [n]]
        losses = u.values if w.ndim == 3 else u.losses
        cost = gn.sum(gn.constant(np.broadcast_to(w, losses.shape)) * losses)
        nodes = [cost, *gn.gradient(cost, list(net.parameters.values()))]
        found, *slopes = gn.compile(nodes, [u.inputs, u.targets], backend="numpy")(
            cases.inputs[:steps, [n]], np.nan_to_num(t) if t.dtype.kind == "f" else t
        )
        total += float(found)
        gradient = gradient + np.concatenate([g.ravel() for g in slopes])
        weight += float(np.broadcast_to(w, losses.shape).sum()) / (w.shape[-1] if w.ndim == 3 else 1)
    return total, np.asarray(gradient), weight


def summed(problem: rnn.Arrays) -> tuple[float, Array, float]:
    """Σ w L, its gradient and Σ w over the steps of an epoch."""
    found = []
    for step in range(len(problem)):
        objective, weight = problem.feed(0, step), problem.weight(0, step)
        loss, gradient = objective.gradient(objective.start())
        found.append((weight * loss, weight * gradient, weight))
    total, gradient, weights = (sum(each) for each in zip(*found, strict=True))
    return total, gradient, weights


def test_cases_of_several_lengths() -> None:
    """Steps, epochs and validation match sums over single cases."""
    two = [(loss, by) for by in ("cases", "steps") for loss in ("softmax", "squared")]
    for loss, by in [*two, ("squared", "values"), ("sigmoid", "values"), ("ctc", "cases")]:
        with named(loss, by):
            cases, kept = ragged(loss, by), ragged(loss, by, seed=1)
            net = network(loss)
            problem = rnn.Arrays(net, cases, batch=3, valid=kept, buckets=3)
            assert len(problem) >= -(-CASES // 3)
            total, gradient, weight = weighed_by_hand(net, cases)
            seen, sums, weights = summed(problem)
            assert weights == pytest.approx(weight, rel=1e-6)
            assert seen == pytest.approx(total, rel=1e-9)
            np.testing.assert_allclose(sums, gradient, rtol=1e-8, atol=1e-9)
            total, _, weight = weighed_by_hand(net, kept)
            assert problem.validate() == pytest.approx(total / weight, rel=1e-9)


def test_batches_hold_similar_lengths() -> None:
    draw = np.random.default_rng(0)
    lengths = np.concatenate([draw.integers(2, 4, 20), draw.integers(10, 12, 20)])
    x = draw.standard_normal((12, 40, 2))
    net = rnn.Network([rnn.GRU(3)], 2, 2, "squared", reads="vectors")
    problem = rnn.Arrays(net, x, x, 5, valid=None, lengths=lengths, buckets=2)
    orders, fed = [], []
    for epoch in range(2):
        for step in range(len(problem)):
            arrays = problem.feed(epoch, step).gradient_batches[0]
            assert set(arrays[3] < 5) in ({True}, {False})
            assert len(arrays[0]) == (3 if arrays[3][0] < 5 else 11)
            fed.append(tuple(arrays[0][0, :, 0]))
        orders.append([len(problem.feed(epoch, step).gradient_batches[0][0]) for step in range(len(problem))])
    assert len(orders[0]) == 8
    assert orders[0] != sorted(orders[0])
    assert orders[0] != orders[1]
    assert len(set(fed)) == len(fed)


def test_steps_over_ragged_batches_match_one_batch() -> None:
    """Gradient and curvature over ragged batches match one batch of all cases."""
    cases = ragged("squared", "steps").chosen(np.arange(9))
    net = network("squared")
    packed = rnn.Arrays(net, cases, batch=3, valid=None, buckets=3, gradient_batches=3, curvature_batches=3)
    whole = rnn.Arrays(net, cases, batch=CASES, valid=None, buckets=1)
    assert (len(packed), len(whole)) == (1, 1)
    one, other = packed.feed(0, 0), whole.feed(0, 0)
    assert len({batch[0].shape for batch in one.gradient_batches}) > 1
    w = other.start()
    for a, b in zip(one.gradient(w), other.gradient(w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    v = np.random.default_rng(0).standard_normal(w.shape)
    np.testing.assert_allclose(one.curvature(w)(v), other.curvature(w)(v), rtol=1e-9, atol=1e-12)


def test_steps_of_several_batches_have_the_same_cases_for_any_buckets() -> None:
    """Two steps of two full batches of 5, of 23 cases. Buckets only change the division into batches."""
    time, cases, net = 9, 23, rnn.Network([rnn.GRU(2)], 1, 1, loss="squared", dtype="float64")
    x = np.arange(time * cases, dtype=float).reshape(time, cases, 1) / 100
    lengths = np.random.default_rng(0).integers(1, time + 1, cases)
    found: dict[int, list[Any]] = {}
    computed = {}
    for buckets in (1, 2, 4):
        problem = rnn.Arrays(net, x, x, 5, valid=None, lengths=lengths, buckets=buckets, gradient_batches=2)
        steps, computed[buckets] = [], 0
        for epoch, step in itertools.product(range(3), range(len(problem))):
            objective = problem.feed(epoch, step)
            batches = objective.gradient_batches
            assert [(batch[2] > 0).any(axis=0).sum() for batch in batches] == [5, 5]
            first = sorted(np.concatenate([batch[0][0, :, 0] for batch in batches]))
            loss, slopes = objective.gradient(net.theta)
            steps.append([*first, loss, *slopes])
            computed[buckets] += sum(len(batch[0]) for batch in batches)
        assert len(steps) == 6
        found[buckets] = steps
    for buckets in (2, 4):
        np.testing.assert_allclose(found[buckets], found[1], rtol=1e-9)
    assert computed[4] < computed[1]


def test_full_lengths_do_not_change_the_gradient() -> None:
    x, t = data("squared")
    found = set()
    for lengths in (None, np.full(CASES, TIME)):
        objective = rnn.Arrays(network("squared"), x, t, 4, lengths=lengths).feed(0, 0)
        found.add(objective.gradient(objective.start())[1].tobytes())
    assert len(found) == 1


def test_targets_per_case() -> None:
    for loss, pool in itertools.product(["softmax", "squared"], ["last", "mean", "max"]):
        with named(loss, pool):
            x, t = data(loss)
            lengths = np.random.default_rng(1).integers(1, TIME + 1, CASES)
            net = network(loss, pool=pool)
            problem = rnn.Arrays(net, x, t[0], 4, lengths=lengths, weights=WEIGHTS, valid=(x, t[1], WEIGHTS))
            total = 0.0
            for n, steps in enumerate(lengths):
                o = rnn.run(net, x[:steps, [n]])[0][0]
                if loss == "softmax":
                    total += WEIGHTS[n] * (np.log(np.exp(o).sum()) - o[t[0, n]])
                else:
                    total += WEIGHTS[n] * ((o - t[0, n]) ** 2).sum()
            seen, _, weights = summed(problem)
            assert weights == pytest.approx(WEIGHTS.sum())
            assert seen == pytest.approx(total, rel=1e-9)
            assert problem.validate() is not None


def test_metrics_are_means_by_weight(tmp_path: Path) -> None:
    for loss, by in [("softmax", "steps"), ("sigmoid", "values"), ("squared", "cases")]:
        with named(loss, by):
            net, cases, kept = network(loss), ragged(loss, by), ragged(loss, by, seed=1)
            problem = rnn.Arrays(net, cases, batch=3, valid=kept, buckets=3)
            name, *others = problem.metrics()
            found = problem.metrics()[name]()
            o, _ = rnn.run(net, kept.inputs, lengths=kept.lengths)
            t, w = kept.targets, np.where(kept.inside(), kept.weights if by != "values" else 1.0, 0.0)
            if loss == "softmax":
                each = o.argmax(axis=2) == t
                predicted, scores = o.argmax(axis=2), []
                for label in range(o.shape[2]):
                    right, total = (
                        (predicted == label) & (t == label),
                        (predicted == label) * 1.0 + (t == label),
                    )
                    scores += [2 * (right * w).sum() / (total * w).sum()] if (total * w).any() else []
                assert others == ["f1"]
                assert problem.metrics()["f1"]() == pytest.approx(np.mean(scores), rel=1e-12)
            elif loss == "squared":
                each = np.abs(o - np.nan_to_num(t)).mean(axis=2)
                squares = ((o - np.nan_to_num(t)) ** 2).mean(axis=2)
                assert others == ["rmse"]
                rmse = np.sqrt((squares * w).sum() / w.sum())
                assert problem.metrics()["rmse"]() == pytest.approx(rmse, rel=1e-6)
            else:
                each, w = (o > 0) == (t > 0.5), w[..., None] * kept.weights
            assert found == pytest.approx((each * w).sum() / w.sum(), rel=1e-12)
            Trainer(problem, Training(rnn.Adam(0.01), epochs=2), tmp_path / loss, metrics=[name]).run()
            (*_, last) = rows(tmp_path / loss, "epoch")
            assert last["metrics"] == {name: problem.metrics()[name]()}


def test_label_error_rate_matches_single_cases() -> None:
    cases, net = ragged("ctc", "cases"), network("ctc")
    problem = rnn.Arrays(net, cases, valid=cases)
    decoded = []
    for n, steps in enumerate(cases.lengths):
        decoded += rnn.ctc.greedy(rnn.run(net, cases.inputs[:steps, [n]])[0])
    expected = rnn.ctc.label_error_rate(decoded, cases.targets, cases.weights)
    assert problem.metrics()["label_error_rate"]() == expected > 0


def test_structural_damping_with_ctc_matches_single_cases() -> None:
    """Σ w G_s / Σ w, where G_s is the mean over the steps of a case."""
    cases, net, found = ragged("ctc", "cases"), network("ctc"), []
    theta = net.theta.copy()
    v = np.random.default_rng(5).standard_normal(theta.shape)
    for which in ([*range(CASES)], *([n] for n in range(CASES))):
        if not cases.weights[which].any():
            found.append(np.zeros_like(theta))
            continue
        problem = rnn.Arrays(net, cases.chosen(which), batch=len(which), valid=None)
        problem.feed(0, 0)
        objective = problem.objective
        found.append(objective.curvature(theta, 1.0)(v) - objective.curvature(theta, 0.0)(v))
    whole, *alone = found
    assert np.abs(whole).max() > 1e-4
    np.testing.assert_allclose(whole, np.average(alone, axis=0, weights=cases.weights), rtol=1e-7, atol=1e-9)


def test_bits_are_between_0_and_1() -> None:
    """Targets outside 0 ... 1 are rejected, since the loss would have no minimum; weight 0 allows them."""
    x, t = data("sigmoid")
    for wrong in (-1.0, 255.0, np.inf):
        t[2, 1, 0] = wrong
        with pytest.raises(DataError, match=r"targets.* at \[2, 1, 0\]"):
            rnn.Arrays(network("sigmoid"), x, t, 2)
    w = np.ones(t.shape)
    w[2, 1, 0] = 0
    rnn.Arrays(network("sigmoid"), x, t, 2, weights=w)


def test_labels_are_not_masked_as_steps() -> None:
    """Six cases with six steps and six labels: labels are not masked after a case's end, as steps are."""
    draw = np.random.default_rng(0)
    labels = np.full((TIME, TIME), -1)
    labels[:, 0] = draw.integers(0, OUTPUTS - 1, TIME)
    x = draw.normal(size=(TIME, TIME, INPUTS))
    problem = rnn.Arrays(network("ctc"), Sequences(x, labels, [2, 6, 3, 4, 5, 2]), batch=TIME, valid=None)
    fed = problem.feed(0, 0).gradient_batches[0]
    np.testing.assert_array_equal(np.sort(fed[1][:, 0]), np.sort(labels[:, 0]))
    assert (fed[1][:, 1:] == -1).all()


def test_cases_without_scored_steps_have_no_weight() -> None:
    """The validation loss is the same for every batch size and number of buckets."""
    lengths = np.array([6, 2, 3, 4, 5, 2, 6])
    generator = np.random.default_rng(0)
    x, t = generator.standard_normal((6, 7, 1)), generator.standard_normal((6, 7, 1))
    net = rnn.Network([rnn.GRU(2)], 1, 1, loss="squared", dtype="float64")
    inside = (np.arange(6)[:, None] < lengths) & (np.arange(6)[:, None] >= 2)
    o = rnn.run(net, x)[0]
    expected = float(((o - t)[..., 0] ** 2)[inside].mean())
    for batch, buckets in itertools.product((1, 2, 3, 5, 7), (1, 4)):
        steps = -(-7 // batch)
        problem = rnn.Arrays(
            net, x, t, batch=batch, lengths=lengths, unscored=2, valid=(x, t), buckets=buckets
        )
        with named((batch, buckets, steps)):
            assert problem.validate() == pytest.approx(float(((o - t)[2:, :, 0] ** 2).mean()), rel=1e-12)
            whole = rnn.Arrays(
                net,
                x,
                t,
                batch=batch,
                lengths=lengths,
                unscored=2,
                valid=Sequences(x, t, lengths),
                buckets=buckets,
            )
            assert whole.validate() == pytest.approx(expected, rel=1e-12)
    with pytest.raises(UsageError, match=r"unscored must be below the number of time steps \(6\), not 6"):
        rnn.Arrays(net, x, t, unscored=6, valid=None)


def test_masked_classes_may_have_any_value() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 1))
    there = np.array([[True, True, False], [True, False, True]])
    classes = np.array([[0, 1, 2], [1, 2, 0]])
    net = rnn.Network([rnn.GRU(2)], 1, 3, reads="vectors")
    expected = rnn.Arrays(net, x, classes, weights=there * 1.0, valid=None)
    for nothing, kind in ((np.nan, "f8"), (-100, "i8"), (255, "u1"), (-1, "i4")):
        t = np.where(there, classes, nothing).astype(kind)
        found = rnn.Arrays(net, x, t, weights=there * 1.0, valid=None)
        with named(nothing):
            assert found.feed(0, 0).loss(net.theta) == expected.feed(0, 0).loss(net.theta)
    with pytest.raises(DataError, match="not float64"):
        rnn.Arrays(net, x, classes + 0.5, weights=there * 1.0, valid=None)
    labels = np.array(
        [[0, 1, -1, -1], [7, 7, 7, 7], [1, -1, -1, -1]]
    )  # the second cannot be spelled in two steps
    ctc = rnn.Network([rnn.GRU(2)], 1, 3, loss="ctc")
    some, none = (np.array([1.0, 0, 1]), np.array([[0, 1], [-1, -1], [1, -1]]))
    one, other = (rnn.Arrays(ctc, x, each, weights=some, valid=None) for each in (labels, none))
    assert one.feed(0, 0).loss(ctc.theta) == pytest.approx(other.feed(0, 0).loss(ctc.theta))


def test_invalid_symbols_are_rejected() -> None:
    net = rnn.Network([rnn.GRU(2)], 5, 5)
    for inputs, message in (
        (np.array([["a", "b"]]), r"inputs must be symbols, whole numbers in 0 ... 4, not <U1$"),
        (np.zeros((3, 4), [("a", "f4")]), "inputs must be symbols"),
        (
            np.zeros((3, 4)),
            r"not float64 from 0.0 to 0.0; a network that reads numbers needs \(time, batch, width\)",
        ),
    ):
        with named(message), pytest.raises(DataError, match=message):
            rnn.run(net, inputs)


def test_custom_losses_are_weighted_like_built_in_ones(tmp_path: Path) -> None:
    """The built-in losses, passed as functions, train to the same numbers for all weights and lengths."""
    own: dict[str, Any] = {
        "softmax": gn.softmax_cross_entropy,
        "sigmoid": gn.sigmoid_cross_entropy,
        "squared": lambda o, t: (o - t) ** 2,
    }
    for loss, by in [
        ("softmax", "steps"),
        ("softmax", "cases"),
        ("sigmoid", "values"),
        ("squared", "values"),
    ]:
        with named(loss, by):
            found = []
            for given in (None, own[loss]):
                net = network(loss)
                problem = rnn.Arrays(
                    net, ragged(loss, by), batch=3, valid=ragged(loss, by, seed=1), loss=given
                )
                settings = Training(rnn.SGD(0.05), epochs=2, stopping=None)
                trainer = Trainer(problem, settings, tmp_path / f"{loss}-{by}-{given is None}")
                found.append((trainer.run().best, net.theta))
            assert found[1][0] == pytest.approx(found[0][0], rel=1e-6)
            np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-4, atol=1e-6)


def test_custom_losses_may_be_infinite_at_0() -> None:
    """Missing targets, padding and steps that are not scored do not make them NaN."""
    generator = np.random.default_rng(0)
    x, t = generator.normal(size=(4, 3, 1)), np.exp(generator.normal(size=(4, 3, 1)))
    there = np.arange(4)[:, None, None] < np.array([4, 2, 3])[:, None]
    missing = np.where(there, t, np.nan)
    for loss, by_hand in (
        (lambda o, t: gn.absolute(o - t) / t, lambda o, t: np.abs(o - t) / t),
        (lambda o, t: gn.squared_error(o, gn.log(t)), lambda o, t: (o - np.log(t)) ** 2),
    ):
        losses = []
        for targets, how in (
            (missing, {"weights": there}),
            (t, {"lengths": [4, 2, 3], "weights": there[..., 0]}),
        ):
            net = rnn.Network([rnn.Elman(2)], 1, 1, loss="squared", dtype="float64")
            problem = rnn.Arrays(net, x, targets, valid=(x, targets, there), loss=loss, **how)
            cost, gradient = problem.feed(0, 0).gradient(net.theta.copy())
            assert np.isfinite(gradient).all()
            losses += [cost, problem.validate()]
        np.testing.assert_allclose(losses, by_hand(rnn.run(net, x)[0], t)[there].mean(), rtol=1e-9)
        late = np.where(np.arange(4)[:, None, None] < 1, 0.0, t)
        problem = rnn.Arrays(net, x, late, valid=None, loss=loss, unscored=1)
        assert np.isfinite(problem.feed(0, 0).gradient(net.theta.copy())[1]).all()


def test_custom_loss_is_part_of_the_run_identity(tmp_path: Path) -> None:
    x, t = np.random.default_rng(0).standard_normal((2, 6, 12, 2)).astype("f4")
    net = rnn.Network([rnn.GRU(3)], 2, 2, "squared")

    def problem(loss: Any) -> rnn.Arrays:
        return rnn.Arrays(rnn.Network([rnn.GRU(3)], 2, 2, "squared"), x, t, batch=4, loss=loss)

    absolute = lambda o, t: gn.absolute(o - t)
    Trainer(problem(absolute), Training(epochs=1), tmp_path).run()
    for other in (None, lambda o, t: gn.absolute(o - t) ** 2):
        with pytest.raises(UsageError, match="loss"):
            Trainer(problem(other), Training(epochs=2), tmp_path).resume()
    Trainer(problem(absolute), Training(epochs=2), tmp_path).resume()
    for loss, said in (
        (3, "loss must be a function of"),
        (lambda o, t: o[0], r"must return a node \[6, 4\], a loss for each target, or \[6, 4, 2\]"),
        (lambda o, t: 0.0, "not 0.0"),
    ):
        with named(said), pytest.raises(UsageError, match=said):
            problem(loss)
    assert problem(absolute).validate() == pytest.approx(
        np.abs(rnn.run(net, x[:, 11:])[0] - t[:, 11:]).sum(axis=2).mean(), rel=1e-5
    )


def test_values_rounded_by_float32_are_rejected() -> None:
    x = np.random.default_rng(0).normal(size=(10, 60, 2))
    for column, what in ((x + np.array([0, 1e9]), "inputs"), (x * 2 + 1e8 * np.eye(2)[1], "targets")):
        given = {"inputs": x, "targets": x, what: column}
        network = rnn.Network([rnn.GRU(4)], 2, 2, loss="squared")
        with pytest.raises(DataError, match=rf"float32 rounds column 1 of the {what}, .*dtype='float64'"):
            rnn.Arrays(network, **given)
        rnn.Arrays(rnn.Network([rnn.GRU(4)], 2, 2, loss="squared", dtype="float64"), **given)
    # Not where nothing is lost: constants, noise of float64, values that are float32 already.
    noise = np.resize([0.3, 0.1 + 0.2], x.shape)
    for fine in (x * 0 + 1e9, noise, (x + 1e9).astype(np.float32)):
        rnn.Arrays(rnn.Network([rnn.GRU(4)], 2, 2, loss="squared"), fine, x)


def test_weights_with_infinite_sum_are_rejected() -> None:
    x, t = data("squared")
    network = rnn.Network([rnn.GRU(4)], INPUTS, OUTPUTS, loss="squared")
    with pytest.raises(DataError, match=r"the weights of the cases to train on sum to .*above .* of float32"):
        rnn.Arrays(network, x, t, weights=WEIGHTS * 5e37, valid=0.2)
    with pytest.raises(DataError, match=r"the largest weight is .*e-40; .*Multiply all weights"):
        rnn.Arrays(network, x, t, weights=WEIGHTS * 1e-40, valid=0.2)
