"""Values and derivatives of recurrent nets match PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from tests.graphnet_rnn.cells.oracles import Array, assert_close

torch = pytest.importorskip("torch")

#: torch.func.jvp compiles its rules with a part of torch that torch itself calls deprecated.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:`torch\.jit\.script` is (deprecated|not supported):DeprecationWarning"
)

TIME, BATCH, SYMBOLS, UNITS = 6, 3, 5, 7
TOLERANCE = 1e-10

Tensor = Any
Tensors = dict[str, Any]


def elman(w: Tensors, x: Tensor, h: Tensor) -> tuple[Tensor]:
    return (torch.tanh(x @ w["W_xh"] + h @ w["W_hh"] + w["b_h"]),)


def lstm_peephole(w: Tensors, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Graves 2013, (7)–(11)."""
    i = torch.sigmoid(x @ w["W_xi"] + h @ w["W_hi"] + w["w_ci"] * c + w["b_i"])
    f = torch.sigmoid(x @ w["W_xf"] + h @ w["W_hf"] + w["w_cf"] * c + w["b_f"])
    c = f * c + i * torch.tanh(x @ w["W_xc"] + h @ w["W_hc"] + w["b_c"])
    o = torch.sigmoid(x @ w["W_xo"] + h @ w["W_ho"] + w["w_co"] * c + w["b_o"])
    return o * torch.tanh(c), c


def lstm_krause(w: Tensors, x: Tensor, h: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Krause 2015, algorithm 2."""
    i, f, o = (torch.sigmoid(x @ w[f"W_x{gate}"] + h @ w[f"W_h{gate}"]) for gate in "ifo")
    s = i * (x @ w["W_xg"] + h @ w["W_hg"]) + f * s
    return torch.tanh(s * o), s


def gru(w: Tensors, x: Tensor, h: Tensor) -> tuple[Tensor]:
    """Cho et al. 2014: the reset acts before the product (torch's own GRU: after it)."""
    r, z = (torch.sigmoid(x @ w[f"W_x{gate}"] + h @ w[f"W_h{gate}"] + w[f"b_{gate}"]) for gate in "rz")
    n = torch.tanh(x @ w["W_xn"] + (r * h) @ w["W_hn"] + w["b_n"])
    return ((1 - z) * h + z * n,)


STEPS: dict[str, tuple[Callable[..., tuple[Tensor, ...]], int]] = {  # and how many states
    "Elman": (elman, 1),
    "LSTMPeephole": (lstm_peephole, 2),
    "LSTMKrause": (lstm_krause, 2),
    "GRU": (gru, 1),
}


def logits_of(cell: str, w: Tensors, inputs: Tensor, initial: list[Tensor]) -> Tensor:
    """Two layers and the projection: (time, batch, symbols)."""
    step, count = STEPS[cell]
    weights = [
        {k.removeprefix(f"layer{l}."): v for k, v in w.items() if k[:6] == f"layer{l}"} for l in (0, 1)
    ]
    states = [tuple(initial[:count]), tuple(initial[count:])]
    outputs = []
    for x in torch.eye(SYMBOLS, dtype=torch.float64)[inputs]:
        states[0] = step(weights[0], x, *states[0])
        states[1] = step(weights[1], states[0][0], *states[1])
        outputs.append(states[1][0] @ w["output.W_ho"] + w["output.b_o"])
    return torch.stack(outputs)


def cost_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over steps and cases of −log p(target)."""
    return -torch.log_softmax(logits, 2).gather(2, targets[..., None]).mean()


@dataclass(frozen=True)
class Pair:
    """A network, its twin in torch (functions of the weights), and a direction v in the weights."""

    net: Any
    unrolled: Any
    arrays: list[Array]
    weights: Tensors
    direction: Tensors
    logits: Callable[[Tensors], Tensor]
    cost: Callable[[Tensors], Tensor]

    def compute(self, outputs: list[Any], *more: Any) -> tuple[Array, ...]:
        """Compiled with the direction as inputs, one for each parameter."""
        u = self.unrolled
        return gn.compile(outputs, [u.inputs, u.targets, *u.initial, *more])(
            *self.arrays, *(v.numpy() for v in self.direction.values() if more)
        )

    def tangents(self) -> dict[Any, Any]:
        return {p: gn.input(p.shape, "float64", name=f"v {k}") for k, p in self.net.parameters.items()}


@pytest.fixture(scope="module", params=list(STEPS))
def pair(request: pytest.FixtureRequest) -> Pair:
    cell = request.param
    net = rnn.Network(
        [rnn.cells.ALL[cell](UNITS), rnn.cells.ALL[cell](UNITS)], SYMBOLS, SYMBOLS, dtype="float64"
    )
    rng = np.random.default_rng(11)
    net.theta[:] = rng.normal(0, 0.5, net.theta.shape)
    u = net.unroll(time=TIME, batch=BATCH)
    inputs, targets = rng.integers(SYMBOLS, size=(2, TIME, BATCH))
    initial = [rng.normal(size=node.shape) for node in u.initial]
    weights = {k: torch.tensor(p.value) for k, p in net.parameters.items()}
    direction = {k: torch.tensor(rng.normal(size=p.shape)) for k, p in net.parameters.items()}
    x, t, states = torch.tensor(inputs), torch.tensor(targets), [torch.tensor(h) for h in initial]

    def logits(w: Tensors) -> Tensor:
        return logits_of(cell, w, x, states)

    def cost(w: Tensors) -> Tensor:
        return cost_of(logits(w), t)

    return Pair(net, u, [inputs, targets, *initial], weights, direction, logits, cost)


def compare(got: tuple[Array, ...], want: Tensors) -> None:
    for (name, expected), value in zip(want.items(), got, strict=True):
        assert_close(value, expected.numpy(), TOLERANCE, name)


def test_logits_cost_and_gradient(pair: Pair) -> None:
    u = pair.unrolled
    logits, cost, *gradient = pair.compute(
        [u.logits, u.cost, *gn.gradient(u.cost, list(pair.net.parameters.values()))]
    )
    assert_close(logits, pair.logits(pair.weights).numpy(), TOLERANCE, "logits")
    assert_close(cost, pair.cost(pair.weights).numpy(), TOLERANCE, "cost")
    compare(tuple(gradient), torch.func.grad(pair.cost)(pair.weights))


def test_rop_of_the_logits(pair: Pair) -> None:
    tangents = pair.tangents()
    (got,) = pair.compute(gn.rop([pair.unrolled.logits], tangents), *tangents.values())
    _, want = torch.func.jvp(pair.logits, (pair.weights,), (pair.direction,))
    assert_close(got, want.numpy(), TOLERANCE, "Jv")


def test_hessian_product(pair: Pair) -> None:
    tangents = pair.tangents()
    got = pair.compute(gn.hessian_product(pair.unrolled.cost, tangents), *tangents.values())
    _, want = torch.func.jvp(torch.func.grad(pair.cost), (pair.weights,), (pair.direction,))
    compare(got, want)


def test_gauss_newton_product(pair: Pair) -> None:
    """J v by jvp; H_L u = p ⊙ u − p (p·u), divided by the number of scores; Jᵀ by vjp."""
    tangents = pair.tangents()
    got = pair.compute(gn.gauss_newton_product(pair.unrolled.cost, tangents), *tangents.values())
    o, u = torch.func.jvp(pair.logits, (pair.weights,), (pair.direction,))
    p = torch.softmax(o, 2)
    curved = (p * u - p * (p * u).sum(2, keepdim=True)) / (TIME * BATCH)
    _, transposed = torch.func.vjp(pair.logits, pair.weights)
    (want,) = transposed(curved)
    compare(got, want)


@pytest.mark.parametrize("layers", [1, 2])
def test_torch_nn_lstm_on_copied_weights(layers: int) -> None:
    """Gates stacked as i, f, g, o, weights transposed, and each bias the sum of two."""
    width = 4
    net = rnn.Network(
        [rnn.LSTM(UNITS) for _ in range(layers)], width, SYMBOLS, reads="vectors", dtype="float64"
    )
    rng = np.random.default_rng(12)
    net.theta[:] = rng.normal(0, 0.5, net.theta.shape)
    own = {k: p.value for k, p in net.parameters.items()}
    peer = torch.nn.LSTM(width, UNITS, layers, dtype=torch.float64)
    project = torch.nn.Linear(UNITS, SYMBOLS, dtype=torch.float64)
    with torch.no_grad():
        for l in range(layers):
            for side, letter in (("ih", "x"), ("hh", "h")):
                stacked = np.concatenate([own[f"layer{l}.W_{letter}{gate}"].T for gate in "ifgo"])
                getattr(peer, f"weight_{side}_l{l}").copy_(torch.tensor(stacked))
            bias = np.concatenate([own[f"layer{l}.b_{gate}"] for gate in "ifgo"])
            share = rng.normal(size=bias.shape)
            getattr(peer, f"bias_ih_l{l}").copy_(torch.tensor(share))
            getattr(peer, f"bias_hh_l{l}").copy_(torch.tensor(bias - share))
        project.weight.copy_(torch.tensor(own["output.W_ho"].T))
        project.bias.copy_(torch.tensor(own["output.b_o"]))

    x, targets = rng.normal(size=(TIME, BATCH, width)), rng.integers(SYMBOLS, size=(TIME, BATCH))
    h, c = rng.normal(size=(2, layers, BATCH, UNITS))
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, h, c)]
    top, (h_end, c_end) = peer(leaves[0], (leaves[1], leaves[2]))
    cost = cost_of(project(top), torch.tensor(targets))
    cost.backward()

    u = net.unroll(time=TIME, batch=BATCH)
    wrt = [*net.parameters.values(), u.inputs, *u.initial]
    values = [u.hidden[-1], u.cost, *u.final]
    got = gn.compile([*values, *gn.gradient(u.cost, wrt)], [u.inputs, u.targets, *u.initial])(
        x, targets, *(state[l] for l in range(layers) for state in (h, c))
    )
    ends = [end[l] for l in range(layers) for end in (h_end, c_end)]
    for what, value, want in zip(
        ["hidden", "cost", *["final"] * len(ends)], got, [top, cost, *ends], strict=False
    ):
        assert_close(value, want.detach().numpy(), TOLERANCE, what)

    gradient = dict(zip([*net.parameters, "x"], got[len(values) :], strict=False))
    for l in range(layers):
        for side, letter in (("ih", "x"), ("hh", "h")):
            mine = np.concatenate([gradient[f"layer{l}.W_{letter}{gate}"].T for gate in "ifgo"])
            assert_close(
                mine, getattr(peer, f"weight_{side}_l{l}").grad.numpy(), TOLERANCE, f"W_{letter}, {l}"
            )
        mine = np.concatenate([gradient[f"layer{l}.b_{gate}"] for gate in "ifgo"])
        assert_close(mine, getattr(peer, f"bias_ih_l{l}").grad.numpy(), TOLERANCE, f"b, layer {l}")
    assert_close(gradient["output.W_ho"], project.weight.grad.numpy().T, TOLERANCE, "W_ho")
    assert_close(gradient["output.b_o"], project.bias.grad.numpy(), TOLERANCE, "b_o")
    assert_close(gradient["x"], leaves[0].grad.numpy(), TOLERANCE, "inputs")
    of_states = got[len(values) + len(net.parameters) + 1 :]
    starts = [leaf.grad[l] for l in range(layers) for leaf in leaves[1:]]
    for value, want in zip(of_states, starts, strict=True):
        assert_close(value, want.numpy(), TOLERANCE, "initial states")
