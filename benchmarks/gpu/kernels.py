"""Time of a gradient on a GPU, in kernels and between them, by kernel.

    python -m benchmarks.gpu.kernels [--networks LSTM:256:64 LSTM:1000:64 GRU:1000:64 LSTM:2048:64] [--time 100]
        [--contenders graphnet "cuDNN (torch.nn)"] [--longest 6]

A network is CELL:UNITS:BATCH. For each contender: the median of 30 calls, then, of five more under torch.profiler, the
number of kernels of a call, the time within them, and the kernels with the longest total time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from benchmarks.gpu.contenders import CONTENDERS, Problem
from graphnet.system.streams import prepare_streams

CALLS = 5


def kernels_of(call: Callable[[], Any]) -> dict[str, list[float]]:
    """Kernel -> milliseconds of each of its runs."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    found: dict[str, list[float]] = defaultdict(list)
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found[event.name].append(event.time_range.elapsed_us() / 1e3)
    return found


def median(call: Callable[[], Any]) -> float:
    """Median milliseconds of a call, after five warm-up calls."""
    taken = []
    for _ in range(35):
        start = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken[5:])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--networks", nargs="+", default=["LSTM:256:64", "LSTM:1000:64", "GRU:1000:64", "LSTM:2048:64"])
    add("--time", type=int, default=100)
    add("--contenders", nargs="+", choices=list(CONTENDERS), default=["graphnet", "cuDNN (torch.nn)"])
    add("--longest", type=int, default=6)
    chosen = parser.parse_args()
    for network in chosen.networks:
        cell, units, batch = network.split(":")
        problem = Problem(cell, int(units), int(batch), chosen.time)
        for name in chosen.contenders:
            call = CONTENDERS[name](problem, "cuda").tasks["gradient"]
            taken, found = median(call), kernels_of(call)
            within, count = (sum(map(f, found.values())) / CALLS for f in (sum, len))
            print(f"{problem} · {name}: {taken:.2f} ms · {within:.2f} ms in {count:.0f} kernels", flush=True)
            for kernel, times in sorted(found.items(), key=lambda each: -sum(each[1]))[: chosen.longest]:
                print(f"  {len(times) / CALLS:5.0f} x {1e3 * statistics.mean(times):7.2f} µs  {kernel[:100]}")


if __name__ == "__main__":
    prepare_streams()
    main()
