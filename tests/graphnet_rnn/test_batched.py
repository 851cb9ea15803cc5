"""Objectives over several batches, their single cases, weight decay, and how minimize ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers import HessianFree

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
    w = objective(2).start()
    for single, words in ((None, "need single="), (objective(2), "of one case")):
        found = rnn.BatchedObjective(objective(3), single)
        found.feed([part(slice(0, 3))])
        with pytest.raises(UsageError, match=words):
            found.squared_gradients(w)


@pytest.mark.parametrize("inside", [True, False])
def test_weight_decay(inside: bool) -> None:
    """½ l2 |w|² is part of the loss and of the gradient, and of the curvature if that is wanted."""
    plain, decayed = objective(CASES), objective(CASES, l2=0.3, l2_in_curvature=inside)
    for each in (plain, decayed):
        each.feed(*arrays())
    w = plain.start()
    v = np.random.default_rng(3).standard_normal(w.size)
    assert decayed.loss(w) == pytest.approx(plain.loss(w) + 0.15 * w @ w)
    assert decayed.gradient(w)[0] == pytest.approx(decayed.loss(w))
    assert np.allclose(decayed.gradient(w)[1], plain.gradient(w)[1] + 0.3 * w)
    assert np.allclose(decayed.curvature(w)(v), plain.curvature(w)(v) + (0.3 * v if inside else 0))


@pytest.mark.parametrize("l2", [-1, float("nan"), "much"])
def test_impossible_weight_decay(l2: Any) -> None:
    with pytest.raises(UsageError, match="l2"):
        objective(2, l2=l2)


# -- minimize ------------------------------------------------------------------------------------


def bowl() -> rnn.Objective:
    w = gn.parameter(np.array([3.0, -2.0]), name="w")
    return rnn.Objective(gn.sum(gn.squared_error(w * np.array([1.0, 2.0]), np.array([0.5, 4.0]))), [w])


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


@pytest.mark.parametrize("optimizer", [HessianFree(damping=1e-3), rnn.LBFGS(iterations=3), rnn.SGD(1e-3)])
def test_callbacks_see_the_point_that_was_reached(optimizer: rnn.optimizers.Optimizer) -> None:
    """Not one that the step only tried."""
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


@pytest.mark.parametrize("batches", [None, [None], 3])
def test_what_is_no_batch(batches: Any) -> None:
    with pytest.raises(UsageError, match="gradient must be batches"):
        rnn.BatchedObjective(objective(2)).feed(batches)
