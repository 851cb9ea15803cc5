"""A program in a separate process: made, checked, then called on command; ended if it takes too long."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.others.cases import CASES
from benchmarks.others.check import error

#: Contender -> module, function
PROGRAMS = {
    "ours": ("benchmarks.others.ours", "program"),
    "jax": ("benchmarks.others.jax_peer", "program"),
    "torch": ("benchmarks.others.torch_peer", "program"),
    "torch compiled": ("benchmarks.others.torch_peer", "compiled_program"),
}
#: Seconds of calls in a turn, and their number at most.
TURN, CALLS = 0.3, 20


@dataclass(frozen=True)
class Ready:
    """Seconds until a program's first result, and the error of its derivatives, by finite differences."""

    seconds: float
    error: float


@dataclass(frozen=True)
class Refused:
    """Reason why there is no result."""

    why: str


def _serve(pipe: Connection, contender: str, name: str, size: int) -> None:
    warnings.simplefilter("ignore")
    try:
        call, ready = _made(contender, name, size)
    except ImportError as missing:
        pipe.send(Refused(f"not installed ({missing.name})"))
        return
    except Exception as problem:  # an error of a peer is a result
        first = str(problem).strip().partition("\n")[0]
        pipe.send(Refused(f"{type(problem).__name__}: {first:.110}"))
        return
    pipe.send(ready)
    while pipe.recv():
        pipe.send(_turn(call))


def _made(contender: str, name: str, size: int) -> tuple[Callable[[], Any], Ready]:
    case = CASES[name]
    arrays = case.arrays(size, np.random.default_rng(0))
    module, function = PROGRAMS[contender]
    if contender == "torch compiled":
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # else it has processes that outlive its own
    if contender != "ours":
        importlib.import_module(contender.partition(" ")[0])
    make = getattr(importlib.import_module(module), function)
    start = time.perf_counter()
    call = make(name, case, arrays, size)
    results = call()
    seconds = time.perf_counter() - start
    with np.errstate(invalid="ignore"):
        return call, Ready(seconds, error(case, name, arrays, size, results))


def _turn(call: Callable[[], Any]) -> list[float]:
    samples: list[float] = []
    while len(samples) < CALLS and (len(samples) < 1 or sum(samples) < TURN):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return samples


class Worker:
    """A contender on a case. ready: the result of making its program."""

    def __init__(self, contender: str, name: str, size: int, patience: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, contender, name, size), daemon=True)
        self._process.start()
        theirs.close()
        self.ready: Ready | Refused = self._answer(patience, f"not ready after {patience:.0f} s")

    def _answer(self, patience: float, late: str) -> Any:
        try:
            if self._pipe.poll(patience):
                return self._pipe.recv()
        except EOFError:
            return Refused("its process ended")
        self.end()
        return Refused(late)

    def turn(self) -> list[float]:
        """Seconds of some calls."""
        self._pipe.send(True)
        found = self._answer(60, "")
        return found if isinstance(found, list) else []

    def end(self) -> None:
        self._process.terminate()
        self._process.join()
