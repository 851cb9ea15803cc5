"""Objectives over several batches, their single cases, weight decay, and how minimize ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers import HessianFree
from tests.graphnet_rnn.optimizers.toys import Plain
from tests.tables import case

TIME, CASES = 4, 6


def network() -> rnn.Network:
    return rnn.Network([rnn.Elman(5)], 3, 3, dtype="float64", seed=1)


def objective(batch: int, **how: Any) -> rnn.Objective:
    net = network()
    u = net.unroll(TIME, batch)
    return rnn.Objective(
        u.cost, net.parameters, [u.inputs, u.targets, *u.initial], structure=u.structure, **how
    )


def arrays(cases: int = CASES) -> list[Array]:
    generator = np.random.default_rng(0)
    x, t = generator.integers(0, 3, (2, TIME, cases))
    return [x, t, 0.3 * generator.standard_normal((cases, 5))]


def part(cases: slice) -> list[Array]:
    x, t, h = arrays()
    return [x[:, cases], t[:, cases], h[cases]]


def test_means_over_batches_are_those_of_all_cases() -> None:
    whole = objective(CASES)
    whole.feed(*arrays())
    w = whole.start()
    batches = [part(slice(i, i + 2)) for i in (0, 2, 4)]
    found = rnn.BatchedObjective(objective(2))
    found.feed(gradient=batches, curvature=batches, loss=batches)
    assert found.loss(w) == pytest.approx(whole.loss(w))
    assert found.gradient(w)[0] == pytest.approx(whole.gradient(w)[0])
    assert np.allclose(found.gradient(w)[1], whole.gradient(w)[1])
    v = np.random.default_rng(2).standard_normal(w.size)
    assert np.allclose(found.curvature(w, 0.3)(v), whole.curvature(w, 0.3)(v))
    assert np.array_equal(found.start(), w)


def test_each_part_has_its_own_batches() -> None:
    first, second, third = (part(slice(i, i + 2)) for i in (0, 2, 4))
    found, alone = rnn.BatchedObjective(objective(2)), objective(2)
    found.feed(gradient=[first, second], curvature=[second], loss=[third])
    w, v = alone.start(), np.ones(alone.size)
    product = found.curvature(w)
    alone.feed(*third)
    assert found.loss(w) == alone.loss(w)
    alone.feed(*second)
    assert np.array_equal(product(v), alone.curvature(w)(v))
    found.feed(gradient=[first, second])  # by default all but the gradient are of its first batch
    alone.feed(*first)
    assert found.loss(w) == alone.loss(w)
    assert np.array_equal(found.curvature(w)(v), alone.curvature(w)(v))


def test_squared_gradients_are_those_of_single_cases() -> None:
    alone = objective(1)
    found = rnn.BatchedObjective(objective(3), single=objective(1))
    found.feed([part(slice(0, 3)), part(slice(3, 6))], curvature=[part(slice(0, 3)), part(slice(3, 6))])
    w = alone.start()
    expected = np.zeros(w.size)
    for i in range(CASES):
        alone.feed(*part(slice(i, i + 1)))
        expected += alone.gradient(w)[1] ** 2 / CASES
    assert np.allclose(found.squared_gradients(w), expected)


def test_squared_gradients_need_the_objective_of_one_case() -> None:
    found = rnn.BatchedObjective(objective(3))
    found.feed([part(slice(0, 3))])
    with pytest.raises(UsageError, match="need single="):
        found.squared_gradients(objective(2).start())


def test_what_is_no_objective_of_one_case() -> None:
    """Said at once: another would give a wrong preconditioner."""
    whole = objective(3)
    other = rnn.Network([rnn.Elman(4)], 3, 3, dtype="float64")
    u = other.unroll(TIME, 1)
    for single, words in (
        (whole, "as large as those of a batch"),
        (objective(3), "as large as those of a batch"),
        (objective(2), "of one case"),
        (network().unroll(TIME, 1), "single must be an Objective, not"),
        (bowl(), "of the same parameters"),
        (
            rnn.Objective(u.cost, other.parameters, [u.inputs, u.targets, *u.initial]),
            "of the same parameters",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            rnn.BatchedObjective(whole, single)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="objective must be an Objective, not None"):
        rnn.BatchedObjective(None)  # type: ignore[arg-type]
    rnn.BatchedObjective(objective(1), objective(1))


def test_weight_decay() -> None:
    """½ l2 |w|² is part of the loss and of the gradient, and of the curvature if that is wanted."""
    for inside in [True, False]:
        with case(inside):
            plain, decayed = objective(CASES), objective(CASES, l2=0.3, l2_in_curvature=inside)
            for each in (plain, decayed):
                each.feed(*arrays())
            w = plain.start()
            v = np.random.default_rng(3).standard_normal(w.size)
            assert decayed.loss(w) == pytest.approx(plain.loss(w) + 0.15 * w @ w)
            assert decayed.gradient(w)[0] == pytest.approx(decayed.loss(w))
            assert np.allclose(decayed.gradient(w)[1], plain.gradient(w)[1] + 0.3 * w)
            assert np.allclose(decayed.curvature(w)(v), plain.curvature(w)(v) + (0.3 * v if inside else 0))


def test_impossible_weight_decay() -> None:
    for l2 in [-1, float("nan"), "much"]:
        with case(l2), pytest.raises(UsageError, match="l2"):
            objective(2, l2=l2)


# -- minimize ------------------------------------------------------------------------------------


def bowl() -> rnn.Objective:
    w = gn.parameter(np.array([3.0, -2.0]), name="w")
    return rnn.Objective(gn.sum(gn.squared_error(w * np.array([1.0, 2.0]), np.array([0.5, 4.0]))), [w])


def valley() -> Plain:
    """Rosenbrock's."""
    p = gn.parameter(np.array([-1.2, 1.0]), name="p")
    x, y = p[0], p[1]
    return Plain(gn.sum(gn.squared_error(gn.stack([1 - x, 10 * (y - x**2)]), np.zeros(2))), [p])


def test_minimize_says_why_it_ended() -> None:
    assert rnn.minimize(bowl(), steps=3).reason == "steps"
    assert rnn.minimize(bowl(), HessianFree(), steps=100, tolerance=1e-6).reason == "tolerance"
    assert rnn.minimize(bowl(), callback=lambda step, report: step == 4).reason == "callback"
    stuck = rnn.minimize(bowl(), HessianFree(line_search=0, rate=1e9), steps=400)
    assert (stuck.reason, len(stuck.reports)) == ("stalled", 30)
    assert np.array_equal(stuck.theta, [3.0, -2.0])


def test_minimize_over_fresh_batches() -> None:
    """The weights of a linear model, from batches that are all different."""
    generator = np.random.default_rng(0)
    true = np.array([[1.0, -2.0], [0.5, 3.0]])
    W = gn.parameter(np.zeros((2, 2)), name="W")
    x, t = gn.input((20, 2), "float64", name="x"), gn.input((20, 2), "float64", name="t")
    batched = rnn.BatchedObjective(rnn.Objective(gn.mean(gn.squared_error(gn.matmul(x, W), t)), [W], [x, t]))
    fed = []

    def feed(step: int) -> None:
        xs = generator.standard_normal((3, 20, 2))
        batched.feed([(each, each @ true) for each in xs])
        fed.append(step)

    result = rnn.minimize(batched, HessianFree(), steps=12, feed=feed)
    assert fed == list(range(12))
    assert np.allclose(result.theta, true.ravel(), atol=1e-3)
    assert result.loss == pytest.approx(0, abs=1e-6)


def test_callbacks_see_the_point_that_was_reached() -> None:
    """Not one that the step only tried."""
    for optimizer in [HessianFree(damping=1e-3), rnn.LBFGS(iterations=3), rnn.SGD(1e-3)]:
        with case(optimizer):
            objective, seen = bowl(), []

            def look(step: int, report: rnn.optimizers.Report) -> None:
                seen.append(objective.start())

            result = rnn.minimize(objective, optimizer, steps=3, callback=look)
            theta = np.array([3.0, -2.0])
            state = optimizer.init(theta)
            for point in seen:
                optimizer.step(bowl(), theta, state)
                assert np.array_equal(point, theta)
            assert np.array_equal(seen[-1], result.theta)


def test_batches_can_be_read_twice_and_in_order() -> None:
    for batches in [iter([part(slice(0, 2))]), [{"x": 1, "t": 2, "h": 3}]]:
        said = "gradient must be batches, each a sequence of arrays"
        with case(batches), pytest.raises(UsageError, match=said):
            rnn.BatchedObjective(objective(2)).feed(batches)


def test_one_batch_is_no_list_of_batches() -> None:
    with pytest.raises(
        UsageError, match=r"a list of batches, each of 3 arrays .* one of them has 4; .* \[\(x, t\)\]"
    ):
        rnn.BatchedObjective(objective(CASES)).feed(arrays())


def test_minimize_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Three steps and four more are seven, from a file."""
    for number, name in enumerate(rnn.optimizers.ALL):
        with case(name):
            folder = tmp_path / str(number)
            folder.mkdir()
            rate = {"rate": 1e-4} if name in ("sgd", "momentum", "nesterov") else {}
            few = {"iterations": 2} if name in ("lbfgs", "nonlinear_cg") else {}
            optimizer = rnn.optimizers.ALL[name](**rate, **few)
            whole = rnn.minimize(valley(), optimizer, steps=7)
            first = rnn.minimize(valley(), optimizer, steps=3)
            np.savez(folder / "run.npz", theta=first.theta, **first.state)
            state = dict(np.load(folder / "run.npz"))
            start = state.pop("theta")
            second = rnn.minimize(valley(), optimizer, steps=4, start=start, state=state)
            assert np.array_equal(second.theta, whole.theta)
            assert all(np.array_equal(first.state[key], array) for key, array in state.items()), (
                "it was copied"
            )
            for key, array in whole.state.items():
                assert np.array_equal(second.state[key], array)
            if whole.state:
                assert len(whole.reports) == 7
                cold = rnn.minimize(valley(), optimizer, steps=4, start=start)
                same = {key: np.array_equal(cold.state[key], array) for key, array in whole.state.items()}
                same["θ"] = np.array_equal(cold.theta, whole.theta)
                assert not all(same.values()), "the state counts"


ADAMS = {"m": np.zeros(2), "v": np.zeros(2), "t": np.ones(1, np.int64)}


def test_impossible_arguments_of_minimize() -> None:
    cases = [
        ({"state": {}}, "state lacks m, t, v; Adam keeps m, v, t"),
        ({"state": 5}, "state must be a dict of arrays, as result.state, not 5"),
        ({"state": ADAMS | {"theta": np.ones(2)}}, "state has theta; Adam keeps m, v, t"),
        ({"state": ADAMS | {"m": np.ones(3)}}, r"m in state must be finite, of shape \[2\] and float64"),
        ({"state": ADAMS | {"m": np.array([1j, 0])}}, "not complex128 of shape"),
        (
            {"state": ADAMS | {"t": np.array([2.7])}},
            "t in state must be finite, .* and int64, .* not float64",
        ),
        ({"callback": 5}, "callback must be a function, not 5"),
        ({"feed": "x"}, "feed must be a function, not 'x'"),
        ({"tolerance": -1}, "tolerance must be a finite number >= 0, not -1"),
    ]
    for given, words in cases:
        with case(given, words), pytest.raises(UsageError, match=words):
            rnn.minimize(bowl(), rnn.Adam(), **given)


def test_numpys_true_ends_it_as_well() -> None:
    objective = bowl()
    found = rnn.minimize(objective, callback=lambda step, report: np.abs(objective.start()).max() < 2.99)
    assert (found.reason, len(found.reports) < 20) == ("callback", True)


def test_a_run_ends_where_its_optimizer_finds_no_more_to_gain() -> None:
    """By a tolerance of its own, or since rounding leaves nothing; by minimize's, with the step that reaches it."""
    for kind in [rnn.LBFGS, rnn.NonlinearConjugateGradient]:
        with case(kind):
            coarse = rnn.minimize(valley(), kind(tolerance=1e-3), steps=50, tolerance=1e-12)
            assert coarse.reason == "stalled"
            assert coarse.reports[-1].reason == "tolerance"
            x = gn.parameter(np.array([3.0, 2.0]), name="x")
            finest = rnn.minimize(rnn.Objective(gn.sum(np.pi * x - gn.log(x)), [x]), kind(), steps=50)
            assert finest.reason in ("stalled", "tolerance"), "a gradient of rounding, or of exactly 0"
            assert len(finest.reports) < 10
            assert np.allclose(finest.theta, 1 / np.pi, rtol=1e-7)
            reached = rnn.minimize(valley(), kind(iterations=5), steps=50, tolerance=1e-6)
            assert reached.reason == "tolerance"
            norms = [report.last_gradient_norm for report in reached.reports]
            assert norms[-1] <= 1e-6 < min(norms[:-1])
            assert norms[-1] == np.linalg.norm(valley().gradient(reached.theta)[1])


def test_conjugate_gradient_ends_where_two_unknowns_are_solved() -> None:
    result = rnn.minimize(bowl(), HessianFree(damping=1e-3), steps=6)
    assert max(report.cg_steps for report in result.reports) <= 3  # type: ignore[attr-defined]


def test_errors_say_what_is_not_finite() -> None:
    x = gn.input((2,), "float64", name="x")
    w = gn.parameter(np.ones(2), name="w")
    objective = rnn.Objective(gn.sum(gn.squared_error(w, x)), [w], [x])
    objective.feed(np.array([1.0, np.nan]))
    with pytest.raises(
        TrainingError, match=r"at step 0: what was fed is not finite. Input: x\[2\] holds NaN"
    ):
        rnn.minimize(objective, rnn.SGD(), steps=2)
    objective.feed(np.full(2, 1e200))
    with pytest.raises(
        TrainingError, match=r"inf at step 0; try a smaller rate or clipping\. SquaredError: "
    ):
        rnn.minimize(objective, rnn.SGD(), steps=2)
    steep = rnn.Objective(gn.sum(1e200 * w), [w])
    with pytest.raises(
        TrainingError, match=r"inf at step 0; try a smaller .* No node makes it: a sum over all"
    ):
        rnn.minimize(steep, rnn.SGD(1e-300), steps=2)


def test_what_is_no_batch() -> None:
    for batches in [None, [None], 3]:
        with case(batches), pytest.raises(UsageError, match="gradient must be batches"):
            rnn.BatchedObjective(objective(2)).feed(batches)
