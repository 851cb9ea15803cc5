"""Loss and gradient, and Gauss-Newton products, of one network: ours and those of other engines.

Each contender is (task -> a call that returns when its results are there); tasks are "gradient", "product" (Gv with its
forward pass) and "product again" (Gv on the same batch and weights). Losses are compared before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from benchmarks.gpu.translate import Engine, step_of
from graphnet.backends.cuda.device import this_device

SYMBOLS = 64

#: Name -> number of units -> cell.
CELLS: dict[str, Callable[[int], rnn.Cell]] = {
    "Elman": rnn.Elman,
    "LSTM": rnn.LSTM,
    "GRU": rnn.GRU,
    "mLSTM": rnn.cells.ALL["MultiplicativeLSTM"],
    "RHN": lambda units: rnn.cells.ALL["RHN"](units, depth=7),  # type: ignore[call-arg]
    "HyperRHN": lambda units: rnn.cells.ALL["HyperRHN"](units, depth=7),  # type: ignore[call-arg]
    "GLNN": rnn.cells.ALL["GLNN"],
}


@dataclass(frozen=True)
class Problem:
    """One network on one batch."""

    cell: str
    units: int
    batch: int
    time: int

    def network(self) -> rnn.Network:
        return rnn.Network([CELLS[self.cell](self.units)], SYMBOLS, SYMBOLS, seed=0)

    def data(self) -> tuple[Any, Any]:
        both = np.random.default_rng(3).integers(SYMBOLS, size=(2, self.time, self.batch))
        return both[0], both[1]

    def direction(self, size: int) -> Any:
        return np.random.default_rng(4).standard_normal(size).astype(np.float32)

    def __str__(self) -> str:
        return f"{self.cell}, {self.units} units, batch {self.batch}, T = {self.time}"


@dataclass
class Contender:
    """tasks: name -> call. loss: its loss, for comparison."""

    tasks: dict[str, Callable[[], Any]]
    loss: float


# -- ours ----------------------------------------------------------------------------------------------------------


def ours(problem: Problem, backend: str) -> Contender:
    net = problem.network()
    u = net.unroll(problem.time, problem.batch, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets], backend=backend)
    objective.feed(*problem.data())
    theta = objective.start()
    v = gn.place(problem.direction(objective.size), backend)
    product = objective.curvature(theta)

    def waited(call: Callable[[], Any]) -> Any:
        result = call()
        this_device().wait()
        return result

    return Contender(
        {
            "gradient": partial(waited, lambda: objective.gradient(theta)),
            "product": partial(waited, lambda: objective.curvature(theta)(v)),
            "product again": partial(waited, lambda: product(v)),
        },
        objective.loss(theta),
    )


# -- JAX -----------------------------------------------------------------------------------------------------------


def jax_scan(problem: Problem) -> Contender:
    import jax
    import jax.numpy as jnp

    engine = Engine(
        "JAX", {"tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt},
        jnp.asarray, jnp.take,
        lambda x, i, size, axis: jnp.moveaxis(
            jnp.zeros((size, *jnp.moveaxis(x, axis, 0).shape[1:]), x.dtype).at[i].add(jnp.moveaxis(x, axis, 0)), 0, axis
        ),
        jnp.concatenate, jnp.stack, jnp.broadcast_to,
        jnp.transpose,
    )  # fmt: skip
    jax.config.update("jax_default_matmul_precision", "highest")  # float32, not TF32
    net = problem.network()
    step = step_of(net, problem.batch).function(engine)
    first = [np.asarray(s) for s in net.first_states(problem.batch)]
    names = [name for name in net.parameters if not name.startswith("output.")]
    weights = {name: jnp.asarray(node.value) for name, node in net.parameters.items()}
    inputs, targets = map(jnp.asarray, problem.data())
    states = tuple(map(jnp.asarray, first))

    def logits(w: Any) -> Any:
        own = {name: w[name] for name in names}

        def scanned(carry: Any, symbols: Any) -> Any:
            hidden, after = step(own, symbols, carry)
            return after, hidden

        _, hidden = jax.lax.scan(scanned, states, inputs)
        return hidden @ w["output.W_ho"] + w["output.b_o"]

    def cost(o: Any) -> Any:
        picked = jnp.take_along_axis(jax.nn.log_softmax(o), targets[..., None], -1)
        return -picked.mean()

    def loss(w: Any) -> Any:
        return cost(logits(w))

    def gauss_newton(w: Any, v: Any) -> Any:
        o, push, pull = jax.vjp(logits, w)[0], *_pushed(jax, logits, w, v)
        change = jax.jvp(jax.grad(cost), (o,), (push,))[1]
        return pull(change)[0]

    gradient, product = jax.jit(jax.value_and_grad(loss)), jax.jit(gauss_newton)
    v = jax.tree.map(jnp.ones_like, weights)
    return Contender(
        {
            "gradient": lambda: jax.block_until_ready(gradient(weights)),
            "product": lambda: jax.block_until_ready(product(weights, v)),
        },
        float(loss(weights)),
    )


def _pushed(jax: Any, function: Callable[..., Any], w: Any, v: Any) -> tuple[Any, Any]:
    """J v, and u -> (Jᵀ u,)"""
    return jax.jvp(function, (w,), (v,))[1], jax.vjp(function, w)[1]


# -- PyTorch -------------------------------------------------------------------------------------------------------


def _torch(device: str) -> Any:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return torch, torch.device(device)


def _torch_call(torch: Any, parameters: list[Any], loss: Callable[[], Any], device: Any) -> Contender:
    def gradient() -> Any:
        found = torch.autograd.grad(loss(), parameters)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return found

    return Contender({"gradient": gradient}, float(loss().detach()))


def torch_steps(problem: Problem, device: str, compiled: bool) -> Contender:
    """A loop over time in Python, as it stands or with its step compiled."""
    torch, place = _torch(device)
    engine = Engine(
        "PyTorch",
        {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt},
        lambda array: torch.as_tensor(array, device=place),
        lambda x, i, axis: torch.index_select(x, axis, i.reshape(-1)).reshape(
            (*x.shape[:axis], *i.shape, *x.shape[axis + 1 :])
        ),
        lambda x, i, size, axis: torch.zeros(
            (*x.shape[:axis], size, *x.shape[axis + 1 :]), device=place
        ).index_add(axis, i, x),
        torch.cat, torch.stack,
        lambda x, shape: x.expand(shape), lambda x, axes: x.permute(axes),
    )  # fmt: skip
    net = problem.network()
    step = step_of(net, problem.batch).function(engine)
    weights = {
        name: torch.tensor(node.value, device=place, requires_grad=True)
        for name, node in net.parameters.items()
    }
    own = {name: w for name, w in weights.items() if not name.startswith("output.")}
    inputs, targets = (torch.as_tensor(a, device=place) for a in problem.data())
    first = tuple(torch.as_tensor(np.asarray(s), device=place) for s in net.first_states(problem.batch))

    torch._dynamo.reset()
    run = torch.compile(step) if compiled else step

    def loss() -> Any:
        states, hidden = first, []
        for symbols in inputs:
            h, states = run(own, symbols, states)
            hidden.append(h)
        o = torch.stack(hidden) @ weights["output.W_ho"] + weights["output.b_o"]
        return torch.nn.functional.cross_entropy(o.reshape(-1, SYMBOLS), targets.reshape(-1))

    return _torch_call(torch, list(weights.values()), loss, place)


def cudnn(problem: Problem, device: str) -> Contender:
    """torch.nn.LSTM (GRU, RNN), which is cuDNN's; its equations differ from ours, its work is the same."""
    kinds = {"LSTM": "LSTM", "GRU": "GRU", "Elman": "RNN"}
    if problem.cell not in kinds:
        raise NotImplementedError("cuDNN has no such cell")
    torch, place = _torch(device)
    torch.manual_seed(0)
    layer = getattr(torch.nn, kinds[problem.cell])(SYMBOLS, problem.units, device=place)
    readout = torch.nn.Linear(problem.units, SYMBOLS, device=place)
    inputs, targets = (torch.as_tensor(a, device=place) for a in problem.data())
    one_hot = torch.nn.functional.one_hot(inputs, SYMBOLS).to(torch.float32)

    def loss() -> Any:
        o = readout(layer(one_hot)[0])
        return torch.nn.functional.cross_entropy(o.reshape(-1, SYMBOLS), targets.reshape(-1))

    found = _torch_call(torch, [*layer.parameters(), *readout.parameters()], loss, place)
    return Contender(found.tasks, float("nan"))


#: Name -> made of a problem and the torch device.
CONTENDERS: dict[str, Callable[[Problem, str], Contender]] = {
    "graphnet": lambda problem, device: ours(problem, "cuda"),
    "graphnet, TF32": lambda problem, device: ours(problem, "cuda-tf32"),
    "cuDNN (torch.nn)": cudnn,
    "torch.compile, step": lambda problem, device: torch_steps(problem, device, True),
    "torch, eager": lambda problem, device: torch_steps(problem, device, False),
    "jax.jit(lax.scan)": lambda problem, device: jax_scan(problem),
}
