"""Files: read with a clear word on what is wrong, written wholly or not at all, by one process at a time."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system import files, json_lines
from graphnet.system.files import read_whole
from graphnet_rnn.errors import SaveError, UsageError

__all__ = ["append_line", "cut", "locked", "read_bytes", "reading", "sync", "write_atomically"]

#: Seconds between two tries to enter what another is in.
PAUSE = 0.05


def read_bytes(path: str | Path, error: type[GraphnetError]) -> bytes:
    """The file's content; an error of the given kind, in one sentence, where it cannot be read."""
    with reading(path, error):
        return read_whole(path)


@contextlib.contextmanager
def reading(path: str | Path, error: type[GraphnetError]) -> Iterator[None]:
    """Within it, what keeps the file from being read is an error of the given kind, in one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise error(f"there is no file {path}.") from None
    except IsADirectoryError:
        raise error(f"{path} is a folder; name a file in it.") from None
    except OSError as problem:
        raise error(f"{path} cannot be read: {_why(problem)}.") from None


def write_atomically(path: str | Path, content: bytes, mode: int | None = None) -> None:
    """Writes the file wholly, durably, or not at all (see graphnet.system.files); SaveError leaves the old one."""
    with _writing(path):
        files.write_whole(path, content, mode=mode)


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """One more line of JSON (see graphnet.system.json_lines); SaveError if that cannot be, e.g. on a full disk."""
    with _writing(path):
        json_lines.append_row(path, row)


def cut(path: Path, size: int) -> None:
    """Forgets what lies behind so many bytes; SaveError if that cannot be."""
    with _writing(path):
        os.truncate(path, size)


def sync(path: Path) -> None:
    """What was appended survives a power cut from here on; SaveError if that cannot be."""
    with _writing(path):
        files.sync(path)


@contextlib.contextmanager
def locked(path: str | Path, busy: str, patience: float = 0.0) -> Iterator[Callable[[], None]]:
    """No other process is in the same file or folder until the block ends (see graphnet.system.files).

    Gives a function that makes sure of it again, since others may remove the lock, or the folder with it. Both raise
    UsageError, which says `busy`, if another is in, to enter after so many seconds of patience; SaveError if no lock
    can be made there.
    """
    end = time.monotonic() + patience

    @contextlib.contextmanager
    def refused(reason: str) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:
            raise UsageError(busy) from None
        except OSError as error:
            raise SaveError(f"{path} {reason}: {_why(error)}; name another place.") from None

    with contextlib.ExitStack() as stack:
        with refused("cannot be locked against other processes"):
            while True:
                try:
                    lock = stack.enter_context(files.locked(path))
                    break
                except BlockingIOError:
                    if time.monotonic() >= end:
                        raise
                    time.sleep(PAUSE)

        def hold() -> None:
            with refused("was removed meanwhile, or the lock in it, and cannot be locked again"):
                lock.hold()

        yield hold


@contextlib.contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """SaveError for what the system has against writing there."""
    try:
        yield
    except OSError as error:
        raise SaveError(
            f"{path} could not be written: {_why(error)}. What was saved before is untouched; see that there is "
            "room, and that it may be written to."
        ) from None


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).rstrip(".")
