"""A network inside PyTorch has the outputs and gradients that it has here."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.errors import UsageError
from graphnet_rnn.inside import torch_module
from tests.graphnet_rnn.inside.cases import network_and_gradients

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("cell", rnn.cells.ALL.values(), ids=list(rnn.cells.ALL))
def test_gradients_are_ours(cell: type[rnn.Cell]) -> None:
    net, x, ours = network_and_gradients(cell)
    names = list(net.parameters)
    module = torch_module(net)
    outputs, _ = module(torch.from_numpy(x))
    np.testing.assert_allclose(outputs.detach(), ours[0], rtol=1e-9, atol=1e-12)
    (outputs * outputs).sum().backward()
    for name, right in zip(names, ours[1:], strict=True):
        np.testing.assert_allclose(
            module.get_parameter(name.replace(".", "/")).grad, right, rtol=1e-8, atol=1e-10, err_msg=name
        )


def test_an_optimiser_of_torch_trains_it_between_its_own_layers() -> None:
    torch.manual_seed(0)
    below, above = torch.nn.Linear(3, 4), torch.nn.Linear(5, 1)
    module = torch_module(rnn.Network([rnn.GRU(5)], 4, 0, loss="squared"), batch_first=True)
    weights = [*below.parameters(), *module.parameters(), *above.parameters()]
    optimizer = torch.optim.Adam(weights, 0.02)
    x = torch.randn(8, 6, 3)
    target = x.sum(2, keepdim=True).cumsum(1).tanh()
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((above(module(below(x))[0]) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    name = next(iter(module.network().parameters))
    np.testing.assert_array_equal(
        module.network().parameters[name].value, module.get_parameter(name.replace(".", "/")).detach()
    )


def test_dropout_is_refused() -> None:
    with pytest.raises(UsageError, match=r"put torch\.nn\.Dropout between modules"):
        torch_module(rnn.Network([rnn.GRU(3), rnn.GRU(3)], 2, 2, loss="squared", dropout=0.5))


class Leaky(rnn.Cell):
    """a = σ(x W_xa + b_a);  h' = a h + (1 - a) tanh(x W_xh + h W_hh + b_h)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        a = gn.sigmoid(self.affine("a", x=x))
        return a * h + (1 - a) * gn.tanh(self.affine("h", x=x, h=h))


def copied(module: object) -> object:
    return copy.deepcopy(module)


def pickled(module: object) -> object:
    return pickle.loads(pickle.dumps(module))


@pytest.mark.parametrize("again", [copied, pickled])
@pytest.mark.parametrize("cell", [rnn.LSTM, rnn.EchoState, Leaky])
def test_a_copy_computes_the_same_and_is_apart(again: Callable[[Any], Any], cell: type[rnn.Cell]) -> None:
    module = torch_module(rnn.Network([cell(4)], 3, 2, loss="squared", seed=1)).eval()
    x = torch.randn(5, 2, 3)
    with torch.no_grad():
        next(module.parameters()).mul_(1.5)  # the network does not know of this yet
    right = module(x)[0].detach()
    other = again(module)
    assert not other.training
    torch.testing.assert_close(other(x)[0], right, rtol=0, atol=0)
    other(x)[0].sum().backward()
    with torch.no_grad():
        for weight in other.parameters():
            weight.zero_()
    other.network()
    torch.testing.assert_close(module(x)[0], right, rtol=0, atol=0)
    assert all(weight.grad is None for weight in module.parameters())


def test_weights_go_through_a_model_file(tmp_path: Path) -> None:
    module = torch_module(rnn.Network([rnn.GRU(4)], 3, 2, loss="squared", seed=1))
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight))
    rnn.save(module.network(), tmp_path / "net.safetensors")
    loaded = torch_module(rnn.load(tmp_path / "net.safetensors"))
    for name, weight in module.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], weight, rtol=0, atol=0)
    fresh = torch_module(rnn.Network([rnn.GRU(4)], 3, 2, loss="squared", seed=2))
    fresh.load_state_dict(loaded.state_dict())
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(fresh(x)[0], module(x)[0], rtol=0, atol=0)


def test_only_what_needs_a_gradient_gets_one() -> None:
    module = torch_module(rnn.Network([rnn.GRU(4)], 3, 2, loss="squared"))
    frozen, *others = module.parameters()
    frozen.requires_grad_(False)
    x = torch.randn(5, 2, 3, requires_grad=True)
    module(x)[0].sum().backward()
    assert frozen.grad is None
    assert x.grad is not None
    assert all(weight.grad is not None for weight in others)


def test_descent_of_torch_is_ours() -> None:
    """The same losses, within rounding, from the same weights."""
    x = np.random.default_rng(0).standard_normal((6, 4, 3))
    t = np.cumsum(x[:, :, :1], 0)
    net = rnn.Network([Leaky(4)], 3, 1, loss="squared", reads="vectors", dtype="float64", seed=0)
    module = torch_module(net)
    u = net.unroll(6, 4, training=False, initial="given")
    loss = gn.mean((u.logits - t) ** 2)
    states = net.zero_states(4)
    step = gn.compile([loss, *gn.gradient(loss, net.parameters)], [u.inputs, *u.initial])
    optimizer, ours, theirs = torch.optim.SGD(module.parameters(), 0.1), [], []
    for _ in range(20):
        optimizer.zero_grad()
        squared = ((module(torch.tensor(x))[0] - torch.tensor(t)) ** 2).mean()
        squared.backward()
        optimizer.step()
        theirs.append(squared.item())
        value, *gradients = step(x, *states)
        ours.append(float(value))
        for node, gradient in zip(net.parameters.values(), gradients, strict=True):
            node.value[...] -= 0.1 * gradient
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert ours[-1] < 0.9 * ours[0]
