"""Files: reads with clear errors, atomic writes, and locks between processes."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system import files, json_lines
from graphnet.system.files import read_whole
from graphnet_rnn.errors import SaveError, UsageError

#: Seconds between attempts to lock.
PAUSE = 0.05


def read_bytes(path: str | Path, error: type[GraphnetError]) -> bytes:
    """Returns the file's content; raises the given type of error if unreadable."""
    with reading(path, error):
        return read_whole(path)


@contextlib.contextmanager
def reading(path: str | Path, error: type[GraphnetError]) -> Iterator[None]:
    """Context that converts errors of reading to the given type."""
    try:
        yield
    except FileNotFoundError:
        raise error(f"there is no file {path}.") from None
    except IsADirectoryError:
        raise error(f"{path} is a folder; name a file in it.") from None
    except OSError as problem:
        raise error(f"{path} cannot be read: {_why(problem)}.") from None


def write_atomically(path: str | Path, content: bytes, like: str | Path | None = None) -> None:
    """Writes a file completely and durably, or not at all (see graphnet.system.files). SaveError keeps the old file.

    like: a file whose permissions a new file gets, with that of writing, so that what is private stays private.
    """
    mode = None
    if like is not None:
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(os.stat(like).st_mode) | stat.S_IWUSR
    with _writing(path):
        files.write_whole(path, content, mode=mode)


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """Appends one line of JSON (see graphnet.system.json_lines). Raises SaveError, e.g. on a full disk."""
    with _writing(path):
        json_lines.append_row(path, row)


def cut(path: Path, size: int) -> None:
    """Truncates a file to `size` bytes. Raises SaveError."""
    with _writing(path):
        os.truncate(path, size)


def sync(path: Path) -> None:
    """Flushes the file to disk, so that it survives a power cut. Raises SaveError."""
    with _writing(path):
        files.sync(path)


@contextlib.contextmanager
def locked(path: str | Path, busy: str, patience: float = 0.0) -> Iterator[Callable[[], None]]:
    """Context with an exclusive lock of a file or folder, between processes (see graphnet.system.files).

    Yields a function that renews the lock, since other programs may remove it. Both raise UsageError with the message
    `busy` if another process holds the lock after `patience` seconds; SaveError if no lock is possible there.
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
            with refused("or its lock was removed by another program, and it cannot be locked again"):
                lock.hold()

        yield hold


@contextlib.contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SaveError(
            f"{path} could not be written: {_why(error)}. Files that were saved before are unchanged; check the "
            "free space and the permissions."
        ) from None


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).rstrip(".")
