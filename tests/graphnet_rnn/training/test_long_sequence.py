"""A long sequence in pieces matches the whole sequence."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.optimizers import NaturalGradient
from graphnet_rnn.riemannian import Backpropagated, Frequency, Kronecker, Metric, OuterProduct, RootMeanSquare
from tests.tables import case

TIME, BATCH, PIECE = 23, 2, 7
CELLS = {
    "Elman": lambda: rnn.Elman(4), "LSTM": lambda: rnn.LSTM(4), "GRU": lambda: rnn.GRU(3),
    "LSTMPeephole": lambda: rnn.LSTMPeephole(3), "GLNN": lambda: rnn.GLNN(4, edges=2),
}  # fmt: skip


def both(
    cell: str, learned: bool = False, loss: str = "softmax", time: int = TIME
) -> tuple[rnn.Objective, rnn.LongSequence, Array]:
    """The objective of all steps at once, the one by pieces, and a point."""
    how: dict[str, Any] = {"initial_state": "learned"} if learned else {}
    net = rnn.Network([CELLS[cell]()], 3, 3, loss, dtype="float64", seed=1, reads="symbols", **how)
    draws = np.random.default_rng(0)
    x = draws.integers(0, 3, (time, BATCH))
    t = draws.integers(0, 3, (time + learned, BATCH))
    if loss != "softmax":
        t = draws.random((time + learned, BATCH, 3))
    u = net.unroll(time, BATCH, initial="learned" if learned else "zero", predict_first=learned)
    whole = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    pieces = rnn.LongSequence(net, time=PIECE, batch=BATCH, predict_first=learned)
    whole.feed(x, t)
    pieces.feed(x, t)
    return whole, pieces, net.theta + 0.1 * draws.standard_normal(net.theta.size)


def test_loss_and_gradient_match_the_whole_sequence() -> None:
    squared = [("Elman", False, "squared"), ("LSTM", True, "squared")]
    for cell, learned, loss in [*itertools.product(CELLS, [False, True], ["softmax"]), *squared]:
        with case(cell, learned, loss):
            whole, pieces, w = both(cell, learned, loss)
            assert pieces.loss(w) == pytest.approx(whole.loss(w), rel=1e-12)
            losses = pieces.losses(w)
            assert losses.shape[:2] == (TIME + learned, BATCH)
            assert losses.mean() == pytest.approx(whole.loss(w), rel=1e-12)
            expected, g = whole.gradient(w)
            found, by_pieces = pieces.gradient(w)
            assert found == pytest.approx(expected, rel=1e-12)
            np.testing.assert_allclose(by_pieces, g, rtol=1e-9, atol=1e-15)
            assert np.abs(g).max() > 1e-3
            assert pieces.units == whole.units


def test_one_node_for_several_states() -> None:
    """The last input of the second layer is the state of the first."""
    net = rnn.Network([rnn.Elman(2), rnn.NARX(2, order=1, taps=1)], 2, 2, dtype="float64")
    net.theta = net.theta + np.random.default_rng(0).standard_normal(net.theta.shape)
    x, t = np.random.default_rng(1).integers(0, 2, (2, 6, 1))
    u = net.unroll(6, 1, initial="zero")
    whole = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    pieces = rnn.LongSequence(net, time=2)
    for objective in (whole, pieces):
        objective.feed(x, t)
    np.testing.assert_allclose(
        pieces.gradient(net.theta)[1], whole.gradient(net.theta)[1], rtol=1e-9, atol=1e-15
    )


def weighted(
    cell: str, loss: str = "softmax", weights: Array | None = None
) -> tuple[rnn.Objective, rnn.LongSequence, Array, Array]:
    """As `both`, with a weight for each target; the weights. The second piece has none above 0."""
    _, pieces, point = both(cell, loss=loss)
    net, draws = pieces.network, np.random.default_rng(2)
    x = draws.integers(0, 3, (TIME, BATCH))
    t = draws.integers(0, 3, (TIME, BATCH)) if loss == "softmax" else draws.random((TIME, BATCH, 3))
    if weights is None:
        weights = draws.integers(0, 4, (TIME, BATCH)) * 0.7
    weights[PIECE : 2 * PIECE] = 0
    u = net.unroll(TIME, BATCH, initial="zero")
    w = gn.input((TIME, BATCH), "float64", name="w")
    whole = rnn.Objective(gn.sum(w * u.losses) / gn.sum(w), net.parameters, [u.inputs, u.targets, w])
    whole.feed(x, t, weights)
    if loss != "softmax":
        t[weights == 0] = np.nan
    pieces.feed(x, t, weights)
    return whole, pieces, point, weights


def test_weighted_loss_and_gradient_match_the_whole_sequence() -> None:
    for cell, loss in [("LSTM", "softmax"), ("Elman", "squared")]:
        with case(cell, loss):
            whole, pieces, point, weights = weighted(cell, loss)
            expected, g = whole.gradient(point)
            found, by_pieces = pieces.gradient(point)
            assert found == pytest.approx(expected, rel=1e-12)
            assert pieces.loss(point) == pytest.approx(expected, rel=1e-12)
            np.testing.assert_allclose(by_pieces, g, rtol=1e-9, atol=1e-15)
            losses = pieces.losses(point)
            losses = losses if losses.ndim == 2 else losses.sum(axis=-1)
            assert (losses * weights).sum() / weights.sum() == pytest.approx(expected, rel=1e-12)
            assert pieces.explain_non_finite() == ""


def test_weighted_metrics_match_the_whole_sequence() -> None:
    for part in ("hidden", "outputs"):
        whole, pieces, point, _ = weighted("LSTM")
        for metric in METRICS:
            with case(metric, part):
                steps = []
                for objective in (whole, pieces):
                    _, g, numbers = objective.metric(point, metric, part)
                    steps.append(objective.metric_solver(metric, part, numbers, 1e-3)(g))
                np.testing.assert_allclose(steps[1], steps[0], rtol=1e-7, atol=1e-12)


def test_invalid_weights_are_rejected() -> None:
    net = rnn.Network([rnn.Elman(2)], 2, 2)
    pieces = rnn.LongSequence(net, time=3)
    x = np.zeros((4, 1), int)
    for weights in (np.ones(4), np.zeros((4, 1)), -np.ones((4, 1))):
        with pytest.raises(UsageError, match="weights"):
            pieces.feed(x, x, weights)
    with pytest.raises(DataError, match="weights"):
        pieces.feed(x, x, np.full((4, 1), np.nan))


METRICS: list[Metric] = [
    OuterProduct(), OuterProduct("quasi-diagonal"), OuterProduct("diagonal", "same"), RootMeanSquare(), Frequency(),
    Kronecker(sampled=False),
]  # fmt: skip


@pytest.mark.slow
def test_metrics_match_the_whole_sequence() -> None:
    whole_nets = [("LSTM", False, "all"), ("LSTM", True, "all"), ("GLNN", True, "all")]
    parts = [("Elman", True, "hidden"), ("Elman", True, "outputs")]
    for cell, learned, part in [*whole_nets, *parts]:
        whole, pieces, w = both(cell, learned)
        for metric in METRICS:
            with case(cell, learned, metric, part):
                steps = []
                for objective in (whole, pieces):
                    _, g, numbers = objective.metric(w, metric, part)
                    assert numbers.shape == (objective.metric_size(metric, part),)
                    steps.append(objective.metric_solver(metric, part, numbers, 1e-3)(g))
                np.testing.assert_allclose(steps[1], steps[0], rtol=1e-7, atol=1e-12)


def test_random_signals_are_passed_between_pieces() -> None:
    """The mean over draws matches all steps, for any piece size."""
    for metric in [Backpropagated("diagonal", estimate="probe"), OuterProduct("diagonal", sampled=True)]:
        with case(metric):
            whole, pieces, w = both("LSTM", time=11)
            sums = []
            for objective in (whole, pieces):
                found = [objective.metric(w, metric, "hidden", draw)[2] for draw in range(400)]
                sums.append((np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))))
            (a, da), (b, db) = sums
            wrong = np.abs(a - b) / np.maximum(np.sqrt(da**2 + db**2), 1e-12 * np.abs(a).max())
            assert wrong[1:].max() < 5.0
            assert a[1:].max() > 0


def test_optimizers_accept_long_sequences_with_constant_graph_size() -> None:
    """1,000 steps in pieces of 50: the graph has 50 steps."""
    for optimizer in [rnn.Riemannian("qdruop"), NaturalGradient("kfac"), rnn.Adam(0.01), rnn.LBFGS()]:
        with case(optimizer):
            objective = rnn.LongSequence(rnn.Network([rnn.GRU(3)], 3, 3), time=50)
            x = np.arange(1001)[:, None] % 3
            objective.feed(x[:-1], x[1:])
            assert len(objective._kinds) == 1
            result = rnn.minimize(objective, optimizer, steps=4)
            assert result.loss < result.reports[0].loss


def fed(batch: int = 1, targets: int = 5, metric: Any = METRICS[0], **how: Any) -> rnn.LongSequence:
    objective = rnn.LongSequence(rnn.Network([rnn.GRU(2)], 3, 3), **how)
    objective.feed(np.zeros((5, batch), int), np.zeros((targets, batch), int))
    objective.metric(objective.start(), metric)
    return objective


REFUSED: dict[str, tuple[Any, str]] = {
    "no network": (lambda: rnn.LongSequence(3), "LongSequence: the argument must be a Network, not 3"),
    "dropout": (lambda: rnn.LongSequence(rnn.Network([rnn.GRU(2)] * 2, 3, 3, dropout=0.1)), "must not have dropout"),
    "no time": (lambda: fed(time=0), "time must be"),
    "unfed": (lambda: rnn.LongSequence(rnn.Network([rnn.GRU(2)], 3, 3)).loss(np.zeros(3)), r"call feed\(x, t\) first"),
    "two sequences": (lambda: fed(batch=2), r"must be \(T, 1, ...\), not"),
    "other targets": (lambda: fed(targets=4), "5 inputs need 5 targets, at least one; got 4"),
    "back": (lambda: fed(metric=Backpropagated()), "needs derivatives across segments"),
    "linear": (lambda: fed(metric=Kronecker(over_time="linear")), "needs derivatives across segments"),
    "no curvature": (
        lambda: rnn.minimize(fed(), rnn.HessianFree(), steps=1), "no curvature for Hessian-free optimization",
    ),
    "no metric": (lambda: fed(metric=None), "metric must be one of rnn.riemannian"),
}  # fmt: skip


def test_non_finite_inputs_are_reported() -> None:
    objective = rnn.LongSequence(rnn.Network([rnn.GRU(2)], 3, 1, "squared"), time=2)
    x = np.ones((5, 1, 3), "float32")
    x[3, 0, 1] = np.nan
    objective.feed(x, np.ones((5, 1, 1), "float32"))
    with pytest.raises(rnn.errors.TrainingError, match="x holds NaN or infinity at time step 3"):
        rnn.minimize(objective, rnn.Adam(), steps=1)


def test_invalid_arguments_are_rejected() -> None:
    for what, (call, said) in REFUSED.items():
        with case(what), pytest.raises(UsageError, match=said):
            call()
