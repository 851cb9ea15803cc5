"""Training of controllers in closed loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.control.controller import Controller
from graphnet_rnn.experiments.control.tasks import ControlTask
from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import Count, require_kinds, setting, shown
from graphnet_rnn.training.problem import ObjectiveProblem
from graphnet_rnn.training.state import digest_of


@dataclass(eq=False, repr=False)
class Movements(ObjectiveProblem):
    """Training on movements of a control task; tasks with random movements draw new ones, with new noise, for each
    step.

    task: task of rnn.control. steps: steps of an epoch; 10 by default. gradient_batches: batches of movements for the
    gradient and curvature of a step, which processes may share; the noise is the same in all of them; 1 by default.
    threads, backend, clip_values, l2, memory: see Objective. frozen: patterns of parameters that are not trained.
    Validation after an epoch is the cost of the movements of seed 0. Its row has `calls`, the number of evaluations of
    loss, gradient or curvature product so far. report, in `stepped`: report of the optimizer.
    Raises UsageError for settings that do not fit.

    >>> task = rnn.control.CenterOut(rnn.control.Controller([rnn.Elman(3)]), directions=3, time=5)
    >>> problem = rnn.control.Movements(task, steps=2)
    >>> problem.task is task
    True
    """

    item: ClassVar[str] = "movement"
    model: Controller = field(init=False)
    objective: Objective = field(init=False)

    task: ControlTask
    steps: Count = setting(10, "steps of an epoch")
    gradient_batches: Count = setting(
        1, "batches of movements for the gradient of a step, each with new noise"
    )

    def __post_init__(self) -> None:
        task = self.task
        if not isinstance(task, ControlTask):
            raise UsageError(f"Movements: task must be one of rnn.control, not {shown(task)}")
        require_kinds(self)
        self.model, self.items = task.loop.controller, task.loop.batch * self.gradient_batches
        if self.gradient_batches > 1 and digest_of(*task.conditions(1)) == digest_of(*task.conditions(2)):
            raise UsageError(
                f"Movements: gradient_batches must be 1, not {self.gradient_batches}: {type(task).__name__} has the "
                "same movements in every batch"
            )
        self.objective = task.objective(**self.objective_settings())
        self.calls = 0
        #: Separate task, so that validation does not change the noise of training.
        self._judge = task.objective(**self.objective_settings())

    def __len__(self) -> int:
        return self.steps

    def compile(self) -> None:
        self.objective.compile()

    def feed(self, epoch: int, step: int) -> Objective:
        # Seed 0 is reserved for validation.
        first = 1 + (epoch * self.steps + step) * self.gradient_batches
        batches = [self.task.conditions(first + k) for k in range(self.gradient_batches)]
        self.objective.feed_batches(batches, curvature=batches)
        self.objective.redraw()
        return self.objective

    def stepped(self, point: Array, report: Report) -> None:
        self.calls += report.losses + report.gradients + report.products

    def row(self, epoch: int) -> dict[str, Any]:
        return {"calls": self.calls}

    def validate(self) -> float:
        return self._judge.loss(self._judge.start())

    def description(self) -> dict[str, Any]:
        loop = self.task.loop
        names = ("time", "batch", "delay", "noise", "disturbance")
        return {
            "task": {"name": type(self.task).__name__, **{name: getattr(loop, name) for name in names}},
            "arm": vars(loop.arm),
            **super().description(),
            # Movements for validation, and the first ones for training; they follow from the settings of the task.
            "data": digest_of(*self.task.conditions(0), *self.task.conditions(1)),
        }

    def numbers(self) -> dict[str, Any]:
        return {"random": self.task.loop.random.state, "calls": self.calls}

    def restore(self, arrays: Any, numbers: Any) -> None:
        self.task.loop.random.state = numbers["random"]
        self.calls = numbers["calls"]
