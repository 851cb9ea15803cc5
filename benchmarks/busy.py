"""Time of a net on a busy machine: ms of loss and gradient by one thread, by two, by a number that it chooses.

python -m benchmarks.busy                     # all loads, an LSTM of 64 units (batch 32, 50 steps)
python -m benchmarks.busy --units 256 --loads idle "1 busy"

Loads: one or more busy processes; another process that runs the same net; threads of PyTorch and JAX in this process
that have just worked, and wait actively (extra: peers); a quota of 1.5 cores (the process is paused a quarter of the
time); all threads on one core. The ways take turns, so that they see the same load. Means matter, since they include
the waiting.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.system.streams import prepare_streams

WAYS = ("one", "two", "chosen")
Call = Callable[[], object]


def make_call(units: int, way: str) -> Call:
    """A call of the net's loss and gradient; "two" always uses two threads."""
    net = rnn.Network([rnn.LSTM(units)], 64, 64)
    u = net.unroll(50, 32, training=False)
    outputs = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
    function = gn.compile(
        outputs, [u.inputs, u.targets, *u.initial], threads={"one": 1, "two": 2, "chosen": None}[way]
    )
    if way == "two":
        for pace in function._program._paces.values():
            pace.took = lambda seconds: None
    symbols = np.random.default_rng(0).integers(0, 64, (2, 50, 32))
    arrays = [symbols[0], symbols[1], *net.zero_states(32)]
    return lambda: function(*arrays)


# -- loads ---------------------------------------------------------------------------------------------------


def spin() -> None:
    while True:
        pass


def run_net(units: int) -> None:
    call = make_call(units, "chosen")
    while True:
        call()


@contextlib.contextmanager
def beside(targets: Sequence[tuple[Callable[..., None], tuple[object, ...]]], warm: float) -> Iterator[None]:
    """Runs other processes inside the block."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=target, args=args, daemon=True) for target, args in targets]
    for process in processes:
        process.start()
    time.sleep(warm)
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


@contextlib.contextmanager
def peers() -> Iterator[None]:
    """Runs PyTorch and JAX from time to time; their threads then spin for a while."""
    import jax
    import torch

    going = True
    a = torch.randn(400, 400)
    b = jax.numpy.ones((400, 400))
    product = jax.jit(lambda x: x @ x)

    def work() -> None:
        while going:
            a @ a
            product(b).block_until_ready()
            time.sleep(0.005)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        going = False
        thread.join()


def throttle(process: int, share: float) -> None:
    """Lets the process run for this fraction of each tenth of a second, as a quota of the system does."""
    while True:
        time.sleep(0.1 * share)
        os.kill(process, signal.SIGSTOP)
        time.sleep(0.1 * (1 - share))
        os.kill(process, signal.SIGCONT)


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Binds all threads of this process to one core."""
    before = os.sched_getaffinity(0)

    def put(cores: set[int]) -> None:
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(task.name), cores)

    put({min(before)})
    try:
        yield
    finally:
        put(before)


def loads(units: int) -> dict[str, Callable[[], contextlib.AbstractContextManager[None]]]:
    found: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {"idle": contextlib.nullcontext}
    for count in (1, 2, 4):
        found[f"{count} busy"] = lambda count=count: beside([(spin, ())] * count, 1.0)
    found["side by side"] = lambda: beside([(run_net, (units,))], 5.0)
    found["PyTorch, JAX"] = peers
    found["quota 1.5"] = lambda: beside([(throttle, (os.getpid(), 0.75))], 1.0)
    found["one core"] = pinned
    return found


# -- measuring -----------------------------------------------------------------------------------------------


def milliseconds(calls: dict[str, Call], seconds: float) -> dict[str, np.ndarray]:
    """Milliseconds of all calls by way; the ways take turns of a quarter of a second."""
    took: dict[str, list[float]] = {way: [] for way in calls}
    for _ in range(max(1, round(4 * seconds))):
        for way, call in calls.items():
            end = time.perf_counter() + 0.25
            while (start := time.perf_counter()) < end:
                call()
                took[way].append(1e3 * (time.perf_counter() - start))
    return {way: np.array(times) for way, times in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each way and load (default: 5)")
    parser.add_argument("--loads", nargs="+", default=None, help="which (default: all)")
    options = parser.parse_args()
    calls = {way: make_call(options.units, way) for way in WAYS}
    milliseconds(calls, 1.0)
    print(f"LSTM of {options.units} units, batch 32, 50 steps; ms: mean (median, 95 %)")
    print("| load | " + " | ".join(WAYS) + " | chosen / better |")
    print("|---" * 5 + "|")
    for name, load in loads(options.units).items():
        if options.loads is not None and name not in options.loads:
            continue
        try:
            with load():
                took = milliseconds(calls, options.seconds)
        except ImportError as error:
            print(f"| {name} | needs {error.name} |")
            continue
        cells = [f"{t.mean():.2f} ({np.median(t):.2f}, {np.percentile(t, 95):.2f})" for t in took.values()]
        ratio = took["chosen"].mean() / min(took["one"].mean(), took["two"].mean())
        print(f"| {name} | " + " | ".join(cells) + f" | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    prepare_streams()
    main()
