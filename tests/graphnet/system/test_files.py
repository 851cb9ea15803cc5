"""Files with concurrent readers and writers: locks, atomic writes, and permissions."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import graphnet
from graphnet.system import files
from graphnet.system.files import write_together, write_whole
from tests.tables import case

HOLD = """
import sys
from graphnet.system.files import locked
with locked(sys.argv[1]):
    print("in", flush=True)
    sys.stdin.read()
"""


def holder(path: Path, **streams: Any) -> subprocess.Popen[str]:
    """Another process that wants to lock what the path names, and holds it while its input lasts."""
    environment = {**os.environ, "PYTHONPATH": str(Path(graphnet.__file__).parents[1])}
    command = [sys.executable, "-c", HOLD, str(path)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment, **streams
    )


def require_locks(path: Path, other: Path) -> None:
    with files.locked(path), pytest.raises(BlockingIOError), files.locked(other):
        pass


def test_locks_end_with_their_process(tmp_path: Path) -> None:
    """Locks of a file behind a link, of a folder, and of a missing file."""
    path, other = tmp_path / "what", tmp_path / "link"
    path.write_text("x", encoding="utf-8")
    other.symlink_to(path)
    process: Any = holder(other, stdin=subprocess.PIPE)
    assert process.stdout.readline() == "in\n"
    with pytest.raises(BlockingIOError), files.locked(path):
        pass
    process.kill()
    process.communicate()
    (tmp_path / "folder").mkdir()
    for one, same in ((path, other), (tmp_path / "folder",) * 2, (tmp_path / "missing",) * 2):
        require_locks(one, same)
    assert not list(tmp_path.rglob(".*")), "the lock is gone with its end"


def test_lock_removed_while_waiting_is_acquired_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner ends and removes the lock file between opening and locking."""
    lock_file, removed = files.lock_file, []

    def owner_ends(descriptor: int) -> None:
        if not removed:
            removed.append(True)
            (tmp_path / ".x.lock").unlink()
        lock_file(descriptor)

    monkeypatch.setattr(files, "lock_file", owner_ends)
    with files.locked(tmp_path / "x"):
        process = holder(tmp_path / "x", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert "BlockingIOError" in process.communicate()[1]


def test_lock_file_is_recreated_if_removed(tmp_path: Path) -> None:
    """The lock is not taken from a new owner, neither by holding nor by releasing it."""
    path, file = tmp_path / "x", tmp_path / ".x.lock"
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(files.locked(path))
        file.unlink()
        first.hold()
        with pytest.raises(BlockingIOError), files.locked(path):
            pass
        file.unlink()
        with files.locked(path):
            with pytest.raises(BlockingIOError):
                first.hold()
            stack.close()
            with pytest.raises(BlockingIOError), files.locked(path):
                pass
    assert not file.exists()


def test_planted_links_are_not_followed(tmp_path: Path) -> None:
    """In folders writable by others, the lock file could be a link to any file."""
    (tmp_path / ".x.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"\.x\.lock"), files.locked(tmp_path / "x"):
        pass
    assert not (tmp_path / "victim").exists()


def test_writers_with_equal_process_ids_use_different_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes of two containers may have the same id."""
    fsync, path = os.fsync, tmp_path / "x"

    def meanwhile(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        write_whole(path, b"second")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_whole(path, b"first, which takes longer")
    assert path.read_bytes() == b"first, which takes longer"
    assert os.listdir(tmp_path) == ["x"]


def test_old_partial_files_are_removed_on_the_next_write(tmp_path: Path) -> None:
    """Partial files are removed after a day; other files are kept."""
    path, day = tmp_path / "a[1].svg", 86_400
    write_whole(path, b"first")
    now = path.stat().st_mtime
    left, written_now = tmp_path / ".a[1].svg.0123abcd.part", tmp_path / ".a[1].svg.4567abcd.part"
    others = [".a1.svg.0123abcd.part", ".a[1].svg.notes.part", ".a[1].svg.b.0123abcd.part"]
    for part in (left, written_now, *(tmp_path / name for name in others)):
        part.write_bytes(b"cut sho")
        os.utime(part, (now - 2 * day, now - 2 * day))
    os.utime(written_now, (now - day / 2, now - day / 2))
    write_whole(path, b"second", durable=False)
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, written_now.name, *others])
    assert path.read_bytes() == b"second"


posix = pytest.mark.skipif(os.name == "nt", reason="permissions are POSIX")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_permissions_are_preserved(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for mode in (0o600, 0o640, 0o644, 0o666, 0o444):
        with case(oct(mode)):
            path.unlink(missing_ok=True)
            path.write_bytes(b"before")
            path.chmod(mode)
            write_whole(path, b"after")
            assert (path.read_bytes(), mode_of(path)) == (b"after", mode)


@posix
def test_write_protected_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old", encoding="utf-8")
    (tmp_path / "a").chmod(0o444)
    allowed = os.access
    monkeypatch.setattr(  # the administrator may write to it
        os,
        "access",
        lambda path, mode: allowed(path, mode) and (mode != os.W_OK or os.stat(path).st_mode & 0o200 != 0),
    )
    with pytest.raises(PermissionError, match="it is write-protected"):
        write_whole(tmp_path / "a", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text(encoding="utf-8") == "old"
    write_whole(tmp_path / "b", b"new")


@posix
def test_private_files_are_private_during_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen, real = tmp_path / "a", [], os.open
    path.write_bytes(b"before")
    path.chmod(0o600)

    def opened(name: str, flags: int, mode: int = 0o777) -> int:
        descriptor = real(name, flags, mode)
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    write_whole(path, b"after")
    assert seen[0] == 0o600


@posix
def test_new_files_respect_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"x")
        assert mode_of(tmp_path / "a") == 0o640
    finally:
        os.umask(before)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_owner_is_preserved(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    os.chown(path, 12345, 54321)
    write_whole(path, b"after")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


def test_a_lock_on_windows_waits_until_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, LK_LOCK raises EDEADLOCK after ten seconds."""
    tries = [OSError(errno.EDEADLOCK, "Resource deadlock avoided")] * 2

    def locking(descriptor: int, how: int, count: int) -> None:
        if tries:
            raise tries.pop()

    system = SimpleNamespace(LK_LOCK=1, LK_NBLCK=2, locking=locking)
    monkeypatch.setattr(os, "lseek", lambda *_: 0)  # files of Linux end before 2**62
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", system)
    with tempfile.TemporaryFile() as file:
        files.lock_file(file.fileno(), wait=True)
        assert not tries
        tries.append(OSError(errno.EACCES, "Permission denied"))
        with pytest.raises(BlockingIOError):
            files.lock_file(file.fileno())


def test_a_full_disk_changes_none_of_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = {tmp_path / name: name.encode() for name in "abc"}
    write_together(old)
    left = iter([True, True])

    def sync(descriptor: int) -> None:
        if not next(left, False):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            write_together(dict.fromkeys(old, b"new"))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == old
    write_together(dict.fromkeys(old, b"new"))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(old, b"new")
