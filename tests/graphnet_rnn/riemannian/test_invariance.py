"""Steps are the same however a net is written, where a metric promises it, and not where none does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.optimizers.riemannian import Riemannian
from graphnet_rnn.riemannian.metrics import (
    Backpropagated,
    Frequency,
    Metric,
    OuterProduct,
    RootMeanSquare,
)
from tests.graphnet_rnn.riemannian.test_optimizer import objective_of

STEPS = 6
#: Damping is what breaks invariance; the sequence is long enough to do without.
NONE: dict[str, Any] = {"damping": 0.0, "output_damping": 0.0}


def sequence() -> Array:
    draws = np.random.default_rng(4)
    return np.where(draws.random(300) < 0.5, np.arange(300) % 3, draws.integers(0, 3, 300))


def trained(network: rnn.Network, metric: Metric) -> list[float]:
    """The losses of some steps of each part."""
    objective, optimizer = objective_of(network, sequence()), Riemannian(metric)
    theta = network.theta.copy()
    state = optimizer.init(theta)
    return [optimizer.step(objective, theta, state).after for _ in range(STEPS)]  # type: ignore[attr-defined]


def gnn(activation: str) -> rnn.Network:
    """The same net, to rounding: the library derives its initial weights for each activation."""
    cell = rnn.GNN(4, edges=3, activation=activation)
    net = rnn.Network([cell], 3, 3, dtype="float64", initial_state="learned")
    if activation == "tanh":
        draws = np.random.default_rng(1)
        for name in ("output.W_ho", "layer0.tau", "layer0.tau_0"):
            net.parameters[name].value[...] += 0.6 * draws.standard_normal(net.parameters[name].shape)
    return net


def as_logistic(tanh: rnn.Network) -> rnn.Network:
    """V' = 2V and a' = (a + 1) / 2: τ' = 4τ, τ'_0 = 2 (τ_0 - Σ τ), w' = 2w, w'_0 = w_0 - Σ w."""
    net = gnn("sigmoid")
    p, q = ({name.split(".")[-1]: node for name, node in n.parameters.items()} for n in (tanh, net))
    targets = tanh.layers[0].targets  # type: ignore[attr-defined]
    tau = p["tau"].value
    sums = np.zeros(p["tau_0"].shape)
    np.add.at(sums.T, targets, tau.T)
    q["tau"].value[...] = 4 * tau
    q["tau_0"].value[...] = 2 * (p["tau_0"].value - sums)
    q["a0"].value[...] = (p["a0"].value + 1) / 2
    q["W_ho"].value[...] = 2 * p["W_ho"].value
    q["b_o"].value[...] = p["b_o"].value - p["W_ho"].value.sum(axis=0)
    return net


KEPT = {
    "RUOP": OuterProduct(**NONE),
    "RBPM": Backpropagated(**NONE),
    "QDRUOP": OuterProduct("quasi-diagonal", **NONE),
    "QDRBPM": Backpropagated("quasi-diagonal", **NONE),
}
LOST: dict[str, Metric] = {"frequency": Frequency(), "rms": RootMeanSquare()}


@pytest.mark.parametrize("name", [*KEPT, *LOST])
def test_tanh_and_logistic_units(name: str) -> None:
    tanh = gnn("tanh")
    nets = tanh, as_logistic(tanh)
    one, other = (np.array(trained(net, (KEPT | LOST)[name])) for net in nets)
    if name in KEPT:
        assert one[-1] < 0.95 * one[0]
        np.testing.assert_allclose(other, one, rtol=1e-6)
    else:
        assert np.abs(other / one - 1).max() > 1e-2
