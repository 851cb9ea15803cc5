"""Data-parallel steps: cost of a sum over processes, speedup of two processes, and predictions for many.

    python -m benchmarks.ranks              # here: sums, and steps of 1 process with 2 threads and of 2 with 1
    python -m benchmarks.ranks --scaling    # here: steps of 1 to 8 processes, and a check that their bits are equal
    python -m benchmarks.ranks --predict    # for 8, 64 and 512 machines, from a product's time and a network's figures

The program starts itself by mpiexec. A sum of n numbers over K processes moves 2 · 8 n (K - 1) / K bytes to and from
each, in at most 2 (K - 1) messages. A step of T seconds on one process therefore takes on K processes

    T(K) = T / K + S (2 (K - 1) α + 16 n (K - 1) / (K β)),

with S sums in a step: 1 for a first-order step, 1 + iterations of conjugate gradient for a Hessian-free one. α is the
time of a message and β the bytes per second: specified for a network, fitted to the measured sums for this machine's
memory. Efficiency is T / (K T(K)). Our sums are compared with MPI's own Allreduce, whose order of additions depends on
the number of processes.
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
from graphnet.system.process import own_cores
from graphnet.system.streams import prepare_streams
from graphnet_rnn.parallel import Ranks
from graphnet_rnn.training.state import digest_of

SIZES = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
#: Networks: seconds per message, bytes per second.
NETWORKS = {"Ethernet, 10 Gb/s": (30e-6, 1.1e9), "InfiniBand, 200 Gb/s": (2e-6, 20e9)}
SYMBOLS, TIME, BATCH = 65, 50, 16
#: Batches of a Hessian-free step, and of its curvature; iterations of conjugate gradient.
BATCHES, CURVED, ITERATIONS = 16, 8, 20
#: Numbers of processes in the measured tables, and batches per process for weak scaling.
HERE, EACH = (1, 2, 4, 8), 4
#: Method of the sum -> dtype: ours, and MPI's.
KINDS = {"tree": "float64", "float64": "float64", "float32": "float32"}


def expected(seconds: float, length: int, sums: int, ranks: int, latency: float, bandwidth: float) -> float:
    """Efficiency of `ranks` processes at a step that takes one process `seconds` seconds."""
    among = 2 * (ranks - 1) * latency + 16 * length * (ranks - 1) / (ranks * bandwidth)
    return seconds / (seconds + ranks * sums * among)


def fitted(seconds: dict[int, float], ranks: int, width: int) -> tuple[float, float]:
    """(α, β) of 2 (K - 1) α + 2 width n (K - 1) / (K β) that fit the seconds of sums of n numbers best, relatively."""
    lengths, times = np.array(list(seconds)), np.array(list(seconds.values()))
    columns = np.stack([np.full(len(times), 2.0 * (ranks - 1)), 2 * width * lengths * (ranks - 1) / ranks])
    (latency, inverse), *_ = np.linalg.lstsq((columns / times).T, np.ones(len(times)), rcond=None)
    return float(latency), float(1 / inverse)


def objective(units: int, threads: int, ranks: Ranks, count: int = BATCHES) -> rnn.Objective:
    """Objective of an LSTM over texts, as in benchmarks.steps."""
    net = rnn.Network([rnn.LSTM(units)], SYMBOLS, SYMBOLS)
    u = net.unroll(TIME, BATCH, initial="zero")
    inputs = [u.inputs, u.targets]
    found = rnn.Objective(
        u.cost, net.parameters, inputs, threads=threads, structure=u.structure, parallel=ranks
    )
    random = np.random.default_rng(0)
    batches = [
        (random.integers(0, SYMBOLS, (TIME, BATCH)), random.integers(0, SYMBOLS, (TIME, BATCH)))
        for _ in range(count)
    ]
    found.feed_batches(batches, curvature=batches[: count * CURVED // BATCHES])
    return found


def optimizers() -> dict[str, rnn.optimizers.Optimizer]:
    return {
        "SGD": rnn.SGD(0.1),
        "Hessian-free": rnn.HessianFree(cg_steps=ITERATIONS, tolerance=0.0),
    }


def measured_steps(
    units: int, rounds: int, threads: int, ranks: Ranks, count: int = BATCHES
) -> dict[str, Any]:
    """Minimum seconds of a step over some rounds, number of parameters, and a digest of their final values.

    Always times the third step, in which conjugate gradient makes all its iterations: others end earlier.
    """
    own = objective(units, threads, ranks, count)
    found: dict[str, Any] = {"length": own.size, "weights": {}}
    for name, optimizer in optimizers().items():
        theta = own.start()
        state = optimizer.init(theta, own)
        for _ in range(2):
            optimizer.step(own, theta, state)
        times = []
        for _ in range(1 + rounds):  # the first is not counted
            after, its = theta.copy(), {key: array.copy() for key, array in state.items()}
            times.append(_seconds(lambda: optimizer.step(own, after, its), ranks))  # noqa: B023
        found[name] = min(times[1:])
        found["weights"][name] = digest_of(after)
    return found


def measured_sums(rounds: int, ranks: Ranks) -> dict[str, dict[str, float]]:
    """Seconds by kind and length."""
    from mpi4py import MPI

    found: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    for size in SIZES:
        for kind, dtype in KINDS.items():
            vector, total = np.ones(size, dtype), np.empty(size, dtype)
            parts = [vector for _ in ranks.own(ranks.size)]
            work: dict[str, Callable[[], object]] = {
                "tree": lambda: ranks.sum(ranks.size, parts, size),  # noqa: B023
                dtype: lambda: MPI.COMM_WORLD.Allreduce(vector, total),  # noqa: B023
            }
            found[kind][str(size)] = _least(work[kind], 10 * rounds, ranks)
    return found


def _least(work: Callable[[], object], rounds: int, ranks: Ranks) -> float:
    work()
    return min(_seconds(work, ranks) for _ in range(rounds))


def _seconds(work: Callable[[], object], ranks: Ranks) -> float:
    ranks.any(0)  # all begin together
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _by_mpiexec(processes: int, arguments: list[str]) -> dict[str, Any]:
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    mpiexec = shutil.which("mpiexec", path=place)
    if mpiexec is None:
        sys.exit("benchmarks.ranks needs mpiexec: pip install 'graphnet-rnn[mpi]'")
    command = [mpiexec, "-n", str(processes), sys.executable, "-m", "benchmarks.ranks", *arguments]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def table_of_sums(rounds: int) -> str:
    several = HERE[1:]
    head = [f"{kind}, {k} processes, µs" for kind in KINDS for k in several]
    lines = [f"| numbers | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    found = {k: _by_mpiexec(k, ["--work", "sums", f"--rounds={rounds}"]) for k in several}
    for size in SIZES:
        times = [f"{found[k][kind][str(size)] * 1e6:,.0f}" for kind in KINDS for k in several]
        lines.append(f"| {size:,} | {' | '.join(times)} |")
    lines.append("")
    for kind, dtype in KINDS.items():
        seconds = {int(size): time for size, time in found[2][kind].items()}
        latency, bandwidth = fitted(seconds, 2, np.dtype(dtype).itemsize)
        lines.append(
            f"{kind}, 2 processes: α = {latency * 1e6:.0f} µs, β = {bandwidth / 1e9:.2f} GB/s fit best"
        )
    return "\n".join(lines)


def table_of_scaling(units: int, rounds: int) -> str:
    """Steps of several processes, by strong and weak scaling; exits if bits differ."""
    lines = ["| batches | step | processes | ms | efficiency |", "|---|---|---|---|---|"]
    cores, alone = len(own_cores()), dict[int, dict[str, Any]]()

    def measured(processes: int, count: int) -> dict[str, Any]:
        asked = [f"--units={units}", f"--rounds={rounds}", f"--batches={count}", "--threads=1"]
        return _by_mpiexec(processes, ["--work", "steps", *asked])

    for title, counts in (
        (f"{BATCHES}, strong scaling", [BATCHES] * len(HERE)),
        (f"{EACH} for each, weak scaling", [EACH * k for k in HERE]),
    ):
        found = []
        for k, count in zip(HERE, counts, strict=True):
            if count not in alone:
                alone[count] = measured(1, count)
            found.append(alone[count] if k == 1 else measured(k, count))
            if found[-1]["weights"] != alone[count]["weights"]:
                sys.exit(f"{k} processes give other weights than one process, with {count} batches")
        for name in optimizers():
            for k, count, each in zip(HERE, counts, found, strict=True):
                least = found[0][name] * count / counts[0] / min(k, cores)
                lines.append(
                    f"| {title} | {name} | {k} | {each[name] * 1e3:.1f} | {100 * least / each[name]:.0f} % |"
                )
    return "\n".join(lines)


def table_of_steps(units: list[int], rounds: int) -> str:
    """Steps of threads and processes, in turns, so that other load affects both."""
    lines = [
        "| units | step | 1 process, 1 thread, ms | 2 threads | 2 processes, 1 thread each | 2 threads / 2 processes |",
        "|---|---|---|---|---|---|",
    ]
    for size in units:
        arguments = ["--work", "steps", f"--units={size}", f"--rounds={rounds}", f"--batches={BATCHES}"]
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
    """Efficiencies, and the share of sums in a step."""
    lines = ["| network | step | 8 | 64 | 512 | sums of 64, share of a step |", "|---|---|---|---|---|---|"]
    for network, (latency, bandwidth) in NETWORKS.items():
        for name, sums in (("SGD", 1), ("Hessian-free", 2 + ITERATIONS)):
            each = [expected(seconds[name], length, sums, k, latency, bandwidth) for k in (8, 64, 512)]
            each.append(1 - each[1])
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
    add("--scaling", action="store_true")
    add(
        "--batches",
        type=int,
        default=1024,
        help="batches of a step for --predict; half of them for the curvature",
    )
    add("--work", choices=("sums", "steps"), help=argparse.SUPPRESS)
    add("--threads", type=int, default=1, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work is not None:
        ranks = rnn.parallel.launched()
        work = (
            measured_sums(chosen.rounds, ranks)
            if chosen.work == "sums"
            else measured_steps(chosen.units[0], chosen.rounds, chosen.threads, ranks, chosen.batches)
        )
        if ranks.is_first:
            print(json.dumps(work))
    elif chosen.scaling:
        print(table_of_scaling(chosen.units[0], chosen.rounds))
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
