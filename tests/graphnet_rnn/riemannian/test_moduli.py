"""Moduli by their definition, by eq. 24 and by random signs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.riemannian import moduli
from graphnet_rnn.riemannian.groups import unit_groups


class Twice(rnn.Cell):
    """V = x W_xa - c W_ca + h W_ha + b_a;  h' = tanh V, c' = sin V: each unit reaches the next by two weights."""

    states = (rnn.State("h"), rnn.State("c"))

    def step(self, x: Any, h: Any, c: Any) -> Any:
        V = self.affine("a", x=x, h=h) - self.affine("a", c=c, bias=None)
        return gn.tanh(V), gn.sin(V)


class Leaky(rnn.Cell):
    """a' = a + 0.3 (x W_xa + tanh(a) W_ha + b_a - a) + w_a ∘ a, h' = tanh a': a scaled sum, a leak, a diagonal."""

    states = (rnn.State("h"), rnn.State("a"))

    def step(self, x: Any, h: Any, a: Any) -> Any:
        a = a + 0.3 * (self.affine("a", x=x, h=gn.tanh(a)) - a) - self.diagonal("a", a=a)
        return gn.tanh(a), a


STRUCTURED: dict[str, Callable[[], Any]] = {
    "Elman": lambda: rnn.Elman(4),
    "GraphRNN": lambda: rnn.GraphRNN(4, edges=3),
    "GLNN": lambda: rnn.GLNN(4, edges=3),
    "TensorRNN": lambda: rnn.TensorRNN(4),
    "LSTM": lambda: rnn.LSTM(3),
    "LSTMPeephole": lambda: rnn.LSTMPeephole(3),
    "GRU": lambda: rnn.GRU(3),
    "twice": lambda: Twice(3),
    "leaky": lambda: Leaky(3),
}


def unrolled(cells: Sequence[Any], time: int, batch: int, **how: Any) -> Any:
    net = rnn.Network(list(cells), 3, 3, dtype="float64", seed=2, **how)
    net.theta = 0.6 * np.random.default_rng(0).standard_normal(net.theta.size)
    return net.unroll(time, batch, initial="zero")


def values(u: Any, nodes: Sequence[Sequence[gn.Node]]) -> list[Array]:
    flat = [node for some in nodes for node in some]
    function = gn.compile(flat, [u.inputs, u.targets], backend="numpy")
    return [np.asarray(a) for a in function(*drawn(u))]


def drawn(u: Any) -> tuple[Array, Array]:
    """Inputs and targets."""
    generator = np.random.default_rng(1)
    symbols = u.network.reads == "symbols"
    x = generator.integers(0, 3, u.inputs.shape) if symbols else generator.standard_normal(u.inputs.shape)
    t = u.targets
    return x, generator.integers(0, 3, t.shape) if t.dtype.kind == "i" else generator.random(t.shape)


def parts(u: Any) -> tuple[moduli.Outputs, list[Any], list[Any]]:
    outputs = moduli.Outputs(u.cost)
    groups = unit_groups(u.cost, u.network.parameters.values())
    judged = [group for group in groups if outputs.is_output(group)]
    return outputs, [group for group in groups if group not in judged], judged


#: A vector chooses no weight of a symbol.
CASES = [
    (name, loss)
    for name in STRUCTURED
    for loss in ("softmax", "sigmoid", "squared")
    if loss == "softmax" or name not in ("GLNN", "TensorRNN")
]


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_weights_are_derivatives_from_unit_to_unit(name: str, loss: str) -> None:
    layers = [STRUCTURED[name](), rnn.Elman(2)] if name in ("Elman", "GRU") else [STRUCTURED[name]()]
    u = unrolled(layers, 4, 2, loss=loss)
    outputs, hidden, judged = parts(u)
    defined = moduli.exact(outputs, hidden)
    count = sum(len(each) for each in defined)
    found = values(u, [*defined, *moduli.structured(outputs, hidden, judged)])
    for a, b in zip(found[:count], found[count:], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-13)
        assert (a >= 0).all()
    assert any(a.max() > 1e-3 for a in found[:count])


@pytest.mark.parametrize("loss", ["softmax", "sigmoid", "squared"])
@pytest.mark.parametrize(
    "cell", [rnn.LSTM(3), rnn.RHN(3, depth=2), rnn.LayerNormLSTM(3)], ids=lambda c: type(c).__name__
)
def test_random_signs_estimate_it_without_bias(cell: Any, loss: str) -> None:
    """A case that is there 30,000 times, each with signs of its own."""
    count = 30_000
    few, many = (unrolled([cell], 3, batch, loss=loss) for batch in (1, count))
    outputs, hidden, _ = parts(few)
    defined = values(few, moduli.exact(outputs, hidden))
    outputs, hidden, _ = parts(many)
    nodes = [node for some in moduli.probed(outputs, hidden, gn.RandomSource(3)) for node in some]
    function = gn.compile(nodes, [many.inputs, many.targets])
    x, t = drawn(few)
    estimates = function(np.repeat(x, count, 1), np.repeat(t, count, 1))
    for estimate, expected in zip(estimates, defined, strict=True):
        # Of a mean over so many the error is some hundredth of the deviation.
        error = np.sqrt(estimate.var(axis=0) / count)
        assert (np.abs(estimate.mean(axis=0) - expected[0]) <= 5 * error + 1e-9).all()


def test_outputs_that_read_a_unit_twice() -> None:
    """o = tanh(V) A + sin(V) B: derivatives add up before they are squared."""
    draws = np.random.default_rng(0)
    W, A, B = (gn.parameter(draws.standard_normal((3, 3)), name=name) for name in "WAB")
    x, t = gn.input((4, 3), "float64"), gn.input((4, 3), "float64")
    V = x @ W
    cost = gn.sum(gn.squared_error(gn.tanh(V) @ A - 2 * (gn.sin(V) @ B), t))
    outputs, groups = moduli.Outputs(cost), unit_groups(cost, [W, A, B])
    judged = [group for group in groups if outputs.is_output(group)]
    hidden = [group for group in groups if group not in judged]
    assert [len(hidden), len(judged)] == [1, 1]
    nodes = [moduli.structured(outputs, hidden, judged)[0][0], moduli.exact(outputs, hidden)[0][0]]
    given = draws.standard_normal((4, 3)), draws.standard_normal((4, 3))
    found, defined = gn.compile(nodes, [x, t], backend="numpy")(*given)
    v = given[0] @ W.value
    slope = (1 - np.tanh(v) ** 2)[:, :, None] * A.value - 2 * np.cos(v)[:, :, None] * B.value
    np.testing.assert_allclose(found, 2 * (slope**2).sum(axis=2), rtol=1e-12)
    np.testing.assert_allclose(defined, found, rtol=1e-12)


def test_a_net_that_mixes_units_says_so() -> None:
    u = unrolled([rnn.LayerNormLSTM(3)], 3, 2)
    outputs, hidden, judged = parts(u)
    with pytest.raises(UsageError, match=r"mixes units between two pre-activations.*estimate='probe'"):
        moduli.structured(outputs, hidden, judged)


def test_a_loss_without_hessian_says_so() -> None:
    u = rnn.Network([rnn.Elman(3)], 3, 3, "ctc").unroll(5, 2, labels=2)
    outputs = moduli.Outputs(u.cost)
    with pytest.raises(UsageError, match=r"does not say its Hessian, a surrogate does.*outputs='same'"):
        outputs.roots(gn.RandomSource(0))
    with pytest.raises(UsageError, match="has no loss, so it is not known where the net ends"):
        moduli.Outputs(gn.mean(u.logits))
