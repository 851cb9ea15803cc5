"""Every cell, also those that no one thought of: share of the matrix peak, and what Gv, checks and less memory cost.

    python -m benchmarks.cells [--hidden 128] [--batch 32] [--steps 100] [--symbols 64] [--cells GRU Tied] [--rounds 7]

All functions of a cell take turns of some calls in one run; times are medians of turns, of which each is the median of
its calls. "% of peak" counts the multiplications
and additions of the matrix products that the gradient needs (after merging equal nodes and making one-hot products
lookups, before any stacking) against what a product of square matrices reaches on this back end in the same rounds;
the best of any library at hand is printed beside it.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from benchmarks.networks.ours import CELLS
from benchmarks.networks.peak import measure
from benchmarks.networks.worker import timed
from graphnet import passes
from graphnet.graph import Graph
from graphnet.node import Node
from tests.graphnet.backends.test_unseen_cells import CELLS as UNSEEN

ALL: dict[str, type[rnn.Cell]] = {**rnn.cells.ALL, **CELLS, **{cell.__name__: cell for cell in UNSEEN}}


def flops(outputs: Sequence[Node], inputs: Sequence[Node]) -> float:
    """Of the matrix products that are left when equal nodes are merged and one-hot products are lookups."""
    graph = passes.simplify(passes.merge(passes.prune(Graph(outputs, inputs))))
    products = [node for node in graph.order if node.op.name == "MatMul"]
    return float(sum(2 * node.size * node.inputs[0].shape[1] for node in products))


#: Seconds of a turn, at least.
TURN = 0.03


def turn(call: Callable[[], Any]) -> float:
    """Median seconds of some calls, after one that brings data and code into the caches."""
    call()
    return statistics.median(timed(call, TURN, least=3))


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each, taking turns."""
    turns = [{name: turn(call) for name, call in calls.items()} for _ in range(rounds)]
    return {name: statistics.median(t[name] for t in turns) for name in calls}


def square_product() -> tuple[Callable[[], Any], float]:
    """A call that runs as near to the machine's peak as this back end comes, and its flops."""
    size = 1024
    generator = np.random.default_rng(0)
    a, b = (
        gn.parameter(generator.standard_normal((size, size)).astype(np.float32), name=name) for name in "ab"
    )
    scale = gn.input(())
    function = gn.compile([gn.sum((scale * a) @ b)], [scale])
    return lambda: function(np.float32(1)), 2.0 * size**3


def row(name: str, arguments: argparse.Namespace) -> str:
    """One line of the table."""
    net = rnn.Network([ALL[name](arguments.hidden)], arguments.symbols, arguments.symbols, seed=0)
    u = net.unroll(arguments.steps, arguments.batch, initial="zero")
    parameters = list(net.parameters.values())
    v = {p: gn.input(p.shape, p.dtype) for p in parameters}
    generator = np.random.default_rng(0)
    data = list(generator.integers(arguments.symbols, size=(2, arguments.steps, arguments.batch)))
    directions = [generator.standard_normal(p.shape).astype(p.dtype) for p in parameters]
    gradient, fed = [u.cost, *gn.gradient(u.cost, parameters)], [u.inputs, u.targets]
    product = gn.gauss_newton_product(u.cost, v)
    tasks = {
        "gradient": (gn.compile(gradient, fed), data),
        "less": (gn.compile(gradient, fed, memory="sqrt"), data),
        "checked": (gn.compile(gradient, fed, check=True), data),
        "Gv": (gn.compile(product, [*fed, *v.values()]), [*data, *directions]),
        "Gv less": (gn.compile(product, [*fed, *v.values()], memory="sqrt"), [*data, *directions]),
    }
    calls = {task: (lambda f=f, arrays=arrays: f(*arrays)) for task, (f, arrays) in tasks.items()}
    calls["peak"], most = square_product()
    seconds = measured(calls, arguments.rounds)
    peak = most / seconds["peak"]
    memory = {task: int(f.memory) for task, (f, _) in tasks.items()}
    base = seconds["gradient"]
    columns = [
        f"{base * 1e3:.2f}",
        f"{100 * flops(gradient, fed) / base / peak:.0f}",
        f"{peak / 1e9:.0f}",
        f"{seconds['checked'] / base:.2f}",
        f"{seconds['Gv'] / base:.2f}",
    ]
    for task, less in (("gradient", "less"), ("Gv", "Gv less")):
        columns += [f"{memory[t] / 2**20:.1f}" for t in (task, less)]
        columns.append(f"{seconds[less] / seconds[task]:.2f}")
    return f"| {' | '.join([name, *columns])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for option, default in (("hidden", 128), ("batch", 32), ("steps", 100), ("symbols", 64), ("rounds", 7)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--cells", nargs="+", choices=list(ALL), default=list(ALL))
    arguments = parser.parse_args()
    best = max(measure().values())
    print(
        f"{arguments.hidden} units, batch {arguments.batch}, {arguments.steps} steps, {arguments.symbols} symbols, "
        f"float32; the best library reaches {best / 1e9:.0f} GF/s\n\n"
        "| cell | gradient, ms | % of peak | peak, GF/s | check=True × | Gv / gradient | gradient, MiB | in √T "
        "| time × | Gv, MiB | in √T | time × |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for name in arguments.cells:
        print(row(name, arguments), flush=True)


if __name__ == "__main__":
    main()
