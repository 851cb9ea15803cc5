"""Models that compile functions accept `backend` and `threads`, and use them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.models.energy import RBM, Stack
from tests.graphnet_rnn.models.trained import train, train_stack
from tests.tables import case

RNG = np.random.default_rng
SYMBOLS = RNG(0).integers(0, 4, (6, 2))


def network(**settings: Any) -> rnn.Network:
    return rnn.Network([rnn.LSTM(3)], 4, 4, dtype="float64", seed=1, **settings)


def hidden_markov(**how: Any) -> list[Array]:
    hmm = rnn.HMM(3, 4, seed=1, **how)
    return [np.array(hmm.fit(SYMBOLS, iterations=2)), hmm.A]


def online(kind: Any, **how: Any) -> list[Array]:
    learner = kind(network(), 2, **how)
    return [np.append(g, loss) for loss, g in (learner.step(x, x[::-1]) for x in SYMBOLS)]


def dynamic(**how: Any) -> list[Array]:
    found = rnn.online.DynamicEvaluation(network(), rnn.SGD(rate=0.1), time=3, **how)(SYMBOLS[:, 0])
    return [np.array(found.nats)]


def readout(**how: Any) -> list[Array]:
    net = rnn.Network([rnn.EchoState(6)], 1, 1, loss="squared", dtype="float64")
    x = np.sin(np.arange(20.0)).reshape(20, 1, 1)
    return [np.array(rnn.fit_output(net, x[:-1], x[1:], ridge=1e-3, **how)), net.theta]


def running(**how: Any) -> list[Array]:
    outputs, states = rnn.run(network(), SYMBOLS, **how)
    return [outputs, *states]


def boltzmann(**how: Any) -> list[Array]:
    model = RBM(4, 3, dtype="float64")
    train(model, np.eye(4)[SYMBOLS[:, 0]], rnn.SGD(), 3, **how)
    return [model.theta]


def stack(**how: Any) -> list[Array]:
    models = Stack([RBM(4, 3, dtype="float64"), RBM(3, 2, dtype="float64")])
    train_stack(models, np.eye(4)[SYMBOLS[:, 0]], rnn.SGD(), 2, **how)
    return [layer.theta for layer in models.layers]


MODELS: dict[str, Callable[..., list[Array]]] = {
    "HMM": hidden_markov,
    "RTRL": lambda **how: online(rnn.online.RTRL, **how),
    "TruncatedLSTM": lambda **how: online(rnn.online.TruncatedLSTM, **how),
    "DynamicEvaluation": dynamic,
    "fit_output": readout,
    "run": running,
    "EnergyCases": boltzmann,
    "EnergyCases of a Stack": stack,
}


def test_back_ends_agree() -> None:
    for make in MODELS.values():
        with case(make):
            for ours, theirs in zip(make(), make(backend="numpy"), strict=True):
                assert pytest.approx(theirs, rel=1e-10, abs=1e-12) == ours


def test_results_do_not_depend_on_threads() -> None:
    for make in MODELS.values():
        with case(make):
            for ours, theirs in zip(make(threads=1), make(threads=2), strict=True):
                assert np.array_equal(ours, theirs)


def test_unknown_backends_and_invalid_threads_are_rejected() -> None:
    """The errors show that both arguments reach the compiler."""
    for how, make in itertools.product([{"backend": "abacus"}, {"threads": 0}], MODELS.values()):
        with case(how, make), pytest.raises(gn.GraphnetError, match=r"abacus|threads"):
            make(**how)
