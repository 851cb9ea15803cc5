"""Dynamic evaluation against a loop written by hand, and from the command line."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.cli import main
from graphnet_rnn.data import Vocabulary
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.online import DynamicEvaluation
from graphnet_rnn.online.known_gradient import KnownGradient
from graphnet_rnn.optimizers.first_order import FirstOrder
from tests.tables import case


@cache
def network(kind: str = "zero") -> rnn.Network:
    net = rnn.Network(
        [rnn.LSTM(4), rnn.GRU(3)], inputs=5, outputs=5, dtype="float64", initial_state=kind, dropout=0.5
    )
    net.theta = np.random.default_rng(1).standard_normal(net.theta.size)
    net.vocabulary = Vocabulary("\nabcd")
    return net


def text(length: int) -> Array:
    return np.random.default_rng(length).integers(0, 5, length)


def test_without_adaptation_it_is_evaluation() -> None:
    for (length, context, time), kind in itertools.product(
        [(40, 0, 7), (41, 13, 7), (20, 5, 30), (2, 0, 1), (30, 1, 1)], ["zero", "learned"]
    ):
        with case(length, context, kind):
            expected = rnn.Evaluator(network(kind), lanes=1, time=time)(text(length), context)
            found = DynamicEvaluation(network(kind), None, time)(text(length), context)
            assert found.nats == pytest.approx(expected.nats, rel=1e-12)
            assert (found.correct, found.scored) == (expected.correct, expected.scored)
            barely = DynamicEvaluation(network(kind), rnn.SGD(1e-14), time)(text(length), context)
            assert barely.nats == pytest.approx(expected.nats, rel=1e-10)


def by_hand(
    symbols: Array, optimizer: FirstOrder, time: int, decay: float, context: int
) -> tuple[float, int]:
    """Nats and right guesses: pieces of their true lengths, each with functions of its own."""
    net = network()
    trained = net.theta.copy()
    theta = trained.copy()
    state = optimizer.init(theta)
    states = net.zero_states(1)
    nats, correct = 0.0, 0
    for start in range(0, len(symbols) - 1, time):
        x, t = symbols[start : start + time + 1][:-1, None], symbols[start + 1 : start + time + 1, None]
        net.theta = optimizer.evaluation_point(theta, state)
        o, after = rnn.run(net, x, states)
        for k in range(len(x)):
            if start + k + 1 >= max(1, context):
                nats -= o[k, 0, t[k, 0]] - math.log(np.exp(o[k, 0]).sum())
                correct += int(o[k, 0].argmax() == t[k, 0])
        u = net.unroll(len(x), 1, training=False)
        gradients = gn.compile(
            gn.gradient(u.cost, list(net.parameters.values())),
            [u.inputs, u.targets, *u.initial],
            backend="numpy",
        )(x, t, *states)
        pull = decay * (trained - theta)
        optimizer.step(KnownGradient(net, 0.0, np.concatenate([g.ravel() for g in gradients])), theta, state)
        theta += pull
        states = after
    net.theta = trained
    return nats, correct


def test_a_loop_by_hand() -> None:
    """Each piece is scored before it is learned from, context included; the weights are then put back."""
    for (decay, context), optimizer in itertools.product(
        [(0.0, 0), (0.2, 9)], [rnn.SGD(0.3), rnn.Nesterov(0.1), rnn.Adam(0.05)]
    ):
        with case(decay, context, optimizer):
            symbols, before = text(33), network().theta.copy()
            nats, correct = by_hand(symbols, optimizer, 6, decay, context)
            reader = DynamicEvaluation(network(), optimizer, 6, decay)
            for _ in range(2):  # nothing is left of the first reading
                found = reader(symbols, context)
                assert found.nats == pytest.approx(nats, rel=1e-10)
                assert (found.correct, found.scored) == (correct, 33 - max(1, context))
                assert np.array_equal(network().theta, before)
            assert abs(nats - rnn.Evaluator(network(), 1)(symbols, context).nats) > 1e-3


def test_it_adapts() -> None:
    """A text that repeats itself becomes predictable; without adaptation it does not."""
    symbols = np.tile([1, 2, 3, 4], 150)
    still = DynamicEvaluation(network(), None)(symbols).bits
    assert DynamicEvaluation(network(), rnn.SGD(1.0))(symbols).bits < 0.5 * still


def test_progress_ends_at_the_end() -> None:
    seen: list[tuple[int, int]] = []
    DynamicEvaluation(network(), None, 7)(text(20), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(7, 19), (14, 19), (19, 19)]


def test_weights_are_put_back_after_a_failure() -> None:
    before = network().theta.copy()
    with (
        np.errstate(all="ignore"),
        pytest.raises(TrainingError, match=r"SGD\(rate=1e\+308.* broke the weights: at character"),
    ):
        DynamicEvaluation(network(), rnn.SGD(1e308), 2)(text(40))
    assert np.array_equal(network().theta, before)


def test_impossible_settings() -> None:
    net = network()
    with pytest.raises(UsageError, match="DynamicEvaluation: optimizer must be one of first order"):
        DynamicEvaluation(net, rnn.HessianFree())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="time must be a whole number >= 1, not 0"):
        DynamicEvaluation(net, None, 0)
    with pytest.raises(UsageError, match=r"decay must be in \[0, 1\), not 1"):
        DynamicEvaluation(net, None, decay=1)
    with pytest.raises(UsageError, match="only a network that reads symbols"):
        DynamicEvaluation(rnn.Network([rnn.LSTM(2)], 3, 3, "squared"), None)
    with pytest.raises(UsageError, match="reads a sequence from its end"):
        DynamicEvaluation(rnn.Network([rnn.Bidirectional(2)], 3, 3), None)
    with pytest.raises(DataError, match="with 3 of context there is nothing to score"):
        DynamicEvaluation(net, None)(text(3), 3)


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rnn.save(network(), "model.safetensors")
    Path("text.txt").write_text("abcd" * 100, encoding="utf-8")
    return tmp_path


def bits(capsys: pytest.CaptureFixture[str], *options: str) -> float:
    assert main(["evaluate", "model.safetensors", "text.txt", "--context", "10", *options]) == 0
    found = re.match(r"([\d.]+) bits/char, .* over 390 characters", capsys.readouterr().out)
    assert found
    return float(found[1])


def test_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    symbols = np.tile([1, 2, 3, 4], 100)
    still = bits(capsys, "--lanes", "1")
    adapted = bits(capsys, "--dynamic", "0.5")
    assert adapted == pytest.approx(DynamicEvaluation(network(), rnn.SGD(0.5))(symbols, 10).bits, abs=1e-4)
    assert adapted < still - 0.1
    held = bits(capsys, "--dynamic", "0.5", "--dynamic-time", "5", "--dynamic-decay", "0.3")
    expected = DynamicEvaluation(network(), rnn.SGD(0.5), 5, 0.3)(symbols, 10).bits
    assert held == pytest.approx(expected, abs=1e-4)
    assert bits(capsys, "--dynamic", "1e-12", "--lanes", "1") == pytest.approx(still, abs=1e-4)


def test_command_with_impossible_settings(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ("--dynamic 0", "--dynamic, the rate, must be a finite number > 0, not 0.0"),
        ("--dynamic -1", "must be a finite number > 0, not -1.0"),
        ("--dynamic nan", "must be a number, not nan"),
        ("--dynamic inf", "must be a finite number > 0, not inf"),
        ("--dynamic 1 --lanes 4", "--dynamic reads the text in its order, in one lane; leave --lanes 4 out"),
        ("--dynamic 1 --dynamic-time 0", "--dynamic-time must be a whole number >= 1, not 0"),
        ("--dynamic 1 --dynamic-decay 1", "--dynamic-decay must be in [0, 1), not 1.0"),
        ("--dynamic-decay 0.1", "--dynamic-decay says how --dynamic works; give --dynamic RATE, too"),
        ("--dynamic-time 9", "--dynamic-time says how --dynamic works"),
    ]
    for options, sentence in cases:
        with case(options, sentence):
            assert main(["evaluate", "model.safetensors", "text.txt", *options.split()]) == 2
            captured = capsys.readouterr()
            assert sentence in captured.err
            assert captured.out == ""
            assert captured.err.count("\n") == 1
