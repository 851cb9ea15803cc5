"""One contender in a separate process: runs commands, one JSON line each, and computes only on command.

It starts with {"contender": ..., "problem": ..., "options": ...}, then answers:

    {"do": "choose", "task": T}  tries each way to do the task        -> {"way": the fastest}
    {"do": "setup", "task": T, "way": W}  builds it, runs it          -> way, first, seconds, results, ...
    {"do": "time", "calls": n}   -> {"seconds": [...]}, each call by itself
    {"do": "memory"}             -> {"bytes": peak since "forget", minus that after the imports}
    {"do": "forget"}             the peak starts again
    {"do": "peak"}               -> {library: flops per second}

Answers may be {"absent": reason} or {"error": message}. The process ends with its standard input.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks import peak
from benchmarks.networks.candidate import Absent, Candidate
from benchmarks.networks.problem import Problem

MODULES = {
    "ours": "ours",
    "torch nn": "torch_peer",
    "torch loop": "torch_peer",
    "torch compiled": "torch_peer",
    "jax scan": "jax_peer",
    "jax unrolled": "jax_peer",
    "pytensor": "pytensor_peer",
}

#: These do a task in several ways, of which the fastest counts. A process apart finds out which it is, so
#: that first calls and memory are those of one way.
HAVE_WAYS = ("torch nn", "torch loop", "jax scan", "jax unrolled")

#: Seconds for trying a way; and for warming up the one that is measured.
CHOOSING, WARMING = 0.3, 0.3


def timed(call: Callable[[], Any], seconds: float, least: int = 2) -> list[float]:
    """Times of single calls, for `seconds` seconds."""
    samples: list[float] = []
    while len(samples) < least or sum(samples) < seconds:
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return samples


def resident(what: str) -> int:
    """VmRSS or VmHWM, in bytes (0 without /proc)."""
    try:
        found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


class Worker:
    def __init__(self, contender: str, problem: dict[str, Any], options: dict[str, Any]) -> None:
        self.contender, self.options = contender, options
        if contender == "peak":
            return
        self.problem = Problem(**problem)
        self.module = importlib.import_module(f"benchmarks.networks.{MODULES[contender]}")
        if hasattr(self.module, "prepare"):
            self.module.prepare(options)
        self.at_rest = resident("VmRSS")
        self.call: Callable[[], Any] | None = None

    def candidates(self, task: str) -> list[Candidate]:
        found: list[Candidate] = self.module.candidates(self.contender, task, self.problem, self.options)
        return found

    def choose(self, task: str) -> dict[str, Any]:
        """The fastest way; one that fails is left out."""
        seconds: dict[str, float] = {}
        failed = ""
        candidates = self.candidates(task)
        if len(candidates) == 1:
            return {"way": candidates[0].name}
        for candidate in candidates:
            gc.collect()
            try:
                call = candidate.make()
                call()
                seconds[candidate.name] = statistics.median(timed(call, CHOOSING))
            except Exception as error:
                failed = f"{candidate.name}: {type(error).__name__}: {error}"
        if not seconds:
            return {"error": failed}
        return {"way": min(seconds, key=lambda name: seconds[name])}

    def setup(self, task: str, way: str | None) -> dict[str, Any]:
        """Builds (the first way, if none is named); times the first call; leaves results in a file."""
        self.call = None
        gc.collect()
        ways = {candidate.name: candidate for candidate in self.candidates(task)}
        candidate = next(iter(ways.values())) if way is None else ways[way]
        start = time.perf_counter()
        self.call = candidate.make()
        result = self.call()
        first = time.perf_counter() - start
        arrays = {name: np.asarray(array) for name, array in candidate.read(result).items()}
        path = Path(self.options["folder"], f"{os.getpid()}-{task}.npz")
        np.savez(path, **arrays)  # type: ignore[arg-type]
        return {
            "way": candidate.name,
            "first": first,
            "seconds": statistics.median(timed(self.call, WARMING)),
            "results": str(path),
            "unlike": candidate.unlike,
            "planned": candidate.memory(),
        }

    def time(self, calls: int) -> dict[str, Any]:
        assert self.call is not None
        gc.collect()
        return {"seconds": timed(self.call, 0.0, least=calls)}

    def memory(self) -> dict[str, Any]:
        return {"bytes": resident("VmHWM") - self.at_rest}

    def forget(self) -> dict[str, Any]:
        try:
            Path("/proc/self/clear_refs").write_text(
                "5", encoding="utf-8"
            )  # the peak becomes the resident memory
        except OSError as error:
            return {"error": str(error)}
        return {}

    def peak(self) -> dict[str, Any]:
        return peak.measure()


def answer(worker: object, do: str, **arguments: Any) -> dict[str, Any]:
    """Result of the worker's method `do`, or the reason for a failure."""
    try:
        result: dict[str, Any] = getattr(worker, do)(**arguments)
    except Absent as reason:
        return {"absent": str(reason)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return result


def serve(make: Callable[..., object]) -> None:
    """Makes a worker from the first line of standard input, and answers commands until standard input ends."""
    # Keeps output of libraries apart from answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    cores = json.loads(sys.argv[1])["options"]["cores"]
    os.sched_setaffinity(0, cores)  # before any library counts them
    try:
        worker = make(**json.loads(sys.argv[1]))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers)
        return
    print(json.dumps({}), file=answers)
    for line in sys.stdin:
        print(json.dumps(answer(worker, **json.loads(line))), file=answers)


if __name__ == "__main__":
    serve(Worker)
