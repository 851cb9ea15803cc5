"""User-defined ops written as loops: soft dynamic time warping (Cuturi & Blondel 2017); an op within a recurrence.

    python -m benchmarks.own_op [--rounds 8]

Loss and gradient by W of mean soft-DTW(x W, z): products and squared distances around two recursions over a lattice,
float64. All run the same two functions that Numba compiles: graphnet as a kernel of rows; as an op that has only a
Python rule, which cuts the schedule; PyTorch 2 in a torch.autograd.Function; JAX by pure_callback under custom_vjp, in
one jitted function. Outside of graphnet's kernels rows are divided among cores by numba.prange. Lines are those of the
user's code without the two recursions, that is, the code that wraps them as an op.
Second table: an op within a recurrence, h = tanh(L(h W)) with L a running sum that forgets, over 100 steps; value and
gradient by W, by a kernel of rows and by a Python rule that Numba compiles, which cuts the schedule at each step.
All take turns, some calls each; medians.
"""

from __future__ import annotations

import argparse
import inspect
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numba
import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.system.streams import prepare_streams

SMOOTHING, FEATURES = 0.5, 8
#: A turn is CALLS timed calls after WARM seconds of untimed ones, in which the threads of the previous contender go to
#: sleep: those of OpenMP spin for a fifth of a second.
CALLS, WARM = 10, 0.3
#: batch, steps of either sequence
SIZES = ((4, 12), (16, 40), (32, 100))

# -- the two recursions, for one pair of sequences -------------------------------------------------------------------


@numba.njit
def least_costs(R: Array, D: Array, smoothing: float) -> None:
    """R[i, j] = D[i, j] + softmin(R[i-1, j-1], R[i-1, j], R[i, j-1])"""
    for i in range(D.shape[0]):
        for j in range(D.shape[1]):
            a = R[i - 1, j - 1] if i > 0 and j > 0 else (0.0 if i == j else math.inf)
            b = R[i - 1, j] if i > 0 else math.inf
            c = R[i, j - 1] if j > 0 else math.inf
            least = min(a, b, c)
            total = math.exp((least - a) / smoothing) + math.exp((least - b) / smoothing)
            total += math.exp((least - c) / smoothing)
            R[i, j] = D[i, j] + least - smoothing * math.log(total)


@numba.njit
def path_weights(E: Array, gR: Array, R: Array, D: Array, smoothing: float) -> None:
    """E = ∂/∂D of Σ gR R: backward from the end, each place gets its share of the places after it"""
    n, m = D.shape
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            total = gR[i, j]
            for di, dj in ((1, 1), (1, 0), (0, 1)):
                a, b = i + di, j + dj
                if a < n and b < m:
                    total += E[a, b] * math.exp((R[a, b] - D[a, b] - R[i, j]) / smoothing)
            E[i, j] = total


# -- an op of graphnet's ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PathWeights(gn.Rowwise):
    """E = ∂/∂D of Σ gR R"""

    signature = "... n m, ... n m, ... n m -> ... n m"
    kernel = staticmethod(path_weights)
    smoothing: float


@dataclass(frozen=True, eq=False)
class LeastCosts(gn.Rowwise):
    """R[i, j] = D[i, j] + softmin(R[i-1, j-1], R[i-1, j], R[i, j-1])"""

    signature = "... n m -> ... n m"
    kernel = staticmethod(least_costs)
    smoothing: float

    def backward(self, gR: Node, R: Node, D: Node) -> Sequence[Node]:
        return (PathWeights(self.smoothing)(gR, R, D),)


def graphnet_loss(D: Node) -> Node:
    return gn.mean(LeastCosts(SMOOTHING)(D)[:, -1, -1])


# -- for all others: over the batch ----------------------------------------------------------------------------------


@numba.njit(parallel=True, nogil=True)
def all_least_costs(D: Array, smoothing: float) -> Array:
    R = np.empty_like(D)
    for i in numba.prange(len(D)):
        least_costs(R[i], D[i], smoothing)
    return R


@numba.njit(parallel=True, nogil=True)
def all_path_weights(gR: Array, R: Array, D: Array, smoothing: float) -> Array:
    E = np.empty_like(D)
    for i in numba.prange(len(D)):
        path_weights(E[i], gR[i], R[i], D[i], smoothing)
    return E


# -- an op with a Python rule ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HostPathWeights(gn.Op):
    """E = ∂/∂D of Σ gR R"""

    signature = "b n m, b n m, b n m -> b n m"
    smoothing: float

    def forward(self, gR: Array, R: Array, D: Array) -> Array:
        return all_path_weights(gR, R, D, self.smoothing)


@dataclass(frozen=True, eq=False)
class HostLeastCosts(gn.Op):
    """R[i, j] = D[i, j] + softmin(R[i-1, j-1], R[i-1, j], R[i, j-1])"""

    signature = "b n m -> b n m"
    smoothing: float

    def forward(self, D: Array) -> Array:
        return all_least_costs(D, self.smoothing)

    def backward(self, gR: Node, R: Node, D: Node) -> Sequence[Node]:
        return (HostPathWeights(self.smoothing)(gR, R, D),)


def host_loss(D: Node) -> Node:
    return gn.mean(HostLeastCosts(SMOOTHING)(D)[:, -1, -1])


# -- an op amid a recurrence -----------------------------------------------------------------------------------------


@numba.njit
def running_sum(y: Array, x: Array, decay: float, from_end: bool) -> None:
    size, total = x.shape[0], 0.0
    for k in range(size):
        i = size - 1 - k if from_end else k
        total = x[i] + decay * total
        y[i] = total


@numba.njit(nogil=True)
def all_running_sums(x: Array, decay: float, from_end: bool) -> Array:
    y = np.empty_like(x)
    for i in range(len(x)):
        running_sum(y[i], x[i], decay, from_end)
    return y


@dataclass(frozen=True, eq=False)
class RunningSum(gn.Rowwise):
    """y[t] = x[t] + λ y[t-1], or from the end"""

    signature = "... t -> ... t"
    zero_if = "all"
    kernel = staticmethod(running_sum)
    decay: float
    from_end: bool = False

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (type(self)(self.decay, not self.from_end)(gy),)


@dataclass(frozen=True, eq=False)
class HostRunningSum(gn.Op):
    """y[t] = x[t] + λ y[t-1], or from the end"""

    signature = "b t -> b t"
    zero_if = "all"
    decay: float
    from_end: bool = False

    def forward(self, x: Array) -> Array:
        return all_running_sums(x, self.decay, self.from_end)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (type(self)(self.decay, not self.from_end)(gy),)


def recurrence(kind: Callable[[float], gn.Op], batch: int, units: int) -> Callable[[Array], Any]:
    h = x = gn.input((batch, units), "float64")
    W = gn.parameter(np.random.default_rng(1).standard_normal((units, units)) / units)
    for _ in range(100):
        h = gn.tanh(kind(0.5)(h @ W))
    cost = gn.sum(h * h)
    return gn.compile([cost, *gn.gradient(cost, [W])], [x])


# -- PyTorch ---------------------------------------------------------------------------------------------------------


def torch_loss() -> Callable[[Any], Any]:
    import torch

    class LeastCosts(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, D: Any, smoothing: float) -> Any:
            R = torch.from_numpy(all_least_costs(D.detach().numpy(), smoothing))
            ctx.save_for_backward(R, D)
            ctx.smoothing = smoothing
            return R

        @staticmethod
        def backward(ctx: Any, gR: Any) -> Any:
            R, D = ctx.saved_tensors
            E = all_path_weights(gR.contiguous().numpy(), R.numpy(), D.detach().numpy(), ctx.smoothing)
            return torch.from_numpy(E), None

    return lambda D: LeastCosts.apply(D, SMOOTHING)[:, -1, -1].mean()


# -- JAX -------------------------------------------------------------------------------------------------------------


def jax_loss() -> Callable[[Any], Any]:
    import jax

    @jax.custom_vjp
    def least(D: Any) -> Any:
        like = jax.ShapeDtypeStruct(D.shape, D.dtype)
        return jax.pure_callback(lambda D: all_least_costs(np.asarray(D), SMOOTHING), like, D)

    def forward(D: Any) -> Any:
        R = least(D)
        return R, (R, D)

    def backward(kept: Any, gR: Any) -> Any:
        like = jax.ShapeDtypeStruct(gR.shape, gR.dtype)

        def weights(*arrays: Any) -> Array:
            return all_path_weights(*map(np.asarray, arrays), SMOOTHING)

        return (jax.pure_callback(weights, like, gR, *kept),)

    least.defvjp(forward, backward)
    return lambda D: least(D)[:, -1, -1].mean()


# -- the function around it ------------------------------------------------------------------------------------------

Call = Callable[[Array, Array, Array], tuple[float, Array]]


def in_graphnet(batch: int, steps: int, loss: Callable[[Node], Node]) -> Call:
    x, z = (gn.input((batch, steps, FEATURES), "float64") for _ in range(2))
    W = gn.parameter(np.zeros((FEATURES, FEATURES)))
    y = gn.reshape(gn.reshape(x, (batch * steps, FEATURES)) @ W, x.shape)
    cost = loss(gn.sum(gn.squared_error(y[:, :, None], z[:, None]), -1))
    function = gn.compile([cost, *gn.gradient(cost, [W])], [x, z])

    def call(x: Array, z: Array, weights: Array) -> tuple[float, Array]:
        W.value = weights
        value, gradient = function(x, z)
        return float(value), gradient

    return call


def in_torch(batch: int, steps: int) -> Call:
    import torch

    loss = torch_loss()

    def call(x: Array, z: Array, weights: Array) -> tuple[float, Array]:
        W = torch.from_numpy(weights).requires_grad_()
        y = torch.from_numpy(x) @ W
        cost = loss(((y[:, :, None] - torch.from_numpy(z)[:, None]) ** 2).sum(-1))
        (gradient,) = torch.autograd.grad(cost, [W])
        return cost.item(), gradient.numpy()

    return call


def in_jax(batch: int, steps: int) -> Call:
    import jax

    jax.config.update("jax_enable_x64", True)
    loss = jax_loss()

    @jax.jit
    @jax.value_and_grad
    def function(W: Any, x: Any, z: Any) -> Any:
        return loss((((x @ W)[:, :, None] - z[:, None]) ** 2).sum(-1))

    def call(x: Array, z: Array, weights: Array) -> tuple[float, Array]:
        value, gradient = function(weights, x, z)
        return float(value), np.asarray(gradient)

    return call


CONTENDERS: dict[str, tuple[Callable[[int, int], Call], Sequence[Any]]] = {
    "graphnet, a kernel of rows": (
        lambda batch, steps: in_graphnet(batch, steps, graphnet_loss),
        (PathWeights, LeastCosts),
    ),
    "graphnet, a Python rule": (
        lambda batch, steps: in_graphnet(batch, steps, host_loss),
        (all_least_costs, all_path_weights, HostPathWeights, HostLeastCosts),
    ),
    "PyTorch, autograd.Function": (in_torch, (all_least_costs, all_path_weights, torch_loss)),
    "JAX, pure_callback": (in_jax, (all_least_costs, all_path_weights, jax_loss)),
}


def in_turn(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each, in turns."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            awake = time.perf_counter() + WARM
            while time.perf_counter() < awake:
                call()
            for _ in range(CALLS):
                start = time.perf_counter()
                call()
                spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in spent.items()}


def lines(parts: Sequence[Any]) -> int:
    """Number of lines with code, without docstrings."""
    text = "".join(inspect.getsource(getattr(part, "py_func", part)) for part in parts)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(('"""', "#")))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=8)
    rounds = parser.parse_args().rounds
    generator = np.random.default_rng(0)
    times: dict[str, list[str]] = {name: [] for name in CONTENDERS}
    for batch, steps in SIZES:
        x, z = generator.standard_normal((2, batch, steps, FEATURES))
        W = generator.standard_normal((FEATURES, FEATURES)) / 3
        calls: dict[str, Call] = {}
        expected: tuple[float, Array] | None = None
        for name, (make, _) in CONTENDERS.items():
            try:
                calls[name] = make(batch, steps)
                found = calls[name](x, z, W)
            except ImportError as error:
                print(f"{name}: left out ({error})")
                calls.pop(name, None)
                continue
            expected = expected or found
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-7, atol=1e-9)
        arrays = x, z, W
        spent = in_turn({name: partial(call, *arrays) for name, call in calls.items()}, rounds)
        for name, row in times.items():
            row.append(f"{1e3 * spent[name]:.2f}" if name in spent else "-")
    heads = " | ".join(f"{batch} pairs of {steps} × {steps}" for batch, steps in SIZES)
    print(
        f"Loss and gradient, ms (float64, medians of {rounds} turns of {CALLS} calls)\n\n| | lines | {heads} |"
    )
    print("|---|---|" + "---|" * len(SIZES))
    for name, (_, parts) in CONTENDERS.items():
        print(f"| {name} | {lines(parts)} | {' | '.join(times[name])} |")
    print("\nValue and gradient of 100 steps, ms\n\n| | a kernel of rows | a Python rule |\n|---|---|---|")
    for batch, units in ((16, 32), (64, 128)):
        x = generator.standard_normal((batch, units))
        made = {kind.__name__: recurrence(kind, batch, units) for kind in (RunningSum, HostRunningSum)}
        for a, b in zip(made["RunningSum"](x), made["HostRunningSum"](x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)
        spent = in_turn({name: partial(function, x) for name, function in made.items()}, rounds)
        print(f"| {batch} × {units} | {' | '.join(f'{1e3 * spent[name]:.2f}' for name in made)} |")


if __name__ == "__main__":
    prepare_streams()
    main()
