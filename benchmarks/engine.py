"""Overhead of the engine, in microseconds per node, and its growth with the number of nodes.

    python benchmarks/engine.py [--nodes 2000 20000 200000] [--no-gc]

The graph is an LSTM (batch 1, 4 units), written by hand and unrolled over time until it has the requested
number of nodes. Arrays are small, so that the engine is measured and not the products. Each step's time
is divided by the nodes that it makes (building, backward, R-operator, Hessian product) or that it reads
(passes, plan, run). The last columns are the time per node relative to the graph a tenth of the size: 1 is
linear.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import graphnet as gn
from graphnet import passes
from graphnet.graph.graph import Graph, ancestors
from graphnet.graph.node import Node
from graphnet.plan import make_plan
from graphnet.system.streams import prepare_streams

UNITS = 4
GATES = "ifog"


def unrolled_lstm(nodes: int) -> tuple[Node, list[Node], Node]:
    """(cost, parameters, input) of a graph of about `nodes` nodes."""
    generator = np.random.default_rng(0)

    def weights(*shape: int) -> Node:
        return gn.parameter(generator.standard_normal(shape).astype("float32") / UNITS)

    W = {k: (weights(UNITS, UNITS), weights(UNITS, UNITS), weights(UNITS)) for k in GATES}
    steps = max(1, nodes // NODES_PER_STEP)
    x = gn.input((steps, 1, UNITS), name="x")
    h = c = gn.fill(0, (1, UNITS), "float32")
    losses = []
    for t in range(steps):
        i, f, o, g = (x[t] @ W[k][0] + h @ W[k][1] + W[k][2] for k in GATES)
        c = gn.sigmoid(f) * c + gn.sigmoid(i) * gn.tanh(g)
        h = gn.sigmoid(o) * gn.tanh(c)
        losses.append(gn.sum(gn.squared_error(h, 0.5)))
    return gn.add(*losses) / steps, [p for k in GATES for p in W[k]], x


#: Four gates of slice, 2 products, 2 sums, broadcast, nonlinearity; the cell; the loss.
NODES_PER_STEP = 4 * 7 + 5 + 3


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def measure(nodes: int) -> dict[str, tuple[int, float]]:
    """Step -> (nodes, seconds)."""
    rows: dict[str, tuple[int, float]] = {}
    (cost, theta, x), seconds = timed(lambda: unrolled_lstm(nodes))
    built = len(ancestors([cost]))
    rows["building"] = built, seconds
    v = {w: gn.constant(np.ones(w.shape, "float32")) for w in theta}

    gradient, seconds = timed(lambda: gn.gradient(cost, theta))
    rows["backward"] = len(ancestors([cost, *gradient])) - built, seconds
    tangent, seconds = timed(lambda: gn.rop([cost], v))
    rows["rop"] = len(ancestors([cost, *tangent])) - built, seconds
    product, seconds = timed(lambda: gn.hessian_product(cost, v))
    rows["hessian_product"] = len(ancestors([cost, *product])) - built, seconds

    graph, seconds = timed(lambda: Graph([cost, *gradient], [x]))
    rows["ordering"] = len(graph), seconds
    for step in passes.DEFAULT:
        before = len(graph)
        graph, seconds = timed(lambda step=step, graph=graph: step(graph))
        rows[f"pass {step.name}"] = before, seconds
    _, seconds = timed(lambda graph=graph: make_plan(graph))
    rows["plan"] = len(graph), seconds
    function = gn.compile(graph.outputs, graph.inputs, passes=(), backend="numpy")
    data = np.ones(x.shape, "float32")
    rows["run (numpy)"] = len(graph), min(timed(lambda: function(data))[1] for _ in range(3))
    return rows


def report(sizes: list[int]) -> str:
    """The table, one row for each step."""
    measured = [measure(size) for size in sizes]
    built = "".join(f"{rows['building'][0]:>12,}" for rows in measured)
    ratios = "".join(f"{f'{b / a:g}x nodes':>12}" for a, b in pairwise(sizes))
    lines = [f"{'µs per node':<20}{built}   {ratios}"]
    for step in measured[0]:
        costs = [1e6 * rows[step][1] / rows[step][0] for rows in measured]
        growth = "".join(f"{b / a:>12.2f}" for a, b in pairwise(costs))
        lines.append(f"{step:<20}" + "".join(f"{cost:>12.2f}" for cost in costs) + f"   {growth}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[2_000, 20_000, 200_000], help="sizes of graphs"
    )
    parser.add_argument("--no-gc", action="store_true", help="without Python's collector of cycles")
    arguments = parser.parse_args()
    if arguments.no_gc:
        gc.disable()
    print(report(arguments.nodes))


if __name__ == "__main__":
    prepare_streams()
    main()
