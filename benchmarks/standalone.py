"""Speed of standalone C relative to our compiled functions: one step, one sequence, one thread, constant weights.

python -m benchmarks.standalone [--hidden 32 128 512] [--cells LSTM GRU]
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.call.function import Function
from graphnet.system.streams import prepare_streams

#: Number of calls per measurement, and of measurements, of which the minimum counts.
CALLS, REPEATS = 200, 15

LOOP = """
#include "net.h"
static net_arena arena;
void many(long calls, {arguments}) {{
    for (long i = 0; i < calls; i++)
        net_run({names}, &arena);
}}
"""


class Own(rnn.Cell):
    """f = σ(x W_xf + h W_hf + b_f);  h' = (1 - f) h + f tanh(x W_xh + (f h) W_hh + b_h)"""

    states = (rnn.State("h"),)

    def step(self, x, h):
        f = gn.sigmoid(self.affine("f", x=x, h=h))
        return (1 - f) * h + f * gn.tanh(self.affine("h", x=x, h=f * h))


def step(cell: type[rnn.Cell], hidden: int) -> tuple[Function, list[np.ndarray]]:
    """One step of vectors of 64, with a linear output, and arrays for it."""
    net = rnn.Network([cell(hidden)], 64, 64, reads="vectors", loss="squared", seed=0)
    u = net.unroll(1, 1, training=False)
    inputs = [u.inputs, *u.initial]
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(x.shape).astype("float32") for x in inputs]
    return gn.compile([u.logits, *u.final], inputs, threads=1), arrays


def in_c(function: Function, folder: Path) -> ctypes.CDLL:
    """The function as C, and a loop that calls it."""
    function.save(folder / "net.c")
    count = len(function.inputs) + len(function.outputs)
    names = ", ".join(f"a{i}" for i in range(count))
    text = LOOP.format(arguments=", ".join(f"float *a{i}" for i in range(count)), names=names)
    (folder / "many.c").write_text(text, encoding="ascii")
    flags = ["-std=c11", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-shared"]
    command = [
        "cc",
        *flags,
        str(folder / "net.c"),
        str(folder / "many.c"),
        "-o",
        str(folder / "net.so"),
        "-lm",
    ]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "net.so"))


def compared(cell: type[rnn.Cell], hidden: int) -> tuple[float, float, float]:
    """Seconds of ours and of C, and the largest difference of their results."""
    function, arrays = step(cell, hidden)
    with tempfile.TemporaryDirectory() as folder:
        loaded = in_c(function, Path(folder))
    results = [np.empty(y.shape, "float32") for y in function.outputs]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *results)]
    in_seconds = seconds(lambda: loaded.many(ctypes.c_long(CALLS), *pointers), CALLS)
    program = function._program
    ours = seconds(lambda: [program.run(arrays) for _ in range(CALLS)], CALLS)
    off = max(float(np.abs(a - b).max()) for a, b in zip(results, function(*arrays), strict=True))
    return ours, in_seconds, off


def seconds(call: Callable[[], object], calls: int) -> float:
    """Seconds of one call."""
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        found.append((time.perf_counter() - start) / calls)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, nargs="*", default=[32, 64, 128, 256, 512, 1024])
    parser.add_argument("--cells", nargs="*", default=["LSTM", "GRU", "Own"])
    options = parser.parse_args()
    print("| cell | units | ours, µs | C, µs | C / ours | largest difference |\n|---|---|---|---|---|---|")
    for name in options.cells:
        cell = Own if name == "Own" else rnn.cells.ALL[name]
        for hidden in options.hidden:
            ours, in_c_, off = compared(cell, hidden)
            times = f"{ours * 1e6:.1f} | {in_c_ * 1e6:.1f} | {in_c_ / ours:.2f}"
            print(f"| {name} | {hidden} | {times} | {off:.1e} |", flush=True)


if __name__ == "__main__":
    prepare_streams()
    main()
