"""Dynamic evaluation against a loop written by hand, and from the command line."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

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
from tests.tables import case


@cache
def network(kind: str = "zero") -> rnn.Network:
    settings = {"dtype": "float64", "initial_state": kind, "dropout": 0.5}
    net = rnn.Network([rnn.LSTM(4), rnn.GRU(3)], inputs=5, outputs=5, **settings)
    net.theta = np.random.default_rng(1).standard_normal(net.theta.size)
    net.vocabulary = Vocabulary("\nabcd")
    return net


def text(length: int) -> Array:
    return np.random.default_rng(length).integers(0, 5, length)


def test_without_adaptation_it_is_evaluation() -> None:
    texts = [(40, 0, 7), (41, 13, 7), (20, 5, 30), (2, 0, 1), (30, 1, 1)]
    for (length, context, time), kind in itertools.product(texts, ["zero", "learned"]):
        with case(length, context, kind):
            expected = rnn.Evaluator(network(kind), lanes=1, time=time)(text(length), context)
            found = DynamicEvaluation(network(kind), None, time)(text(length), context)
            assert found.nats == pytest.approx(expected.nats, rel=1e-12)
            assert (found.correct, found.scored) == (expected.correct, expected.scored)
            barely = DynamicEvaluation(network(kind), rnn.SGD(1e-14), time)(text(length), context)
            assert barely.nats == pytest.approx(expected.nats, rel=1e-10)


def by_hand(symbols: Array, optimizer: Any, time: int, decay: float, context: int) -> tuple[float, int]:
    """Nats and right guesses: pieces of their true lengths, each with functions of its own."""
    net = network()
    trained = net.theta.copy()
    theta = trained.copy()
    state, states = optimizer.init(theta), net.zero_states(1)
    nats, correct = 0.0, 0
    for start in range(0, len(symbols) - 1, time):
        piece = symbols[start : start + time + 1, None]
        x, t = piece[:-1], piece[1:]
        net.theta = optimizer.evaluation_point(theta, state)
        o, after = rnn.run(net, x, states)
        for k in range(len(x)):
            if start + k + 1 >= max(1, context):
                nats -= o[k, 0, t[k, 0]] - math.log(np.exp(o[k, 0]).sum())
                correct += int(o[k, 0].argmax() == t[k, 0])
        u = net.unroll(len(x), 1, training=False)
        gradient = gn.gradient(u.cost, list(net.parameters.values()))
        function = gn.compile(gradient, [u.inputs, u.targets, *u.initial], backend="numpy")
        g = np.concatenate([each.ravel() for each in function(x, t, *states)])
        pull = decay * (trained - theta)
        optimizer.step(KnownGradient(net, 0.0, g), theta, state)
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


def test_it_adapts_and_weights_are_put_back_after_a_failure() -> None:
    """A text that repeats itself becomes predictable; without adaptation it does not."""
    symbols, seen = np.tile([1, 2, 3, 4], 150), []
    still = DynamicEvaluation(network(), None)(symbols).bits
    assert DynamicEvaluation(network(), rnn.SGD(1.0))(symbols).bits < 0.5 * still
    DynamicEvaluation(network(), None, 7)(text(20), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(7, 19), (14, 19), (19, 19)]
    before, broken = network().theta.copy(), DynamicEvaluation(network(), rnn.SGD(1e308), 2)
    with np.errstate(all="ignore"), pytest.raises(TrainingError, match="broke the weights: at character"):
        broken(text(40))
    assert np.array_equal(network().theta, before)


def test_impossible_settings() -> None:
    net = network()
    cases = [
        (
            lambda: DynamicEvaluation(net, rnn.HessianFree()),
            UsageError,
            "optimizer must be one of first order",
        ),
        (lambda: DynamicEvaluation(net, None, 0), UsageError, "time .* not 0"),
        (lambda: DynamicEvaluation(net, None, decay=1), UsageError, "decay .* not 1"),
        (lambda: DynamicEvaluation(rnn.Network([rnn.LSTM(2)], 3, 3, "squared"), None), UsageError, "symbols"),
        (lambda: DynamicEvaluation(rnn.Network([rnn.Bidirectional(2)], 3, 3), None), UsageError, "its end"),
        (lambda: DynamicEvaluation(net, None)(text(3), 3), DataError, "with 3 of context"),
    ]
    for call, error, words in cases:
        with case(words), pytest.raises(error, match=words):
            call()


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rnn.save(network(), "model.safetensors")
    Path("text.txt").write_text("abcd" * 100, encoding="utf-8")
    evaluate = ["evaluate", "model.safetensors", "text.txt"]

    def bits(options: str) -> float:
        assert main([*evaluate, "--context", "10", *options.split()]) == 0
        found = re.match(r"([\d.]+) bits/char, .* over 390 characters", capsys.readouterr().out)
        return float(found[1])

    symbols, still = np.tile([1, 2, 3, 4], 100), bits("--lanes 1")
    adapted = bits("--dynamic 0.5")
    assert adapted == pytest.approx(DynamicEvaluation(network(), rnn.SGD(0.5))(symbols, 10).bits, abs=1e-4)
    assert adapted < still - 0.1
    expected = DynamicEvaluation(network(), rnn.SGD(0.5), 5, 0.3)(symbols, 10).bits
    held = bits("--dynamic 0.5 --dynamic-time 5 --dynamic-decay 0.3")
    assert held == pytest.approx(expected, abs=1e-4)
    assert bits("--dynamic 1e-12 --lanes 1") == pytest.approx(still, abs=1e-4)

    cases = [
        ("--dynamic 0", "--dynamic, the rate, must be a finite number > 0, not 0.0"),
        ("--dynamic nan", "--dynamic"),
        ("--dynamic 1 --lanes 4", "leave --lanes 4 out"),
        ("--dynamic 1 --dynamic-time 0", "--dynamic-time must be a whole number >= 1, not 0"),
        ("--dynamic 1 --dynamic-decay 1", "--dynamic-decay must be in [0, 1), not 1.0"),
        ("--dynamic-decay 0.1", "give --dynamic RATE, too"),
        ("--dynamic-time 9", "--dynamic-time says how --dynamic works"),
    ]
    for options, words in cases:
        with case(options):
            assert main([*evaluate, *options.split()]) == 2
            captured = capsys.readouterr()
            assert words in captured.err
            assert captured.out == ""
            assert captured.err.count("\n") == 1
