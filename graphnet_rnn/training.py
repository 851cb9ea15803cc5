"""Trainer: epochs of truncated backpropagation through time over a text, resumable bit for bit."""

from __future__ import annotations

import hashlib
import math
import time as clock
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.display import ShowsItself
from graphnet_rnn.checkpoint import RunFolder, RunWriter
from graphnet_rnn.data.text import Corpus
from graphnet_rnn.early_stopping import EarlyStopping
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.evaluation import Evaluator
from graphnet_rnn.interruption import Interruption
from graphnet_rnn.network import Network
from graphnet_rnn.norms import weight_norms
from graphnet_rnn.optimizers import (
    Adam,
    ConstantRate,
    CurvedOptimizer,
    DelayedDecay,
    FirstOrder,
    Optimizer,
    Schedule,
    StepSchedule,
)
from graphnet_rnn.optimizers.base import Report, State
from graphnet_rnn.pieces import CarriedPieces, DrawnSequences, Pieces
from graphnet_rnn.sampling import Sampler
from graphnet_rnn.settings import amount, whole_number
from graphnet_rnn.training_state import TrainingState, as_stored, require_finite, said

__all__ = ["Listener", "Outcome", "Trainer"]

LN2 = math.log(2)


class Listener:
    """Is told what happens; the base class keeps silent."""

    def started(self, trainer: Trainer) -> None:
        """Before the first step of this run, or of its continuation."""

    def stepped(self, trainer: Trainer, loss: float) -> None:
        """After each step; loss in nats per character."""

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        """After validation; row is what the history got."""

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        """At the very end."""


@dataclass(frozen=True)
class Outcome(ShowsItself):
    """How a run ended: "epochs", "early stopping" or "interrupted", and its best epoch.

    history: the path of its rows; notebooks show their curve.
    """

    reason: str
    best_bits: float
    best_epoch: int
    epochs: int
    steps: int
    history: str = field(default="", compare=False, repr=False)

    def __history__(self) -> str:
        """The path of the rows, for pictures."""
        return self.history


@dataclass
class Progress:
    """Where a run stands: all numbers that a checkpoint keeps besides arrays."""

    epoch: int = 0
    piece: int = 0
    step: int = 0
    epoch_nats: float = 0.0
    best_bits: float = math.inf
    best_epoch: int = 0
    costs: list[float] = field(default_factory=list)
    finished: str = ""


class Trainer:
    """Trains a network that predicts the next symbol.

    network: reads and predicts symbols. data: a Corpus. optimizer: any of rnn.optimizers.
    folder: where files go. time, batch: the pieces; states are carried from each to the next and reset at the
    start of an epoch. stride: truncated BPTT(k₁ = stride, k₂ = time): a piece begins so many steps after the one
    before, and its last `stride` steps are scored, through all of its steps (Sutskever 2013, 2.8.6); by default `time`.
    gradient_batches: with it, a step is made of independent sequences of `time` characters instead, so many batches of
    `batch` of them for the gradient, the first `curvature_batches` (1) for the curvature, `unscored` characters of each
    only read: for Hessian-free optimisation, see DrawnSequences. l2: adds ½ l2 |w|² to the loss (not to the bits that
    are reported).
    schedule: a factor on the rate for each epoch (by default for first-order optimizers whose rate is a number).
    stopping: None for none.
    clip_values: truncates every cotangent at every node (see gn.gradient). threads: at most so many for
    products; None leaves it to the library. memory: what a step may keep (see gn.compile). backend: "cuda" keeps
    parameters and the optimizer's state on the GPU throughout.
    sample_length: characters of a sample after each epoch.
    checkpoint_seconds: at most so long between checkpoints.
    notes: kept in every checkpoint (the command line keeps its arguments there).
    Raises UsageError, DataError; TrainingError when the loss is not finite; SaveError when the disk is full.
    """

    def __init__(
        self,
        network: Network,
        data: Corpus,
        optimizer: Optimizer | None = None,
        *,
        folder: str | Path,
        time: int = 50,
        batch: int = 32,
        stride: int | None = None,
        gradient_batches: int | None = None,
        curvature_batches: int | None = None,
        unscored: int = 0,
        l2: float = 0.0,
        epochs: int = 50,
        schedule: Schedule | None = None,
        stopping: EarlyStopping | None = EarlyStopping(),  # noqa: B008 (frozen)
        clip_values: float | None = None,
        threads: int | None = None,
        backend: str = "numba",
        memory: str | int | None = None,
        sample_length: int = 200,
        checkpoint_seconds: float = 20.0,
        log_every: int = 10,
        notes: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
    ) -> None:
        if not isinstance(data, Corpus):
            raise UsageError(
                f"Trainer: data must be a Corpus, not a {type(data).__name__}; make one: rnn.data.Corpus.split(text)"
            )
        if clip_values is not None and not clip_values > 0:
            raise UsageError(f"clip_values must be > 0 or None, not {clip_values}")
        if len(data.vocabulary) != network.inputs or len(data.vocabulary) != network.outputs:
            raise UsageError(
                f"the text has {len(data.vocabulary)} different characters, but the network has {network.inputs} "
                f"inputs and {network.outputs} outputs; make both {len(data.vocabulary)}."
            )
        if network.vocabulary not in (None, data.vocabulary):
            raise UsageError(
                "the network knows other characters than this text holds, so its symbols would change their meaning; "
                "make a Corpus with the network's vocabulary, or a new network."
            )
        if not network.predicts_symbols:
            raise UsageError(
                "Trainer: only a network that reads symbols and predicts them can be trained on a text"
            )
        network.require_causal("Trainer")
        network.vocabulary = data.vocabulary
        chosen = Adam(clip_norm=5.0) if optimizer is None else optimizer
        self._require_fit(chosen, clip_values, gradient_batches, curvature_batches)
        self.network, self.data = network, data
        self.optimizer = chosen
        self.folder = RunFolder(folder)
        self.time, self.batch, self.epochs = time, batch, whole_number("epochs", epochs)
        self.clip_values = clip_values
        self.threads = None if threads is None else whole_number("threads", threads)
        self.memory, self.backend = memory, backend
        falls = isinstance(self.optimizer, FirstOrder) and not isinstance(self.optimizer.rate, StepSchedule)
        self.schedule = schedule or (DelayedDecay() if falls else ConstantRate())
        self.stopping = stopping
        self.sample_length = whole_number("sample_length", sample_length, least=0)
        self.checkpoint_seconds, self.log_every = checkpoint_seconds, log_every
        self.notes, self.listener = dict(notes or {}), listener or Listener()
        # At the default it is no setting of its own, so older checkpoints can be resumed.
        self.stride = None if stride == time else stride
        self.l2 = amount("l2", l2)
        self._sequences = {
            "gradient_batches": gradient_batches, "curvature_batches": curvature_batches, "unscored": unscored,
        }  # fmt: skip
        self._build(gradient_batches, curvature_batches, unscored)
        # The optimiser works on a vector of its own: looking ahead (Nesterov) changes the parameters.
        self.theta = gn.place(network.theta, backend)
        self.state: State = self.optimizer.init(self.theta)
        self.progress = Progress()
        self._resumed, self._interruption = False, Interruption()
        self._stop_reason = ""

    @staticmethod
    def _require_fit(
        optimizer: Optimizer, clip_values: float | None, gradient: int | None, curvature: int | None
    ) -> None:
        """Settings that an optimizer could only ignore, or that would mislead it, are errors."""
        own = type(optimizer).__name__
        if clip_values is not None and not isinstance(optimizer, FirstOrder):
            raise UsageError(
                f"Trainer: clip_values would make the gradient another function's than the loss that {own} looks at; "
                "it is for first-order optimizers"
            )
        if curvature is not None and not isinstance(optimizer, CurvedOptimizer):
            raise UsageError(
                f"Trainer: curvature_batches means nothing to {own}, which asks for no curvature"
            )
        if gradient is None and isinstance(optimizer, CurvedOptimizer) and optimizer.preconditioner:
            raise UsageError(
                "Trainer: preconditioner needs independent sequences; give gradient_batches, too"
            )

    def _build(self, gradient_batches: int | None, curvature_batches: int | None, unscored: int) -> None:
        network, symbols = self.network, self.data.train
        self._random = gn.RandomSource(network.seed)
        how: dict[str, Any] = {
            "clip_values": self.clip_values, "threads": self.threads, "memory": self.memory, "l2": self.l2,
            "backend": self.backend,
        }  # fmt: skip
        if gradient_batches is None:
            if curvature_batches is not None or unscored:
                raise UsageError(
                    "Trainer: curvature_batches and unscored are for independent sequences; give gradient_batches, too"
                )
            self.pieces: Pieces = CarriedPieces(
                network, symbols, self.time, self.batch, self.stride, self._random, **how
            )
        else:
            if self.stride is not None:
                raise UsageError(
                    "Trainer: stride is for pieces that carry their states, not with gradient_batches"
                )
            self.pieces = DrawnSequences(
                network, symbols, self.time, self.batch, gradient_batches, curvature_batches, unscored, self._random,
                **how,
            )  # fmt: skip
        self._sampler = Sampler(network) if self.sample_length else None
        # Each lane reads as much context as the net sees in training before it is scored.
        enough = len(self.data.valid) > self.time + 1
        self._evaluator = Evaluator(network, min(self.batch, 32), self.time, self.threads) if enough else None

    # -- running -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Trains from where it stands to the end; Ctrl-C, SIGTERM and SIGHUP end it after the step in hand.

        A checkpoint is written then, and before whatever a listener raises is raised.
        """
        with self.folder.locked() as files:
            return self._run(files)

    def _run(self, files: RunWriter) -> Outcome:
        progress = self._begin(files)
        self.listener.started(self)
        self._last_checkpoint = clock.monotonic()
        with self._interruption:
            while not (progress.finished or self._interruption.came or self._stop_reason):
                self._run_epoch(files)
        outcome = Outcome(
            progress.finished or self._stop_reason or "interrupted",
            progress.best_bits,
            progress.best_epoch,
            progress.epoch,
            progress.step,
            str(self.folder.history),
        )
        self.listener.ended(self, outcome)
        return outcome

    def _begin(self, files: RunWriter) -> Progress:
        """The first rows and the first checkpoint; of a resumed run, where its newest checkpoint left it."""
        if self._resumed:
            # What `resume` read was before the lock: another process may have trained on since.
            stored = self.folder.read_checkpoint()
            self._take_up(stored)
            files.cut_history(stored.training["history_size"])
        else:
            self.folder.require_new()
            self.pieces.compile()  # if that cannot be, the folder is as new
            self._checkpoint(files)
        if not self.folder.history_size():
            files.add_row(self._description())
            initial = {"event": "initial", "epoch": 0, "weight_norms": weight_norms(self.network)}
            files.add_row({**initial, **self._sample()})
        return self.progress

    def stop(self, reason: str) -> None:
        """For listeners: ends the run after the epoch in hand."""
        self._stop_reason = reason

    def _run_epoch(self, files: RunWriter) -> None:
        progress = self.progress
        started, first_piece = clock.monotonic(), progress.piece
        while progress.piece < len(self.pieces):
            nats = self._run_piece(files)
            try:
                self.listener.stepped(self, nats)
            except Exception:  # e.g. what it prints to has gone; the step is whole
                self._checkpoint(files)
                raise
            if self._interruption.came:
                self._checkpoint(files)
                return
            if clock.monotonic() - self._last_checkpoint > self.checkpoint_seconds:
                self._checkpoint(files)
        seconds = clock.monotonic() - started
        row = self._end_epoch(files)
        characters = (len(self.pieces) - first_piece) * self.pieces.characters
        files.add_time(
            {
                "epoch": progress.epoch,
                "seconds": seconds,
                "characters_per_second": characters / max(seconds, 1e-9),
            }
        )
        self.listener.epoch_ended(self, row)

    def _rate(self) -> float:
        """Of the next step: the optimiser's own, times the epoch's factor."""
        return self.optimizer.rate_at(self.state) * self.schedule.factor(self.progress.epoch)

    def _run_piece(self, files: RunWriter) -> float:
        """One step; its loss in nats per character."""
        progress, rate = self.progress, self._rate()
        objective = self.pieces.fed(progress.epoch, progress.piece)
        point = self.optimizer.evaluation_point(self.theta, self.state).copy()
        report = self.optimizer.step(objective, self.theta, self.state, rate)
        nats = report.loss - objective.penalty(point)
        if not math.isfinite(report.loss) or not math.isfinite(report.gradient_norm):
            objective.set(point)
            raise TrainingError.not_finite(
                report.loss,
                report.gradient_norm,
                f"step {progress.step} (epoch {progress.epoch + 1})",
                objective.explain_non_finite(),
                "training cannot go on; try a smaller --rate or --clip-norm. "
                f"The checkpoints in {self.folder.path} are untouched",
            )
        self.pieces.stepped(point, report)
        progress.epoch_nats += nats * self.pieces.weight(progress.piece)
        progress.piece += 1
        progress.step += 1
        # A step that reports more than its loss is one of few.
        if progress.step % self.log_every == 0 or type(report) is not Report:
            files.add_row(
                {
                    "event": "step",
                    "step": progress.step,
                    "epoch": progress.epoch + progress.piece / len(self.pieces),
                    "train_bits": nats / LN2,
                    "gradient_norm": report.gradient_norm,
                    "learning_rate": rate,
                    **report.row(),
                }
            )
            seconds = getattr(report, "seconds", None)
            if seconds is not None:
                files.add_time({"step": progress.step, "seconds": seconds})
        return nats

    def _end_epoch(self, files: RunWriter) -> dict[str, Any]:
        """Validates, and keeps the model if it is the best so far; the row that the history got."""
        progress, rate = self.progress, self._rate()
        self._require_finite()
        self.network.theta = np.asarray(self.theta)
        train_bits = progress.epoch_nats / sum(map(self.pieces.weight, range(len(self.pieces)))) / LN2
        valid_bits = None
        if self._evaluator is not None:
            valid_bits = self._evaluator(self.data.valid, context=self.time).bits
        criterion = train_bits if valid_bits is None else valid_bits
        progress.epoch += 1
        progress.piece, progress.epoch_nats = 0, 0.0
        progress.costs.append(criterion)
        row: dict[str, Any] = {
            "event": "epoch",
            "epoch": progress.epoch,
            "train_bits": train_bits,
            "valid_bits": valid_bits,
            "learning_rate": rate,
            "best": criterion < progress.best_bits,
            "weight_norms": weight_norms(self.network),
        }
        row |= self._sample()
        files.add_row(row)
        if criterion < progress.best_bits:
            progress.best_bits, progress.best_epoch = criterion, progress.epoch
            files.write_model(self.network, {"epoch": progress.epoch, "bits": criterion})
        if self.stopping is not None and self.stopping.should_stop(progress.costs):
            progress.finished = "early stopping"
        elif progress.epoch >= self.epochs:
            progress.finished = "epochs"
        self._checkpoint(files)
        return row

    def _sample(self) -> dict[str, str]:
        if self._sampler is None:
            return {}
        self._sampler.reset()
        return {"sample": "".join(self._sampler.sample(self.sample_length, seed=self.progress.epoch))}

    def _require_finite(self) -> None:
        require_finite(self.theta, self.progress.step, f"The checkpoints in {self.folder.path} are")

    # -- resuming ------------------------------------------------------------------------------

    def _description(self) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        digest = hashlib.sha256()
        parts = self.data.train, self.data.valid, self.data.test
        for part in parts:
            digest.update(part.tobytes())
        return as_stored(
            {
                "event": "start",
                "network": self.network.settings(),
                "optimizer": {"name": type(self.optimizer).__name__, **self.optimizer.settings()},
                "time": self.time,
                "batch": self.batch,
                "clip_values": self.clip_values,
                **{name: value for name, value in self._later_settings().items() if value},
                "schedule": said(self.schedule),
                "stopping": said(self.stopping),
                "sample_length": self.sample_length,
                "log_every": self.log_every,
                "text": digest.hexdigest(),
                "parts": [len(part) for part in parts],
            }
        )

    def _later_settings(self) -> dict[str, Any]:
        """Those that older checkpoints do not know, which are as if these had them at their defaults."""
        return {"stride": self.stride, "l2": self.l2, **self._sequences}

    def _checkpoint(self, files: RunWriter) -> None:
        self._require_finite()
        self.network.theta = np.asarray(self.theta)
        arrays = {f"carried.{i:03d}": a for i, a in enumerate(self.pieces.carried)}
        training = {
            "run": self._description(),
            "notes": self.notes,
            "progress": {**vars(self.progress), "best_bits": _json_number(self.progress.best_bits)},
            "random": self._random.state,
        }
        files.write_checkpoint(self.network, self.progress.step, self.state, arrays, training)
        self._last_checkpoint = clock.monotonic()

    def resume(self) -> None:
        """Makes `run` go on where the last checkpoint in the folder left it; changes nothing there.

        Raises ModelFileError if there is none, UsageError if its settings, its text or the equations are others.
        """
        stored = self.folder.read_checkpoint()
        self._take_up(stored)
        self.folder.require_history(stored.told("history_size", 0))
        self._resumed = True

    def _take_up(self, stored: TrainingState) -> None:
        """Stands where a checkpoint left the run."""
        stored.require_same(self._description(), dict.fromkeys(self._later_settings()))
        stored.restore(self.network, self.state)
        self.theta = gn.place(self.network.theta, self.backend)
        self.pieces.carried = [
            stored.array(f"carried.{i:03d}", array) for i, array in enumerate(self.pieces.carried)
        ]
        self.progress = Progress(**stored.told("progress", vars(Progress())))
        self._random.state = stored.told("random", self._random.state)
        if self.progress.finished != "early stopping":  # more epochs, or fewer, may have been asked for
            self.progress.finished = "epochs" if self.progress.epoch >= self.epochs else ""


def _json_number(value: float) -> float | None:
    return value if np.isfinite(value) else None
