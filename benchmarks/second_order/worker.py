"""One contender in a process of its own; the commands that it obeys are the methods of Worker, see networks.worker."""

from __future__ import annotations

import gc
import importlib
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks.worker import serve, timed
from benchmarks.second_order.problem import NAMES, Array, Arrays, Contender, Data, Judge, Problem

MODULES = {
    "ours": "ours",
    "hessianfree": "hessianfree_peer",
    "torch.func": "torch_peer",
    "torch.compile": "torch_peer",
    "torch by hand": "torch_peer",
}

#: So few steps of CG that rounding has not grown yet, and δ must agree closely.
FEW_STEPS = 5


class Worker:
    def __init__(self, contender: str, problem: dict[str, Any], options: dict[str, Any]) -> None:
        self.contender, self.options, self.problem = contender, options, Problem(**problem)
        self.module = importlib.import_module(f"benchmarks.second_order.{MODULES[contender]}")
        if hasattr(self.module, "prepare"):
            self.module.prepare(options)
        self.data = Data.load(options["data"])
        self.calls: dict[str, Callable[[], Any]] = {}
        self.made: Contender | None = None

    def _make(self, way: str) -> Contender:
        made: Contender = self.module.make(self.contender, self.problem, self.data, way, self.options)
        return made

    def choose(self) -> dict[str, Any]:
        """The way with the fastest products of one step, including their shared work; seconds of all ways."""
        ways = self.module.ways(self.contender, self.problem, self.data, self.options)
        seconds: dict[str, float] = {}
        for way in ways if len(ways) > 1 else ():
            gc.collect()
            contender = self._make(way)
            contender.linearized()()
            (once,) = timed(contender.linearized, 0.0, least=1)
            product = statistics.median(timed(contender.linearized(), 0.0, least=3))
            seconds[way] = once + self.problem.cg_steps * product
        return {"way": min(seconds, key=lambda way: seconds[way]) if seconds else ways[0], "seconds": seconds}

    def setup(self, way: str) -> dict[str, Any]:
        """Makes the contender, runs everything once, and writes the results to a file."""
        self.calls.clear()
        gc.collect()
        contender, steps = self._make(way), self.problem.cg_steps
        results = {"gradient": contender.named(contender.gradient())}
        product = contender.linearized()
        results["product"] = contender.named(product())
        results["few"] = contender.named(contender.step(FEW_STEPS))
        (seconds,) = timed(lambda: results.update(step=contender.named(contender.step(steps))), 0.0, least=1)
        path = Path(self.options["folder"], f"{os.getpid()}.npz")
        # One vector of each kind, in the order in which ours has the weights.
        np.savez(path, **{kind: _flat(arrays) for kind, arrays in results.items()})
        self.calls = {"step": lambda: contender.step(steps), "product": product}
        self.made = contender
        return {
            "seconds": seconds,
            "results": str(path),
            "products": contender.products,
            "losses": contender.losses,
        }

    def time(self, what: str, seconds: float) -> dict[str, Any]:
        """Times calls for `seconds` seconds, at least one; short calls get a warm-up call."""
        gc.collect()
        call = self.calls[what]
        samples = timed(call, seconds, least=1)
        return {"seconds": statistics.median(samples[1:] or samples)}

    def model(self, results: str) -> dict[str, Any]:
        """φ of the δ in another contender's file, by ours."""
        assert isinstance(self.made, Judge)
        with np.load(results) as file:
            return {"value": self.made.model(file["step"])}


def _flat(arrays: Arrays) -> Array:
    return np.concatenate([np.asarray(arrays[name], np.float64).ravel() for name in NAMES])


if __name__ == "__main__":
    serve(Worker)
