"""Metrics of the library against those of the paper's equations in plain loops."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.riemannian.metrics import Backpropagated, Metric, OuterProduct, OverCost
from tests.graphnet_rnn.riemannian import ollivier
from tests.tables import case

UNITS, SYMBOLS, TIME = 5, 3, 9
KINDS = {"RNN": rnn.GraphRNN, "GNN": rnn.GNN, "GLNN": rnn.GLNN}


class Pair:
    """The same net in both, with random weights, and a sequence."""

    def __init__(self, kind: str, activation: str = "tanh", time: int = TIME) -> None:
        draws = np.random.default_rng(3)
        cell = KINDS[kind](UNITS, edges=3, activation=activation)
        self.network = rnn.Network([cell], SYMBOLS, SYMBOLS, dtype="float64", initial_state="learned", seed=1)
        self.network.theta = 0.4 * draws.standard_normal(self.network.theta.size)
        for name, node in self.network.parameters.items():
            if name.endswith(".a0"):
                node.value[...] = np.clip(node.value, 0.1, 0.9)
        bound = self.network.layers[0]
        self.edges = list(zip((bound.sources + 1).tolist(), (bound.targets + 1).tolist(), strict=True))
        s = "tanh" if activation == "tanh" else "logistic"
        self.net = ollivier.Net(kind, UNITS, SYMBOLS, self.edges, s)
        self.x = draws.integers(0, SYMBOLS, time)

    def parameters(self, values: Any = None) -> ollivier.Params:
        """The library's, or arrays by name, as the oracle has them."""
        given = values or {name: node.value for name, node in self.network.parameters.items()}
        named = {name.split(".")[-1]: np.asarray(value) for name, value in given.items()}
        p = ollivier.zeros(self.net)
        for e, (i, j) in enumerate(self.edges):
            p["tau"][i, j] = named["tau"][e] if self.net.kind == "RNN" else named["tau"][:, e]
        if self.net.kind == "RNN":
            p["tau"][0, 1:] = named["tau_0"]
            p["rho"][1:] = named["rho"].T
        else:
            p["tau"][0, 1:] = named["tau_0"].T
        p["w"] = np.concatenate([named["b_o"][None], named["W_ho"]])
        (start,) = [value for name, value in named.items() if name.endswith("0") and name not in ("tau_0",)]
        p["V0"][1:] = start
        if values is None and self.net.kind != "GLNN":  # whose state is the activity
            a = np.clip(start, -0.9, 0.9) if self.net.s == "tanh" else np.clip(start, 0.1, 0.9)
            p["V0"][1:] = np.arctanh(a) if self.net.s == "tanh" else np.log(a / (1 - a))
        return p

    def step(self, metric: Metric) -> ollivier.Params:
        """M⁻¹ g of the log-likelihood."""
        u = self.network.unroll(len(self.x) - 1, 1, initial="learned", predict_first=True)
        parameters = list(self.network.parameters.values())
        over = OverCost(metric, u.cost, parameters)
        g = gn.gradient(u.cost, parameters)
        function = gn.compile([*g, *over.nodes()], [u.inputs, u.targets])
        found = function(self.x[:-1, None], self.x[:, None])
        solver = over.solver(np.concatenate(found[len(parameters) :]))
        solved = solver({p: -a for p, a in zip(parameters, found, strict=False)})
        names = {node: name for name, node in self.network.parameters.items()}
        return self.parameters({names[node]: value for node, value in solved.items()})


METRICS = {
    "RUOP": OuterProduct(),
    "RBPM": Backpropagated(),
    "QDRUOP": OuterProduct("quasi-diagonal"),
    "QDRBPM": Backpropagated("quasi-diagonal"),
}


def test_steps_are_those_of_the_source() -> None:
    for kind, activation, name, (writing, outputs) in itertools.product(
        KINDS, ["tanh", "sigmoid"], METRICS, [("DH", "diagonal"), ("QDH", "quasi-diagonal")]
    ):
        with case(kind, activation, name, writing):
            pair = Pair(kind, activation)
            found = pair.step(replace(METRICS[name], outputs=outputs))
            p = pair.parameters()
            run = ollivier.forward(pair.net, p, pair.x, np.ones(TIME))
            expected = ollivier.transition_direction(pair.net, p, run, name)
            eps = ollivier.damping_of_writing(pair.x, SYMBOLS)
            expected["w"] = ollivier.writing_direction(pair.net, run, writing, eps)
            if kind != "GLNN":  # the others learn the activity before the first step, not V
                expected.pop("V0")
            for part, value in expected.items():
                np.testing.assert_allclose(found[part], value, rtol=1e-9, atol=1e-11, err_msg=part)
