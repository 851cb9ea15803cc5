"""The folder of a run: its last two checkpoints, best model and history."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphnet.graph.node import Array
from graphnet.system.files import remove_parts
from graphnet_rnn.errors import ModelFileError, SaveError, UsageError
from graphnet_rnn.files.whole import append_line, cut, locked, read_bytes, sync, write_atomically
from graphnet_rnn.formats.model_file import model_bytes
from graphnet_rnn.model import Model
from graphnet_rnn.settings import path as named_file
from graphnet_rnn.training.state import TrainingState, read_training_state, write_training_state

KEPT = 2


class RunFolder:
    """Paths and readers of model.safetensors (the best so far), checkpoint-*.safetensors, history.jsonl and
    timing.jsonl.

    A checkpoint is a model file with the training state and the weights of the best epoch, so a lost or changed model
    file is written again. The history of a resumed run equals that of an uninterrupted run; times are in timing.jsonl,
    of epochs and of timed steps, including repeated ones.
    Only the methods of RunWriter, from `locked`, change these files.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = named_file("Trainer: folder", path)
        self.model = self.path / "model.safetensors"
        self.history = self.path / "history.jsonl"
        self.timing = self.path / "timing.jsonl"
        #: Charts that the command draws at the end: learning curve and flight recorder.
        self.curve, self.flight = self.path / "curve.png", self.path / "flight.png"

    @property
    def kept(self) -> str:
        """The state that a failed step leaves unchanged, for messages."""
        return f"The checkpoints in {self.path}"

    @property
    def goes_on(self) -> str:
        """Instructions to resume a killed run, for messages."""
        return f"resume it from its last checkpoint: train --resume {self.path}, or trainer.resume()"

    @property
    def recorded(self) -> str | list[dict[str, Any]]:
        """Path of the rows, or the rows."""
        return str(self.history)

    def checkpoints(self) -> list[Path]:
        """Returns the checkpoints, oldest first."""
        return sorted(self.path.glob("checkpoint-*.safetensors"))

    @contextlib.contextmanager
    def locked(self) -> Iterator[RunWriter]:
        """Creates the folder and locks it against other processes within the context.

        Raises UsageError if another process uses it, SaveError if it cannot be created or locked.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SaveError(f"the folder {self.path} cannot be created: {error.strerror}.") from None
        busy = f"another process is training in {self.path}; wait for it, or name another folder with --out."
        with locked(self.path, busy) as hold:
            for path in (self.model, self.history, self.timing, self.curve, self.flight, *self.checkpoints()):
                self.require_own_file(path)
            yield RunWriter(self, hold)

    def require_new(self) -> None:
        """Raises UsageError if the folder already has a run."""
        if self.checkpoints() or self.history.exists() or self.model.exists():
            raise UsageError(
                f"{self.path} already contains a run; resume it (train --resume {self.path}, or trainer.resume()), "
                "or name another folder."
            )
        there = [each.name for each in (self.timing, self.curve, self.flight) if each.exists()]
        if there:
            raise UsageError(
                f"{self.path} contains {' and '.join(there)}, which training would overwrite; name another folder."
            )

    def read_checkpoint(self) -> TrainingState:
        """Reads the newest undamaged checkpoint. Raises ModelFileError if there is none."""
        while True:
            problems, there = [], self.checkpoints()
            for path in reversed(there):
                try:
                    return read_training_state(path)
                except ModelFileError as error:
                    problems.append(str(error))
            if self.checkpoints() == there:  # else another process has replaced them meanwhile
                break
        reason = " ".join(problems) or "There is no checkpoint in it."
        raise ModelFileError(f"{self.path} cannot be resumed. {reason}")

    def require_own_file(self, path: Path) -> None:
        """Raises SaveError for a link in the folder, which would redirect writing."""
        if path.is_symlink():
            raise SaveError(
                f"{path} is a symbolic link, but a run writes only into its own folder; remove the link."
            )
        if path.exists() and not os.access(path, os.W_OK):
            raise SaveError(
                f"{path} is write-protected, but a run replaces it; allow writing, or name another folder."
            )

    def history_size(self) -> int:
        return self.history.stat().st_size if self.history.exists() else 0

    def history_digest(self, size: int) -> str:
        """Returns the SHA-256 of the first `size` bytes of the history."""
        return hashlib.sha256(read_bytes(self.history, ModelFileError)[:size] if size else b"").hexdigest()

    def require_history(self, size: int, digest: str) -> None:
        """Raises ModelFileError unless the history begins as it was at the checkpoint."""
        if self.history_size() < size or self.history_digest(size) != digest:
            raise ModelFileError(
                f"{self.history} has changed since the checkpoint was written, so the run cannot be resumed "
                "exactly. Start a new run from model.safetensors."
            )


class NoFolder(RunFolder):
    """Folder of a run without files: keeps the rows only."""

    def __init__(self) -> None:
        super().__init__("no folder")
        self.rows: list[dict[str, Any]] = []

    @property
    def kept(self) -> str:
        return "The weights of the best epoch, in the trainer,"

    @property
    def goes_on(self) -> str:
        return "start it again, as it has no folder with checkpoints"

    @property
    def recorded(self) -> list[dict[str, Any]]:
        return self.rows

    def checkpoints(self) -> list[Path]:
        return []

    @contextlib.contextmanager
    def locked(self) -> Iterator[RunWriter]:
        yield Recorder(self)

    def require_new(self) -> None: ...

    def read_checkpoint(self) -> TrainingState:
        raise UsageError(
            "Trainer.resume: this run has no folder, and so no checkpoint; call run() to continue from the current "
            "state"
        )

    def history_size(self) -> int:
        return len(self.rows)


class RunWriter:
    """Writer of the files of a run; exists only while the folder is locked.

    hold: renews the lock (see graphnet_rnn.files.whole.locked). Writing raises SaveError or UsageError if another
    process uses the folder or has changed the history.
    """

    def __init__(self, folder: RunFolder, hold: Callable[[], None]) -> None:
        self.folder = folder
        self._hold = hold
        self._history_size = folder.history_size()

    def _require_own(self, file: Path) -> None:
        self._hold()
        self.folder.require_own_file(file)
        found = self.folder.history_size()
        if found != self._history_size:
            raise SaveError(
                f"{self.folder.history} has {found:,} bytes, but this run has written {self._history_size:,}: "
                "another program has changed or removed it. Restore it and resume, or start a new run from "
                "model.safetensors in another folder."
            )

    def write_checkpoint(
        self, model: Model, step: int, state: Mapping[str, Array], arrays: Mapping[str, Array],
        training: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Writes a checkpoint with the length of the history, and removes all but the last two."""
        folder = self.folder
        file = folder.path / f"checkpoint-{step:09d}.safetensors"
        self._require_own(file)
        if folder.history.exists():  # on disk before the checkpoint, for power cuts
            sync(folder.history)
        size = self._history_size
        known = {"history_size": size, "history_digest": folder.history_digest(size)}
        before = next(reversed(folder.checkpoints()), None)
        write_training_state(file, model, state, arrays, {**training, **known}, before)
        self.tidy()

    def tidy(self) -> None:
        """Removes obsolete files, if possible; all needed files are complete by now."""
        folder = self.folder
        with contextlib.suppress(OSError):
            # Partial files of a killed run; other programs may write other files here.
            for name in ("checkpoint-*", folder.model.name):
                remove_parts(folder.path, name)
            for old in folder.checkpoints()[:-KEPT]:
                with contextlib.suppress(OSError):
                    old.unlink()

    def write_model(self, model: Model, notes: Mapping[str, Any]) -> None:
        """Writes the best model, unless the file already has it."""
        self._require_own(self.folder.model)
        content = model_bytes(model, notes)
        with contextlib.suppress(ModelFileError):
            if read_bytes(self.folder.model, ModelFileError) == content:
                return
        write_atomically(self.folder.model, content)

    def add_row(self, row: Mapping[str, Any]) -> None:
        self._require_own(self.folder.history)
        append_line(self.folder.history, _as_json(row))
        self._history_size = self.folder.history_size()

    def add_time(self, row: Mapping[str, Any]) -> None:
        self._require_own(self.folder.timing)
        append_line(self.folder.timing, row)

    def cut_history(self, size: int, digest: str) -> None:
        """Truncates the history to a checkpoint; the resumed run writes the rest again."""
        self.folder.require_history(size, digest)
        if self.folder.history_size() > size:
            cut(self.folder.history, size)
        self._history_size = size


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with null for inf and nan, which JSON lacks; their names are listed as not_finite."""
    lost = [name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
    return {**row, **dict.fromkeys(lost), "not_finite": lost} if lost else dict(row)


class NullRunWriter(RunWriter):
    """Writer that writes nothing, for all data-parallel processes but the first."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def _ignore(self, *_: Any, **__: Any) -> None: ...

    write_checkpoint = tidy = write_model = add_row = add_time = cut_history = _ignore


class Recorder(NullRunWriter):
    """Keeps the rows of a run without files."""

    folder: NoFolder

    def add_row(self, row: Mapping[str, Any]) -> None:
        self.folder.rows.append(_as_json(row))
