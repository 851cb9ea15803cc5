"""NaturalGradient: its equations as a plain loop over dense metrics, grafting, limits, what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers import NaturalGradient, Stepwise
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
    if batches == 1:
        return objective, lambda step: objective.feed(data[step][:-1], data[step][1:])
    many = rnn.BatchedObjective(objective)
    return many, lambda step: many.feed(
        [(x[:-1], x[1:]) for x in data[step * batches : (step + 1) * batches]]
    )


def run(optimizer: NaturalGradient, batches: int = 1) -> Array:
    objective, feed = problem(batches)
    return rnn.minimize(objective, optimizer, steps=STEPS, feed=feed).theta


def dense(solver: Callable[[Array], Array], size: int) -> Array:
    """M from M⁻¹ of all unit vectors."""
    return np.linalg.inv(np.array([solver(row) for row in np.eye(size)]))


METRICS = {
    "full": OuterProduct("full", "full", damping=0.3),
    "diagonal": OuterProduct("diagonal", "diagonal", damping=0.3),
    "RBPM": Backpropagated("full", "diagonal", damping=0.3),
    "probed": Backpropagated("diagonal", "full", estimate="probe", damping=0.3),
}


def test_a_run_is_its_equations() -> None:
    """For metrics that are linear in what adds up, M̄ is the mean of dense matrices, those of each batch."""
    for name, every, batches in itertools.product(METRICS, [1, 3], [1, 2]):
        with case(name, every, batches):
            metric = METRICS[name]
            settings: dict[str, Any] = {"rate": 0.1, "momentum": 0.6, "damping": 0.05, "averaged": 0.6}
            objective, feed = problem(batches)
            theta = objective.start()
            v, mean, measured = np.zeros_like(theta), np.zeros((len(theta), len(theta))), 0
            for step in range(STEPS):
                feed(step)
                _, g = objective.gradient(theta)
                if step % every == 0:
                    measured += 1
                    share = min(0.6, 1 - 1 / measured)
                    _, _, numbers = objective.metric(theta, metric, "all", step)
                    mean = share * mean + (1 - share) * dense(
                        objective.metric_solver(metric, "all", numbers), len(theta)
                    )
                v = 0.6 * v - 0.1 * np.linalg.solve(mean + 0.05 * np.eye(len(theta)), g)
                theta = theta + v
            found = run(NaturalGradient(metric, every=every, clip_norm=None, **settings), batches)
            np.testing.assert_allclose(found, theta, rtol=1e-7, atol=1e-9)


def test_it_resumes_at_any_step() -> None:
    """Also between two measurings, where M̄ must be factored anew; bit for bit."""
    for metric, graft, every in [("kfac", "", 2), ("qdruop", "adam", 1), ("qdrbpm_probed", "", 2)]:
        with case(metric, graft):
            optimizer = NaturalGradient(
                metric, rate=Stepwise({0: 0.05, 2: 0.02}), every=every, graft=graft, averaged=0.8
            )
            whole = run(optimizer)
            for stop in (1, 2, 3):
                objective, feed = problem()
                first = rnn.minimize(objective, optimizer, steps=stop, feed=feed)
                again = NaturalGradient(**optimizer.settings())
                assert again == optimizer
                rest = rnn.minimize(
                    objective,
                    again,
                    steps=STEPS - stop,
                    start=first.theta,
                    state=deepcopy(first.state),
                    feed=lambda step, done=stop, feed=feed: feed(step + done),  # type: ignore[misc]
                )
                assert rest.theta.tobytes() == whole.tobytes()


def test_a_grafted_step_is_as_long_as_the_other_optimizers() -> None:
    """For each parameter by itself, and in the direction of the metric."""
    for name in ["sgd", "rmsprop", "adam"]:
        with case(name):
            optimizer = NaturalGradient(Kronecker(), rate=0.02, momentum=0.0, graft=name)
            kind = rnn.optimizers.ALL[name](rate=0.02)  # type: ignore[call-arg]
            objective, feed = problem()
            theta = objective.start()
            state, other = optimizer.init(theta, objective), kind.init(theta)
            for step in range(STEPS):
                feed(step)
                before, there = theta.copy(), theta.copy()
                numbers = objective.metric(theta, Kronecker(), "all", step)[2]
                mean = numbers if step == 0 else min(0.95, 1 - 1 / (step + 1)) * state["metric"]
                if step:
                    mean = mean + (1 - min(0.95, 1 - 1 / (step + 1))) * numbers
                direction = objective.metric_solver(Kronecker(), "all", mean, 0.01)(
                    objective.gradient(theta)[1]
                )
                kind.step(objective, there, other)
                optimizer.step(objective, theta, state)
                for each in objective.slices:
                    moved = theta[each] - before[each]
                    assert np.linalg.norm(moved) == pytest.approx(np.linalg.norm(there[each] - before[each]))
                    cosine = (
                        -moved @ direction[each] / np.linalg.norm(moved) / np.linalg.norm(direction[each])
                    )
                    assert cosine == pytest.approx(1)


def test_a_step_is_at_most_so_long_in_the_metric() -> None:
    metric = OuterProduct()
    for limit in (1e-3, 1e3):
        objective, feed = problem()
        feed(0)
        theta = objective.start()
        optimizer = NaturalGradient(metric, rate=1.0, momentum=0.0, damping=0.0, clip_norm=limit)
        g, numbers = objective.metric(theta, metric)[1:]
        whole = objective.metric_solver(metric, "all", numbers)(g)
        length = float(np.sqrt(g @ whole))
        start = theta.copy()
        report = optimizer.step(objective, theta, optimizer.init(theta, objective))
        assert report.length == pytest.approx(length)  # type: ignore[attr-defined]
        np.testing.assert_allclose(start - theta, whole * min(1.0, limit / length), rtol=1e-9)


def test_it_learns_in_fewer_steps_than_adam() -> None:
    """A GRU on symbols that follow each other by steps that each case has of its own: 60 steps, three metrics."""
    losses = {}
    for optimizer in (rnn.Adam(0.02), *map(NaturalGradient, ("kfac", "qdruop", "qdrbpm_probed"))):
        network = rnn.Network([rnn.GRU(24)], 12, 12, seed=1)
        u = network.unroll(30, 16, initial="zero")
        objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets])
        draws = np.random.default_rng(3)

        def feed(step: int, objective: Any = objective, draws: Any = draws) -> None:
            x = (draws.integers(0, 12, 16) + np.arange(31)[:, None] * draws.integers(1, 4, 16)) % 12
            objective.feed(x[:-1], x[1:])

        reports = rnn.minimize(objective, optimizer, steps=60, feed=feed).reports
        name = getattr(optimizer, "metric", "adam")
        losses[str(name)] = np.mean([report.loss for report in reports[-5:]])
    adam = losses.pop("adam")
    assert all(loss < 0.1 and loss < 0.7 * adam for loss in losses.values()), (adam, losses)


# -- what cannot be --------------------------------------------------------------------------------


def test_a_singular_metric_names_the_units_and_changes_nothing() -> None:
    """One-hot inputs add up to the bias, so blocks are singular without damping."""
    objective, feed = problem()
    feed(0)
    theta = objective.start()
    optimizer = NaturalGradient(OuterProduct(damping=0.0, output_damping=1.0), damping=0.0)
    state = optimizer.init(theta, objective)
    before = theta.copy(), deepcopy(state)
    with pytest.raises(TrainingError, match=r"the metric of 4 units of .*W_xh.* is singular.*larger damping"):
        optimizer.step(objective, theta, state)
    assert np.array_equal(theta, before[0])
    assert all(np.array_equal(state[name], array) for name, array in before[1].items())


def test_impossible_settings() -> None:
    cases = [
        ({"rate": 0}, "rate must be > 0, not 0"),
        ({"rate": np.inf}, "rate must be finite, not inf"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), not 1.0"),
        ({"damping": -1}, "damping must be a finite number >= 0, not -1"),
        ({"averaged": 1.0}, r"averaged must be in \[0, 1\), not 1.0"),
        ({"every": 0}, "every must be"),
        ({"clip_norm": 0}, "clip_norm must be > 0, or None for no limit, not 0"),
        ({"graft": "lbfgs"}, "graft must be '' or 'sgd' or 'rmsprop' or 'adam', not 'lbfgs'"),
        ({"metric": "euclid"}, "metric must be one of rnn.riemannian"),
    ]
    for settings, words in cases:
        with case(settings, words), pytest.raises(UsageError, match=f"NaturalGradient: {words}"):
            NaturalGradient(**settings)


def test_its_state_needs_the_objective() -> None:
    with pytest.raises(UsageError, match=r"write init\(theta, objective\)"):
        NaturalGradient().init(np.zeros(3))
    objective, feed = problem()
    state = NaturalGradient("kfac").init(objective.start(), objective)
    with pytest.raises(UsageError, match=r"metric in state must be finite, of shape \[\d+\]"):
        rnn.minimize(objective, NaturalGradient("ruop"), steps=1, feed=feed, state=state)


def test_a_step_of_another_cost_is_in_its_own_metric() -> None:
    """Two functions in turns, one of which learned states enter: M̄ is of the other, whichever comes first."""
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
    kept, at = state["metric"].copy(), theta.copy()
    g, numbers = first.metric(theta, metric, "all", 2)[1:]
    before = state["v"].copy()
    optimizer.step(first, theta, state)
    assert np.array_equal(state["metric"], kept)
    step = first.metric_solver(metric, "all", numbers, 0.01)(g)
    step *= min(1.0, 1 / np.sqrt(g @ step))
    np.testing.assert_allclose(theta - at, 0.9 * before - 0.03 * step, rtol=1e-9, atol=1e-12)


def test_counts_that_no_run_has() -> None:
    for name, number in [("measured", -1), ("measured", 2**63 - 1), ("steps", -(2**63)), ("steps", 2**62)]:
        with case(name, number):
            objective, feed = problem()
            feed(0)
            optimizer, theta = NaturalGradient("kfac"), objective.start()
            state = optimizer.init(theta, objective)
            state[name][0] = number
            with pytest.raises(UsageError, match="state says that its metric is the mean of"):
                optimizer.step(objective, theta, state)


def test_a_metric_of_less_than_no_cases() -> None:
    objective, feed = problem()
    feed(0)
    optimizer, theta = NaturalGradient("kfac", every=5), objective.start()
    state = optimizer.init(theta, objective)
    state["metric"][:], state["measured"][0], state["steps"][0] = -1e38, 1, 1
    with pytest.raises(TrainingError, match="the metric is of -1e\\+38 cases, which cannot be"):
        optimizer.step(objective, theta, state)
