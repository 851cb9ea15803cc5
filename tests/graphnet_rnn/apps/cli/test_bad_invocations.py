"""Invalid commands fail at once with a one-sentence error, and change nothing."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphnet.system import memory
from graphnet_rnn.apps.cli import all_commands, main
from tests.graphnet_rnn.apps.cli.bad_invocations import ROWS, SHARED, make_place, options_of, rows
from tests.tables import case, require_rows

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="devices and pipes are Linux's")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("place")
    before, there = Path.cwd(), memory.available_memory
    memory.available_memory = lambda: 2_000_000_000  # the same on every machine
    os.chdir(folder)
    make_place(folder)
    answer(["cells", "LSTN"])  # import and initialize everything first
    yield folder
    os.chdir(before)
    memory.available_memory = there


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Mode, size and, for files, time of each path, except in `__pycache__`."""
    there = [(p, p.lstat()) for p in folder.rglob("*") if "__pycache__" not in p.parts]
    kept = {p for p, _ in there if p.is_file() and not p.is_symlink()}
    return {str(p): (s.st_mode, s.st_size, s.st_mtime_ns if p in kept else 0) for p, s in there}


def answer(arguments: list[str]) -> tuple[int, str]:
    """Runs a command; returns its exit code and standard error."""
    said, ignored = io.StringIO(), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.StringIO()
    try:
        with contextlib.redirect_stdout(ignored), contextlib.redirect_stderr(said):
            try:
                code = main(arguments)
            except SystemExit as ended:
                code = int(str(ended.code))
    finally:
        sys.stdin = stdin
    return code, said.getvalue()


def most_memory() -> int:
    """Peak memory in bytes since 5 was written to clear_refs."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))[1]) * 1024


@pytest.mark.parametrize("command", ["", *all_commands()])
def test_invalid_commands_give_one_line_errors(place: Path, command: str) -> None:
    """Each error takes no memory and changes no file."""
    before = state(place)
    for row in rows(command):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        used = most_memory()
        code, said = answer(row.arguments)
        with case(ascii(" ".join(row.arguments))[:200]):
            assert code in (1, 2)
            # The error must be our own, not an internal one of Python.
            worded = re.sub("got an unexpected keyword argument|unexpected object", "", said)
            assert not re.search("unexpected |Traceback", worded)
            assert said.endswith("\n")
            first, *more = said.splitlines()
            assert first.startswith(f"graphnet-rnn {command}: " if command else "graphnet-rnn: "), said
            assert re.search(row.says, said, re.MULTILINE), said
            assert max(map(len, said.splitlines())) < 1000
            # Further lines show the equation and its arguments.
            assert all(line.startswith("    ") for line in more), said
            assert state(place) == before
            assert most_memory() - used < 300e6


def test_every_option_has_an_invalid_case() -> None:
    """Each option needs an invalid case in at least one command."""
    lines = [line for rows in ROWS.values() for _, *lines in rows for line in lines]
    known = {word for line in lines for word in line.split() if word.startswith("--")} | SHARED.keys()
    for command in all_commands():
        takes = [a for a in options_of(command) if a.nargs != 0 and not a.choices]
        own = {a.option_strings[0] for a in takes if a.metavar not in ("FILE", "FOLDER")}
        require_rows(own - known, "bad_invocations.py", f"what it cannot mean in {command}")
