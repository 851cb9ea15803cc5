"""Cost of the update of a first-order optimizer: ours, PyTorch's, and the lower bound by memory bandwidth.

    python -m benchmarks.optimizers [--sizes 100000 1000000 4500000 20000000] [--rounds 15] [--threads 2]

Milliseconds of an update alone, gradient given, float32: medians of turns, in which all contenders of a row take one
each, in another order every time. "floor": the bytes that an update must move, at the speed at which this machine adds
two such vectors into a third: θ and each array of the state are read and written, g is read, and again for its norm.
(Data in caches moves faster, so small sizes may be below their floor in the table.) PyTorch (extra: peers) takes
steps with foreach=True and, if available, fused=True, with clip_grad_norm_ for the rows with clipping; ours always
computes the norm, and checks that it is finite. A Nesterov step of PyTorch evaluates the gradient at the current
weights, so it has no look-ahead.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.streams import prepare_streams

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

OURS: dict[str, Callable[..., Any]] = {
    "SGD": partial(rnn.SGD, 1e-3),
    "Momentum": partial(rnn.Momentum, 1e-3),
    "Nesterov": partial(rnn.Nesterov, 1e-3),
    "RMSprop": partial(rnn.RMSprop, 1e-3),
    "Adam": partial(rnn.Adam, 1e-3),
}
#: Number of vectors that an update moves: θ and the state, read and written; g, read; and reads before the update.
MOVED = {"SGD": 3, "Momentum": 5, "Nesterov": 8, "RMSprop": 5, "Adam": 7}


class KnownGradient:
    """Objective with a precomputed gradient."""

    def __init__(self, g: Array, threads: int | None) -> None:
        self.g, self.threads = g, threads

    def gradient(self, w: Array) -> tuple[float, Array]:
        return 1.0, self.g


def ours(name: str, clip: float | None, g: Array, threads: int | None) -> Callable[[], Any]:
    optimizer = OURS[name](clip_norm=clip)
    theta, given = np.zeros_like(g), KnownGradient(g, threads)
    state = optimizer.init(theta)
    return lambda: optimizer.step(given, theta, state)


def theirs(name: str, clip: float | None, g: Array, how: Mapping[str, bool]) -> Callable[[], Any] | None:
    """PyTorch's update; None if it has none of that kind."""
    kinds: dict[str, Callable[..., Any]] = {
        "SGD": torch.optim.SGD,
        "Momentum": partial(torch.optim.SGD, momentum=0.9),
        "Nesterov": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
        "RMSprop": torch.optim.RMSprop,
        "Adam": torch.optim.Adam,
    }
    if name not in kinds:
        return None
    theta = torch.nn.Parameter(torch.zeros(g.size))
    try:
        optimizer = kinds[name]([theta], lr=1e-3, **how)
    except TypeError:
        return None

    def step() -> None:
        # Clipping changes the gradient in place, so it is clipped by less each time; the work is the same.
        theta.grad = given
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([theta], clip)
        optimizer.step()

    given = torch.from_numpy(g.copy())
    return step


def speed(size: int, threads: int | None) -> Callable[[], Any]:
    """Bytes per second of adding two vectors into a third: two reads, one write."""
    a, b, c = (gn.input((size,), name=name) for name in "abc")
    function = gn.compile([], [a, b, c], threads=threads, updates={c: a + b})
    return partial(function, *(np.ones(size, np.float32) for _ in range(3)))


def measured(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of a call, in turns."""
    for call in calls.values():
        call()
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    shuffle = random.Random(0).shuffle
    gc.disable()
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            start = time.perf_counter()
            calls[name]()
            times[name].append((time.perf_counter() - start) * 1e3)
    gc.enable()
    return {name: statistics.median(t) for name, t in times.items()}


def row(name: str, clip: float | None, size: int, rounds: int, threads: int | None) -> str:
    g = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    calls: dict[str, Callable[[], Any]] = {
        "speed": speed(size, threads),
        "ours": ours(name, clip, g, threads),
    }
    if torch is not None:
        for how in ("foreach", "fused"):
            call = theirs(name, clip, g, {how: True})
            if call is not None:
                calls[how] = call
    found = measured(calls, rounds)
    floor = (MOVED[name] + 1) * found["speed"] / 3
    peers = [f"{found[how]:8.2f}" if how in found else "       -" for how in ("foreach", "fused")]
    best = min((found[how] for how in ("foreach", "fused") if how in found), default=float("nan"))
    return (
        f"| {name}{', clip_norm' if clip else ''} | {size:,} | {floor:.2f} | {found['ours']:.2f} | "
        f"{' | '.join(p.strip() for p in peers)} | {found['ours'] / floor:.1f} | {found['ours'] / best:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000, 4_500_000, 20_000_000])
    parser.add_argument("--optimizers", nargs="+", choices=list(OURS), default=list(OURS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=None, help="of ours and of PyTorch (all)")
    options = parser.parse_args()
    if torch is not None and options.threads is not None:
        torch.set_num_threads(options.threads)
    print(
        "| update | parameters | floor, ms | ours, ms | PyTorch foreach | fused | ours / floor | ours / PyTorch |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for size in options.sizes:
        for name in options.optimizers:
            for clip in (None, 1.0):
                print(row(name, clip, size, options.rounds, options.threads), flush=True)


if __name__ == "__main__":
    prepare_streams()
    main()
