"""Cells of ours inside PyTorch and JAX, compared with the same equations in these libraries: forward and backward, ms.

    python -m benchmarks.inside [--cells MinGRU Mogrifier SLSTM RHN LSTM] [--units 64 256] [--batches 1 32] [--time 50]
        [--threads 1] [--rounds 15] [--compiled step loop]

Every engine computes the equations below with the same weights. The affine maps of all inputs are computed before the
loop, in one product. In PyTorch: `rnn.inside.torch_module`, a loop of eager steps, the same with the step or the whole
loop compiled by torch.compile, and, of an LSTM, torch.nn.LSTM. In JAX: `gn.inside.jax_function` under jit, and
lax.scan under jit.
Gradients with respect to the input and all weights of Σ outputs · r. In turns with pauses between them; medians.
threads: of PyTorch, and of the function inside it (each has its own threads, which spin while they wait); JAX chooses
its own number. The last table is the cost of a call: a function that adds 1 to four numbers, in µs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.streams import prepare_streams

WIDTH = 64
#: Rounds of the Mogrifier, depth of the RHN.
ROUNDS, DEPTH = 4, 3
#: Seconds between turns.
REST = 0.05

Call = Callable[[], Any]
Weights = Mapping[str, Any]


class Equations:
    """Equations of a cell for any library m. reads: number of units-wide parts of a = x W_x + b; 0 reads x itself."""

    name: str
    states = 1
    reads = 1

    def weights(self, units: int) -> dict[str, tuple[int, int]]:
        """Shapes of the weights besides W_x and b."""
        return {}

    def step(self, m: Any, w: Weights, a: Any, *states: Any) -> tuple[Any, ...]:
        raise NotImplementedError


class MinGRU(Equations):
    """z = σ(a_z);  h' = (1 - z) h + z a_h  (Feng et al. 2024)"""

    name, reads = "MinGRU", 2

    def step(self, m: Any, w: Weights, a: Any, *states: Any) -> tuple[Any, ...]:
        (h,), n = states, states[0].shape[1]
        z = m.sigmoid(a[:, :n])
        return ((1 - z) * h + z * a[:, n:],)


class LSTM(Equations):
    """i, f, o, g = a + h W_h;  c' = σ(f) c + σ(i) tanh(g);  h' = σ(o) tanh(c')"""

    name, states, reads = "LSTM", 2, 4

    def weights(self, units: int) -> dict[str, tuple[int, int]]:
        return {"W_h": (units, 4 * units)}

    def step(self, m: Any, w: Weights, a: Any, *states: Any) -> tuple[Any, ...]:
        (h, c), n = states, states[0].shape[1]
        a = a + h @ w["W_h"]
        i, f, o = (m.sigmoid(a[:, k * n : (k + 1) * n]) for k in range(3))
        c = f * c + i * m.tanh(a[:, 3 * n :])
        return o * m.tanh(c), c


class Mogrifier(LSTM):
    """x = 2 σ(h Q_k) x, h = 2 σ(x R_k) h in turns, then an LSTM  (Melis et al. 2020)"""

    name, reads = "Mogrifier", 0

    def weights(self, units: int) -> dict[str, tuple[int, int]]:
        gates = {f"Q_{k}": (units, WIDTH) for k in range(0, ROUNDS, 2)}
        gates |= {f"R_{k}": (WIDTH, units) for k in range(1, ROUNDS, 2)}
        return {"W_x": (WIDTH, 4 * units), "b": (1, 4 * units), **super().weights(units), **gates}

    def step(self, m: Any, w: Weights, a: Any, *states: Any) -> tuple[Any, ...]:
        x, (h, c) = a, states
        for k in range(ROUNDS):
            if k % 2:
                h = 2 * m.sigmoid(x @ w[f"R_{k}"]) * h
            else:
                x = 2 * m.sigmoid(h @ w[f"Q_{k}"]) * x
        return super().step(m, w, x @ w["W_x"] + w["b"], h, c)


class SLSTM(Equations):
    """i, f, o, z = a + h W_h;  s' = max(f + s, i);  c' = e^(f+s-s') c + e^(i-s') tanh(z);  n' alike with 1;
    h' = σ(o) c'/n'  (Beck et al. 2024)
    """

    name, states, reads = "SLSTM", 4, 4

    def weights(self, units: int) -> dict[str, tuple[int, int]]:
        return {"W_h": (units, 4 * units)}

    def step(self, m: Any, w: Weights, a: Any, *states: Any) -> tuple[Any, ...]:
        (h, c, n, s), units = states, states[0].shape[1]
        a = a + h @ w["W_h"]
        i, f, o, z = (a[:, k * units : (k + 1) * units] for k in range(4))
        top = m.maximum(f + s, i)
        keep, add = m.exp(f + s - top), m.exp(i - top)
        c, n = keep * c + add * m.tanh(z), keep * n + add
        return m.sigmoid(o) * c / n, c, n, top


class RHN(Equations):
    """s = h;  for each k: u, t = a [k = 0] + s R_k;  s = σ(t) tanh(u) + (1 - σ(t)) s  (Zilly et al. 2017)"""

    name, reads = "RHN", 2

    def weights(self, units: int) -> dict[str, tuple[int, int]]:
        return {f"R_{k}": (units, 2 * units) for k in range(DEPTH)}

    def step(self, m: Any, w: Weights, a: Any, *states: Any) -> tuple[Any, ...]:
        (s,), n = states, states[0].shape[1]
        for k in range(DEPTH):
            both = s @ w[f"R_{k}"] + (0 if k else a)
            t = m.sigmoid(both[:, n:])
            s = t * m.tanh(both[:, :n]) + (1 - t) * s
        return (s,)


CELLS = {kind.name: kind() for kind in (MinGRU, Mogrifier, SLSTM, RHN, LSTM)}


def ours(kind: Equations, units: int) -> rnn.Network:
    """A network of these equations."""

    class Declared(rnn.Cell):
        states = tuple(rnn.State(name) for name in "hcns"[: kind.states])

        def step(self, x: gn.Node, *states: gn.Node) -> Any:
            w = {name: self.weight(name, shape) for name, shape in kind.weights(self.units).items()}
            a = x
            if kind.reads:
                a = x @ self.weight("W_x", (x.shape[1], kind.reads * self.units))
                a = a + self.weight("b", (1, kind.reads * self.units))
            return kind.step(gn, w, a, *states)

    return rnn.Network([Declared(units)], WIDTH, 0, reads="vectors", loss="squared", seed=0)


def in_torch(
    kind: Equations, net: rnn.Network, x: Array, r: Array, threads: int, compiled: list[str]
) -> dict[str, Call]:
    import torch

    torch.set_num_threads(threads)
    given, weights = torch.tensor(x, requires_grad=True), torch.tensor(r)
    batch, units = x.shape[1], r.shape[2]
    module = rnn.inside.torch_module(net, threads=threads)
    held = {
        name.removeprefix("layer0."): torch.nn.Parameter(torch.tensor(p.value))
        for name, p in net.parameters.items()
    }

    def loop(step: Callable[..., Any]) -> Callable[[], Any]:
        def forward() -> torch.Tensor:
            columns = given @ held["W_x"] + held["b"] if kind.reads else given
            states = tuple(torch.zeros(batch, units) for _ in range(kind.states))
            outputs = []
            for column in columns:
                states = step(torch, held, column, *states)
                outputs.append(states[0])
            return torch.stack(outputs)

        return forward

    eager = loop(kind.step)
    calls: dict[str, Call] = {
        "ours in PyTorch": lambda: module(given)[0],
        "PyTorch, eager": eager,
    }
    if "step" in compiled:
        calls["PyTorch, compiled step"] = loop(torch.compile(kind.step))
    if "loop" in compiled:
        calls["PyTorch, compiled loop"] = torch.compile(eager)
    if kind.name == "LSTM":
        whole = torch.nn.LSTM(WIDTH, units)
        calls["nn.LSTM"] = lambda: whole(given)[0]
    right = eager()
    for name, call in calls.items():
        if name != "nn.LSTM":
            torch.testing.assert_close(call(), right, rtol=1e-3, atol=1e-4)
    return {name: (lambda call=call: (call() * weights).sum().backward()) for name, call in calls.items()}


def in_jax(kind: Equations, net: rnn.Network, x: Array, r: Array, threads: int) -> dict[str, Call]:
    import jax
    import jax.numpy as jnp

    steps, batch, _ = x.shape
    units = r.shape[2]
    u = net.unroll(steps, batch, initial="zero", training=False)
    names = [name.removeprefix("layer0.") for name in net.parameters]
    function = gn.inside.jax_function(u.hidden[-1], [u.inputs, *net.parameters.values()], threads=threads)
    held = {name: jnp.asarray(p.value) for name, p in zip(names, net.parameters.values(), strict=True)}

    class Library:
        sigmoid, tanh, exp, maximum = jax.nn.sigmoid, jnp.tanh, jnp.exp, jnp.maximum

    def own(weights: Weights, x: Any) -> Any:
        return (function(x, *(weights[name] for name in names))[0] * r).sum()

    def scanned(weights: Weights, x: Any) -> Any:
        columns = x @ weights["W_x"] + weights["b"] if kind.reads else x
        first = (jnp.zeros((batch, units), x.dtype),) * kind.states

        def step(states: Any, column: Any) -> Any:
            states = kind.step(Library, weights, column, *states)
            return states, states[0]

        return (jax.lax.scan(step, first, columns)[1] * r).sum()

    given = jnp.asarray(x)
    calls = {}
    for name, value in (("ours in JAX", own), ("lax.scan", scanned)):
        slopes = jax.jit(jax.grad(value, argnums=(0, 1)))
        calls[name] = lambda slopes=slopes: jax.block_until_ready(slopes(held, given))
    both = [jax.tree.leaves(call()) for call in calls.values()]
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-3)
    return calls


def milliseconds(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Medians, in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 2):
        for name, call in calls.items():
            time.sleep(REST)
            call()  # after a rest threads are asleep, and caches are others'
            start = time.perf_counter()
            call()
            if turn > 1:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def costs_of_a_call(rounds: int) -> dict[str, float]:
    """µs: our function alone and inside the libraries, and their own function."""
    import jax
    import jax.numpy as jnp
    import torch

    x = gn.input(4, name="x")
    alone, on_tensors = gn.compile([x + 1.0], [x]), gn.inside.torch_function([x + 1.0], [x])
    on_arrays = gn.inside.jax_function([x + 1.0], [x])
    jitted, plain = jax.jit(lambda x: on_arrays(x)[0]), jax.jit(lambda x: x + 1.0)
    array, tensor, given = np.zeros(4, np.float32), torch.zeros(4), jnp.zeros(4)

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x + 1.0

    calls: dict[str, Call] = {
        "alone": lambda: alone(array),
        "ours in PyTorch": lambda: on_tensors(tensor),
        "a torch.autograd.Function": lambda: Own.apply(tensor),
        "ours in a compiled program of JAX": lambda: jax.block_until_ready(jitted(given)),
        "a compiled program of JAX": lambda: jax.block_until_ready(plain(given)),
    }
    found = dict.fromkeys(calls, 0.0)
    for name, call in calls.items():
        times = []
        for _ in range(200 * rounds):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        found[name] = statistics.median(times) * 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    add("--units", type=int, nargs="+", default=[64, 256])
    add("--batches", type=int, nargs="+", default=[1, 32])
    add("--time", type=int, default=50)
    add("--threads", type=int, default=1)
    add("--rounds", type=int, default=15)
    add(
        "--compiled",
        nargs="*",
        choices=("step", "loop"),
        default=["step"],
        help="a loop takes minutes to compile",
    )
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    print("| cell | units | batch | contender | ms | / ours |\n|---|---|---|---|---|---|")
    for name in options.cells:
        for units in options.units:
            net = ours(CELLS[name], units)
            for batch in options.batches:
                shapes = [(options.time, batch, width) for width in (WIDTH, units)]
                x, r = (generator.standard_normal(shape).astype("float32") for shape in shapes)
                how = CELLS[name], net, x, r, options.threads
                for calls in (in_torch(*how, options.compiled), in_jax(*how)):
                    found = milliseconds(calls, options.rounds)
                    own = next(iter(found.values()))
                    for contender, ms in found.items():
                        print(
                            f"| {name} | {units} | {batch} | {contender} | {ms:.2f} | {ms / own:.2f} |",
                            flush=True,
                        )
    print("\n| a call | µs |\n|---|---|")
    for contender, us in costs_of_a_call(options.rounds).items():
        print(f"| {contender} | {us:.1f} |", flush=True)


if __name__ == "__main__":
    prepare_streams()
    main()
