"""Files that others may read or write at the same time: written whole, and guarded by locks."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from graphnet.settings import path as named_file
from graphnet.system.memory import require_memory

__all__ = ["lock_file", "locked", "read_whole", "remove_parts", "sync", "write_whole"]


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """The content of a file, or what a pipe holds until its writers are gone (nothing where there is none).

    Raises OSError, also for a device, which may have no end; NotEnoughMemoryError for more than there is room for.
    """
    path = named_file("path", path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # the locale's encoding lacks a character, so no file can have this name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    with open(path, "rb", opener=_without_waiting) as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise OSError(errno.EINVAL, "it is a device, not a file", str(path))
        require_memory(status.st_size, f"reading {path}", "name a smaller file")
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    """Opening a pipe waits for a writer; there may never be one."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return descriptor


def write_whole(
    path: str | os.PathLike[str], content: bytes, durable: bool = True, mode: int = 0o666
) -> None:
    """Writes beside the file, then renames over it: whoever reads meanwhile sees the old one or the new one, whole.

    Makes the folder. durable: what was written is on the disk when this returns, and survives a power cut; False for
    what can be made again. mode: the file's permissions, less what the user's mask takes away. Raises OSError; the old
    file is then as it was, and nothing is left beside it.
    """
    target = Path(os.path.realpath(named_file("path", path)))  # a link stays one
    if target.exists() and not target.is_file():  # or a device would be replaced by a file
        kind = "a folder" if target.is_dir() else "a device or a pipe"
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
    # At random: processes of two containers that share the folder may have one number.
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(beside, "xb", opener=partial(os.open, mode=mode)) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, target)
        if durable:
            _sync_folder(target.parent)
    finally:  # also after a Ctrl-C
        with contextlib.suppress(OSError):
            beside.unlink()


def remove_parts(folder: Path, name: str) -> None:
    """Removes what killed processes were writing in place of a file; name: its own, or a pattern as of `glob`.

    For who alone writes such a file (see `locked`): what another is writing now would go, too.
    """
    for part in folder.glob(f".{name}.*.part"):
        with contextlib.suppress(OSError):
            part.unlink()


def sync(path: str | os.PathLike[str]) -> None:
    """Brings what others have written to a file to the disk itself, where it survives a power cut. Raises OSError."""
    with open(path, "r+b") as file:  # Windows syncs no file that is open for reading only
        os.fsync(file.fileno())
    _sync_folder(Path(os.path.realpath(path)).parent)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keeps other processes (and threads) out of what this path names until the block ends: a file, or a folder.

    However the process ends, its lock ends with it. The lock is a file of its own beside the path (in it, if it is a
    folder, which must be there), since the file itself is replaced when it is written. Raises BlockingIOError at once
    if another has it, another OSError if no lock can be made.
    """
    named = Path(os.path.realpath(path))
    lock = named / ".lock" if named.is_dir() else named.with_name(f".{named.name}.lock")
    descriptor = _open_locked(lock)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # before it is given back, or another's could be removed
            lock.unlink()
        os.close(descriptor)


def lock_file(descriptor: int, wait: bool = False) -> None:
    """Locks an open file until it is closed.

    Raises BlockingIOError if another has it, unless wait; another OSError if it cannot be locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        # A byte that no file has: who reads is not kept out by it.
        os.lseek(descriptor, 2**62, os.SEEK_SET)
        how = msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK  # type: ignore[attr-defined,unused-ignore]
        try:
            msvcrt.locking(descriptor, how, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError as error:
            raise BlockingIOError(*error.args) from None
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open_locked(lock: Path) -> int:
    """The lock's descriptor. Whoever had it before may have removed the file that was opened here: then once more."""
    how = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        descriptor = os.open(lock, how, 0o600)
        try:
            lock_file(descriptor)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
