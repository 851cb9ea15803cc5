"""LSTM and mLSTM against the derivatives that Krause 2015 worked out by hand (krause_appendix.py)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from tests.graphnet_rnn.cells.krause_appendix import (
    GATES,
    Array,
    Passed,
    forward,
    lstm_backward,
    mlstm_backward,
    output_curvatures,
    output_errors,
    r_forward,
)
from tests.graphnet_rnn.cells.oracles import assert_close

SYMBOLS, UNITS, TIME, BATCH = 6, 4, 7, 3
KRAUSES_GATES = {"h": "g", "omega": "i", "phi": "f", "rho": "o"}  # his letters: ours


@dataclass(frozen=True)
class Case:
    """A network of one such layer, and the nodes of each step by Krause's names."""

    net: Any
    unrolled: Any
    names: dict[tuple[str, str], str]  # the weight to a from b: our name
    nodes: dict[str, list[Any]]
    x: Array
    targets: Array

    def his(self, values: dict[str, Array]) -> dict[tuple[str, str], Array]:
        """Ours are applied as x W, his as W x."""
        return {key: values[name].T for key, name in self.names.items()}

    def weights(self) -> dict[str, Array]:
        return {name: p.value.copy() for name, p in self.net.parameters.items()}

    def inputs(self, case: int) -> list[Array]:
        return list(np.eye(SYMBOLS)[self.x[:, case]])

    def compute(self, outputs: list[Any]) -> tuple[Array, ...]:
        return gn.compile(outputs, [self.unrolled.inputs, self.unrolled.targets])(self.x, self.targets)


def nodes_by_role(unrolled: Any, net: Any, multiplicative: bool) -> dict[str, list[Any]]:
    """For each of Krause's quantities, our nodes step by step; found by what they are computed from."""
    readers = defaultdict(list)
    order = gn.Graph([unrolled.cost]).order
    for node in order:
        for source in node.inputs:
            readers[source].append(node)

    def reader(node: Any, op: str) -> Any:
        (found,) = {n for n in readers[node] if type(n.op).__name__ == op}
        return found

    def products(name: str) -> list[Any]:
        return [n for n in readers[net.parameters[f"layer0.{name}"]] if type(n.op).__name__ == "MatMul"]

    roles: dict[str, list[Any]] = {}
    for k, ours in KRAUSES_GATES.items():
        roles["H_in" if k == "h" else f"{k}_in"] = [reader(n, "Add") for n in products(f"W_x{ours}")]
    for k in GATES:
        roles[k] = [reader(n, "Sigmoid") for n in roles[f"{k}_in"]]
    written = [reader(n, "Multiply") for n in roles["H_in"]]
    roles["H_state"] = [reader(n, "Add") for n in written]
    roles["zeta"] = [reader(n, "Multiply") for n in roles["rho"]]
    roles["H_out"] = [reader(n, "Tanh") for n in roles["zeta"]]
    if multiplicative:
        roles["chi"], roles["xi"] = products("W_xm"), products("W_hm")
        roles["M"] = [reader(n, "Multiply") for n in roles["chi"]]
    (stack,) = (n for n in order if n is unrolled.logits)
    roles["O"] = list(stack.inputs)
    assert all(len(steps) == TIME for steps in roles.values())
    return roles


def make_case(multiplicative: bool) -> Case:
    cell = rnn.cells.MultiplicativeLSTM(UNITS) if multiplicative else rnn.cells.LSTMKrause(UNITS)
    net = rnn.Network([cell], SYMBOLS, SYMBOLS, output_bias=False, dtype="float64")
    rng = np.random.default_rng(3)
    net.theta[:] = rng.normal(0, 0.7, net.theta.shape)
    source = "m" if multiplicative else "h"
    names = {("o", "h"): "output.W_ho"}
    for k, ours in KRAUSES_GATES.items():
        names[k, "i"] = f"layer0.W_x{ours}"
        names[k, source] = f"layer0.W_{source}{ours}"
    if multiplicative:
        names |= {("m", "i"): "layer0.W_xm", ("m", "h"): "layer0.W_hm"}
    assert sorted(names.values()) == sorted(net.parameters)
    u = net.unroll(time=TIME, batch=BATCH, initial="zero")
    x, targets = (rng.integers(SYMBOLS, size=(TIME, BATCH)) for _ in range(2))
    return Case(net, u, names, nodes_by_role(u, net, multiplicative), x, targets)


@pytest.fixture(params=[False, True], ids=["LSTM", "mLSTM"], scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return make_case(request.param)


def assert_steps_close(case: Case, got: dict[str, list[Array]], want: list[Passed], what: str) -> None:
    """For every quantity that he names, every step, every sequence of the batch."""
    for name in got:
        for t in range(TIME):
            expected = np.stack([passed[name][t] for passed in want])
            if np.abs(expected).max() > 0:
                assert_close(got[name][t], expected, 1e-12, f"{what} {name}({t + 1})")
            else:  # what comes from the zero state before the first step
                assert t == 0, f"{what} {name}({t + 1})"
                assert not got[name][t].any(), f"{what} {name}(1)"


def flat(case: Case) -> list[Any]:
    """The nodes of all quantities and steps."""
    return [node for steps in case.nodes.values() for node in steps]


def by_role(case: Case, values: tuple[Array, ...]) -> dict[str, list[Array]]:
    """Values of the nodes of `flat`, as `case.nodes` has the nodes."""
    rest = iter(values)
    return {name: [next(rest) for _ in steps] for name, steps in case.nodes.items()}


def test_forward_pass(case: Case) -> None:
    W = case.his(case.weights())
    want = [forward(W, case.inputs(b)) for b in range(BATCH)]
    assert_steps_close(case, by_role(case, case.compute(flat(case))), want, "")


def test_r_forward_pass(case: Case) -> None:
    """(7.1)–(7.8) and (7.28)–(7.36), every quantity at every step."""
    rng = np.random.default_rng(4)
    direction = {name: rng.normal(size=p.shape) for name, p in case.net.parameters.items()}
    W, V = case.his(case.weights()), case.his(direction)
    want = [r_forward(W, V, case.inputs(b), forward(W, case.inputs(b))) for b in range(BATCH)]
    tangents = {p: gn.constant(direction[name]) for name, p in case.net.parameters.items()}
    got = case.compute(gn.rop(flat(case), tangents))
    assert_steps_close(case, by_role(case, got), want, "R of")


def backward(case: Case, W: Any, inputs: list[Array], passed: Passed, dO: list[Array]) -> Any:
    run = mlstm_backward if ("m", "i") in W else lstm_backward
    return run(W, inputs, passed, dO)


def test_backward_pass(case: Case) -> None:
    """(7.9)–(7.27) and (7.37)–(7.60): the gradient of Σ_t E(t), for the weights and for every quantity."""
    W = case.his(case.weights())
    runs = []
    for b in range(BATCH):
        passed = forward(W, case.inputs(b))
        errors = output_errors(passed, case.targets[:, b])
        runs.append(backward(case, W, case.inputs(b), passed, errors))
    E = gn.sum(case.unrolled.losses)
    names = list(case.names.values())
    got = case.compute(gn.gradient(E, [*(case.net.parameters[n] for n in names), *flat(case)]))
    for (key, name), value in zip(case.names.items(), got, strict=False):
        assert_close(value.T, sum(gradient[key] for gradient, _ in runs), 1e-12, name)
    assert_steps_close(case, by_role(case, got[len(names) :]), [steps for _, steps in runs], "∂E/∂")


def test_r_backward_pass_is_the_gauss_newton_product(case: Case) -> None:
    """R-forward, then H_σ(O) R(O) in place of the errors, and the same backward pass: Gv (4.3)."""
    rng = np.random.default_rng(5)
    direction = {name: rng.normal(size=p.shape) for name, p in case.net.parameters.items()}
    W, V = case.his(case.weights()), case.his(direction)
    total = {key: np.zeros_like(w) for key, w in W.items()}
    for b in range(BATCH):
        passed = forward(W, case.inputs(b))
        R = r_forward(W, V, case.inputs(b), passed)
        product, _ = backward(case, W, case.inputs(b), passed, output_curvatures(passed, R))
        for key, value in product.items():
            total[key] += value
    tangents = {p: gn.constant(direction[name]) for name, p in case.net.parameters.items()}
    got = case.compute(gn.gauss_newton_product(gn.sum(case.unrolled.losses), tangents))
    ours = dict(zip(case.net.parameters, got, strict=True))
    for key, name in case.names.items():
        assert_close(ours[name].T, total[key], 1e-12, name)
