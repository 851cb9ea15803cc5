"""The folder of a run: its last two checkpoints, its best model, its history."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphnet.node import Array
from graphnet_rnn.errors import ModelFileError, SaveError, UsageError
from graphnet_rnn.network import Network
from graphnet_rnn.training_state import TrainingState, read_training_state, write_training_state

__all__ = ["RunFolder"]

KEPT = 2


class RunFolder:
    """model.safetensors (the best so far), checkpoint-*.safetensors, history.jsonl, timing.jsonl.

    A checkpoint is a model file that also holds the training state. The history holds nothing that differs
    between a run and the same run interrupted and resumed; times are in timing.jsonl, of epochs and of the steps that
    say theirs, all that were made: a resumed run makes some again.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.model = self.path / "model.safetensors"
        self.history = self.path / "history.jsonl"
        self.timing = self.path / "timing.jsonl"

    def checkpoints(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.path.glob("checkpoint-*.safetensors"))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder and keeps other processes from running in it; however this one ends, it is freed.

        Raises UsageError if another runs in it now, SaveError if it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SaveError(f"the folder {self.path} cannot be made: {error.strerror}.") from None
        try:
            import fcntl
        except ImportError:  # Windows: nothing guards the folder there
            yield
            return
        folder = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"another process trains in {self.path} now; wait for it, or name another folder with --out."
                ) from None
            yield
        finally:
            os.close(folder)

    def require_new(self) -> None:
        """UsageError if the folder holds a run already."""
        if self.checkpoints() or self.history.exists() or self.model.exists():
            raise UsageError(
                f"{self.path} holds a run already; continue it (train --resume {self.path}, or trainer.resume()), "
                "or name another folder."
            )

    def write_checkpoint(
        self, network: Network, step: int, state: Mapping[str, Array], arrays: Mapping[str, Array],
        training: Mapping[str, Any],
    ) -> Path:  # fmt: skip
        """Writes a checkpoint and removes all but the last two."""
        file = self.path / f"checkpoint-{step:09d}.safetensors"
        write_training_state(file, network, state, arrays, training)
        # What a killed process was writing is of no use to anyone.
        for old in [*self.checkpoints()[:-KEPT], *self.path.glob(".*.part")]:
            old.unlink(missing_ok=True)
        return file

    def read_checkpoint(self) -> TrainingState:
        """The newest checkpoint that is whole: the one before if the newest is damaged; ModelFileError if none is."""
        problems = []
        for path in reversed(self.checkpoints()):
            try:
                return read_training_state(path)
            except ModelFileError as error:
                problems.append(str(error))
        reason = " ".join(problems) or "There is no checkpoint in it."
        raise ModelFileError(f"{self.path} cannot be resumed. {reason}")

    # -- the history ----------------------------------------------------------------------------

    def sync_history(self) -> None:
        """Brings the history to the disk itself: a checkpoint must not know more of it than survives a power cut."""
        if self.history.exists():
            with open(self.history, "rb") as stream:
                os.fsync(stream.fileno())

    def history_size(self) -> int:
        return self.history.stat().st_size if self.history.exists() else 0

    def cut_history(self, size: int) -> None:
        """Forgets what was written after a checkpoint: the resumed run writes it again."""
        if self.history_size() < size:
            raise ModelFileError(
                f"{self.history} is shorter than when the checkpoint was written; it was changed or lost, so "
                "the run cannot be resumed exactly. Start anew from model.safetensors."
            )
        if self.history.exists():
            os.truncate(self.history, size)
