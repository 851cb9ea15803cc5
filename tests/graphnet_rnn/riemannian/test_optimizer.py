"""Riemannian steps against the loop of the source, and for cells that it does not know."""

from __future__ import annotations

import itertools
import json
import math
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers.riemannian import Riemannian, RiemannianReport
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.metrics import METRICS as METRIC_NAMES
from graphnet_rnn.riemannian.metrics import Backpropagated, Kronecker, Metric, OuterProduct, OverCost
from tests.graphnet_rnn.optimizers.toys import Plain
from tests.graphnet_rnn.riemannian import ollivier
from tests.graphnet_rnn.riemannian.test_metrics import METRICS, UNITS, Pair
from tests.tables import case

STEPS = 16


def objective_of(network: rnn.Network, x: Any) -> rnn.Objective:
    """Of a sequence all of whose symbols are predicted."""
    u = network.unroll(len(x) - 1, 1, initial="learned", predict_first=True)
    objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets])
    objective.feed(x[:-1, None], x[:, None])
    return objective


def test_a_run_is_that_of_the_source() -> None:
    for kind, name in itertools.product(["GLNN", "RNN"], METRICS):
        with case(kind, name):
            pair = Pair(kind, time=40)
            p = pair.parameters()
            optimizer = Riemannian(METRICS[name])
            expected = ollivier.train(pair.net, p, pair.x, np.ones(40), STEPS, transition=name)  # type: ignore[arg-type]
            objective = objective_of(pair.network, pair.x)
            theta = pair.network.theta.copy()
            state = optimizer.init(theta)
            if (
                kind == "RNN"
            ):  # it learns the activity before the first step, the source V: the first steps tell
                expected = ollivier.train(pair.net, p, pair.x, np.ones(40), 2, transition=name)  # type: ignore[arg-type]
            reports = []
            for _ in range(max(attempt.step for attempt in expected.attempts) + 1):
                report = optimizer.step(objective, theta, state)
                assert isinstance(report, RiemannianReport)
                reports.append(report)
            for step, report in enumerate(reports):
                tried = [attempt for attempt in expected.attempts if attempt.step == step]
                assert report.tries == len(tried)
                assert report.rate == tried[-1].rate
                if kind == "GLNN" or step == 0:
                    assert -40 * report.after == pytest.approx(tried[-1].log_likelihood, rel=1e-9)
            assert 1 / expected.attempts[0].rate == UNITS


class Mine(rnn.Cell):
    """Five lines of a user: h' = tanh(x W_xh + h W_hh + b_h) σ(h W_hg + b_g)"""

    states: ClassVar = (rnn.State("h"),)

    def step(self, x: Any, h: Any) -> Any:
        return gn.tanh(self.affine("h", x=x, h=h)) * gn.sigmoid(self.affine("g", h=h))


LEARNERS = {
    "RUOP": OuterProduct(),
    "RBPM": Backpropagated(estimate="probe"),
    "QDRUOP": OuterProduct("quasi-diagonal"),
    "KFAC": Kronecker(),
    "RBPM, structured": Backpropagated(),
}


def test_a_cell_that_a_user_declares_learns() -> None:
    for cell, name in [
        (Mine(8), "RUOP"),
        (Mine(8), "RBPM, structured"),
        (rnn.LSTM(8), "RBPM"),
        (rnn.GRU(8), "KFAC"),
    ]:
        with case(cell, name):
            x = np.array([0, 1, 2, 2, 1] * 16)
            network = rnn.Network([cell], 3, 3, initial_state="learned")
            objective = objective_of(network, x)
            theta, optimizer = network.theta.copy(), Riemannian(LEARNERS[name])
            state = optimizer.init(theta)
            losses = [optimizer.step(objective, theta, state).loss for _ in range(30)]
            assert losses[0] > 1.0
            assert losses[-1] < 0.35
            assert all(b <= a for a, b in pairwise(losses))


def test_memory_cells_are_to_be_probed() -> None:
    x = np.array([0, 1, 2] * 16)
    network = rnn.Network([rnn.LSTM(3)], 3, 3, initial_state="learned")
    optimizer, objective = Riemannian(Backpropagated()), objective_of(network, x)
    theta = network.theta.copy()
    state = optimizer.init(theta)
    optimizer.step(objective, theta, state)
    with pytest.raises(
        UsageError, match=r"depends on \d+ pre-activations with none between.*estimate='probe'"
    ):
        optimizer.step(objective, theta, state)


def test_a_run_goes_on_to_the_same_bytes() -> None:
    """State and settings, as JSON keeps them, are all that a step needs."""
    for name in METRIC_NAMES:
        with case(name):
            x = np.array([0, 1, 2, 2, 1] * 8)

            def begun() -> tuple[rnn.Objective, Any]:
                network = rnn.Network([rnn.Elman(4)], 3, 3, initial_state="learned")
                return objective_of(network, x), network.theta.copy()

            optimizer = Riemannian(METRIC_NAMES[name]())
            again = Riemannian(**json.loads(json.dumps(optimizer.settings())))
            assert again == optimizer
            objective, theta = begun()
            state = optimizer.init(theta)
            for _ in range(6):
                optimizer.step(objective, theta, state)
            other, there = begun()
            held = again.init(there)
            for _ in range(3):
                again.step(other, there, held)
            third, _ = begun()
            kept = {key: value.copy() for key, value in held.items()}
            for _ in range(3):
                again.step(third, there, kept)
            assert there.tobytes() == theta.tobytes()


def test_batches_add_up() -> None:
    """Two halves of the sequences make the step of all of them."""
    draws = np.random.default_rng(0)
    network = rnn.Network([rnn.Elman(4)], 3, 3, dtype="float64")
    data = draws.integers(0, 3, (7, 6))

    def objective(batch: int) -> rnn.Objective:
        u = network.unroll(6, batch, initial="zero")
        return rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets])

    whole, halves = objective(6), rnn.BatchedObjective(objective(3))
    whole.feed(data[:-1], data[1:])
    halves.feed([(data[:-1, :3], data[1:, :3]), (data[:-1, 3:], data[1:, 3:])])
    for part in ("outputs", "hidden"):
        found = []
        for each in (whole, halves):
            _, g, numbers = each.metric(network.theta, OuterProduct(), part)
            assert numbers.shape == (each.metric_size(OuterProduct(), part),)
            found.append(each.metric_solver(OuterProduct(), part, numbers)(g))
        # The slopes of a mean over half as many are twice as large, and so is the scale of the sum: the sums agree.
        np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_what_is_no_metric_is_refused() -> None:
    for given in ("nope", 3, {"metric": "OuterProduct", "speed": 2}):
        with pytest.raises(UsageError, match=r"Riemannian: metric must be one of rnn.riemannian.*ruop, rbpm"):
            Riemannian(given)  # type: ignore[arg-type]


def test_weight_decay_is_part_of_what_falls() -> None:
    x = np.array([0, 1, 2, 2, 1] * 8)
    network = rnn.Network([rnn.Elman(4)], 3, 3, dtype="float64", initial_state="learned")
    u = network.unroll(len(x) - 1, 1, initial="learned", predict_first=True)
    objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets], l2=0.5)
    objective.feed(x[:-1, None], x[:, None])
    theta = network.theta + 1.0
    for part in ("outputs", "hidden"):
        loss, g, _ = objective.metric(theta, OuterProduct(), part)
        assert loss == pytest.approx(objective.loss(theta), rel=1e-12)
        own = [w.name for w in OverCost(OuterProduct(), u.cost, objective.parameters, part).weights]
        whole, start = objective.gradient(theta)[1], 0
        for name, node in network.parameters.items():
            if name in own:
                np.testing.assert_allclose(
                    g[start : start + node.size], whole[start : start + node.size], rtol=1e-12
                )
            start += node.size


class Cliff(Plain):
    """w², with a lower loss beyond 0, where there are no slopes: the first steps of any length fall off."""

    def __init__(self, what: str) -> None:
        w = gn.parameter(np.ones(2), "w")
        super().__init__(gn.sum(w * w), [w])
        self.what = what

    def loss(self, w: Array) -> float:
        return -1.0 if w[0] < 0 else super().loss(w)

    def metric(self, w: Array, metric: Any, part: str = "all", draw: int = 0) -> tuple[float, Array, Array]:
        loss, g, numbers = super().metric(w, metric, part, draw)
        if w[0] < 0:
            loss = -1.0
            broken = {
                "slopes": (g * np.nan, numbers),
                "metric": (g, numbers * np.inf),
                "singular": (g, -numbers),
            }
            g, numbers = broken[self.what]
        return loss, g, numbers

    def metric_solver(self, metric: Metric, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        if not (np.isfinite(numbers).all() and (numbers > 0).all()):
            raise TrainingError("the metric of w is singular")
        return super().metric_solver(metric, part, numbers, damping)


def test_a_step_to_where_there_are_no_slopes_or_no_metric_is_undone() -> None:
    for what in ["slopes", "metric", "singular"]:
        with case(what):
            objective, theta = Cliff(what), np.ones(2)
            optimizer = Riemannian(rate=3.0)
            state = optimizer.init(theta)
            first = optimizer.step(objective, theta, state)
            assert isinstance(first, RiemannianReport)
            assert first.taken
            assert theta[0] < 0
            reports = [first]
            while theta[0] < 0:
                report = optimizer.step(objective, theta, state)
                assert isinstance(report, RiemannianReport)
                assert report.undone
                assert report.loss == 2.0  # where the first step began
                assert report.part == first.part
                assert report.rate == pytest.approx(reports[-1].rate * 1.1 / 2)
                reports.append(report)
            assert len(reports) > 2
            assert "the step before was undone" in str(reports[-1])
            for _ in range(20):
                report = optimizer.step(objective, theta, state)
            assert 0 <= report.loss < 2.0


def test_where_nothing_was_moved_nothing_is_undone() -> None:
    objective, theta = Cliff("slopes"), -np.ones(2)
    report = Riemannian().step(objective, theta, Riemannian().init(theta))
    assert not math.isfinite(report.gradient_norm)
    assert not report.undone
    np.testing.assert_array_equal(theta, -np.ones(2))
    with pytest.raises(TrainingError, match="is singular"):
        Riemannian().step(Cliff("singular"), theta, Riemannian().init(theta))
