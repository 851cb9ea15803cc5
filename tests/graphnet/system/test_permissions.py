"""A file that is replaced stays as private, or as public, as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from graphnet.system.files import write_whole
from tests.tables import case

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions are POSIX")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for mode in (0o600, 0o640, 0o644, 0o666, 0o444):
        with case(oct(mode)):
            path.unlink(missing_ok=True)
            path.write_bytes(b"before")
            path.chmod(mode)
            write_whole(path, b"after")
            assert (path.read_bytes(), mode_of(path)) == (b"after", mode)


def test_a_private_file_is_private_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "a", list[int]()
    path.write_bytes(b"before")
    path.chmod(0o600)
    real = os.open

    def opened(name: str, flags: int, mode: int = 0o777) -> int:
        descriptor = real(name, flags, mode)
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    write_whole(path, b"after")
    assert seen[0] == 0o600


def test_a_new_file_follows_the_mask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"x")
        assert mode_of(tmp_path / "a") == 0o640
    finally:
        os.umask(before)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    os.chown(path, 12345, 54321)
    write_whole(path, b"after")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)
