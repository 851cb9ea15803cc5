"""Truncated BPTT(k₁, k₂): pieces that overlap, the states to carry, and the gradient against a long unrolling."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.data import Batches, Corpus
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.training import Listener
from tests.graphnet_rnn.cells.oracles import TINY, Array, softmax_loss
from tests.tables import case


@settings(max_examples=60)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 4), st.integers(0, 60))
def test_overlapping_pieces(stride: int, more: int, batch: int, extra: int) -> None:
    """Each is k₂ steps long and starts k₁ after the one before; what is scored is every target once, in order."""
    time = stride + more - 1
    symbols = np.arange(time * batch + 1 + extra)
    pieces = list(Batches(symbols, time, batch, stride))
    lane = (len(symbols) - 1) // batch
    assert len(pieces) == (lane - time) // stride + 1
    scored = []
    for i, (x, t) in enumerate(pieces):
        assert x.shape == t.shape == (time, batch)
        assert x[:, 0].tolist() == list(range(i * stride, i * stride + time))
        assert np.array_equal(x, x[:, :1] + lane * np.arange(batch))
        assert np.array_equal(t, x + 1)
        scored += t[time - stride if i else 0 :, 0].tolist()
    assert scored == list(range(1, len(scored) + 1))
    assert lane - len(scored) < stride, "less than another piece is left out"


def test_stride_is_time_by_default() -> None:
    for (x, _), (y, _) in zip(Batches(np.arange(50), 4, 3), Batches(np.arange(50), 4, 3, 4), strict=True):
        assert np.array_equal(x, y)
    assert Batches(np.arange(50), 4, 3).stride == 4


def test_impossible_strides() -> None:
    with pytest.raises(UsageError, match="stride must be a whole number >= 1, not 0"):
        Batches(np.arange(50), 4, 3, 0)
    with pytest.raises(UsageError, match=re.escape("stride must be at most time, 4, not 5")):
        Batches(np.arange(50), 4, 3, 5)
    with pytest.raises(DataError, match="the text has 12 characters, fewer than one batch needs"):
        Batches(np.arange(12), 4, 3, 1)


def test_states_after_each_step() -> None:
    for layers in [(rnn.LSTM(3), rnn.GRU(2)), (rnn.Dense(3),)]:
        with case(layers):
            net = rnn.Network(layers, inputs=4, outputs=4, dtype="float64")
            u = net.unroll(3, 2)
            assert len(u.after) == 3
            assert u.after[-1] == u.final
            x = np.random.default_rng(0).integers(0, 4, (3, 2))
            for k, nodes in enumerate(u.after):
                _, expected = rnn.run(net, x[: k + 1])
                assert len(nodes) == len(expected)
                if nodes:
                    found = gn.compile(nodes, [u.inputs, *u.initial], backend="numpy")(x, *net.zero_states(2))
                    for one, other in zip(found, expected, strict=True):
                        np.testing.assert_allclose(one, other, atol=1e-14)


def test_no_states_between_steps_where_a_layer_reads_to_the_end() -> None:
    assert rnn.Network([rnn.Bidirectional(2)], inputs=4, outputs=4).unroll(3, 1).after == []


def elman_loss(net: rnn.Network, theta: Array, h: Array, x: Array, t: Array, scored: int) -> complex:
    """The mean of the last `scored` losses from states h, in NumPy, on complex weights."""
    w, at = {}, 0
    for name, node in net.parameters.items():
        w[name.split(".")[1]] = theta[at : at + node.size].reshape(node.shape)
        at += node.size
    losses = []
    for k in range(len(x)):
        h = np.tanh(w["W_xh"][x[k]] + h @ w["W_hh"] + w["b_h"])
        losses.append(softmax_loss(h @ w["W_ho"] + w["b_o"], t[k]))
    return complex(np.mean(losses[len(x) - scored :]))


def test_training_by_windows() -> None:
    """SGD by hand: states from step to step in NumPy, k₁ losses through k₂ steps, the first state held constant."""
    k1, k2, batch = 2, 5, 2
    net = rnn.Network([rnn.Elman(3)], inputs=4, outputs=4, dtype="float64", seed=3)
    symbols = np.random.default_rng(1).integers(0, 4, 50)
    pieces = Batches(symbols, k2, batch, k1)
    u = net.unroll(k2, batch, unscored=k2 - k1)
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets, *u.initial], also=u.after[k1 - 1])
    theta, carried = net.theta.copy(), net.zero_states(batch)
    by_hand, h = theta.copy(), np.zeros((batch, 3))
    for x, t in pieces:
        objective.feed(x, t, *carried)
        loss, gradient = objective.gradient(theta)
        carried = list(objective.also_values)
        value = elman_loss(net, by_hand.astype(complex), h, x, t, k1)
        directions = 1j * TINY * np.eye(theta.size)
        expected = [elman_loss(net, by_hand + d, h, x, t, k1).imag / TINY for d in directions]
        assert loss == pytest.approx(value.real, rel=1e-12)
        np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12)
        # What is carried was computed with the weights of before the step.
        net.theta = by_hand
        h = rnn.run(net, x[:k1], [h])[1][0]
        np.testing.assert_allclose(carried[0], h, rtol=1e-12)
        by_hand = by_hand - 0.3 * np.array(expected)
        theta -= 0.3 * gradient
    assert len(pieces) > 5


class Bits(Listener):
    """Keeps what each epoch's history says of training."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def epoch_ended(self, trainer: rnn.Trainer, row: Any) -> None:
        self.seen.append(row["train_bits"])


@pytest.mark.parametrize("initial", ["zero", "learned"])
def test_trainer(tmp_path: Path, initial: str) -> None:
    """Two epochs by hand: the first window is scored whole, each other one in its last k₁ steps."""
    k1, k2, batch = 3, 7, 2
    data = Corpus.split("a cat sat on a mat, and a rat sat on the cat. " * 6)
    n = len(data.vocabulary)
    net, other = (
        rnn.Network([rnn.LSTM(4)], inputs=n, outputs=n, dtype="float64", initial_state=initial)
        for _ in range(2)
    )
    bits = Bits()
    problem = rnn.CarriedText(net, data, time=k2, batch=batch, stride=k1, sample=0)
    settings = rnn.Training(rnn.SGD(0.5), epochs=2, stopping=None)
    rnn.Trainer(problem, settings, tmp_path / "run", listeners=[bits]).run()
    lane = (len(data.train) - 1) // batch
    x = data.train[: batch * lane].reshape(batch, lane).T
    t = data.train[1 : batch * lane + 1].reshape(batch, lane).T
    for epoch in range(2):
        states, total, count = other.first_states(batch), 0.0, 0
        for start in range(0, lane - k2 + 1, k1):
            learned = initial == "learned" and not start
            unscored = k2 - k1 if start else 0
            u = other.unroll(k2, batch, initial="learned" if learned else "given")
            cost = gn.mean(u.losses[unscored:])
            outputs = [cost, *gn.gradient(cost, list(other.parameters.values()))]
            window = slice(start, start + k2)
            loss, *gradients = gn.compile(
                outputs, [u.inputs, u.targets, *([] if learned else u.initial)], backend="numpy"
            )(x[window], t[window], *([] if learned else states))
            _, states = rnn.run(other, x[start : start + k1], states)
            other.theta = other.theta - 0.5 * np.concatenate([g.ravel() for g in gradients])
            total, count = total + float(loss) * (k2 - unscored), count + k2 - unscored
        assert bits.seen[epoch] == pytest.approx(total / count / math.log(2))
    np.testing.assert_allclose(net.theta, other.theta, rtol=1e-8, atol=1e-10)
