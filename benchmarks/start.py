"""Time until an LSTM's gradient has run in a new process: compiled anew, found on disk, or stored by `save`.

Kernels are on disk in all three cases.

    python -m benchmarks.start [--steps 100 1000] [--hidden 128] [--processes 5]

Each measurement is a separate process; the first one, which fills the caches of kernels and of Python's own code,
is not counted. (PYTHONDONTWRITEBYTECODE, which many containers set, is unset for these processes: without that cache
each takes 0.4 s longer.)
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from graphnet.system.streams import prepare_streams

PROGRAM = """
import time
start = time.perf_counter()
import numpy as np
numpy = time.perf_counter()
import graphnet as gn
engine = time.perf_counter()
import graphnet_rnn as rnn
from graphnet.call import kept
if {anew}:  # see benchmarks/anew.py
    kept.WORTH_KEEPING = 10**9
imported = time.perf_counter()
net = rnn.Network([rnn.LSTM({hidden})], 64, 64, seed=0)
u = net.unroll({steps}, 32, initial="zero")
built = time.perf_counter()
g = gn.gradient(u.cost, list(net.parameters.values()))
differentiated = time.perf_counter()
function = gn.compile([u.cost, *g], [u.inputs, u.targets])
compiled = time.perf_counter()
x = np.zeros(({steps}, 32), np.int64)
function(x, x)
ran = time.perf_counter()
times = [start, numpy, engine, imported, built, differentiated, compiled, ran]
print(*(b - a for a, b in zip(times, times[1:])), ran - imported)
function.save({path!r})
"""

STORED = """
import time
import numpy as np
import graphnet as gn
start = time.perf_counter()
import graphnet.backends.numba.backend
imported = time.perf_counter()
function = gn.load_function({path!r})
loaded = time.perf_counter()
x = np.zeros(({steps}, 32), np.int64)
function(x, x)
first = time.perf_counter()
function(x, x)
second = time.perf_counter()
print(imported - start, loaded - imported, first - loaded, second - first, first - start)
"""

COLUMNS = (
    "import numpy",
    "graphnet",
    "graphnet_rnn",
    "build",
    "differentiate",
    "compile",
    "first call",
    "after imports",
)


STORED_COLUMNS = ("import the back end", "load", "first call", "second call", "after imports of graphnet")


def measured(program: str, processes: int) -> list[float]:
    """Median seconds of each part."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    rows = []
    for _ in range(processes + 1):
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        rows.append([float(word) for word in done.stdout.split()])
    return [statistics.median(column) for column in zip(*rows[1:], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--processes", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for title, program, columns in (
            ("compiled anew: steps", PROGRAM.replace("{anew}", "True"), COLUMNS),
            ("found: steps", PROGRAM.replace("{anew}", "False"), COLUMNS),
            ("stored: steps", STORED, STORED_COLUMNS),
        ):
            print(f"| {title} | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
            for steps in arguments.steps:
                path = str(Path(folder) / f"{steps}.graphnet")
                text = program.format(hidden=arguments.hidden, steps=steps, path=path)
                seconds = measured(text, arguments.processes)
                print(f"| {steps} | {' | '.join(f'{s:.3f}' for s in seconds)} |", flush=True)
            print()


if __name__ == "__main__":
    prepare_streams()
    main()
