"""Files: read with a clear word on what is wrong, written wholly or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError
from graphnet_rnn.errors import SaveError

__all__ = ["append_line", "read_bytes", "write_atomically"]


def read_bytes(path: str | Path, error: type[GraphnetError]) -> bytes:
    """The file's content; an error of the given kind, in one sentence, where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise error(f"there is no file {path}.") from None
    except IsADirectoryError:
        raise error(f"{path} is a folder; name a file in it.") from None
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror}.") from None


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes beside the file, syncs to disk, then renames over it; SaveError leaves the old file as it was."""
    target = Path(path)
    if target.exists() and not target.is_file():
        raise SaveError(f"{target} is a folder or a device, not a file; name another.")
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise SaveError(
            f"{target} could not be written: {error.strerror or error}. What was saved before is untouched."
        ) from None
    finally:  # also after a second Ctrl-C
        with contextlib.suppress(OSError):
            beside.unlink()


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """One more line of JSON; SaveError if that cannot be, e.g. because the disk is full."""
    try:
        with open(path, "ab") as stream:
            stream.write(json.dumps(row).encode() + b"\n")
    except OSError as error:
        raise SaveError(f"{path} could not be written: {error.strerror}.") from None


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
