"""Cost of unit-wise metrics relative to a gradient: entries, factors, and steps.

    python -m benchmarks.metrics [--products] [--cell LSTM GRU Elman] [--units 128] [--batch 32] [--threads 2]

A network of one layer over 65 symbols. For each metric, medians of turns relative to the gradient: *measured*, one
function of the gradient and the entries of the metric; *step*, one of NaturalGradient that measures and factors the
metric; *amortized*, the mean of 20 steps of which one measures. With --products, instead: number of products with the
curvature in 25 steps of Hessian-free optimization on cyclic symbols (24 units, 30 steps, batch 64), for each metric as
preconditioner.
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

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.system.streams import prepare_streams
from graphnet_rnn.riemannian import METRICS, Metric

#: Of which metrics; full blocks of dense nets are units · (inputs + units)² numbers, and left out.
NAMES = ("qdruop", "qdrbpm", "qdrbpm_probed", "kfac", "rms")
EVERY = 20


def objective_of(cell: str, units: int, batch: int, steps: int, threads: int | None) -> rnn.Objective:
    net = rnn.Network([rnn.cells.ALL[cell](units)], inputs=65, outputs=65)
    u = net.unroll(time=steps, batch=batch, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets], threads=threads)
    x = np.random.default_rng(0).integers(0, 65, (steps, batch))
    objective.feed(x, np.roll(x, -1, 0))
    return objective


def calls_of(objective: rnn.Objective, metrics: dict[str, Metric]) -> dict[str, Callable[[], Any]]:
    theta = objective.start()
    calls: dict[str, Callable[[], Any]] = {"gradient": partial(objective.gradient, theta)}
    for name, metric in metrics.items():
        calls[f"{name} measured"] = partial(objective.metric, theta, metric)
        for kind, every in (("step", 1), ("amortized", EVERY)):
            optimizer = rnn.NaturalGradient(metric, rate=1e-6, every=every)
            state = optimizer.init(theta, objective)
            calls[f"{name} {kind}"] = partial(_steps, optimizer, objective, theta.copy(), state, every)
    return calls


def _steps(optimizer: rnn.NaturalGradient, objective: Any, theta: Any, state: Any, count: int) -> None:
    for _ in range(count):
        optimizer.step(objective, theta, state)


def timed(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each call, in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                found[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in found.items()}


def usable(objective: rnn.Objective) -> dict[str, Metric]:
    """Metrics that this net has."""
    found: dict[str, Metric] = {}
    for name in NAMES:
        metric = METRICS[name]()
        try:
            objective.metric_size(metric)
        except gn.GraphnetError as error:
            print(f"({name}: {error})")
            continue
        found[name] = metric
    return found


def products_of(cell: str, preconditioner: Any) -> tuple[int, float]:
    """Number of products, and the last loss, of 25 steps on symbols that follow each other at distances of 1 to 3."""
    net = rnn.Network([rnn.cells.ALL[cell](24)], inputs=12, outputs=12, seed=1)
    u = net.unroll(30, 64, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    draws = np.random.default_rng(3)
    x = (draws.integers(0, 12, 64) + np.arange(31)[:, None] * draws.integers(1, 4, 64)) % 12
    objective.feed(x[:-1], x[1:])
    optimizer = rnn.HessianFree(preconditioner=preconditioner, damping=0.1, cg_steps=100)
    reports = rnn.minimize(objective, optimizer, steps=25).reports
    return sum(report.products for report in reports), reports[-1].after  # type: ignore[attr-defined]


def show_products(cells: list[str]) -> None:
    print("| cell | preconditioner | products | loss |\n|---|---|---|---|")
    for cell in cells:
        for preconditioner in (0.0, "kfac", "qdruop", "qdrbpm_probed"):
            count, loss = products_of(cell, preconditioner)
            print(f"| {cell} | {preconditioner or 'none'} | {count} | {loss:.5f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cell", nargs="+", default=["LSTM", "GRU", "Elman"])
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--time", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    if options.products:
        show_products(options.cell)
        return
    gc.disable()
    print("| cell | gradient, ms | metric | measured | step | amortized |\n|---|---|---|---|---|---|")
    for cell in options.cell:
        objective = objective_of(cell, options.units, options.batch, options.time, options.threads)
        metrics = usable(objective)
        found = timed(calls_of(objective, metrics), options.rounds)
        unit = found["gradient"]
        for name in metrics:
            ratios = [
                found[f"{name} {kind}"] / unit / (EVERY if kind == "amortized" else 1)
                for kind in ("measured", "step", "amortized")
            ]
            print(
                f"| {cell} | {unit * 1e3:.2f} | {name} | {' | '.join(f'{r:.2f}' for r in ratios)} |",
                flush=True,
            )


if __name__ == "__main__":
    prepare_streams()
    main()
