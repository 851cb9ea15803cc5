"""Trainer: runs training epochs, writes checkpoints, and resumes from them bit for bit."""

from __future__ import annotations

import contextlib
import math
import sys
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.system.json_lines import read_rows
from graphnet_rnn.errors import DataError, ModelFileError, UsageError
from graphnet_rnn.formats.model_file import checked_notes
from graphnet_rnn.model import Model
from graphnet_rnn.network.norms import weight_norms
from graphnet_rnn.optimizers.base import Report, State
from graphnet_rnn.optimizers.step import guarded_step, require_finite
from graphnet_rnn.optimizers.vectors import Declared, fused
from graphnet_rnn.parallel.mpi import as_ranks
from graphnet_rnn.parallel.ranks import Ranks
from graphnet_rnn.settings import amount, is_number, shown, yes_no_or_none
from graphnet_rnn.training.folder import NoFolder, NullRunWriter, RunFolder, RunWriter
from graphnet_rnn.training.interruption import Interruption
from graphnet_rnn.training.listeners import Listener, Outcome, listeners_of, metrics_of
from graphnet_rnn.training.problem import Problem, entries_of, plain
from graphnet_rnn.training.processes import require_same_run, require_same_weights
from graphnet_rnn.training.progress_bar import ProgressBar
from graphnet_rnn.training.settings import Training
from graphnet_rnn.training.state import TrainingState, as_stored

#: Name of the best epoch's weights in a checkpoint, unless they are the present ones.
BEST = "best"
#: Name of the running mean.
AVERAGE = "average"
#: Limits that may be raised on resume.
EPOCHS, STEPS, CORE_SECONDS = BUDGETS = ("epochs", "steps", "core seconds")
#: Reasons that end a run for good.
ENDS = (*BUDGETS, "early stopping", "goal")
#: Flags exchanged after a step: stop, write a checkpoint, a listener has failed, time is up.
ENDS_NOW, DUE, FAILED, SPENT = 1, 2, 4, 8


@dataclass
class Progress:
    """Progress of a run: the numbers that a checkpoint stores, besides arrays and the problem's own.

    rate: learning rate of the last step.
    """

    epoch: int = 0
    epoch_step: int = 0
    step: int = 0
    epoch_loss: float = 0.0
    rate: float = 0.0
    best: float = math.inf
    best_epoch: int = 0
    costs: list[float] = field(default_factory=list)
    core_seconds: float = 0.0
    finished: str = ""


class Trainer:
    """Trains the model of a problem.

    problem: model, data and objective, see rnn.Problem.
    settings: see rnn.Training; default Training().
    folder: directory for the best model, history and checkpoints; a stopped run resumes from it. Default None, no
    files: the rows are in the outcome, and `take_best` restores the weights of the best epoch.
    listeners: callbacks: Listeners, or functions of (trainer, row), called after each epoch; return True to stop.
    metrics: more measures after each epoch: names from Problem.metrics, or functions of the model that return a number.
    notes: JSON stored in every checkpoint (the command line stores its arguments).
    parallel: "mpi", or rnn.parallel.Ranks: data-parallel processes. Each process has all data and computes its share of
    a step's batches; all get identical results, and only the first writes files and calls the listeners. Default None.
    start: origin of the initial weights, a word or a digest, if the model's seed did not draw them; stored with the
    run's description.
    progress: True prints progress (see rnn.training.ProgressBar), False prints nothing; default None: True if standard
    error is a terminal.

    The attribute `cost` is the cost of the last step, in the problem's unit.
    Raises UsageError; TrainingError when the loss is not finite; SaveError when the disk is full.

    >>> x = np.random.default_rng(0).normal(size=(10, 40, 1))  # (time, cases, inputs)
    >>> net = rnn.Network([rnn.GRU(4)], inputs=1, outputs=1, loss="squared")
    >>> problem = rnn.Arrays(net, x, np.cumsum(x, axis=0), batch=12)
    >>> outcome = rnn.Trainer(problem, rnn.Training(rnn.Adam(rate=0.01), epochs=2), folder="run").run()
    >>> outcome.reason, outcome.steps
    ('epochs', 6)
    >>> settings = rnn.Training(rnn.Adam(rate=0.01), epochs=9)
    >>> enough = lambda trainer, row: trainer.stop("enough")
    >>> trainer = rnn.Trainer(problem, settings, folder="run", listeners=[enough])
    >>> trainer.description()["batch"]  # must not change on resume
    12
    >>> trainer.resume()
    >>> outcome = trainer.run()
    >>> outcome.reason, outcome.epochs
    ('enough', 3)
    >>> trainer.take_best()
    """

    def __init__(
        self,
        problem: Problem,
        settings: Training | None = None,
        folder: str | Path | None = None,
        *,
        listeners: Sequence[Listener | Callable[[Trainer, Mapping[str, Any]], Any]] = (),
        metrics: Sequence[str | Callable[[Any], float]] = (),
        notes: Mapping[str, Any] | None = None,
        parallel: Ranks | str | None = None,
        start: str = "",
        progress: bool | None = None,
    ) -> None:
        _require_problem(problem)
        if settings is None:
            settings = Training()
        if not isinstance(settings, Training):
            raise UsageError(f"Trainer: settings must be a Training, not {shown(settings)}")
        all_listeners = listeners_of(listeners)
        shows = sys.stderr.isatty() if yes_no_or_none("Trainer: progress", progress) is None else progress
        if shows and not any(isinstance(each, ProgressBar) for each in all_listeners):
            all_listeners = [ProgressBar(), *all_listeners]
        self.notes = checked_notes("Trainer", notes)
        self.metrics = metrics_of(problem, metrics)
        problem.require_fit(settings.optimizer)
        ranks = as_ranks("Trainer", parallel)
        problem.share(ranks)
        self.problem, self.settings, self.ranks, self.start = problem, settings, ranks, start
        self.folder: RunFolder = NoFolder() if folder is None else RunFolder(folder)
        self.listeners = all_listeners if ranks.is_first else []
        # The optimizer works on a vector of its own: looking ahead (Nesterov) changes the parameters.
        self.theta = problem.objective.start()
        self.state: State = settings.optimizer.init(self.theta, problem.objective)
        self._average: Array | None = None if settings.average is None else self.theta.copy()
        self.progress, self.cost = Progress(), math.nan
        self._resumed, self._interruption = False, Interruption()
        #: True if any process received a signal to end.
        self._stop_requested = False
        self._stop_reason = ""
        self._counted = 0.0
        self._best: Array | None = None

    # -- running -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Trains from the present state to the end; Ctrl-C, SIGTERM and SIGHUP stop after the current step.

        Writes a checkpoint then, and also when a listener raises an exception.
        """
        killed = f"one of {self.ranks.size} processes was killed, which ended the run; {self.folder.goes_on}"
        with self.ranks.together(), self.ranks.witnessed(killed), contextlib.ExitStack() as stack:
            if self.ranks.size > 1:
                run = {"epochs": self.settings.epochs, **self.description()}
                require_same_run(self.ranks, self.problem, run, self.theta)
            # Only the first process locks the folder; if it fails, all raise.
            files: list[RunWriter] = []
            self.ranks.of_first(lambda: files.append(stack.enter_context(self.folder.locked())))
            return self._run(files[0] if files else NullRunWriter(self.folder))

    @property
    def weights(self) -> Array:
        """The weights to validate and save: all weights, with θ, or with its running mean if `average` is set."""
        return self.problem.whole(np.asarray(self.theta if self._average is None else self._average))

    def take_best(self) -> None:
        """Sets the model to the weights of the best epoch. Raises UsageError before the first epoch.

        Without validation data, the cost of an epoch is the mean before each of its steps, but the weights are those
        after them.
        """
        if self._best is None:
            raise UsageError("Trainer.take_best: no epoch has ended yet; call run() first")
        self.problem.model.theta = self._best

    def _run(self, files: RunWriter) -> Outcome:
        self._stop_requested = False
        progress = self._begin(files)
        for each in self.listeners:
            each.started(self)
        self._last_checkpoint, self._counted = clock.monotonic(), clock.process_time()
        with self._interruption:
            while not (progress.finished or self._stop_requested or self._stop_reason):
                if progress.epoch_step and (spent := self._spent()):  # the limits have not been raised
                    self._end_epoch(files, spent)
                else:
                    self._run_epoch(files)
                self._stop_requested |= bool(self.ranks.any(self._interruption.requested))
                self._stop_reason = self.ranks.of_first(lambda: self._stop_reason)
        outcome = Outcome(
            progress.finished or self._stop_reason or "interrupted",
            progress.best,
            progress.best_epoch,
            progress.epoch,
            progress.step,
            self.ranks.of_first(self._metrics_of_best),
            self.folder.recorded,
        )
        for each in self.listeners:
            each.ended(self, outcome)
        return outcome

    def _begin(self, files: RunWriter) -> Progress:
        if self._resumed:
            # `resume` read the checkpoint before the lock: another process may have continued since.
            stored = self.ranks.of_first(self.folder.read_checkpoint)
            self._take_up(stored)
            files.cut_history(stored.training["history_size"], stored.training["history_digest"])
            files.tidy()
            if self._best is not None:
                self._write_best(files)
                self.problem.model.theta = self.problem.whole(np.asarray(self.theta))
        else:
            self.ranks.of_first(self.folder.require_new)
            self.problem.compile()  # if it fails, nothing has been written
            self._checkpoint(files)
        if self.ranks.is_first and not self.folder.history_size():
            files.add_row({"event": "start", "unit": self.problem.unit_name, **self.description()})
            initial = {"event": "initial", "epoch": 0, "weight_norms": weight_norms(self.problem.model)}
            files.add_row({**initial, **entries_of(self.problem, 0, initial)})
        return self.progress

    def stop(self, reason: str) -> None:
        """Ends the run after the current epoch; for listeners. reason: becomes the reason of the outcome."""
        self._stop_reason = reason

    def _run_epoch(self, files: RunWriter) -> None:
        progress = self.progress
        started, first_step, spent = clock.monotonic(), progress.epoch_step, ""
        while progress.epoch_step < len(self.problem) and not spent:
            report, failure = self._step(files), None
            try:
                for each in self.listeners:
                    each.stepped(self, report)
            except Exception as error:  # e.g. a closed terminal; the step is complete
                failure = error
            ends = self._interruption.requested or failure is not None
            due = clock.monotonic() - self._last_checkpoint > self.settings.checkpoint_seconds
            self._count_time()
            flags = self.ranks.any(
                ENDS_NOW * ends | DUE * due | FAILED * (failure is not None) | SPENT * bool(self._spent())
            )
            if flags:
                self._checkpoint(files)
            if flags & FAILED:  # in the first process, the only one with listeners
                self.ranks.of_first(partial(_raise, failure))
            if flags & ENDS_NOW:
                self._stop_requested = True
                return
            if flags & SPENT:  # processes may differ in used time
                spent = self._spent() or CORE_SECONDS
        seconds = clock.monotonic() - started
        items = (progress.epoch_step - first_step) * self.problem.items
        row = self._end_epoch(files, spent)
        rate = f"{'characters' if self.problem.item == 'char' else f'{self.problem.item}s'}_per_second"
        files.add_time({"epoch": progress.epoch, "seconds": seconds, rate: items / max(seconds, 1e-9)})
        for each in self.listeners:
            each.epoch_ended(self, row)

    def _count_time(self) -> None:
        """Measures the processor time, only if it is limited, so that other runs write identical bytes."""
        if self.settings.core_seconds is not None:
            now = clock.process_time()
            self.progress.core_seconds += now - self._counted
            self._counted = now

    def _spent(self) -> str:
        """Returns the limit, other than epochs, that is reached; "" if none."""
        settings, progress = self.settings, self.progress
        if settings.steps is not None and progress.step >= settings.steps:
            return STEPS
        out_of_time = settings.core_seconds is not None and progress.core_seconds >= settings.core_seconds
        return CORE_SECONDS if out_of_time else ""

    def _rate(self) -> float:
        schedule, progress = self.settings.schedule, self.progress
        assert schedule is not None
        factor = schedule.now(progress.step, progress.epoch, progress.costs)
        return self.settings.optimizer.rate_at(self.state) * factor

    def _step(self, files: RunWriter) -> Report:
        problem, progress, rate = self.problem, self.progress, self._rate()
        objective = problem.feed(progress.epoch, progress.epoch_step)
        point = self.settings.optimizer.evaluation_point(self.theta, self.state).copy()
        at = f"step {progress.step} (epoch {progress.epoch + 1})"
        remedy = f"training cannot go on; {problem.remedy}. {self.folder.kept} are untouched"
        report = guarded_step(self.settings.optimizer, objective, self.theta, self.state, at, rate, remedy)
        loss = report.loss - objective.penalty(point)
        problem.stepped(point, report)
        progress.rate = rate
        progress.epoch_loss += loss * problem.weight(progress.epoch, progress.epoch_step)
        progress.epoch_step += 1
        progress.step += 1
        if self._average is not None and self.settings.average is not None:
            average_in(self._average, self.theta, self.settings.average, progress.step)
        self.cost = loss / problem.unit
        # Steps that report more than a loss are few and long, so each has a row.
        if progress.step % self.settings.log_every == 0 or type(report) is not Report:
            row = {
                "event": "step",
                "step": progress.step,
                "epoch": progress.epoch + progress.epoch_step / len(problem),
                problem.row_names[0]: self.cost,
                "gradient_norm": report.gradient_norm,
                "learning_rate": rate,
                **report.row(),
            }
            files.add_row(row)
            seconds = getattr(report, "seconds", None)
            if seconds is not None:
                files.add_time({"step": progress.step, "seconds": seconds})
        return report

    def _end_epoch(self, files: RunWriter, spent: str) -> dict[str, Any]:
        """Validates, saves the model if it is the best so far, and returns the row of the history.

        spent: the limit that is reached. A resumed run with a higher limit drops the rows of a partial epoch.
        """
        problem, progress = self.problem, self.progress
        done, whole = progress.epoch_step / len(problem), progress.epoch_step == len(problem)
        self._require_finite()
        require_same_weights(self.ranks, self.theta, self.progress.step)
        problem.model.theta = self.weights
        weigh = f"{type(problem).__name__}.weight"
        total = sum(
            amount(weigh, plain(problem.weight(progress.epoch, i))) for i in range(progress.epoch_step)
        )
        trained = progress.epoch_loss / total / problem.unit if total else None
        found = plain(self.ranks.of_first(problem.validate))
        if found is not None and not is_number(found):
            raise UsageError(
                f"{type(problem).__name__}.validate must return a number or None, not {shown(found)}"
            )
        validated = None if found is None else float(found)
        criterion = trained if validated is None else validated
        progress.epoch += 1
        progress.epoch_step, progress.epoch_loss = 0, 0.0
        if criterion is not None:  # as without any target in the whole epoch
            progress.costs.append(criterion)
        value = math.inf if criterion is None or math.isnan(criterion) else criterion
        best = value < progress.best or not progress.best_epoch  # so that there is always a model
        row: dict[str, Any] = {
            "event": "epoch",
            "epoch": progress.epoch if whole else progress.epoch - 1 + done,
            "step": progress.step,
            problem.row_names[0]: trained,
            problem.row_names[1]: validated,
            "learning_rate": progress.rate,
            "best": best,
            "weight_norms": weight_norms(problem.model),
            **self.ranks.of_first(self._measured),  # if it fails, all processes raise
        }
        row |= self.ranks.of_first(lambda: entries_of(problem, progress.epoch, row))
        files.add_row(row)
        if best:
            progress.best, progress.best_epoch = value, progress.epoch
            self._best = self.weights.copy()
            self._write_best(files)
        settings = self.settings
        if not whole:
            progress.finished = spent
            return row
        if settings.goal is not None and criterion is not None and criterion <= settings.goal:
            progress.finished = "goal"
        elif settings.stopping is not None and settings.stopping.should_stop(progress.costs):
            progress.finished = "early stopping"
        elif progress.epoch >= settings.epochs:
            progress.finished = EPOCHS
        else:
            progress.finished = spent
        self._count_time()
        self._checkpoint(files)
        return row

    def _metrics_of_best(self) -> dict[str, float]:
        if not self.metrics:
            return {}
        recorded = self.folder.recorded
        rows = read_rows(recorded, DataError) if isinstance(recorded, str) else recorded
        of_best = [row for row in rows if row.get("event") == "epoch" and row.get("best")]
        found: dict[str, float | None] = of_best[-1].get("metrics", {}) if of_best else {}
        return {name: math.nan if value is None else value for name, value in found.items()}

    def _measured(self) -> dict[str, Any]:
        found = {}
        for name, measure in self.metrics.items():
            value = measure()
            if not is_number(value):
                raise UsageError(f"Trainer: the metric {name} must give a number, not {shown(value)}")
            found[name] = _json_number(float(value))
        return {"metrics": found} if found else {}

    def _write_best(self, files: RunWriter) -> None:
        problem, progress = self.problem, self.progress
        problem.model.theta = self._best
        notes = {"epoch": progress.best_epoch, problem.judged or problem.measure: _json_number(progress.best)}
        files.write_model(problem.model, notes)

    @property
    def _is_best(self) -> bool:
        return self.progress.best_epoch == self.progress.epoch and self.progress.epoch_step == 0

    def _require_finite(self) -> None:
        require_finite(self.theta, self.progress.step, f"{self.folder.kept} are")

    # -- resuming ------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """Returns all settings that must not change on resume, and the note of the `start`."""
        problem = self.problem
        own = {"problem": type(problem).__name__, **problem.description()}
        start = {"start": self.start} if self.start else {}
        return as_stored(
            {"model": problem.model.description(), **self.settings.description(), **own, **start}
        )

    def _checkpoint(self, files: RunWriter) -> None:
        self._require_finite()
        problem = self.problem
        problem.model.theta = problem.whole(np.asarray(self.theta))
        training = {
            "run": self.description(),
            "notes": self.notes,
            "progress": {**vars(self.progress), "best": _json_number(self.progress.best)},
            "numbers": problem.numbers(),
        }
        own = {} if self._best is None or self._is_best else {BEST: self._best}
        if self._average is not None:
            own[AVERAGE] = self._average
        files.write_checkpoint(
            problem.model, self.progress.step, self.state, {**problem.arrays(), **own}, training
        )
        self._last_checkpoint = clock.monotonic()

    def resume(self) -> None:
        """Restores the newest checkpoint in the folder, so that `run` continues from it; changes no file.

        Raises ModelFileError if there is no checkpoint, UsageError if the settings, data or equations have changed.
        """
        stored = self.ranks.of_first(self.folder.read_checkpoint)
        self._take_up(stored)
        known = stored.value("history_size", 0), stored.value("history_digest", "")
        self.ranks.of_first(lambda: self.folder.require_history(*known))
        self._resumed = True

    def _take_up(self, stored: TrainingState) -> None:
        problem = self.problem
        # Only the checkpoint stores the origin of the weights.
        self.start = stored.start
        stored.require_same(self.description())
        numbers = stored.value("numbers", problem.numbers())
        stored.restore(problem.model, self.state)
        self.theta = problem.objective.start()
        self.progress = Progress(**stored.value("progress", vars(Progress())))
        if self.progress.finished not in ("", *ENDS):
            raise ModelFileError(
                f"{stored.path} is damaged, or is of another version: the reason of its end must be "
                f"{' or '.join(ENDS)}, not {shown(self.progress.finished)}."
            )
        problem.restore(stored.array, numbers)
        self._best = None
        if self._average is not None:
            self._average = problem.objective.place(stored.array(AVERAGE, np.asarray(self.theta)))
        if self.progress.best_epoch:
            whole = np.asarray(problem.model.theta)
            self._best = self.weights.copy() if self._is_best else stored.array(BEST, whole)
        if self.progress.finished in ("", *BUDGETS):  # the limits may have changed
            self.progress.finished = EPOCHS if self.progress.epoch >= self.settings.epochs else ""
            if not self.progress.finished and not self.progress.epoch_step:
                self.progress.finished = self._spent()


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


def _require_problem(problem: Any) -> None:
    if not isinstance(problem, Problem):
        raise UsageError(
            "Trainer: problem must be a Problem, e.g. rnn.Arrays(net, x, y), rnn.Arrays(net, rnn.data.Sequences(x, y, "
            f"lengths, weights)) or rnn.CarriedText(net, corpus), see docs/training.md, not {shown(problem)}"
        )
    name = type(problem).__name__
    if not isinstance(getattr(problem, "model", None), Model):
        raise UsageError(f"Trainer: {name} must have an rnn.Model as self.model")
    if not hasattr(problem, "objective"):
        raise UsageError(f"Trainer: {name} must have an objective, e.g. an rnn.Objective, as self.objective")
    if len(problem) < 1:
        raise UsageError(f"Trainer: an epoch of {name} has no step; len(problem) must be at least 1")


def _json_number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def average_in(average: Array, theta: Array, keep: float, step: int) -> None:
    """a ← κ_t a + (1 - κ_t) θ, κ_t = min(κ, 1 - 1/t), in place; step: t, the number of steps

    The mean of all θ until t > 1 / (1 - κ); the initial value of a has no effect.
    Source: Polyak & Juditsky 1992 (κ = 1).
    """
    _averaged(average, theta, min(keep, 1 - 1 / step))


@fused
def _averaged(average: Node, theta: Node, keep: Node) -> Declared:
    share = gn.cast(keep, average.dtype)
    return {average: share * average + (1 - share) * theta}, []
