"""NaturalGradient: equations as a loop over dense metrics, grafting, limits, invalid arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers import NaturalGradient
from graphnet_rnn.riemannian import Backpropagated, Kronecker, OuterProduct
from tests.tables import case

STEPS = 7


def problem(batches: int = 1) -> tuple[Any, Callable[[int], None]]:
    """Symbols that follow each other in cycles, read by an Elman net: an objective, and what feeds it at a step."""
    network = rnn.Network([rnn.Elman(4)], 3, 3, dtype="float64", seed=2)
    u = network.unroll(5, 4, initial="zero")
    objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets])
    draws = np.random.default_rng(0)
    data = [(draws.integers(0, 3, 4) + np.arange(6)[:, None]) % 3 for _ in range(STEPS * batches)]
    data = [(x[:-1], x[1:]) for x in data]
    if batches == 1:
        return objective, lambda step: objective.feed(*data[step])
    return objective, lambda step: objective.feed_batches(data[step * batches : (step + 1) * batches])


def test_run_matches_the_equations() -> None:
    """For linear metrics, M̄ is the mean of dense matrices of each batch."""
    metrics = [
        OuterProduct("full", "full", damping=0.3),
        OuterProduct("diagonal", "diagonal", damping=0.3),
        Backpropagated("full", "diagonal", damping=0.3),
        Backpropagated("diagonal", "full", estimate="probe", damping=0.3),
    ]
    for metric, every, batches in itertools.product(metrics, [1, 3], [1, 2]):
        with case(metric, every, batches):
            objective, feed = problem(batches)
            theta = objective.start()
            same = np.eye(len(theta))
            v, mean, measured = np.zeros_like(theta), 0 * same, 0
            for step in range(STEPS):
                feed(step)
                _, g = objective.gradient(theta)
                if step % every == 0:
                    measured += 1
                    share = min(0.6, 1 - 1 / measured)
                    numbers = objective.metric(theta, metric, "all", step)[2]
                    solver = objective.metric_solver(metric, "all", numbers)
                    inverse = np.array([solver(row) for row in same])
                    mean = share * mean + (1 - share) * np.linalg.inv(inverse)
                v = 0.6 * v - 0.1 * np.linalg.solve(mean + 0.05 * same, g)
                theta = theta + v
            settings = {"rate": 0.1, "momentum": 0.6, "damping": 0.05, "averaged": 0.6, "clip_norm": None}
            again, feed = problem(batches)
            optimizer = NaturalGradient(metric, every=every, **settings)
            found = rnn.minimize(again, optimizer, steps=STEPS, feed=feed).theta
            np.testing.assert_allclose(found, theta, rtol=1e-7, atol=1e-9)


def test_grafted_steps_have_the_length_of_the_other_optimizer() -> None:
    """Separately for each parameter, in the direction of the metric."""
    for name in ["sgd", "rmsprop", "adam"]:
        with case(name):
            optimizer = NaturalGradient(Kronecker(), rate=0.02, momentum=0.0, graft=name)
            kind = rnn.optimizers.ALL[name](rate=0.02)
            objective, feed = problem()
            theta = objective.start()
            state, other, mean = optimizer.init(theta, objective), kind.init(theta), 0.0
            for step in range(STEPS):
                feed(step)
                before, there = theta.copy(), theta.copy()
                share = min(0.95, 1 - 1 / (step + 1))
                mean = share * mean + (1 - share) * objective.metric(theta, Kronecker(), "all", step)[2]
                solver = objective.metric_solver(Kronecker(), "all", mean, 0.01)
                direction = solver(objective.gradient(theta)[1])
                kind.step(objective, there, other)
                optimizer.step(objective, theta, state)
                for each in objective.slices:
                    length = np.linalg.norm(there[each] - before[each])
                    wanted = -length * direction[each] / np.linalg.norm(direction[each])
                    np.testing.assert_allclose(theta[each] - before[each], wanted, rtol=1e-5, atol=1e-9)


def test_clip_norm_limits_steps_in_the_metric() -> None:
    metric = OuterProduct()
    for limit in (1e-3, 1e3):
        objective, feed = problem()
        feed(0)
        start, theta = objective.start(), objective.start()
        optimizer = NaturalGradient(metric, rate=1.0, momentum=0.0, damping=0.0, clip_norm=limit)
        _, g, numbers = objective.metric(theta, metric)
        whole = objective.metric_solver(metric, "all", numbers)(g)
        length = float(np.sqrt(g @ whole))
        report = optimizer.step(objective, theta, optimizer.init(theta, objective))
        assert report.length == pytest.approx(length)
        np.testing.assert_allclose(start - theta, whole * min(1.0, limit / length), rtol=1e-9)


def test_invalid_states_and_singular_metrics_change_nothing() -> None:
    """One-hot inputs sum to the bias, so blocks are singular without damping; invalid counts."""
    mean_of, end = "invalid state: a metric of", 2**63
    singular = OuterProduct(damping=0.0, output_damping=1.0)
    cases = [
        (singular, {}, TrainingError, r"the metric of 4 units of .*W_xh.* is singular.*larger damping"),
        *(("kfac", {"measured": n}, UsageError, mean_of) for n in (-1, end - 1)),
        *(("kfac", {"steps": n}, UsageError, mean_of) for n in (-end, 2**62)),
        (
            "kfac",
            {"metric": -1e38, "measured": 1, "steps": 1},
            TrainingError,
            r"cases of the metric .*not -1e\+38",
        ),
    ]
    for metric, spoiled, error, words in cases:
        with case(metric, spoiled):
            objective, feed = problem()
            feed(0)
            theta, optimizer = objective.start(), NaturalGradient(metric, damping=0.0, every=5)
            state = optimizer.init(theta, objective)
            for name, number in spoiled.items():
                state[name][:] = number
            before = theta.copy(), deepcopy(state)
            with pytest.raises(error, match=words):
                optimizer.step(objective, theta, state)
            assert np.array_equal(theta, before[0])
            assert all(np.array_equal(state[name], array) for name, array in before[1].items())


def test_invalid_arguments_are_rejected() -> None:
    settings = [
        {"rate": 0}, {"rate": np.inf}, {"momentum": 1.0}, {"damping": -1}, {"averaged": 1.0}, {"every": 0},
        {"clip_norm": 0}, {"graft": "lbfgs"}, {"metric": "euclid"},
    ]  # fmt: skip
    for given in settings:
        with case(given), pytest.raises(UsageError, match=f"NaturalGradient: {next(iter(given))} must be"):
            NaturalGradient(**given)
    with pytest.raises(UsageError, match=r"call init\(theta, objective\)"):
        NaturalGradient().init(np.zeros(3))
    objective, feed = problem()
    state = NaturalGradient("kfac").init(objective.start(), objective)
    with pytest.raises(UsageError, match="metric in state must be finite, of shape"):
        rnn.minimize(objective, NaturalGradient("ruop"), steps=1, feed=feed, state=state)


def test_steps_of_another_cost_use_their_own_metric() -> None:
    """Two alternating functions: M̄ is the running mean of only the one without learned initial states."""
    network = rnn.Network([rnn.Elman(4)], 3, 3, dtype="float64", seed=2, initial_state="learned")
    x = np.random.default_rng(0).integers(0, 3, (6, 4))
    made = []
    for initial in ("learned", "zero"):
        u = network.unroll(5, 4, initial=initial)
        made.append(rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets]))
        made[-1].feed(x[:-1], x[1:])
    first, others = made
    metric, optimizer = OuterProduct(), NaturalGradient(OuterProduct(), every=2)
    assert first.metric_size(metric) > others.metric_size(metric)
    theta = others.start()
    state = optimizer.init(theta, others)
    optimizer.step(first, theta, state)
    assert not state["metric"].any(), "nothing of it is kept"
    expected = others.metric(theta, metric, "all", 1)[2]
    optimizer.step(others, theta, state)
    np.testing.assert_allclose(state["metric"], expected, rtol=1e-12)
    kept, at, before = state["metric"].copy(), theta.copy(), state["v"].copy()
    _, g, numbers = first.metric(theta, metric, "all", 2)
    optimizer.step(first, theta, state)
    assert np.array_equal(state["metric"], kept)
    step = first.metric_solver(metric, "all", numbers, 0.01)(g)
    step *= min(1.0, 1 / np.sqrt(g @ step))
    np.testing.assert_allclose(theta - at, 0.9 * before - 0.03 * step, rtol=1e-9, atol=1e-12)
