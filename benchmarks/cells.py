"""Every cell, including user-defined ones: share of the matrix peak, and cost of products, checks and recomputation.

    python -m benchmarks.cells [--hidden 128] [--batch 32] [--steps 100] [--symbols 64] [--cells GRU Tied] [--rounds 7]
    python -m benchmarks.cells --hidden 64 --steps 20 --products    # only Gv and damped Gv, of our cells

All functions of a cell take turns of some calls in one run; times are medians of turns, of which each is the median of
its calls. "% of peak" counts the multiplications and additions of the matrix products that the gradient needs (after
merging equal nodes and making one-hot products lookups, before any stacking) against what a product of square matrices
reaches on this back end in the same rounds; the best of the installed libraries is printed next to it. "damped Gv" has
structural damping of every tanh and σ of the cell.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from benchmarks.networks.ours import CELLS
from benchmarks.networks.peak import measure
from benchmarks.networks.worker import timed
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.system.streams import prepare_streams
from tests.graphnet.backends.unseen_cells import CELLS as UNSEEN

ALL: dict[str, type[rnn.Cell]] = {**rnn.cells.ALL, **CELLS, **{cell.__name__: cell for cell in UNSEEN}}


def flops(outputs: Sequence[Node], inputs: Sequence[Node]) -> float:
    """Flops of the matrix products, after merging equal nodes and replacing one-hot products by lookups."""
    graph = passes.simplify(passes.merge(passes.prune(Graph(outputs, inputs))))
    products = [node for node in graph.order if node.op.name == "MatMul"]
    return float(sum(2 * node.size * node.inputs[0].shape[1] for node in products))


Calls = dict[str, Callable[[], Any]]

PRODUCTS = ("Gv / gradient", "damped Gv / Gv")
HEADINGS = (
    "gradient, ms", "% of peak", "peak, GF/s", "check=True ×", *PRODUCTS,
    "gradient, MiB", "in √T", "time ×", "Gv, MiB", "in √T", "time ×",
)  # fmt: skip

#: Seconds of a turn, at least.
TURN = 0.03


def turn(call: Callable[[], Any]) -> float:
    """Median seconds of some calls, after a warm-up call."""
    call()
    return statistics.median(timed(call, TURN, least=3))


def measured(calls: Calls, rounds: int) -> dict[str, float]:
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


def prepared(name: str, arguments: argparse.Namespace) -> tuple[Calls, dict[str, gn.Function], float]:
    """Calls by task, compiled functions by task, and the flops of the gradient."""
    net = rnn.Network([ALL[name](arguments.hidden)], arguments.symbols, arguments.symbols, seed=0)
    u = net.unroll(arguments.steps, arguments.batch, initial="zero")
    parameters = list(net.parameters.values())
    v = {p: gn.input(p.shape, p.dtype) for p in parameters}
    generator = np.random.default_rng(0)
    data = list(generator.integers(arguments.symbols, size=(2, arguments.steps, arguments.batch)))
    directions = [generator.standard_normal(p.shape).astype(p.dtype) for p in parameters]
    gradient, fed = [u.cost, *gn.gradient(u.cost, parameters)], [u.inputs, u.targets]
    product, fed_v = gn.gauss_newton_product(u.cost, v), [*fed, *v.values()]
    functions = {"gradient": gn.compile(gradient, fed), "Gv": gn.compile(product, fed_v)}
    arrays = {"Gv": [*data, *directions], "Gv less": [*data, *directions]}
    if u.structure:
        weight = gn.input((), u.cost.dtype)
        damping = [(a, h, weight / a.shape[0]) for a, h in u.structure]
        damped = gn.gauss_newton_product(u.cost, v, damping=damping)
        functions["damped Gv"] = gn.compile(damped, [*fed_v, weight])
        arrays["damped Gv"] = [*data, *directions, np.asarray(0.1, weight.dtype)]
    if not arguments.products:
        functions["less"] = gn.compile(gradient, fed, memory="sqrt")
        functions["checked"] = gn.compile(gradient, fed, check=True)
        functions["Gv less"] = gn.compile(product, fed_v, memory="sqrt")
    found: Calls = {task: partial(f, *arrays.get(task, data)) for task, f in functions.items()}
    return found, functions, flops(gradient, fed)


def row(name: str, arguments: argparse.Namespace) -> list[str]:
    """One line of the whole table."""
    found, functions, most = prepared(name, arguments)
    found["peak"], of_square = square_product()
    seconds = measured(found, arguments.rounds)
    peak, base = of_square / seconds["peak"], seconds["gradient"]
    memory = {task: int(f.memory) for task, f in functions.items()}
    columns = [
        f"{base * 1e3:.2f}",
        f"{100 * most / base / peak:.0f}",
        f"{peak / 1e9:.0f}",
        f"{seconds['checked'] / base:.2f}",
        *products(seconds),
    ]
    for task, less in (("gradient", "less"), ("Gv", "Gv less")):
        columns += [f"{memory[t] / 2**20:.1f}" for t in (task, less)]
        columns.append(f"{seconds[less] / seconds[task]:.2f}")
    return columns


def products(seconds: dict[str, float]) -> list[str]:
    """Cost of Gv relative to a gradient, and of damped Gv relative to Gv (empty for a cell without damping)."""
    plain, damped = seconds["Gv"], seconds.get("damped Gv")
    return [f"{plain / seconds['gradient']:.2f}", f"{damped / plain:.2f}" if damped else ""]


def products_row(name: str, arguments: argparse.Namespace) -> list[str]:
    """One line of the table of products."""
    seconds = measured(prepared(name, arguments)[0], arguments.rounds)
    return [f"{seconds['gradient'] * 1e3:.2f}", *products(seconds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for option, default in (("hidden", 128), ("batch", 32), ("steps", 100), ("symbols", 64), ("rounds", 7)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument(
        "--cells", nargs="+", choices=list(ALL), help="default: all; with --products, our cells"
    )
    parser.add_argument("--products", action="store_true", help="gradient, Gv and damped Gv only")
    arguments = parser.parse_args()
    sizes = f"{arguments.hidden} units, batch {arguments.batch}, {arguments.steps} steps, {arguments.symbols} symbols"
    peak = (
        "" if arguments.products else f"; the best library reaches {max(measure().values()) / 1e9:.0f} GF/s"
    )
    headings = (HEADINGS[0], *PRODUCTS) if arguments.products else HEADINGS
    print(f"{sizes}, float32{peak}\n\n| cell | {' | '.join(headings)} |\n|{'---|' * (1 + len(headings))}")
    one = products_row if arguments.products else row
    most = dict.fromkeys(PRODUCTS, (0.0, ""))
    for name in arguments.cells or (rnn.cells.ALL if arguments.products else ALL):
        columns = one(name, arguments)
        print(f"| {' | '.join([name, *columns])} |", flush=True)
        for heading in PRODUCTS:
            ratio = columns[headings.index(heading)]
            most[heading] = max(most[heading], (float(ratio or 0), name))
    print(
        "\nat most: "
        + "; ".join(f"{heading} {found:.2f} ({name})" for heading, (found, name) in most.items())
    )


if __name__ == "__main__":
    prepare_streams()
    main()
