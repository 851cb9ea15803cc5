"""Loss and gradient, and Gv, on a GPU, compared with other engines and with a lower bound.

    python -m benchmarks.gpu [--cells LSTM GRU] [--units 256 1000 2048] [--batch 64 256] [--time 100] [--seconds 1]
        [--contenders graphnet ...] [--out table.md] [--dry]

All contenders of a network take turns in one run; times are medians of the turns, each the median of its calls, until
the results are available. "floor": the longer of the flops of the matrix products / the rate of
a large float32 product, and the bytes that our program reads and writes / the bandwidth of a copy, measured in the same
run. Losses must agree to 1e-3. --dry: tiny networks on the processor (graphnet in Numba's simulator), to check that all
contenders run: NUMBA_ENABLE_CUDASIM=1 python -m benchmarks.gpu --dry. Needs PyTorch and JAX with CUDA for the peers,
and nvidia-cublas (which they install) for cuBLAS; missing contenders are skipped and listed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np

import graphnet as gn
from benchmarks.gpu.contenders import CELLS, CONTENDERS, Contender, Problem
from graphnet.backends import Backend
from graphnet.backends.cuda.device import this_device
from graphnet.plan.instructions import Loop, MatrixProduct
from graphnet.plan.lowering import lower
from graphnet.system.streams import prepare_streams

#: Calls before the first that counts: compilation, autotuning, capture of graphs.
WARM = 3


def rate_and_bandwidth() -> tuple[float, float]:
    """Flops a second of a large float32 product, bytes a second of a large copy."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    n = 8192
    a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
    big = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(big)

    def best(call: Callable[[], Any]) -> float:
        found = []
        for _ in range(8):
            torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            found.append(time.perf_counter() - start)
        return min(found)

    return 2 * n**3 / best(lambda: torch.mm(a, b)), 2 * big.numel() / best(lambda: other.copy_(big))


def work(problem: Problem) -> dict[str, tuple[float, float, int]]:
    """Task -> (flops of the products, bytes read and written, instructions) of our program."""
    net = problem.network()
    u = net.unroll(problem.time, problem.batch, initial="zero")
    parameters = list(net.parameters.values())
    v = {node: gn.input(node.shape, node.dtype, varying=True) for node in parameters}
    nodes = {
        "gradient": [u.cost, *gn.gradient(u.cost, parameters)],
        "product": gn.gauss_newton_product(u.cost, v),
    }
    found = {}
    for task, outputs in nodes.items():
        inputs = [u.inputs, u.targets, *(v.values() if task == "product" else ())]
        lowered = lower(gn.passes.optimize(gn.Graph(outputs, inputs), has=Backend.has)[0])
        flops = sum(
            2.0 * p.c.size * p.a.shape[1] for p in lowered.instructions if isinstance(p, MatrixProduct)
        )
        moved = sum(
            a.view.size * a.view.dtype.itemsize
            for instruction in lowered.instructions
            if isinstance(instruction, (Loop, MatrixProduct))
            for a in (*instruction.reads, *instruction.writes)
        )
        found[task] = flops, float(moved), len(lowered.instructions)
    return found


def turn(call: Callable[[], Any], seconds: float) -> float:
    """Median seconds of the calls of one turn."""
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - started < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measured(
    problem: Problem, names: Sequence[str], device: str, seconds: float, rounds: int
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Contender -> task -> seconds; and notes to print."""
    found: dict[str, Contender] = {}
    notes: list[str] = []
    for name in names:
        try:
            contender = CONTENDERS[name](problem, device)
            for call in contender.tasks.values():
                for _ in range(WARM if device == "cuda" else 1):
                    call()
            found[name] = contender
        except Exception as error:  # a peer may break in its own ways: the others go on
            notes.append(
                f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"
            )
    losses = {name: c.loss for name, c in found.items() if not np.isnan(c.loss)}
    if losses and max(losses.values()) - min(losses.values()) > 1e-3:
        notes.append(f"LOSSES DISAGREE: {losses}")
    times: dict[str, dict[str, list[float]]] = {name: {t: [] for t in c.tasks} for name, c in found.items()}
    for _ in range(rounds):
        for name, contender in found.items():
            for task, call in contender.tasks.items():
                times[name][task].append(turn(call, seconds / rounds))
    return {n: {t: statistics.median(v) for t, v in each.items()} for n, each in times.items()}, notes


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    add("--units", nargs="+", type=int, default=[256, 1000, 2048])
    add("--batch", nargs="+", type=int, default=[64, 256])
    add("--time", type=int, default=100)
    add("--seconds", type=float, default=1.0, help="seconds of all turns of one task")
    add("--rounds", type=int, default=5)
    add("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    add("--out", type=Path, help="file for the table")
    add("--dry", action="store_true")
    chosen = parser.parse_args()
    if chosen.dry:
        chosen.units, chosen.batch, chosen.time, chosen.seconds, chosen.rounds = [4], [2], 3, 0.0, 1
        rate, bandwidth, device = float("nan"), float("nan"), "cpu"
    else:
        rate, bandwidth, device = *rate_and_bandwidth(), "cuda"
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)
        if chosen.out:
            chosen.out.write_text("\n".join(lines) + "\n")

    say(
        f"{this_device().name}, Python {platform.python_version()}: float32 products {rate / 1e12:.1f} TF/s, "
    )
    say(
        f"copies {bandwidth / 1e12:.2f} TB/s (read and written). Milliseconds; floor: see the command's help."
    )
    say("")
    say("| network | task | floor | instructions | " + " | ".join(chosen.contenders) + " |")
    say("|---|---|---:|---:|" + "---:|" * len(chosen.contenders))
    said: list[str] = []
    for cell in chosen.cells:
        for units in chosen.units:
            for batch in chosen.batch:
                problem = Problem(cell, units, batch, chosen.time)
                needed = work(problem)
                times, notes = measured(problem, chosen.contenders, device, chosen.seconds, chosen.rounds)
                said += [f"{problem}: {note}" for note in notes]
                for task in ("gradient", "product", "product again"):
                    flops, moved, count = needed[task.split()[0]]
                    floor = max(flops / rate, moved / bandwidth)
                    cells = [
                        f"{1e3 * each[task]:.3g}" if (each := times.get(name, {})).get(task) else ""
                        for name in chosen.contenders
                    ]
                    rest = ["", ""] if task == "product again" else [f"{1e3 * floor:.3g}", str(count)]
                    say(f"| {problem} | {task} | " + " | ".join([*rest, *cells]) + " |")
    say("")
    for note in said:
        say(f"- {note}")


if __name__ == "__main__":
    prepare_streams()
    main()
