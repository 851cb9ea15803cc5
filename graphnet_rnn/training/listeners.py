"""Callbacks of a Trainer (listeners), metrics, and the outcome of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from graphnet.graph.display import ShowsItself
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model import Model
from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.settings import is_true, listed, shown
from graphnet_rnn.training.problem import Problem

if TYPE_CHECKING:
    from graphnet_rnn.training.trainer import Trainer


class Listener:
    """Base class of a Trainer's callbacks; its methods do nothing.

    A subclass raises UsageError if it has another public method that takes a trainer, since nothing would call it.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        for name, method in vars(cls).items():
            if not inspect.isfunction(method) or name.startswith("_") or hasattr(Listener, name):
                continue
            if list(inspect.signature(method).parameters)[1:2] == ["trainer"]:
                raise UsageError(
                    f"{cls.__name__}.{name}: a Trainer calls only started(trainer), stepped(trainer, report), "
                    "epoch_ended(trainer, row) and ended(trainer, outcome) of a Listener; begin the name of a helper "
                    "method with an underscore"
                )

    def started(self, trainer: Trainer) -> None:
        """Called before the first step of a run or resumed run."""

    def stepped(self, trainer: Trainer, report: Report) -> None:
        """Called after each step; `trainer.cost` is its cost, `trainer.progress.rate` its learning rate.

        `trainer.weights` has the new weights. The model may have others: some optimizers evaluate it at trial points.
        To evaluate it here, first set `trainer.problem.model.theta = trainer.weights`; the run stays the same.
        """

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        """Called after validation. row: the new row of the history; its learning_rate is that of the last step."""

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        """Called at the end of the run."""


class _AfterEpochs(Listener):
    def __init__(self, function: Callable[[Trainer, Mapping[str, Any]], Any]) -> None:
        self.function = function

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        if is_true(self.function(trainer, row)):
            trainer.stop("callback")


@dataclass(frozen=True)
class Outcome(ShowsItself):
    """Outcome of a run: reason for its end, and best epoch.

    reason: "epochs", "steps", "core seconds", "early stopping", "goal", "interrupted", "callback" (a function among the
    listeners returned True), or the argument of `trainer.stop`.
    best: best validation measure (training measure without validation data), in the problem's unit, e.g. bits per
    character; infinite if it was finite in no epoch.
    best_epoch: its epoch. metrics: metrics of this epoch by name. epochs: number of epochs; the last may be incomplete.
    steps: number of steps.
    history: path of the rows, or the rows of a run without a folder; notebooks plot them.
    """

    reason: str
    best: float
    best_epoch: int
    epochs: int
    steps: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    history: Any = field(default="", compare=False, repr=False)

    def __history__(self) -> str | list[dict[str, Any]]:
        """Returns the rows or their path, for plots."""
        return self.history


def listeners_of(given: Any) -> list[Listener]:
    """Converts functions to Listeners. Raises UsageError."""
    kinds = "Listeners, or functions of (trainer, row)"
    each_given = listed("Trainer: listeners", given, kinds)
    for each in each_given:
        if not isinstance(each, Listener) and (not callable(each) or isinstance(each, type)):
            raise UsageError(f"Trainer: listeners must be a list of {kinds}, not {shown(each)}")
    return [each if isinstance(each, Listener) else _AfterEpochs(each) for each in each_given]


def metrics_of(problem: Problem, given: Any) -> dict[str, Callable[[], Any]]:
    """Returns each metric by name; UsageError for unknown and duplicate names."""
    known, found = problem.metrics(), dict[str, Callable[[], Any]]()
    for each in listed("Trainer: metrics", given, "names and functions of the model"):
        if callable(each):
            name = getattr(each, "__name__", type(each).__name__)
            measure: Callable[[], Any] = partial(_of_model, each, problem)
        elif isinstance(each, str) and each in known:
            name, measure = each, known[each]
        else:
            has_some = type(problem).metrics is not Problem.metrics
            there = ", ".join(known) or ("none, without validation data" if has_some else "none")
            raise UsageError(
                f"Trainer: metrics must be functions of the model, or names of metrics of {type(problem).__name__} "
                f"({there}), not {shown(each)}"
            )
        if name in found:
            raise UsageError(f"Trainer: two metrics have the name {name}; rename one of the functions")
        found[name] = measure
    return found


def _of_model(function: Callable[[Model], Any], problem: Problem) -> Any:
    return function(problem.model)
