"""Networks inside PyTorch or JAX have the same outputs and gradients as in graphnet."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import DtypeError, UsageError
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError
from graphnet_rnn.inside import jax_function, torch_module
from graphnet_rnn.inside.calls import called, require_no_draws
from tests.tables import case


class Leaky(rnn.Cell):
    """a = σ(x W_xa + b_a);  h' = a h + (1 - a) tanh(x W_xh + h W_hh + b_h)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        a = gn.sigmoid(self.affine("a", x=x))
        return a * h + (1 - a) * gn.tanh(self.affine("h", x=x, h=h))


every_cell = pytest.mark.parametrize("cell", [*rnn.cells.ALL.values(), Leaky], ids=[*rnn.cells.ALL, "own"])


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax")


def network_and_gradients(cell: type[rnn.Cell]) -> tuple[rnn.Network, Array, tuple[Array, ...]]:
    """The network, x, and its outputs at x with the gradients of the sum of their squares."""
    how: Any = {"loss": "squared", "reads": "vectors", "dtype": "float64", "initial_state": "learned"}
    net = rnn.Network([cell(3)], 3, 2, **how)
    x = np.random.default_rng(0).standard_normal((4, 2, 3))
    u = net.unroll(4, 2, training=False, initial="learned")
    ours = gn.compile([u.logits, *gn.gradient(gn.sum(u.logits * u.logits), net.parameters)], [u.inputs])(x)
    return net, x, ours


@every_cell
def test_gradients_in_torch_match(torch: Any, cell: type[rnn.Cell]) -> None:
    net, x, ours = network_and_gradients(cell)
    module = torch_module(net)
    outputs, _ = module(torch.from_numpy(x))
    np.testing.assert_allclose(outputs.detach(), ours[0], rtol=1e-9, atol=1e-12)
    (outputs * outputs).sum().backward()
    for name, right in zip(net.parameters, ours[1:], strict=True):
        found = module.get_parameter(name.replace(".", "/")).grad
        np.testing.assert_allclose(found, right, rtol=1e-8, atol=1e-10, err_msg=name)


def second_order(net: rnn.Network, x: Array) -> tuple[list[Array], Array, list[Array]]:
    """A direction v for each parameter; then Jv of the outputs, and Hv of the sum of their squares."""
    u = net.unroll(4, 2, training=False, initial="learned")
    generator = np.random.default_rng(1)
    v = [generator.standard_normal(node.shape) for node in net.parameters.values()]
    along = {node: gn.constant(d) for node, d in zip(net.parameters.values(), v, strict=True)}
    (moved,) = gn.rop([u.logits], along)
    curved = gn.hessian_product(gn.sum(u.logits * u.logits), along)
    found = gn.compile([moved, *curved], [u.inputs])(x)
    return v, found[0], list(found[1:])


@every_cell
def test_tangents_and_second_derivatives_in_torch_match(torch: Any, cell: type[rnn.Cell]) -> None:
    net, x, _ = network_and_gradients(cell)
    v, moved, curved = second_order(net, x)
    module = torch_module(net)
    names = [name.replace(".", "/") for name in net.parameters]
    weights = {name: module.get_parameter(name) for name in names}
    along = {name: torch.from_numpy(d) for name, d in zip(names, v, strict=True)}
    outputs = lambda given: torch.func.functional_call(module, given, (torch.from_numpy(x),))[0]
    found = torch.func.jvp(outputs, ({n: w.detach() for n, w in weights.items()},), (along,))[1]
    np.testing.assert_allclose(found, moved, rtol=1e-6, atol=1e-9)
    slopes = torch.autograd.grad((outputs(weights) ** 2).sum(), list(weights.values()), create_graph=True)
    product = sum((slope * d).sum() for slope, d in zip(slopes, along.values(), strict=True))
    twice = torch.autograd.grad(product, list(weights.values()), materialize_grads=True)
    for name, found, right in zip(names, twice, curved, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.slow
@every_cell
def test_torch_checks_first_and_second_derivatives(torch: Any, cell: type[rnn.Cell]) -> None:
    """gradcheck and gradgradcheck, by differences along random directions."""
    net, x, _ = network_and_gradients(cell)
    module = torch_module(net)
    names = [name.replace(".", "/") for name in net.parameters]
    weights = [module.get_parameter(name).detach().clone().requires_grad_() for name in names]
    given = torch.from_numpy(x).requires_grad_()

    def outputs(x: Any, *weights: Any) -> Any:
        return torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (x,))[0]

    assert torch.autograd.gradcheck(outputs, (given, *weights), fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(outputs, (given, *weights), fast_mode=True)


@every_cell
def test_tangents_and_second_derivatives_in_jax_match(jax: Any, cell: type[rnn.Cell]) -> None:
    net, x, _ = network_and_gradients(cell)
    v, moved, curved = second_order(net, x)
    with jax.enable_x64(True):
        function, parameters = jax_function(net)
        along = dict(zip(net.parameters, v, strict=True))
        outputs = lambda given: function(given, x)[0]
        _, found = jax.jit(lambda p, v: jax.jvp(outputs, (p,), (v,)))(parameters, along)
        np.testing.assert_allclose(found, moved, rtol=1e-6, atol=1e-9)
        slope = jax.grad(lambda p: (outputs(p) ** 2).sum())
        _, twice = jax.jit(lambda p, v: jax.jvp(slope, (p,), (v,)))(parameters, along)
        for name, right in zip(net.parameters, curved, strict=True):
            np.testing.assert_allclose(twice[name], right, rtol=1e-6, atol=1e-8, err_msg=name)


COMPILED = """
import torch
import graphnet_rnn as rnn

module = rnn.inside.torch_module(rnn.Network([rnn.GRU(4)], 3, 2, loss="squared"))
x, weights = torch.randn(5, 2, 3), list(module.parameters())
right, *_ = torch.autograd.grad((module(x)[0] ** 2).sum(), weights)
compiled = torch.compile(lambda x: (module(x * 1.0)[0] ** 2).sum(), backend="aot_eager")
found, *_ = torch.autograd.grad(compiled(x), weights)
torch.testing.assert_close(found, right)
"""


@pytest.mark.filterwarnings("ignore:.*grad attribute of a Tensor that is not a leaf:UserWarning")
def test_torch_compile_and_autocast(torch: Any) -> None:
    # PyTorch reads its own sources in the encoding of the locale.
    subprocess.run([sys.executable, "-X", "utf8", "-W", "ignore", "-c", COMPILED], check=True, timeout=300)
    module = torch_module(rnn.Network([rnn.GRU(4)], 3, 2, loss="squared"))
    x = torch.randn(5, 2, 3)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(DtypeError, match=r"must be float32, not bfloat16; pass tensor\.to\(torch\.float32\)"),
    ):
        module(torch.nn.Linear(3, 3)(x))
    loader = torch.utils.data.DataLoader(
        torch.arange(6.0).reshape(6, 1, 1, 1).expand(6, 5, 1, 3).contiguous(), batch_size=2, num_workers=1,
        collate_fn=partial(_predictions, module), multiprocessing_context="spawn",
    )  # fmt: skip
    for number, batch in enumerate(loader):
        both = torch.full((5, 2, 3), 2.0 * number)
        both[:, 1] += 1
        torch.testing.assert_close(batch, module(both)[0].detach())


def _predictions(module: Any, cases: list[Any]) -> Any:
    import torch

    with torch.no_grad():
        return module(torch.cat(cases, 1))[0]


def test_converted_torch_modules_and_wrong_states_are_rejected(torch: Any) -> None:
    module = torch_module(rnn.Network([rnn.GRU(3)], 2, 1, reads="vectors")).double()
    states = torch_module(rnn.Network([rnn.LSTM(3)], 2, 1, reads="vectors"))
    for given in ([torch.zeros(1, 3)], torch.zeros(2, 1, 3)):
        with pytest.raises(UsageError, match=r"states: give 2 arrays \(h_0, c_0\)"):
            states(torch.zeros(4, 1, 2), given)
    for x in (torch.zeros(4, 1, 2), torch.zeros(4, 1, 2).double()):
        with pytest.raises(
            UsageError, match=r"layer0.W_x\w is torch.float64, but the network was made in torch.float32"
        ):
            module(x)


def test_torch_func_transforms_over_parameters(torch: Any) -> None:
    net, x, ours = network_and_gradients(rnn.GRU)
    module = torch_module(net)
    weights = {name: p.detach() for name, p in module.named_parameters()}

    def cost(given: dict[str, Any]) -> Any:
        outputs, _ = torch.func.functional_call(module, given, (torch.from_numpy(x),))
        return (outputs * outputs).sum()

    found = torch.func.grad(cost)(weights)
    for name, right in zip(net.parameters, ours[1:], strict=True):
        np.testing.assert_allclose(found[name.replace(".", "/")], right, rtol=1e-8, atol=1e-10, err_msg=name)
    both = torch.func.vmap(cost)({name: torch.stack([w, 2 * w]) for name, w in weights.items()})
    torch.testing.assert_close(both[0], cost(weights))
    slope = torch.func.jvp(cost, (weights,), (weights,))[1]
    torch.testing.assert_close(slope, sum((found[name] * w).sum() for name, w in weights.items()))


def test_torch_optimizer_trains_the_module_between_torch_layers(torch: Any) -> None:
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
    name, node = next(iter(module.network().parameters.items()))
    np.testing.assert_array_equal(node.value, module.get_parameter(name.replace(".", "/")).detach())
    with pytest.raises(UsageError, match=r"put torch\.nn\.Dropout between modules"):
        torch_module(rnn.Network([rnn.GRU(3), rnn.GRU(3)], 2, 2, loss="squared", dropout=0.5))


@pytest.mark.parametrize("cell", [rnn.LSTM, rnn.EchoState, Leaky])
def test_copies_are_equal_and_independent(torch: Any, cell: type[rnn.Cell]) -> None:
    for again in (copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))):
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


def test_weights_round_trip_through_a_model_file(torch: Any, tmp_path: Path) -> None:
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
    np.testing.assert_allclose(fresh(x)[0].detach(), rnn.run(module.network(), x.numpy())[0], 1e-5, 1e-6)
    frozen, *others = module.parameters()
    frozen.requires_grad_(False)
    x.requires_grad_(True)
    module(x)[0].sum().backward()
    assert frozen.grad is None
    assert all(leaf.grad is not None for leaf in (x, *others)), "only what needs a gradient gets one"


@every_cell
def test_gradients_in_jax_match(jax: Any, cell: type[rnn.Cell]) -> None:
    net, x, ours = network_and_gradients(cell)
    with jax.enable_x64(True):
        function, parameters = jax_function(net)
        outputs, _ = jax.jit(function)(parameters, x)
        np.testing.assert_allclose(outputs, ours[0], rtol=1e-9, atol=1e-12)
        gradients = jax.jit(jax.grad(lambda p: (function(p, x)[0] ** 2).sum()))(parameters)
        for name, right in zip(net.parameters, ours[1:], strict=True):
            np.testing.assert_allclose(gradients[name], right, rtol=1e-8, atol=1e-10, err_msg=name)


def test_states_are_passed_between_calls(jax: Any) -> None:
    function, parameters = jax_function(rnn.Network([rnn.LSTM(3), rnn.GRU(2)], 3, 2, loss="squared"))
    x = np.random.default_rng(0).standard_normal((6, 2, 3)).astype("float32")
    outputs, states = function(parameters, x)
    first, between = function(parameters, x[:2])
    second, after = function(parameters, x[2:], *between)
    np.testing.assert_allclose(np.concatenate([first, second]), outputs, rtol=1e-5, atol=1e-6)
    for found, right in zip(after, states, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    by_states = jax.grad(lambda states: function(parameters, x[2:], *states)[0].sum())(between)
    assert all(np.abs(gradient).max() > 0 for gradient in by_states)


def ragged(pool: str | None) -> tuple[rnn.Network, Array, list[int], list[Array]]:
    """A network, padded inputs, their lengths, and [outputs, states] of rnn.run, case by case."""
    how: Any = {"loss": "squared", "dtype": "float64", "pool": pool}
    net = rnn.Network([rnn.Bidirectional(rnn.GRU(3)), rnn.LSTM(2)], 3, 2, **how)
    x, lengths = np.random.default_rng(0).standard_normal((5, 3, 3)), [5, 2, 4]
    outputs = np.zeros((5, 3, 2) if pool is None else (3, 2))
    states: list[Any] = []
    for n, length in enumerate(lengths):
        alone, after = rnn.run(net, x[:length, n : n + 1])
        outputs[np.s_[:length, n] if pool is None else np.s_[n]] = alone[:, 0] if pool is None else alone[0]
        states.append([state[0] for state in after])
        x[length:, n] = np.nan
    return net, x, lengths, [outputs, *map(np.stack, zip(*states, strict=True))]


@pytest.mark.parametrize("pool", [None, "mean"])
def test_lengths_in_torch(torch: Any, pool: str | None) -> None:
    net, x, lengths, right = ragged(pool)
    for ends in (lengths, torch.tensor(lengths, dtype=torch.int64)):
        module = torch_module(net, batch_first=True)
        outputs, states = module(torch.from_numpy(x).transpose(0, 1), lengths=ends)
        own = right[0].swapaxes(0, 1) if pool is None else right[0]
        for found, each in zip([outputs, *states], [own, *right[1:]], strict=True):
            np.testing.assert_allclose(found.detach(), each, rtol=1e-9, atol=1e-12)
        outputs.square().sum().backward()
        assert all(bool(weight.grad.isfinite().all()) for weight in module.parameters())
    with pytest.raises(gn.GraphnetError, match=r"lengths must be in 1 \.\.\. 5 .* got 6 for case 1"):
        module(torch.from_numpy(x).transpose(0, 1), lengths=[5, 6, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.from_numpy(x), lengths, enforce_sorted=False)
    for odd in (packed, torch.zeros(5, 3), x):
        with pytest.raises(UsageError, match=r"x must be a tensor with 3 axes, not .* give lengths="):
            module(odd)


@pytest.mark.parametrize("pool", [None, "mean"])
def test_lengths_in_jax(jax: Any, pool: str | None) -> None:
    net, x, lengths, right = ragged(pool)
    with jax.enable_x64(True):
        function, parameters = jax_function(net)
        found = jax.jit(function)(parameters, x, lengths=np.array(lengths))
        for each, own in zip([found[0], *found[1]], right, strict=True):
            np.testing.assert_allclose(each, own, rtol=1e-9, atol=1e-12)
        gradient = jax.grad(lambda p: (function(p, x, lengths=lengths)[0] ** 2).sum())(parameters)
        assert all(np.isfinite(each).all() for each in gradient.values())
    single = rnn.Network([rnn.GRU(3)], 3, 2, loss="squared")
    function, parameters = jax_function(single)
    x = np.nan_to_num(x).astype("float32")
    outputs, _ = function(parameters, x, lengths=lengths)
    np.testing.assert_allclose(outputs, rnn.run(single, x, lengths=lengths)[0], rtol=1e-5, atol=1e-6)


def test_invalid_arguments_are_rejected(jax: Any) -> None:
    function, parameters = jax_function(rnn.Network([rnn.GRU(3)], 2, 1, loss="squared"))
    dropping = rnn.Network([rnn.GRU(3), rnn.GRU(3)], 2, 2, loss="squared", dropout=0.5)
    shape, dtype = (
        r"x must have axes \(time, batch, inputs\), not the shape \[4\]",
        r"must be float32, not int32",
    )
    for call, error, said in (
        (lambda: function(parameters, np.zeros(4, "float32")), UsageError, shape),
        (
            lambda: function({}, np.zeros((4, 1, 2), "float32")),
            UsageError,
            "parameters must contain all arrays",
        ),
        (lambda: function(parameters, np.zeros((4, 1, 2), "int32")), DtypeError, dtype),
        *(
            (
                lambda n=n: function(parameters, np.zeros((4, 1, 2), "float32"), lengths=n),
                DataError,
                "lengths must be",
            )
            for n in ([2.5], [0], [9], [True])
        ),
        (
            lambda: function(parameters, *np.zeros((3, 4, 1, 2), "float32")),
            UsageError,
            r"give 1 arrays \(h_0\)",
        ),
        (lambda: jax_function(dropping), UsageError, r"draw with jax\.random between functions"),
    ):
        with case(said), pytest.raises(error, match=said):
            call()


@pytest.mark.parametrize(("package", "who"), [("torch", "torch_module"), ("jax", "jax_function")])
def test_missing_packages_give_one_line_errors(
    package: str, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    but_it = lambda name, *rest: None if name == package else find(name, *rest)
    monkeypatch.setattr(importlib.util, "find_spec", but_it)
    said = rf": \w+ is not installed: pip install {package}$"
    with pytest.raises(UsageError, match=f"^{who}{said}"):
        getattr(rnn.inside, who)(rnn.Network([rnn.GRU(3)], 2, 1, loss="squared"))
    x = gn.input((2,), "float32", name="x")
    with pytest.raises(UsageError, match=f"^{package}_function{said}"):
        getattr(gn.inside, f"{package}_function")([x * 2], [x])


def test_networks_with_ctc_need_no_labels() -> None:
    net = rnn.Network([rnn.Elman(3)], 4, 3, loss="ctc", reads="vectors")
    require_no_draws("test", net, "ours", "")
    outputs, _ = called(net, 3, 2, False)
    assert outputs[0].shape == (3, 2, net.outputs)
