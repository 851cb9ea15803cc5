"""Cost of another length: sequences of many lengths through one Runner, the second bucket, long recurrences.

    python -m benchmarks.lengths [--units 64] [--times 100 1000 10000]

Runner: 50 sequences of 1 ... 200 steps, all of different lengths, compared with 50 of equal length and the same total
number of steps; seconds with empty caches (everything is compiled) and again (nothing is). Buckets: seconds to compile
loss and gradient of `rnn.Arrays` for one length after another, anew and with programs on disk. Compiling: loss and
gradient of an LSTM, seconds of `gn.compile` for each number of steps, in separate processes with kernels on disk: anew,
and after an earlier compilation; also the number of nodes, and Python's peak memory in bytes (without the arena).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from benchmarks.anew import compiled_anew
from graphnet.system.streams import prepare_streams


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def through_runner(units: int) -> None:
    """Prints a row for many lengths, and one for a single length."""
    net = rnn.Network([rnn.LSTM(units)], 16, 16, reads="vectors", loss="squared", seed=0)
    generator = np.random.default_rng(0)
    many = generator.permutation(np.arange(1, 201))[:50]
    alike = np.full(50, round(many.mean()))
    x = generator.standard_normal((200, 8, 16)).astype("float32")
    rnn.run(net, x[:3])  # kernels are on disk from here on
    print("| lengths | steps in total | seconds, first run | second run |\n|---|---|---|---|")
    for name, lengths in (("50 different", many), ("all alike", alike)):
        runner = rnn.Runner(net)

        def read(lengths: np.ndarray = lengths, runner: rnn.Runner = runner) -> None:
            for length in lengths:
                runner(x[:length])

        first = seconds(read)
        again = min(seconds(read) for _ in range(5))
        print(f"| {name} | {lengths.sum()} | {first:.2f} | {again:.3f} |", flush=True)


def gradient(net: rnn.Network, steps: int) -> Callable[[], gn.Function]:
    """A call that compiles loss and gradient for this number of steps, with the nodes built already."""
    u = net.unroll(steps, 32)
    slopes = gn.gradient(u.cost, list(net.parameters.values()))
    return lambda: gn.compile([u.cost, *slopes], [u.inputs, u.targets, *u.initial])


def buckets(units: int) -> None:
    """Prints the compile time of each length in one process."""
    net = rnn.Network([rnn.LSTM(units)], 65, 65, seed=0)
    print("\n| steps | seconds to compile anew, one after another | found on disk |\n|---|---|---|")
    for steps in (100, 90, 80, 100):
        build = gradient(net, steps)
        row = [anew(build), *(seconds(build) for _ in range(2))]
        print(f"| {steps} | {row[0]:.2f} | {row[-1]:.2f} |", flush=True)


def anew(build: Callable[[], object]) -> float:
    with compiled_anew():
        return seconds(build)


def compiled(units: int, steps: int) -> None:
    """Prints one row; runs in a separate process."""
    net = rnn.Network([rnn.LSTM(units)], 65, 65, seed=0)
    start = time.perf_counter()
    build = gradient(net, steps)
    built = time.perf_counter() - start
    first = anew(build)
    nodes = len(build().source)  # which keeps it
    found = seconds(build)
    tracemalloc.start()
    anew(build)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"| {steps} | {nodes:,} | {built:.2f} | {first:.2f} | {found:.2f} | {most / nodes:,.0f} |", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--times", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--row", type=int, help="one row of the last table, in this process")
    options = parser.parse_args()
    if options.row is not None:
        compiled(options.units, options.row)
        return
    through_runner(options.units)
    buckets(options.units)
    print(
        "\n| steps | nodes | s to build | s of gn.compile, anew | found on disk | peak bytes of Python per node |",
        flush=True,
    )
    print("|---|---|---|---|---|---|", flush=True)
    for steps in options.times:
        command = [
            sys.executable,
            "-m",
            "benchmarks.lengths",
            "--units",
            str(options.units),
            "--row",
            str(steps),
        ]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    prepare_streams()
    main()
