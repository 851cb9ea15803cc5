"""A cell of ours inside PyTorch and JAX, compared with its equations in these libraries: forward and backward, ms.

    python -m benchmarks.inside [--units 128] [--time 50] [--batch 32] [--threads 1] [--rounds 15]

In PyTorch: `rnn.inside.torch_module` of a network without output layer, the equations as a loop of modules, and, of an
LSTM, torch.nn.LSTM. In JAX: `gn.inside.jax_function` under jit, and lax.scan under jit. Gradients with respect to the
input and all weights of Σ outputs · r. In turns with pauses between them; medians. threads: of PyTorch, and of the
function inside it (each has its own threads, which spin while they wait); JAX chooses its own number.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from benchmarks.standalone import Own
from graphnet.graph.node import Array
from graphnet.system.streams import prepare_streams

WIDTH = 64
CELLS: dict[str, type[rnn.Cell]] = {"LSTM": rnn.LSTM, "Own": Own}
#: Seconds between turns.
REST = 0.05

Call = Callable[[], Any]


def in_torch(kind: str, net: rnn.Network, x: Array, r: Array, threads: int) -> dict[str, Call]:
    import torch

    torch.set_num_threads(threads)
    given, weights = torch.tensor(x, requires_grad=True), torch.tensor(r)
    batch, units = x.shape[1], net.layers[0].units
    module = rnn.inside.torch_module(net, threads=threads)

    class Loop(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if kind == "LSTM":
                self.cell = torch.nn.LSTMCell(WIDTH, units)
            else:
                self.read = torch.nn.Linear(WIDTH, 2 * units)
                self.W_hf, self.W_hh = (torch.nn.Linear(units, units, bias=False) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = c = torch.zeros(batch, units)
            outputs = []
            for column in x if kind == "LSTM" else self.read(x):
                if kind == "LSTM":
                    h, c = self.cell(column, (h, c))
                else:
                    x_f, x_h = torch.chunk(column, 2, dim=1)
                    f = torch.sigmoid(x_f + self.W_hf(h))
                    h = (1 - f) * h + f * torch.tanh(x_h + self.W_hh(f * h))
                outputs.append(h)
            return torch.stack(outputs)

    loop = Loop()

    def backward(outputs: torch.Tensor) -> None:
        (outputs * weights).sum().backward()

    calls: dict[str, Call] = {
        "ours in PyTorch": lambda: backward(module(given)[0]),
        "PyTorch's loop": lambda: backward(loop(given)),
    }
    if kind == "LSTM":
        whole = torch.nn.LSTM(WIDTH, units)
        calls["nn.LSTM"] = lambda: backward(whole(given)[0])
    return calls


def in_jax(kind: str, net: rnn.Network, x: Array, r: Array, threads: int) -> dict[str, Call]:
    import jax
    import jax.numpy as jnp

    time_, batch, _ = x.shape
    units = net.layers[0].units
    u = net.unroll(time_, batch, initial="zero", training=False)
    names = list(net.parameters)
    function = gn.inside.jax_function(u.hidden[-1], [u.inputs, *net.parameters.values()], threads=threads)
    held = {name.removeprefix("layer0."): jnp.asarray(net.parameters[name].value) for name in names}

    def ours(weights: dict[str, Any], x: Any) -> Any:
        return (function(x, *(weights[name.removeprefix("layer0.")] for name in names))[0] * r).sum()

    def affine(w: dict[str, Any], to: str, x: Any, h: Any) -> Any:
        return x @ w[f"W_x{to}"] + h @ w[f"W_h{to}"] + w[f"b_{to}"]

    def lstm(w: dict[str, Any], states: Any, x: Any) -> Any:
        h, c = states
        i, f, o = (jax.nn.sigmoid(affine(w, to, x, h)) for to in "ifo")
        c = f * c + i * jnp.tanh(affine(w, "g", x, h))
        h = o * jnp.tanh(c)
        return (h, c), h

    def own(w: dict[str, Any], states: Any, x: Any) -> Any:
        (h,) = states
        f = jax.nn.sigmoid(affine(w, "f", x, h))
        h = (1 - f) * h + f * jnp.tanh(affine(w, "h", x, f * h))
        return (h,), h

    def scanned(weights: dict[str, Any], x: Any) -> Any:
        step = lstm if kind == "LSTM" else own
        first = (jnp.zeros((batch, units), x.dtype),) * (2 if kind == "LSTM" else 1)
        return (jax.lax.scan(lambda states, column: step(weights, states, column), first, x)[1] * r).sum()

    given = jnp.asarray(x)
    calls = {}
    for name, value in (("ours in JAX", ours), ("lax.scan", scanned)):
        slopes = jax.jit(jax.grad(value, argnums=(0, 1)))
        calls[name] = lambda slopes=slopes: jax.block_until_ready(slopes(held, given))
    found = [jax.jit(value)(held, given) for value in (ours, scanned)]
    assert np.allclose(*found, rtol=1e-3), "the two are not the same function"
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--time", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    x, r = (
        generator.standard_normal((options.time, options.batch, width)).astype("float32")
        for width in (WIDTH, options.units)
    )
    print("| cell | contender | ms | / ours |\n|---|---|---|---|")
    for kind, cell in CELLS.items():
        net = rnn.Network([cell(options.units)], WIDTH, 0, reads="vectors", loss="squared", seed=0)
        for calls in (in_torch(kind, net, x, r, options.threads), in_jax(kind, net, x, r, options.threads)):
            times: dict[str, list[float]] = {name: [] for name in calls}
            for turn in range(options.rounds + 2):
                for name, call in calls.items():
                    time.sleep(REST)
                    call()  # after a rest threads are asleep, and caches are others'
                    start = time.perf_counter()
                    call()
                    if turn > 1:
                        times[name].append((time.perf_counter() - start) * 1e3)
            own, *_ = (statistics.median(found) for found in times.values())
            for name, found in times.items():
                ms = statistics.median(found)
                print(f"| {kind} | {name} | {ms:.2f} | {ms / own:.2f} |", flush=True)


if __name__ == "__main__":
    prepare_streams()
    main()
