"""Metrics and Riemannian steps against the source's loops, for other cells, and for equivalent networks."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers.riemannian import Riemannian
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.metrics import (
    METRICS as METRIC_NAMES,
    Backpropagated,
    Kronecker,
    Metric,
    OuterProduct,
)
from graphnet_rnn.riemannian.over_cost import OverCost
from tests.graphnet_rnn.optimizers.toys import Plain
from tests.graphnet_rnn.riemannian import ollivier
from tests.tables import case

UNITS, SYMBOLS, TIME = 5, 3, 9
KINDS = {"RNN": rnn.GraphRNN, "GNN": rnn.GNN, "GLNN": rnn.GLNN}


class Pair:
    """One network in the library and in `ollivier`, with the same random weights, and a sequence."""

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
        """The library's parameters, or arrays by name, in the form of the oracle."""
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


def test_steps_match_the_source() -> None:
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
            if kind != "GLNN":  # in the other cells, the learned initial state is the activity, not V
                expected.pop("V0")
            for part, value in expected.items():
                np.testing.assert_allclose(found[part], value, rtol=1e-9, atol=1e-11, err_msg=part)


def objective_of(network: rnn.Network, x: Any, **settings: Any) -> rnn.Objective:
    """Objective of a sequence in which all symbols are predicted, including the first."""
    u = network.unroll(len(x) - 1, 1, initial="learned", predict_first=True)
    objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets], **settings)
    objective.feed(x[:-1, None], x[:, None])
    return objective


def steps(optimizer: Riemannian, objective: Any, theta: Array, count: int, state: Any = None) -> list[Any]:
    state = optimizer.init(theta) if state is None else state
    return [optimizer.step(objective, theta, state) for _ in range(count)]


def net(cell: rnn.Cell, **settings: Any) -> rnn.Network:
    return rnn.Network([cell], 3, 3, initial_state="learned", **settings)


def test_run_matches_the_source() -> None:
    for kind, name in itertools.product(["GLNN", "RNN"], METRICS):
        with case(kind, name):
            pair = Pair(kind, time=40)
            # The initial state of an RNN is the activity, of the source V: compare only the first steps.
            run = pair.net, pair.parameters(), pair.x, np.ones(40), 16 if kind == "GLNN" else 2
            attempts = ollivier.train(*run, transition=name)
            objective, theta = objective_of(pair.network, pair.x), pair.network.theta.copy()
            reports = steps(Riemannian(METRICS[name]), objective, theta, attempts[-1].step + 1)
            for step, report in enumerate(reports):
                tried = [attempt for attempt in attempts if attempt.step == step]
                assert (report.tries, report.rate) == (len(tried), tried[-1].rate)
                if kind == "GLNN" or step == 0:
                    assert -40 * report.after == pytest.approx(tried[-1].log_likelihood, rel=1e-9)
            assert 1 / attempts[0].rate == UNITS


class Mine(rnn.Cell):
    """Five lines of a user: h' = tanh(x W_xh + h W_hh + b_h) σ(h W_hg + b_g)"""

    states = (rnn.State("h"),)

    def step(self, x: Any, h: Any) -> Any:
        return gn.tanh(self.affine("h", x=x, h=h)) * gn.sigmoid(self.affine("g", h=h))


@pytest.mark.slow
def test_cells_absent_from_the_publication_learn() -> None:
    x = np.array([0, 1, 2, 2, 1] * 16)
    memory = rnn.LSTM(
        8, initial={"b_f": rnn.initializers.constant(1.0), "b_i": rnn.initializers.zeros()}
    )  # of gates that are all alike
    cases = [
        (Mine(8), OuterProduct()), (Mine(8), Backpropagated()),
        (memory, Backpropagated(estimate="probe")), (rnn.GRU(8), Kronecker()),
    ]  # fmt: skip
    for cell, metric in cases:
        with case(cell, metric):
            network = net(cell)
            reports = steps(Riemannian(metric), objective_of(network, x), network.theta.copy(), 30)
            losses = [report.loss for report in reports]
            assert losses[0] > 1.0
            assert losses[-1] < 0.35
            assert all(b <= a for a, b in itertools.pairwise(losses))
    network = net(rnn.LSTM(3))
    with pytest.raises(UsageError, match=r"depends on \d+ pre-activations .*estimate='probe'"):
        steps(Riemannian(Backpropagated()), objective_of(network, x), network.theta.copy(), 2)
    for given in ("nope", 3, {"metric": "OuterProduct", "speed": 2}):
        with case(given), pytest.raises(UsageError, match="Riemannian: metric must be one of"):
            Riemannian(given)


@pytest.mark.slow
def test_resumed_run_has_the_same_bytes() -> None:
    """A resumed run needs only the state and the settings, both stored as JSON."""
    x = np.array([0, 1, 2, 2, 1] * 8)
    for name, metric in METRIC_NAMES.items():
        with case(name):
            made = lambda: net(rnn.GNN(4, edges=3) if name == "frequency" else rnn.Elman(4))
            optimizer = Riemannian(metric())
            again = Riemannian(**json.loads(json.dumps(optimizer.settings())))
            assert again == optimizer
            theta, there = made().theta.copy(), made().theta.copy()
            steps(optimizer, objective_of(made(), x), theta, 6)
            state = again.init(there)
            for _ in range(2):
                steps(again, objective_of(made(), x), there, 3, state)
                state = {key: value.copy() for key, value in state.items()}
            assert there.tobytes() == theta.tobytes()


def test_batches_are_averaged_and_weight_decay_is_included() -> None:
    """Two batches of half the sequences give the same step as one batch of all."""
    data = np.random.default_rng(0).integers(0, 3, (7, 6))
    network = rnn.Network([rnn.Elman(4)], 3, 3, dtype="float64")
    theta = network.theta + 1.0

    def objective(batch: int) -> rnn.Objective:
        u = network.unroll(6, batch, initial="zero")
        return rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets], l2=0.5)

    whole, halves = objective(6), objective(3)
    whole.feed(data[:-1], data[1:])
    halves.feed_batches([(data[:-1, :3], data[1:, :3]), (data[:-1, 3:], data[1:, 3:])])
    slopes = whole.gradient(theta)[1]
    for part in ("outputs", "hidden"):
        found = []
        for each in (whole, halves):
            loss, g, numbers = each.metric(theta, OuterProduct(), part)
            assert loss == pytest.approx(whole.loss(theta), rel=1e-12)
            assert numbers.shape == (each.metric_size(OuterProduct(), part),)
            found.append(each.metric_solver(OuterProduct(), part, numbers)(g))
            own = OverCost(OuterProduct(), whole.cost, whole.parameters, part).weights
            for node, at in zip(network.parameters.values(), whole.slices, strict=True):
                if node in own:
                    np.testing.assert_allclose(g[at], slopes[at], rtol=1e-9)
        # With half as many cases, the slopes of a mean and the scale of the sum double: the sums agree.
        np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


class Cliff(Plain):
    """w², with a lower loss but no slopes for w < 0, where the first steps lead."""

    def __init__(self, what: str) -> None:
        w = gn.parameter(np.ones(2), "w")
        super().__init__(gn.sum(w * w), [w])
        self.what = what

    def loss(self, w: Array) -> float:
        return -1.0 if w[0] < 0 else super().loss(w)

    gradient_loss = loss

    def metric(self, w: Array, metric: Any, part: str = "all", draw: int = 0) -> tuple[float, Array, Array]:
        loss, g, numbers = super().metric(w, metric, part, draw)
        if w[0] < 0:
            loss = -1.0
            g = g * np.nan if self.what == "slopes" else g
            numbers = {"slopes": numbers, "metric": numbers * np.inf, "singular": -numbers}[self.what]
        return loss, g, numbers

    def metric_solver(self, metric: Metric, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        if not (np.isfinite(numbers).all() and (numbers > 0).all()):
            raise TrainingError("the metric of w is singular")
        return super().metric_solver(metric, part, numbers, damping)


def test_steps_to_non_finite_gradients_or_metrics_are_undone() -> None:
    for what in ["slopes", "metric", "singular"]:
        with case(what):
            objective, theta, optimizer = Cliff(what), np.ones(2), Riemannian(rate=3.0)
            state = optimizer.init(theta)
            first: Any = optimizer.step(objective, theta, state)
            assert first.taken
            assert theta[0] < 0
            reports = [first]
            while theta[0] < 0:
                reports.append(optimizer.step(objective, theta, state))
                assert reports[-1].undone
                assert reports[-1].loss == 2.0  # where the first step began
                assert reports[-1].part == first.part
                assert reports[-1].rate == pytest.approx(reports[-2].rate * 1.1 / 2)
            assert len(reports) > 2
            assert 0 <= steps(optimizer, objective, theta, 20, state)[-1].loss < 2.0
    theta = -np.ones(2)  # no step was made, so none is undone
    (report,) = steps(Riemannian(), Cliff("slopes"), theta, 1)
    assert not math.isfinite(report.gradient_norm)
    assert not report.undone
    np.testing.assert_array_equal(theta, -np.ones(2))
    with pytest.raises(TrainingError, match="is singular"):
        steps(Riemannian(), Cliff("singular"), theta, 1)


def test_a_metric_that_was_singular_before_the_step_raises_an_error() -> None:
    """Undoing the step of the output weights does not mend it: one symbol never occurs."""
    u = rnn.Network([rnn.Elman(3)], 4, 2).unroll(5, 2, initial="zero")
    objective = rnn.Objective(u.cost, u.network.parameters, [u.inputs, u.targets])
    objective.feed(np.zeros((5, 2), int), np.ones((5, 2), int))
    with pytest.raises(TrainingError, match=r"the metric of 3 units of layer0.W_xh, .* is singular"):
        rnn.minimize(objective, Riemannian(rnn.riemannian.OuterProduct(damping=0)), steps=3)


SIZE, INPUTS, OUTPUTS, STEPS, LANES = 3, 2, 2, 12, 40
SAME = (np.eye(SIZE), np.zeros(SIZE), np.eye(INPUTS), np.zeros(INPUTS), np.ones(SIZE))


class Recoded(rnn.Cell):
    """h' = tanh(V / c) P, V = (x Q + t) W_xh + (h + s) W_hh + b_h: an Elman cell, reparametrized."""

    states = (rnn.State("h"),)

    def __init__(self, P: Array, s: Array, Q: Array, t: Array, c: Array) -> None:
        super().__init__(SIZE)
        self.P, self.s, self.Q, self.t, self.c = P, s, Q, t, c

    def step(self, x: Any, h: Any) -> Any:
        P, s, Q, t, c = (gn.constant(each) for each in (self.P, self.s, self.Q, self.t, self.c))
        return gn.tanh(self.affine("h", x=x @ Q + t, h=h + s) / c) @ P


def recodings() -> dict[str, tuple[Array, Array, Array, Array, Array]]:
    draws = np.random.default_rng(5).standard_normal
    same, none, same_inputs, no_inputs, own = SAME
    mixed, mixed_inputs = (np.eye(n) + 0.4 * draws((n, n)) for n in (SIZE, INPUTS))
    return {
        "scaled": (np.diag([0.5, 2.0, -3.0]), none, same_inputs, no_inputs, own),
        "shifted": (same, np.array([1.0, -0.5, 0.3]), same_inputs, no_inputs, own),
        "inputs": (same, none, np.diag([10.0, -0.2]), np.array([2.0, 1.0]), own),
        "pre-activations": (same, none, same_inputs, no_inputs, np.array([0.2, 3.0, -1.5])),
        "mixed": (mixed, draws(SIZE), mixed_inputs, np.ones(INPUTS), own),
    }


def recoded(P: Array, s: Array, Q: Array, t: Array, c: Array) -> tuple[rnn.Objective, Array]:
    """Objective and θ of the reparametrized network, which has the same losses."""
    plain = rnn.Network([rnn.Elman(SIZE)], INPUTS, OUTPUTS, loss="sigmoid", dtype="float64", seed=3)
    net = rnn.Network([Recoded(P, s, Q, t, c)], INPUTS, OUTPUTS, loss="sigmoid", dtype="float64")
    p, q = ({name.split(".")[-1]: node.value for name, node in n.parameters.items()} for n in (plain, net))
    draws = np.random.default_rng(6)
    for name in ("W_xh", "W_hh", "W_ho", "b_h"):
        p[name][...] = draws.standard_normal(p[name].shape)
    W_hh, W_xh = np.linalg.solve(P, p["W_hh"]), np.linalg.solve(Q, p["W_xh"])
    q["W_hh"][...], q["W_xh"][...] = W_hh * c, W_xh * c
    q["b_h"][...] = (p["b_h"] - s @ W_hh - t @ W_xh) * c
    q["W_ho"][...], q["b_o"][...] = np.linalg.solve(P, p["W_ho"]), p["b_o"]
    u = net.unroll(STEPS, LANES, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    x = draws.standard_normal((STEPS, LANES, INPUTS))
    past = np.concatenate([np.zeros((1, LANES)), x[:-1, :, 1]])
    y = np.stack([x[..., 0] + past, past], axis=2) + 0.3 * draws.standard_normal((STEPS, LANES, OUTPUTS)) > 0
    objective.feed(x, y.astype(np.float64))
    return objective, net.theta.copy()


#: Damping breaks invariance; the sequence is long enough to need none.
NONE: dict[str, Any] = {"damping": 0.0, "output_damping": 0.0}
PROMISED: dict[str, Metric] = {
    "RUOP": OuterProduct(outputs="full", **NONE),
    "RBPM": Backpropagated(outputs="full", estimate="exact", **NONE),
    "QDRUOP": OuterProduct("quasi-diagonal", **NONE),
    "QDRBPM": Backpropagated("quasi-diagonal", estimate="exact", **NONE),
    "KFAC": Kronecker(damping=0.0),
}


@pytest.mark.slow
def test_metrics_are_invariant_as_documented() -> None:
    """Invariant metrics take the same steps for equivalent networks, other metrics do not."""
    lost = {name: METRIC_NAMES[name]() for name in ("frequency", "rms")}
    for name, metric in (PROMISED | lost).items():

        def path(words: Any) -> Array:
            return np.array([report.after for report in steps(Riemannian(metric), *recoded(*words), 5)])

        one = path(SAME)
        for how, words in recodings().items():
            with case(name, how):
                other = path(words)
                if name in PROMISED and (how != "mixed" or not name.startswith("QD")):
                    assert one[-1] < 0.95 * one[0]
                    np.testing.assert_allclose(other, one, rtol=1e-7)
                else:
                    assert np.abs(other / one - 1).max() > 1e-3
