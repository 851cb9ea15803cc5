"""A run as TensorBoard shows it, where it is installed: pip install 'graphnet[tensorboard]'."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.settings import is_number, path
from graphnet_rnn.training.trainer import Listener, Outcome, Trainer

__all__ = ["TensorBoard"]

#: Modules that write what TensorBoard reads, and the class of each: of (folder), with add_scalar(name, number, step).
WRITERS = {"tensorboard.summary": "Writer", "tensorboardX": "SummaryWriter"}


class TensorBoard(Listener):
    """Writes the numbers of a run's rows for TensorBoard, by step: tensorboard --logdir FOLDER.

        rnn.Trainer(problem, settings, "run", listeners=[rnn.training.TensorBoard()])

    folder: where; None for "tensorboard" in the run's own folder. Steps that a resumed run makes again are there twice.
    Raises UsageError where neither tensorboard nor tensorboardX is installed, and, when the run starts, where neither
    it nor the run has a folder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else path("TensorBoard: folder", folder)
        self._kind = _writer_class()
        self._writer: Any = None

    def started(self, trainer: Trainer) -> None:
        folder = self.folder
        if folder is None:
            if not isinstance(trainer.folder.recorded, str):
                raise UsageError("TensorBoard: the run has no folder; name one: TensorBoard('logs')")
            folder = trainer.folder.path / "tensorboard"
        self._writer = self._kind(str(folder))

    def stepped(self, trainer: Trainer, report: Report) -> None:
        step = trainer.progress.step
        if step % trainer.settings.log_every == 0:
            self._write({trainer.problem.row_names[0]: trainer.cost, **report.row()}, step, "step/")

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self._write(row, trainer.progress.step, "epoch/")
        self._writer.flush()

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        self._writer.close()

    def _write(self, row: Mapping[str, Any], step: int, start: str) -> None:
        for name, value in _numbers(row, start):
            self._writer.add_scalar(name, value, step)


def _numbers(row: Mapping[str, Any], start: str) -> Iterator[tuple[str, float]]:
    """The numbers of a row, those of its parts by names that begin with the part's."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{start}{name}/")
        elif is_number(value):
            yield f"{start}{name}", float(value)


def _writer_class() -> Any:
    for module, name in WRITERS.items():
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise UsageError(
        "TensorBoard: neither tensorboard nor tensorboardX is installed; pip install 'graphnet[tensorboard]'"
    )
