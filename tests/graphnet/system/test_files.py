"""Files that others read or write at the same time: locks, and whole contents."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphnet
from graphnet.system import files

HOLD = """
import sys
from graphnet.system.files import locked
with locked(sys.argv[1]):
    print("in", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process that has locked what the path names."""
    root = str(Path(graphnet.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    return process


@pytest.mark.parametrize("kind", ["file", "missing file", "folder", "link"])
def test_a_lock_ends_with_its_process_however_that_ends(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "what"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing file":
        path.write_text("x")
    other = path
    if kind == "link":
        other = tmp_path / "link"
        other.symlink_to(path)
    process = holder(other)
    with pytest.raises(BlockingIOError), files.locked(path):
        pass
    process.kill()
    process.communicate()
    with files.locked(path), pytest.raises(BlockingIOError), files.locked(other):
        pass
    assert not list(tmp_path.rglob(".*")), "the lock is gone with its end"


def test_a_lock_that_was_removed_while_one_waited_for_it_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking, its owner ended and removed it: locking what is gone would keep nobody out."""
    lock_file, removed = files.lock_file, []

    def owner_ends(descriptor: int) -> None:
        if not removed:
            removed.append(True)
            (tmp_path / ".x.lock").unlink()
        lock_file(descriptor)

    monkeypatch.setattr(files, "lock_file", owner_ends)
    with files.locked(tmp_path / "x"):
        process = subprocess.run(
            [sys.executable, "-c", HOLD, str(tmp_path / "x")],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(Path(graphnet.__file__).parents[1])},
        )  # fmt: skip
        assert "BlockingIOError" in process.stderr


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """In a folder that others may write to, the lock's name could lead anywhere."""
    (tmp_path / ".x.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"\.x\.lock"), files.locked(tmp_path / "x"):
        pass
    assert not (tmp_path / "victim").exists()


def test_two_writers_of_one_number_do_not_share_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes of two containers may have the same: what one is writing must not be the other's."""
    fsync, path = os.fsync, tmp_path / "x"

    def meanwhile(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        files.write_whole(path, b"second")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    files.write_whole(path, b"first, which takes longer")
    assert path.read_bytes() == b"first, which takes longer"
    assert os.listdir(tmp_path) == ["x"]
