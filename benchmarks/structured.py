"""Products with structure: memory of weights scaled for each case, and work over the edges of a sparse graph.

    python -m benchmarks.structured [--rounds 5]

First table: value and gradient of y_b = x_b (W ∘ Σ_r u_br v_brᵀ) (Suarez 2017, eq. 8), batch 256, 1000 × 1000, as
gn.scaled_matmul and as the naive graph, with a matrix for each case. Memory is that of a run without its inputs and W
(function.memory.peak), and the growth of the process (its resident set); times are measured in turns.
Second table: the gradient of a GLNN (Ollivier 2013) over 20 steps of 16 sequences, at a fixed number of edges for each
unit, and of the same cell with all edges.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.system.streams import prepare_streams

BATCH, SIZE = 256, 1000


def scaled(rank: int, naive: bool) -> tuple[gn.Function, list[Any]]:
    """The function of y and its gradient, and arrays for it."""
    generator = np.random.default_rng(0)
    W = gn.parameter(generator.standard_normal((SIZE, SIZE)).astype("float32"), name="W")
    x = gn.input((BATCH, SIZE), name="x")
    u, v = gn.input((BATCH, rank, SIZE), name="u"), gn.input((BATCH, rank, SIZE), name="v")
    if naive:
        scale = gn.matmul(gn.transpose(u, (0, 2, 1)), v)
        y = gn.matmul(x[:, None, :], W * scale)[:, 0, :]
    else:
        y = gn.scaled_matmul(x, W, u, v)
    function = gn.compile([y, *gn.gradient(gn.sum(y * y), [W, x, u, v])], [x, u, v])
    return function, [generator.standard_normal(node.shape).astype("float32") for node in (x, u, v)]


def in_new_process(rank: int, naive: bool, rounds: int) -> tuple[float, float, float]:
    """MiB of a run, growth of the process in MiB, and median seconds."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (rank, naive, rounds))


def _measure(rank: int, naive: bool, rounds: int) -> tuple[float, float, float]:
    function, arrays = scaled(rank, naive)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    function(*arrays)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return function.memory.peak / 2**20, grown / 2**10, seconds(lambda: function(*arrays), rounds)


def seconds(call: Callable[[], Any], rounds: int) -> float:
    """Median seconds of some calls, after a warm-up call."""
    call()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def sparse(units: int, edges: int, rounds: int) -> tuple[int, float]:
    """Number of edges, and the seconds of a gradient."""
    symbols, steps, batch = 8, 20, 16
    network = rnn.Network([rnn.GLNN(units, edges=edges)], symbols, symbols)
    u = network.unroll(steps, batch)
    inputs = [u.inputs, u.targets, *u.initial]
    function = gn.compile([u.cost, *gn.gradient(u.cost, list(network.parameters.values()))], inputs)
    generator = np.random.default_rng(0)
    arrays = [*generator.integers(0, symbols, (2, steps, batch)), *network.zero_states(batch)]
    return len(network.layers[0].sources), seconds(lambda: function(*arrays), rounds)  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"batch {BATCH}, W {SIZE} × {SIZE}, float32; value and gradient by W, x, u and v\n")
    print("| rank | needs, MiB | process grew, MiB | ms | naive: needs, MiB | process grew, MiB | ms |")
    print("|---|---|---|---|---|---|---|")
    for rank in (1, 2, 4, 8):
        cells = [in_new_process(rank, naive, rounds) for naive in (False, True)]
        print(f"| {rank} | " + " | ".join(f"{a:.0f} | {b:.0f} | {1e3 * t:.0f}" for a, b, t in cells) + " |")
    print("\nGLNN, 8 symbols, 20 steps of 16 sequences; one gradient\n")
    print("| units | edges of a unit | edges | ms | ns for an edge, a step and a sequence |")
    print("|---|---|---|---|---|")
    for units, edges in ((64, 8), (256, 8), (1024, 8), (4096, 8), (256, 32), (256, 256)):
        count, t = sparse(units, edges, 3 * rounds)
        print(
            f"| {units} | {edges} | {count:,} | {1e3 * t:.2f} | {1e9 * t / count / 20 / 16:.2f} |", flush=True
        )


if __name__ == "__main__":
    prepare_streams()
    main()
