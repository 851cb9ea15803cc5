"""Whom a Trainer tells of a run, and what: listeners, metrics, the outcome."""

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

__all__ = ["Listener", "Outcome", "listeners_of", "metrics_of"]


class Listener:
    """Is told what happens; the base class keeps silent.

    UsageError where a class of yours has a method that nothing calls: one that takes a trainer, and whose name is none
    of these and begins with no underscore.
    """

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        for name, method in vars(cls).items():
            if not inspect.isfunction(method) or name.startswith("_") or hasattr(Listener, name):
                continue
            if list(inspect.signature(method).parameters)[1:2] == ["trainer"]:
                raise UsageError(
                    f"{cls.__name__}.{name}: a listener is told by started(trainer), stepped(trainer, report), "
                    "epoch_ended(trainer, row) and ended(trainer, outcome), so nothing would call this method; begin "
                    "the name of one of your own with an underscore"
                )

    def started(self, trainer: Trainer) -> None:
        """Before the first step of this run, or of its continuation."""

    def stepped(self, trainer: Trainer, report: Report) -> None:
        """After each step; `trainer.cost` is what it cost, `trainer.progress.rate` the rate that it took."""

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        """After validation; row is what the history got; its learning_rate is that of the last step."""

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        """At the very end."""


class _AfterEpochs(Listener):
    """A function that is told of each epoch."""

    def __init__(self, function: Callable[[Trainer, Mapping[str, Any]], Any]) -> None:
        self.function = function

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        if is_true(self.function(trainer, row)):
            trainer.stop("callback")


@dataclass(frozen=True)
class Outcome(ShowsItself):
    """How a run ended, and its best epoch.

    reason: "epochs", "steps", "core seconds", "early stopping", "goal", "interrupted", "callback" (a function among the
    listeners said True), or what a listener gave to `trainer.stop`.

    best: the validated measure after it (of the training data, where nothing is kept to validate), in the problem's
    unit: bits per character of texts. history: the path of its rows, or, of a run without a folder,
    the rows; notebooks show their curve.
    """

    reason: str
    best: float
    best_epoch: int
    epochs: int
    steps: int
    history: str | list[dict[str, Any]] = field(default="", compare=False, repr=False)

    def __history__(self) -> str | list[dict[str, Any]]:
        """The rows or their path, for pictures."""
        return self.history


def listeners_of(given: Any) -> list[Listener]:
    """Listeners, functions among them; UsageError for anything else."""
    kinds = "Listeners, or functions of (trainer, row)"
    each_given = listed("Trainer: listeners", given, kinds)
    for each in each_given:
        if not isinstance(each, Listener) and (not callable(each) or isinstance(each, type)):
            raise UsageError(f"Trainer: listeners must be a list of {kinds}, not {shown(each)}")
    return [each if isinstance(each, Listener) else _AfterEpochs(each) for each in each_given]


def metrics_of(problem: Problem, given: Any) -> dict[str, Callable[[], Any]]:
    """Each metric by its name; UsageError for one that the problem does not have, and for two of a name."""
    known, found = problem.metrics(), dict[str, Callable[[], Any]]()
    for each in listed("Trainer: metrics", given, "names and functions of the model"):
        if callable(each):
            name = getattr(each, "__name__", type(each).__name__)
            measure: Callable[[], Any] = partial(_of_model, each, problem)
        elif isinstance(each, str) and each in known:
            name, measure = each, known[each]
        else:
            there = ", ".join(known) or "none"
            raise UsageError(
                f"Trainer: metrics are functions of the model, or names that {type(problem).__name__} has ({there}), "
                f"not {shown(each)}"
            )
        if name in found:
            raise UsageError(
                f"Trainer: two metrics are called {name}; give one of the functions another name"
            )
        found[name] = measure
    return found


def _of_model(function: Callable[[Model], Any], problem: Problem) -> Any:
    return function(problem.model)
