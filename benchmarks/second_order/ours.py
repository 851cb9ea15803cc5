"""graphnet: rnn.HessianFree on the objective of the problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from benchmarks.second_order.problem import NAMES, Array, Arrays, Contender, Data, Judge, Problem
from graphnet_rnn.optimizers import HessianFree


class Ours(Judge):
    def __init__(self, problem: Problem, data: Data, way: str, options: dict[str, Any]) -> None:
        task = rnn.tasks.TASKS["addition"](problem.length)
        network = rnn.tasks.elman(task, problem.units)
        shapes = [node.shape for node in network.parameters.values()]
        if [data.weights[name].shape for name in NAMES] != shapes:
            raise ValueError(f"the network's parameters are not {', '.join(NAMES)}: {shapes}")
        u = network.unroll(task.time, problem.batch, initial="zero", unscored=task.unscored)
        self.objective = rnn.Objective(
            u.cost,
            network.parameters,
            [u.inputs, u.targets],
            structure=u.structure if problem.structural else (),
            threads=options["threads"],
        )
        targets = np.zeros((data.time, *data.targets.shape), np.float32)
        targets[-1] = data.targets
        self.objective.feed(data.inputs, targets)
        self.problem = problem
        self.start, self.direction = _flat(data.weights), _flat(data.direction)
        self.shapes = dict(zip(NAMES, shapes, strict=True))
        self.optimizer = HessianFree(
            damping=problem.damping,
            structural=problem.structural / problem.damping,
            tolerance=0,
            backtrack=False,
        )
        self._count()

    def _count(self) -> None:
        """Wraps the objective's methods to count calls."""
        curvature, loss = self.objective.curvature, self.objective.loss

        def counted_curvature(w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
            product = curvature(w, structural)

            def counted_product(v: Array) -> Array:
                self.products += 1
                return product(v)

            return counted_product

        def counted_loss(w: Array) -> float:
            self.losses += 1
            return loss(w)

        self.objective.curvature = counted_curvature  # type: ignore[method-assign]
        self.objective.loss = counted_loss  # type: ignore[method-assign]

    def named(self, vector: Any) -> Arrays:
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes.values()])[:-1]
        pieces = np.split(np.asarray(vector), ends)
        return {
            name: piece.reshape(shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    def gradient(self) -> Any:
        return self.objective.gradient(self.start)[1]

    def linearized(self) -> Callable[[], Any]:
        product = self.objective.curvature(self.start, self.problem.structural)
        return lambda: product(self.direction)

    def step(self, cg_steps: int) -> Any:
        self.products = self.losses = 0
        theta, optimizer = self.start.copy(), replace(self.optimizer, cg_steps=cg_steps)
        report = optimizer.step(self.objective, theta, optimizer.init(theta))
        if report.scale != 1:
            raise ValueError(f"the line search took {report.scale} δ, not δ; choose another λ: {report}")
        return theta.astype(np.float64) - self.start

    def model(self, delta: Array) -> float:
        g = np.asarray(self.gradient(), np.float64)
        curved = (
            self.objective.curvature(self.start, self.problem.structural)(delta)
            + self.problem.damping * delta
        )
        return float(g @ delta + delta @ curved / 2)


def _flat(arrays: Arrays) -> Array:
    return np.concatenate([arrays[name].ravel() for name in NAMES])


def make(contender: str, problem: Problem, data: Data, way: str, options: dict[str, Any]) -> Contender:
    return Ours(problem, data, way, options)


def ways(contender: str, problem: Problem, data: Data, options: dict[str, Any]) -> tuple[str, ...]:
    return ("",)
