"""The wheel and the source archive are complete and reproducible."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import graphnet
from tests.newcomer.__main__ import copy_checkout

PACKAGES = ("graphnet", "graphnet_rnn", "viz")


def built(tree: Path, mode: int) -> Path:
    """Folder with wheel and source archive of this checkout, made of files with this mode."""
    copy_checkout(tree)
    for path in tree.rglob("*"):
        if path.is_file():
            path.chmod(mode)
            os.utime(path, (mode * 1e6, mode * 1e6))
    command = [sys.executable, "-m", "hatchling", "build", "-d", "made"]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    return tree / "made"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("first") / "a folder", 0o644)


def test_wheel_has_all_package_files_and_metadata(first: Path) -> None:
    with zipfile.ZipFile(first / f"graphnet_rnn-{graphnet.__version__}-py3-none-any.whl") as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in wheel.namelist() if name.endswith("dist-info/METADATA"))
        read = email.message_from_bytes(wheel.read(metadata))
    files = (path for package in PACKAGES for path in (first.parent / package).rglob("*") if path.is_file())
    assert found == {path.relative_to(first.parent).as_posix() for path in files}
    assert read["Name"] == "graphnet-rnn"
    assert read["Author"] == "The graphnet developers"
    needed = [line.split(";")[0] for line in read.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {"numpy>=2.0", "numba>=0.62", "graphviz>=0.20"} <= set(needed)


def test_source_archive_has_tests_documentation_and_programs(first: Path) -> None:
    with tarfile.open(first / f"graphnet_rnn-{graphnet.__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = {path.relative_to(first.parent).as_posix() for path in first.parent.rglob("*") if path.is_file()}
    assert names - {"PKG-INFO"} == {name for name in files if not name.startswith("made/")} - {"PKG-INFO"}
    assert {
        "run.py",
        "CITATION.cff",
        "docs/index.md",
        "tutorials/README.md",
        "tests/test_packaging.py",
    } <= names


def test_builds_are_reproducible(first: Path, tmp_path: Path) -> None:
    second = built(tmp_path / "second", 0o600)
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name
