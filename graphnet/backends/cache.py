"""On-disk cache: machine code of kernels, programs of large graphs, and files that Numba keeps for a GPU.

Code from the cache is executed, so files are verified. The folder, and each file in it, must belong to the user and be
writable by no other user. Each file is sealed by a SHA-256 over its name and its content: a damaged or renamed file is
recreated. A secret key in that seal would add nothing: it would be stored next to the files, and only the user, the
system's administrator, or the file server could change these; each of them can change the programs as well.

The size of the folder is bounded by $GRAPHNET_CACHE_MB (256): the least recently used entries are evicted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

from graphnet.errors import BackendError
from graphnet.settings import shown
from graphnet.system.files import write_whole

#: Names of cache entries, and of parts that killed processes left: no other file is ever removed. Files of one entry
#: share the first group.
_KEPT = re.compile(
    r"\.?([0-9a-f]{64}|kernel_[0-9a-f]{32})\.(kernel|program|seal|py|pyc|[\w.-]+\.(part|pyc|nbi|nbc)|[\w.-]+\.tmp\.[0-9a-f]+)"
)
#: A pipe in the place of a file would be waited for, and a link followed.
_HOW = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
#: Maximum size of a file in bytes. Kernels have some thousands; larger files are not from this cache and are not read.
LARGEST = 1 << 26
#: Default of $GRAPHNET_CACHE_MB.
_MEGABYTES = 256
#: A file is as old as when it was last used, give or take a day: a lookup need not write.
_FRESH = 86_400.0
#: The bound is checked each time that about 1 / _LOOKS of it has been written.
_LOOKS = 16


class Cache:
    """A folder that only this user can write to. `open_cache()` finds it. Several processes may use it at once."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit

    def read(self, name: str) -> bytes | None:
        """The content that was kept under this name; None if there is none that can be trusted."""
        path = self.folder / name
        try:
            content, status = bounded(path)
        except OSError:  # there is none, or the disk is failing
            return None
        fault = "is not a file of the cache" if content is None else _fault(status)
        if content is None or fault:
            _warn_once(
                "file", f"{path} {fault}: its code would be executed, so it is ignored and compiled again"
            )
            return None
        digest, kept = content[:32], content[32:]
        if _seal(name, kept) != digest:
            return None
        if time.time() - status.st_mtime > _FRESH:
            with contextlib.suppress(OSError):
                os.utime(path)
        return kept

    def write(self, name: str, content: bytes) -> None:
        """Keeps it, whole or not at all: where the folder cannot be written to, it is made again next time."""
        sealed = _seal(name, content) + content
        if len(sealed) > LARGEST:
            return
        path = self.folder / name
        with contextlib.suppress(OSError):
            make_way(path)
            write_whole(path, sealed, durable=False, mode=0o600, tidy=False)
        self.wrote(name, len(content))

    def wrote(self, name: str, nbytes: int) -> None:
        """Checks the bound from time to time, after a write under this name.

        The name, which is a hash, decides when, so that many processes that write little share this work.
        """
        share = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
        if share * self.limit <= _LOOKS * max(nbytes, 4096):
            self.prune()

    def prune(self) -> None:
        """Removes the least recently used entries if the bound is exceeded. Safe in several processes at once."""
        groups: dict[str, list[tuple[Path, os.stat_result]]] = defaultdict(list)
        # A back end's own files are in a subfolder (see within), Python's files in one below that.
        for folder in (self.folder, *self.folder.glob("*/"), *self.folder.glob("*/__pycache__/")):
            for name, path, status in _files(folder):
                groups[name].append((path, status))
        sizes = {name: sum(_taken(status) for _, status in files) for name, files in groups.items()}
        total = sum(sizes.values())
        if total <= self.limit:
            return
        for name in sorted(groups, key=lambda n: max(status.st_mtime for _, status in groups[n])):
            for path, _ in groups[name]:
                with contextlib.suppress(OSError):  # another process has removed it, or has it open
                    path.unlink()
            total -= sizes[name]
            if total <= self.limit * 7 // 8:
                return

    def within(self, name: str) -> Path | None:
        """Subfolder, created if missing; None if it cannot be created or trusted."""
        return _usable(self.folder / name)


def bounded(path: Path) -> tuple[bytes | None, os.stat_result]:
    """Content and status of a file; content None if it is not a regular file, or too large. Raises OSError."""
    descriptor = os.open(path, _HOW)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None, status
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(status.st_size), status
    finally:
        os.close(descriptor)


def open_cache() -> Cache | None:
    """The cache in $GRAPHNET_CACHE, else in the user's cache folder; None without a folder that can be trusted.

    Kernels are then compiled in each process; an untrusted folder causes one warning. Raises BackendError if
    $GRAPHNET_CACHE_MB is not a number.
    """
    limit = _limit()
    named = _named_folder()
    folder = _usable(named) if named is not None and limit else None
    return None if folder is None else Cache(folder, limit)


def _limit() -> int:
    """Bytes; 0: nothing is kept."""
    setting = os.environ.get("GRAPHNET_CACHE_MB") or str(_MEGABYTES)
    try:
        limit = int(float(setting) * 2**20)
    except (ValueError, OverflowError):
        limit = -1
    if limit < 0:
        raise BackendError(
            f"GRAPHNET_CACHE_MB must be a number of megabytes (0 disables the cache), not {shown(setting)}"
        )
    return limit


def _named_folder() -> Path | None:
    chosen = os.environ.get("GRAPHNET_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "graphnet"
    except RuntimeError:
        return None


def _usable(named: Path) -> Path | None:
    """The folder with links resolved, so that later changes of links have no effect."""
    try:
        folder = Path(os.path.realpath(named))
        _make(folder)
        status = folder.stat()
        fault = _fault(status) if stat.S_ISDIR(status.st_mode) else "is not a folder"
    except OSError:
        return None
    if not fault:
        return folder
    _warn_once(
        "folder",
        f"{folder} {fault}: the cache of compiled kernels in {named} is not used, since its code would be executed. "
        "Remove it, or set GRAPHNET_CACHE to a folder that only you can write to. Until then, each process compiles "
        "its own kernels.",
    )
    return None


def _make(folder: Path) -> None:
    """Creates the folder and its parents; only this user can read them."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir(0o700)


def _fault(status: os.stat_result) -> str:
    """Reason not to trust a file with this status, if others could have written to it; else empty."""
    if not hasattr(os, "geteuid"):  # Windows: only the user can write to the user's cache folder
        return ""
    if status.st_uid != os.geteuid():
        return f"belongs to another user (user id {status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written to by others (its mode is {stat.S_IMODE(status.st_mode):o})"
    return ""


#: Warnings that this process has issued.
_warned: set[str] = set()


def _warn_once(what: str, text: str) -> None:
    if what not in _warned:
        _warned.add(what)
        warnings.warn(text, stacklevel=2)


def _seal(name: str, content: bytes) -> bytes:
    digest = hashlib.sha256(f"{name}\n".encode())
    digest.update(content)
    return digest.digest()


def make_way(path: Path) -> None:
    """Removes a path that is not a file, except a folder with content. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            path.rmdir()
        elif not stat.S_ISREG(mode):
            path.unlink()


def _files(folder: Path) -> list[tuple[str, Path, os.stat_result]]:
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _KEPT.fullmatch(entry.name)
            with contextlib.suppress(OSError):
                if match and entry.is_file(follow_symlinks=False):
                    found.append((match[1], Path(entry.path), entry.stat(follow_symlinks=False)))
    return found


def _taken(status: os.stat_result) -> int:
    return int(getattr(status, "st_blocks", 0)) * 512 or status.st_size
