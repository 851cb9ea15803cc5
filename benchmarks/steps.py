"""Cost of an optimizer's step relative to its gradient, losses and products.

    python -m benchmarks.steps [--units 100 350 1024 2200] [--rounds 7] [--threads 2] [--batch 16] [--curved-batch 128]

An LSTM over 65 symbols, 50 steps (0.1, 0.6, 4.5 and 20 million parameters). First order: a step over its gradient,
medians of turns. Hessian-free (some ten iterations of conjugate gradient, structural damping 0.01), with the larger
batch that curvature needs: shares of a step for products, for gradient and losses, and for the rest, which is vector
arithmetic.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.streams import prepare_streams

OPTIMIZERS: dict[str, Callable[[], rnn.optimizers.FirstOrder]] = {
    "SGD": lambda: rnn.SGD(1e-4),
    "Nesterov": lambda: rnn.Nesterov(1e-4),
    "RMSprop": lambda: rnn.RMSprop(1e-4),
    "Adam": lambda: rnn.Adam(1e-4),
    "Adam, clip_norm": lambda: rnn.Adam(1e-4, clip_norm=1.0),
}


class Watched:
    """An objective whose products, and whose losses and gradients, are timed."""

    def __init__(self, objective: rnn.Objective) -> None:
        self._objective = objective
        self.products = self.values = 0.0
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objective, name)

    def loss(self, w: Array) -> float:
        start = time.perf_counter()
        found = self._objective.loss(w)
        self.values += time.perf_counter() - start
        return found

    def gradient(self, w: Array) -> tuple[float, Array]:
        start = time.perf_counter()
        found = self._objective.gradient(w)
        self.values += time.perf_counter() - start
        return found

    def curvature(self, *arguments: Any, **how: Any) -> Callable[[Array], Array]:
        start = time.perf_counter()
        product = self._objective.curvature(*arguments, **how)
        self.products += time.perf_counter() - start

        def timed(v: Array) -> Array:
            start = time.perf_counter()
            found = product(v)
            self.products += time.perf_counter() - start
            self.count += 1
            return found

        return timed


def objective_of(units: int, batch: int, threads: int | None) -> tuple[rnn.Network, rnn.Objective]:
    net = rnn.Network([rnn.LSTM(units)], inputs=65, outputs=65)
    u = net.unroll(time=50, batch=batch)
    objective = rnn.Objective(
        u.cost,
        net.parameters,
        [u.inputs, u.targets, *u.initial],
        structure=u.structure,
        structure_scale=1 / 50,
        threads=threads,
    )
    x = np.random.default_rng(0).integers(0, 65, (50, batch))
    objective.feed(x, np.roll(x, -1, 0), *net.zero_states(batch))
    return net, objective


def first_order(net: rnn.Network, objective: rnn.Objective, rounds: int) -> dict[str, float]:
    """Milliseconds of a gradient, and of a step of each optimizer."""
    calls: dict[str, Callable[[], Any]] = {"gradient": lambda: objective.gradient(theta)}
    theta = net.theta.copy()
    for name, make in OPTIMIZERS.items():
        optimizer = make()
        calls[name] = partial(optimizer.step, objective, theta.copy(), optimizer.init(theta))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def hessian_free(net: rnn.Network, objective: rnn.Objective) -> tuple[float, float, float, int]:
    """Seconds of a step, of its products, of its losses and gradient; and the number of products."""
    optimizer = rnn.HessianFree(damping=1.0, structural=0.01, cg_steps=10)
    theta, watched = net.theta.copy(), Watched(objective)
    state = optimizer.init(theta)
    optimizer.step(watched, theta, state)  # type: ignore[arg-type]
    watched.products = watched.values = watched.count = 0
    start = time.perf_counter()
    optimizer.step(watched, theta, state)  # type: ignore[arg-type]
    return time.perf_counter() - start, watched.products, watched.values, watched.count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[100, 350, 1024, 2200])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--curved-batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    print(f"| units | parameters | gradient, ms | {' | '.join(OPTIMIZERS)} |")
    print(f"|---|---|---|{'---|' * len(OPTIMIZERS)}")
    later = []
    gc.disable()
    for units in options.units:
        net, objective = objective_of(units, options.batch, options.threads)
        found = first_order(net, objective, options.rounds)
        ratios = [f"{found[name] / found['gradient']:.3f}" for name in OPTIMIZERS]
        print(
            f"| {units} | {net.theta.size:,} | {found['gradient']:.2f} | {' | '.join(ratios)} |", flush=True
        )
        whole, products, values, count = hessian_free(
            *objective_of(units, options.curved_batch, options.threads)
        )
        rest = whole - products - values
        later.append(
            f"| {units} | {net.theta.size:,} | {whole * 1e3:.0f} | {count} | {products / whole:.1%} | "
            f"{values / whole:.1%} | {rest / whole:.1%} | {products / (products + rest):.1%} |"
        )
    print("\n| units | parameters | Hessian-free step, ms | products | share of the step: products", end="")
    print(" | losses and gradient | vectors | products / vectors |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(later))


if __name__ == "__main__":
    prepare_streams()
    main()
