"""The contenders of one problem, each in processes of its own, and their turns: at any time one of them computes."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from benchmarks.networks.problem import largest_difference
from benchmarks.networks.team import Worker, environment, mkl_shim
from benchmarks.second_order.problem import NAMES, Arrays, Data, Problem

#: Largest relative differences from ours: gradient, Gv, δ after a few steps of CG and after all, in the norm of the
#: whole vector, and φ(δ). Rounding costs float32 a step of CG now and then, in all contenders, and δ grows by some per
#: cent in a step, along directions that hardly change φ; φ shows that CG made equal progress.
TOLERANCES = {"gradient": 1e-4, "product": 1e-4, "few": 0.5, "model": 1e-3, "step": 0.3}


@dataclass
class Measured:
    """Results of one contender in one variant; seconds by "step" and "product", one for each round."""

    contender: str
    variant: str
    way: str = ""
    #: Estimates by which the way was chosen.
    tried: dict[str, float] = field(default_factory=dict)
    rounds: dict[str, list[float]] = field(default_factory=lambda: {"step": [], "product": []})
    results: str = ""
    #: Relative differences from ours, by quantity.
    differences: dict[str, float] = field(default_factory=dict)
    products: int = 0
    losses: int = 0
    note: str = ""

    def median(self, what: str) -> float | None:
        return float(np.median(self.rounds[what])) if self.rounds[what] else None

    @property
    def disagrees(self) -> bool:
        # "not <=": a NaN disagrees
        return not all(found <= TOLERANCES[kind] for kind, found in self.differences.items())


@dataclass(frozen=True)
class Plan:
    """Settings of the measurement. cores: number of cores (0: all). turn: seconds for products, and for short steps.

    pythons: contender -> interpreter, if not this one. options: for workers.
    """

    contenders: tuple[str, ...]  # ours first
    variants: tuple[str, ...]
    rounds: int
    cores: int
    turn: float
    patience: float
    pythons: dict[str, str]
    options: dict[str, Any]


def draw(problem: Problem) -> Data:
    """Sequences of the task, and weights as Sutskever 2013 drew them."""
    task = rnn.tasks.TASKS["addition"](problem.length)
    network = rnn.tasks.elman(task, problem.units)
    inputs, targets = task.batch(np.random.default_rng(0), problem.batch)
    weights: Arrays = {n: p.value for n, p in zip(NAMES, network.parameters.values(), strict=True)}
    generator = np.random.default_rng(1)
    direction = {name: generator.standard_normal(w.shape).astype(w.dtype) for name, w in weights.items()}
    return Data(inputs, targets[-1], weights, direction)


def run(problem: Problem, plan: Plan) -> list[Measured]:
    """Runs all contenders in all variants, and notes those that do not agree with ours."""
    with tempfile.TemporaryDirectory(prefix="graphnet-benchmark-") as name:
        folder = Path(name)
        everything = sorted(os.sched_getaffinity(0))
        cores = everything[: plan.cores or len(everything)]
        options = {
            **plan.options,
            "cores": cores,
            "threads": len(cores),
            "limited": len(cores) < len(everything),
            "folder": name,
            "data": str(folder / "data.npz"),
        }
        draw(problem).save(options["data"])
        shim = mkl_shim(folder)
        every: list[Measured] = []
        ready: list[tuple[Worker, Measured]] = []
        workers: list[Worker] = []
        try:
            for contender in plan.contenders:
                for variant in plan.variants:
                    caches = folder / contender.replace(" ", "-")
                    worker = Worker(
                        contender,
                        variant,
                        plan.pythons.get(contender, sys.executable),
                        {"problem": problem.record(), "options": options},
                        environment(variant, caches, len(cores), len(everything), shim),
                        folder / f"{caches.name}-{variant}.log",
                        module="benchmarks.second_order.worker",
                    )
                    workers.append(worker)
                    every.append(_set_up(worker, problem, plan))
                    if not every[-1].note:
                        ready.append((worker, every[-1]))
            if not ready or ready[0][1].contender != "ours":
                raise SystemExit(f"{problem}: ours does not run, so nothing can be compared: {every[0].note}")
            _compare(ready, plan)
            for _ in range(plan.rounds):
                for worker, measured in ready:
                    _take_turn(worker, measured, plan)
        finally:
            for worker in workers:
                worker.end()
    return every


def _set_up(worker: Worker, problem: Problem, plan: Plan) -> Measured:
    measured = Measured(worker.contender, worker.variant)
    answer = worker.greeting or worker.ask(plan.patience, "choose")
    if "way" in answer:
        measured.way, measured.tried = answer["way"], answer["seconds"]
        answer = worker.ask(plan.patience, "setup", way=measured.way)
    trouble = answer.get("absent") or answer.get("error")
    if trouble:
        measured.note = " ".join(str(trouble).split())[:150]
    else:
        measured.products, measured.losses = answer["products"], answer["losses"]
        measured.results = answer["results"]
        if measured.products < problem.cg_steps:
            measured.note = (
                f"ended CG after {measured.products} products; with a smaller λ or fewer steps it may go on"
            )
    return measured


def _compare(ready: list[tuple[Worker, Measured]], plan: Plan) -> None:
    """Compares results with ours, the first."""
    judge, ours = ready[0]

    def model(measured: Measured) -> float:
        return float(judge.ask(plan.patience, "model", results=measured.results).get("value", np.nan))

    least = model(ours)
    for _, measured in ready:
        with np.load(ours.results) as expected, np.load(measured.results) as found:
            measured.differences = {
                kind: largest_difference({kind: found[kind]}, {kind: expected[kind]}) for kind in expected
            }
        measured.differences["model"] = abs(1 - model(measured) / least)


def _take_turn(worker: Worker, measured: Measured, plan: Plan) -> None:
    for what, samples in measured.rounds.items():
        answer = worker.ask(plan.patience, "time", what=what, seconds=plan.turn)
        if "error" in answer:
            measured.note = answer["error"][:150]
        else:
            samples.append(answer["seconds"])
