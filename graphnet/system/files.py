"""Files that others may read or write at the same time: written whole, and guarded by locks."""

from __future__ import annotations

import contextlib
import errno
import glob
import math
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

from graphnet.settings import path as named_file
from graphnet.system.memory import readable_bytes, require_memory

#: Bytes that are read of a pipe at once.
PIECE = 1 << 20
#: Age in seconds after which a part is no longer being written.
STALE = 86_400.0


def kind_of(path: str | os.PathLike[str]) -> str:
    """Kind of a path in words: a folder, a pipe. Empty for a regular file or a missing one."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return "a circular link" if error.errno == errno.ELOOP else ""
    except ValueError:  # not a valid file name
        return ""
    if stat.S_ISREG(mode):
        return ""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """The content of a file, or of a pipe until its writers close it (empty without a writer).

    Raises OSError, also for a device, which may have no end; NotEnoughMemoryError if the content exceeds the memory.
    """
    with opened(path) as file:
        status = os.fstat(file.fileno())
        require_memory(status.st_size, f"reading {path}", "use a smaller file")
        if stat.S_ISREG(status.st_mode):
            return file.read()
        pieces, size = [], 0
        while piece := file.read(PIECE):  # the size of a pipe is unknown until it is read
            pieces.append(piece)
            size += len(piece)
            require_memory(size, f"the rest of {path}, after {readable_bytes(size)},", "use a smaller file")
        return b"".join(pieces)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The file, or the pipe, to read from. Raises OSError, also for a device."""
    path = named_file("path", path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # the locale's encoding lacks a character, so no file can have this name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    with open(path, "rb", opener=_without_waiting) as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise OSError(errno.EINVAL, "it is a device, not a file", str(path))
        yield file


def _without_waiting(path: str, flags: int) -> int:
    """Opens a file; for a pipe, does not wait for a writer."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return descriptor


def write_whole(
    path: str | os.PathLike[str],
    content: bytes,
    durable: bool = True,
    mode: int | None = None,
    tidy: bool = True,
) -> None:
    """Writes a temporary file in the same folder, then renames it: readers see the old or the new file, complete.

    Creates the folder. durable: the content is on the disk when this returns, and survives a power cut; False for data
    that can be recreated. mode: the permissions, less the user's mask; None: those of the replaced file, and its owner
    and group if the user may set them, else 0o666. tidy: removes parts of this file that killed processes left at
    least a day ago; False in a folder of many files that is tidied otherwise.
    Raises OSError, also for a write-protected file; the old file is then unchanged, and no temporary file is left.
    """
    with _written_beside(path, content, durable, mode, tidy):
        pass


def write_together(files: Mapping[Path, bytes]) -> None:
    """Writes files as `write_whole` does; the first is replaced when all are written, so a full disk changes none."""
    with contextlib.ExitStack() as stack:
        for path, content in files.items():
            stack.enter_context(_written_beside(path, content))


@contextlib.contextmanager
def _written_beside(
    path: str | os.PathLike[str],
    content: bytes,
    durable: bool = True,
    mode: int | None = None,
    tidy: bool = True,
) -> Iterator[None]:
    """Context with the content in a temporary file, which replaces the file at its end. See write_whole."""
    target = Path(os.path.realpath(named_file("path", path)))  # a link stays one
    kind = kind_of(target)
    if kind:  # or a device would be replaced by a file
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
    if target.exists() and not os.access(target, os.W_OK):  # a rename needs no permission of the file itself
        raise PermissionError(errno.EACCES, "it is write-protected", str(path))
    # Random: processes of two containers that share the folder may have the same process id.
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        old: os.stat_result | None = None
        if (
            mode is None
        ):  # from the start: a private file is never readable by others, even while it is written
            with contextlib.suppress(FileNotFoundError):
                old = os.stat(target)
            mode = stat.S_IMODE(old.st_mode) if old else 0o666
        with open(beside, "xb", opener=partial(os.open, mode=mode)) as file:
            if old:
                _hand_on(old, file.fileno())
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield
        os.replace(beside, target)
        if durable:
            _sync_folder(target.parent)
        if tidy:
            with contextlib.suppress(OSError):
                # By the clock of the file system, which may be that of another machine.
                remove_parts(target.parent, glob.escape(target.name), target.stat().st_mtime - STALE)
    finally:  # also after a Ctrl-C
        with contextlib.suppress(OSError):
            beside.unlink()


def _hand_on(old: os.stat_result, descriptor: int) -> None:
    """Copies owner, group and permissions of another file, as far as permitted."""
    if hasattr(os, "fchown"):
        for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, owner, group)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def remove_parts(folder: Path, name: str, before: float = math.inf) -> None:
    """Removes temporary files that killed processes left. name: name of the file, or a `glob` pattern.

    before: only those last written before that time. Leave it out only if no other process writes such a file (see
    `locked`): parts that are being written would be removed, too.
    """
    for part in folder.glob(f".{name}.{'[0-9a-f]' * 8}.part"):
        with contextlib.suppress(OSError):
            if part.lstat().st_mtime < before:
                part.unlink()


def sync(path: str | os.PathLike[str]) -> None:
    """Flushes a file that others have written to the disk, where it survives a power cut. Raises OSError."""
    with open(path, "r+b") as file:  # Windows cannot sync a file that is open only for reading
        os.fsync(file.fileno())
    _sync_folder(Path(os.path.realpath(path)).parent)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[Lock]:
    """Locks a file or folder against other processes (and threads) until the block ends.

    The lock ends with the process, however that ends. The lock is a separate file next to the path (inside it, if it is
    a folder, which must exist), since the file itself is replaced when it is written. Raises BlockingIOError at once
    if the path is locked, another OSError if no lock can be made.
    """
    named = Path(os.path.realpath(path))
    lock = Lock(named / ".lock" if named.is_dir() else named.with_name(f".{named.name}.lock"))
    try:
        yield lock
    finally:
        lock.release()


class Lock:
    """A lock's file, which this process has locked; anybody may remove it all the same, alone or with its folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _open_locked(path)

    def hold(self) -> None:
        """Locks again if the file was removed: BlockingIOError if another has locked it since, another OSError if no
        lock can be made.
        """
        if not _is_at(self._descriptor, self._path):
            descriptor = _open_locked(self._path)
            os.close(self._descriptor)
            self._descriptor = descriptor

    def release(self) -> None:
        # Removed before unlocking, or another process's lock could be removed.
        if _is_at(self._descriptor, self._path):
            with contextlib.suppress(OSError):
                self._path.unlink()
        os.close(self._descriptor)


def lock_file(descriptor: int, wait: bool = False) -> None:
    """Locks an open file until it is closed.

    Raises BlockingIOError if another has it, unless wait; another OSError if it cannot be locked.
    """
    if sys.platform == "emscripten":  # in a browser, there is one process
        return
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        # A byte beyond the end of any file, so that readers are not blocked.
        os.lseek(descriptor, 2**62, os.SEEK_SET)
        how = msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK  # type: ignore[attr-defined,unused-ignore]
        while True:
            try:
                msvcrt.locking(descriptor, how, 1)  # type: ignore[attr-defined,unused-ignore]
                return
            except OSError as error:
                if not wait or error.errno != errno.EDEADLOCK:  # LK_LOCK gives up after ten seconds
                    raise BlockingIOError(*error.args) from None
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open_locked(lock: Path) -> int:
    """Descriptor of the lock. Retries if its last owner removed the file after it was opened here."""
    how = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        descriptor = os.open(lock, how, 0o600)
        try:
            lock_file(descriptor)
            if os.fstat(descriptor).st_size:  # locks are empty, and are removed at the end
                raise FileExistsError(errno.EEXIST, f"{lock.name} is a file with content, not a lock")
            if _is_at(descriptor, lock):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
