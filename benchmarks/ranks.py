"""Processes that share a step: what a sum costs, how much faster two are than one, and what is to be expected of many.

    python -m benchmarks.ranks              # here: sums, and steps of 1 process with 2 threads and of 2 with 1
    python -m benchmarks.ranks --predict    # for 8, 64 and 512 machines, from a product's time and a network's figures

It starts itself by mpiexec. A sum of n numbers over K processes moves 2 · 8 n (K - 1) / K bytes to and from each, in
2 (K - 1) messages at most, so a step that takes T on one takes, divided among K,

    T(K) = T / K + S (2 (K - 1) α + 16 n (K - 1) / (K β)),

with S sums in a step: 1 of a first-order one, 1 + iterations of conjugate gradient of a Hessian-free one; α is the time
of a message and β the bytes per second. Efficiency is T / (K T(K)).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.system.streams import prepare_streams
from graphnet_rnn.parallel import Ranks

__all__ = ["NETWORKS", "expected", "main"]

SIZES = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
#: What moves messages: seconds of a message, bytes a second.
NETWORKS = {"Ethernet, 10 Gb/s": (30e-6, 1.1e9), "InfiniBand, 200 Gb/s": (2e-6, 20e9)}
SYMBOLS, TIME, BATCH = 65, 50, 16
#: Batches of a Hessian-free step, and of its curvature; iterations of conjugate gradient.
BATCHES, CURVED, ITERATIONS = 16, 8, 20


def expected(seconds: float, length: int, sums: int, ranks: int, latency: float, bandwidth: float) -> float:
    """The efficiency of so many processes at a step that takes one of them so long."""
    among = 2 * (ranks - 1) * latency + 16 * length * (ranks - 1) / (ranks * bandwidth)
    return seconds / (seconds + ranks * sums * among)


def objective(units: int, threads: int, ranks: Ranks) -> rnn.BatchedObjective:
    """Of an LSTM over texts, as in benchmarks.steps."""
    net = rnn.Network([rnn.LSTM(units)], SYMBOLS, SYMBOLS)
    u = net.unroll(TIME, BATCH, initial="zero")
    own = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets], threads=threads, structure=u.structure)
    found = rnn.BatchedObjective(own, parallel=ranks)
    random = np.random.default_rng(0)
    batches = [
        (random.integers(0, SYMBOLS, (TIME, BATCH)), random.integers(0, SYMBOLS, (TIME, BATCH)))
        for _ in range(BATCHES)
    ]
    found.feed(batches, curvature=batches[:CURVED])
    return found


def optimizers() -> dict[str, rnn.optimizers.Optimizer]:
    return {
        "SGD": rnn.SGD(0.1),
        "Hessian-free": rnn.HessianFree(cg_steps=ITERATIONS, tolerance=0.0),
    }


def measured_steps(units: int, rounds: int, threads: int, ranks: Ranks) -> dict[str, Any]:
    """Seconds of steps, the least of some rounds, and how many parameters there are."""
    own = objective(units, threads, ranks)
    found: dict[str, Any] = {"length": own.size}
    for name, optimizer in optimizers().items():
        theta = own.start()
        state = optimizer.init(theta, own)
        found[name] = _least(lambda: optimizer.step(own, theta, state), rounds, ranks)  # noqa: B023
    return found


def measured_sums(rounds: int, ranks: Ranks) -> dict[str, float]:
    found = {}
    for size in SIZES:
        vector = np.ones(size)
        parts = [vector for _ in ranks.own(ranks.size)]
        found[str(size)] = _least(lambda: ranks.sum(ranks.size, parts, size), 10 * rounds, ranks)  # noqa: B023
    return found


def _least(work: Callable[[], object], rounds: int, ranks: Ranks) -> float:
    work()
    times = []
    for _ in range(rounds):
        ranks.any(0)  # all begin together
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def _by_mpiexec(processes: int, arguments: list[str]) -> dict[str, Any]:
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    mpiexec = shutil.which("mpiexec", path=place)
    if mpiexec is None:
        sys.exit("benchmarks.ranks needs mpiexec: pip install 'graphnet[mpi]'")
    command = [mpiexec, "-n", str(processes), sys.executable, "-m", "benchmarks.ranks", *arguments]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def table_of_sums(rounds: int) -> str:
    lines = [
        "| numbers | 2 processes, µs | GB/s | 4 processes, µs | 8 processes, µs |",
        "|---|---|---|---|---|",
    ]
    found = {k: _by_mpiexec(k, ["--work", "sums", f"--rounds={rounds}"]) for k in (2, 4, 8)}
    for size in SIZES:
        two, four, eight = (found[k][str(size)] for k in (2, 4, 8))
        rate = 8 * size / two / 1e9
        lines.append(f"| {size:,} | {two * 1e6:,.0f} | {rate:.2f} | {four * 1e6:,.0f} | {eight * 1e6:,.0f} |")
    return "\n".join(lines)


def table_of_steps(units: list[int], rounds: int) -> str:
    """In turns, so that whatever else the machine does falls on both."""
    lines = [
        "| units | step | 1 process, 1 thread, ms | 2 threads | 2 processes, 1 thread each | 2 threads / 2 processes |",
        "|---|---|---|---|---|---|",
    ]
    for size in units:
        arguments = ["--work", "steps", f"--units={size}", f"--rounds={rounds}"]
        turns: dict[tuple[int, int], list[dict[str, Any]]] = {}
        for _ in range(3):
            for key in ((1, 1), (1, 2), (2, 1)):
                turns.setdefault(key, []).append(_by_mpiexec(key[0], [*arguments, f"--threads={key[1]}"]))
        for name in optimizers():
            one, two, shared = (
                float(np.median([turn[name] for turn in turns[key]])) * 1e3
                for key in ((1, 1), (1, 2), (2, 1))
            )
            lines.append(f"| {size} | {name} | {one:.1f} | {two:.1f} | {shared:.1f} | {two / shared:.2f} |")
    return "\n".join(lines)


def table_of_expectations(seconds: dict[str, float], length: int) -> str:
    lines = ["| network | step | 8 | 64 | 512 |", "|---|---|---|---|---|"]
    for network, (latency, bandwidth) in NETWORKS.items():
        for name, sums in (("SGD", 1), ("Hessian-free", 2 + ITERATIONS)):
            each = [expected(seconds[name], length, sums, k, latency, bandwidth) for k in (8, 64, 512)]
            lines.append(f"| {network} | {name} | {' | '.join(f'{100 * share:.0f} %' for share in each)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ranks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--units", type=int, nargs="+", default=[128, 512])
    add("--rounds", type=int, default=5)
    add("--predict", action="store_true")
    add(
        "--batches",
        type=int,
        default=1024,
        help="of a step whose efficiency is predicted, half for the curvature",
    )
    add("--work", choices=("sums", "steps"), help=argparse.SUPPRESS)
    add("--threads", type=int, default=1, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work is not None:
        ranks = rnn.parallel.launched()
        work = (
            measured_sums(chosen.rounds, ranks)
            if chosen.work == "sums"
            else measured_steps(chosen.units[0], chosen.rounds, chosen.threads, ranks)
        )
        if ranks.is_first:
            print(json.dumps(work))
    elif chosen.predict:
        for units in chosen.units:
            one = measured_steps(units, chosen.rounds, 1, rnn.parallel.ALONE)
            times = {name: one[name] * chosen.batches / BATCHES for name in optimizers()}
            told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times.items())
            print(f"LSTM({units}), {one['length']:,} parameters; a step on one core: {told}\n")
            print(f"{table_of_expectations(times, one['length'])}\n")
    else:
        print(f"{table_of_sums(chosen.rounds)}\n\n{table_of_steps(chosen.units, chosen.rounds)}")


if __name__ == "__main__":
    prepare_streams()
    main()
