"""Steps are the same however a net is written, where a metric promises it, and not where none does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.optimizers.riemannian import Riemannian
from graphnet_rnn.riemannian.metrics import (
    Backpropagated,
    Frequency,
    Kronecker,
    Metric,
    OuterProduct,
    RootMeanSquare,
)
from tests.graphnet_rnn.riemannian.test_optimizer import objective_of
from tests.tables import case

STEPS = 4
#: Damping is what breaks invariance; the sequence is long enough to do without.
NONE: dict[str, Any] = {"damping": 0.0, "output_damping": 0.0}


def sequence() -> Array:
    draws = np.random.default_rng(4)
    return np.where(draws.random(100) < 0.5, np.arange(100) % 3, draws.integers(0, 3, 100))


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


def test_tanh_and_logistic_units() -> None:
    for name in [*KEPT, *LOST]:
        with case(name):
            tanh = gnn("tanh")
            nets = tanh, as_logistic(tanh)
            one, other = (np.array(trained(net, (KEPT | LOST)[name])) for net in nets)
            if name in KEPT:
                assert one[-1] < 0.95 * one[0]
                np.testing.assert_allclose(other, one, rtol=1e-6)
            else:
                assert np.abs(other / one - 1).max() > 1e-2


def test_plain_gradients_depend_on_the_units() -> None:
    """What all of this is for: one step at any rate takes the same net, written otherwise, elsewhere."""
    tanh = gnn("tanh")
    for rate in (0.01, 0.1, 1.0):
        after = []
        for net in (tanh, as_logistic(tanh)):
            objective = objective_of(net, sequence())
            value, gradient = objective.gradient(net.theta)
            after.append((value, objective.loss(net.theta - rate * gradient)))
        (before, one), (same, other) = after
        assert before == pytest.approx(same, rel=1e-9)
        assert abs((other - same) / (one - before) - 1) > 0.1


# -- activities, inputs and pre-activations written otherwise ------------------------------------

UNITS, INPUTS, OUTPUTS, TIME, CASES = 3, 2, 2, 12, 40


class Recoded(rnn.Cell):
    """h' = tanh(V / c) P, V = (x Q + t) W_xh + (h + s) W_hh + b_h: an Elman net in other words."""

    states = (rnn.State("h"),)

    def __init__(self, P: Array, s: Array, Q: Array, t: Array, c: Array) -> None:
        super().__init__(UNITS)
        self.P, self.s, self.Q, self.t, self.c = P, s, Q, t, c

    def step(self, x: Any, h: Any) -> Any:
        P, s, Q, t, c = (gn.constant(each) for each in (self.P, self.s, self.Q, self.t, self.c))
        return gn.tanh(self.affine("h", x=x @ Q + t, h=h + s) / c) @ P


def recodings() -> dict[str, tuple[Array, Array, Array, Array, Array]]:
    draws = np.random.default_rng(5)

    def mixed(n: int) -> Array:
        return np.eye(n) + 0.4 * draws.standard_normal((n, n))

    own, none, inputs = np.ones(UNITS), np.zeros(UNITS), np.zeros(INPUTS)
    same, same_inputs = np.eye(UNITS), np.eye(INPUTS)
    return {
        "scaled": (np.diag([0.5, 2.0, -3.0]), none, same_inputs, inputs, own),
        "shifted": (same, np.array([1.0, -0.5, 0.3]), same_inputs, inputs, own),
        "inputs": (same, none, np.diag([10.0, -0.2]), np.array([2.0, 1.0]), own),
        "pre-activations": (same, none, same_inputs, inputs, np.array([0.2, 3.0, -1.5])),
        "mixed": (mixed(UNITS), draws.standard_normal(UNITS), mixed(INPUTS), np.ones(INPUTS), own),
    }


def recoded(P: Array, s: Array, Q: Array, t: Array, c: Array) -> tuple[rnn.Objective, Array]:
    """The objective of the same net in these words, with the same losses, and θ."""
    plain = rnn.Network([rnn.Elman(UNITS)], INPUTS, OUTPUTS, loss="sigmoid", dtype="float64", seed=3)
    net = rnn.Network([Recoded(P, s, Q, t, c)], INPUTS, OUTPUTS, loss="sigmoid", dtype="float64")
    p, q = ({name.split(".")[-1]: node.value for name, node in n.parameters.items()} for n in (plain, net))
    draws = np.random.default_rng(6)
    for name in ("W_xh", "W_hh", "W_ho", "b_h"):
        p[name][...] = draws.standard_normal(p[name].shape)
    W_hh, W_xh = np.linalg.solve(P, p["W_hh"]), np.linalg.solve(Q, p["W_xh"])
    q["W_hh"][...], q["W_xh"][...] = W_hh * c, W_xh * c
    q["b_h"][...] = (p["b_h"] - s @ W_hh - t @ W_xh) * c
    q["W_ho"][...], q["b_o"][...] = np.linalg.solve(P, p["W_ho"]), p["b_o"]
    u = net.unroll(TIME, CASES, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    x = draws.standard_normal((TIME, CASES, INPUTS))
    past = np.concatenate([np.zeros((1, CASES)), x[:-1, :, 1]])
    y = np.stack([x[..., 0] + past, past], axis=2) + 0.3 * draws.standard_normal((TIME, CASES, OUTPUTS)) > 0
    objective.feed(x, y.astype(np.float64))
    return objective, net.theta.copy()


def path(objective: rnn.Objective, theta: Array, metric: Metric) -> list[float]:
    optimizer = Riemannian(metric)
    state = optimizer.init(theta)
    return [optimizer.step(objective, theta, state).after for _ in range(5)]  # type: ignore[attr-defined]


#: What a metric is the same under. The row of a bias does not know of units that are mixed.
EXACT: dict[str, Any] = {"estimate": "exact", **NONE}
METRICS = {
    "RUOP": OuterProduct(outputs="full", **NONE),
    "RBPM": Backpropagated(outputs="full", **EXACT),
    "QDRUOP": OuterProduct("quasi-diagonal", **NONE),
    "QDRBPM": Backpropagated("quasi-diagonal", **EXACT),
    "KFAC": Kronecker(damping=0.0),
}


def promises(name: str, how: str) -> bool:
    return name in METRICS and (how != "mixed" or not name.startswith("QD"))


def test_a_net_in_other_words() -> None:
    same = (np.eye(UNITS), np.zeros(UNITS), np.eye(INPUTS), np.zeros(INPUTS), np.ones(UNITS))
    for name, metric in (METRICS | LOST).items():
        one = np.array(path(*recoded(*same), metric))
        for how, words in recodings().items():
            with case(name, how):
                other = np.array(path(*recoded(*words), metric))
                if promises(name, how):
                    assert one[-1] < 0.95 * one[0]
                    np.testing.assert_allclose(other, one, rtol=1e-7)
                else:
                    assert np.abs(other / one - 1).max() > 1e-3
