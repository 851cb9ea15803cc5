"""What cannot be meant or cannot be done is answered in one sentence, at once, and changes nothing."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphnet_rnn as rnn
from graphnet.system import memory
from graphnet_rnn.cli import COMMANDS, main, make_parser
from tests.graphnet_rnn.cli.bad_invocations import (
    GOOD,
    ROWS,
    SHARED,
    Bad,
    bad,
    make_place,
    options_of,
    rows,
)
from tests.tables import case, require_rows

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="devices and pipes are Linux's")

#: More than what the process has anyway.
BYTES = 300e6
#: The options that name what is read.
READ = ("--valid", "--test", "--resume", "--start")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("place")
    before, there = Path.cwd(), memory.available_memory
    memory.available_memory = lambda: 2_000_000_000  # the same on every machine
    os.chdir(folder)
    make_place(folder)
    answer(["cells", "LSTN"])  # what is imported and made once
    yield folder
    os.chdir(before)
    memory.available_memory = there


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    """What is there; not what Python keeps of code."""
    found = (p for p in folder.rglob("*") if "__pycache__" not in p.parts)
    stats = ((p, p.lstat()) for p in found)
    return {
        str(p): (s.st_mode, s.st_size, s.st_mtime_ns if p.is_file() and not p.is_symlink() else 0)
        for p, s in stats
    }


def answer(arguments: list[str]) -> tuple[int, str]:
    """The exit code, and what standard error got."""
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
    """Bytes at the highest, since `forget_memory`."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))[1]) * 1024  # type: ignore[index]


def forget_memory() -> int:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return most_memory()


def require_sentence(row: Bad, code: int, said: str) -> None:
    """One sentence, and no long one; it is worded, not what Python happened to raise."""
    command = row.arguments[0] if row.arguments and row.arguments[0] in COMMANDS else ""
    start = f"graphnet-rnn {command}: " if command else "graphnet-rnn: "
    assert code in (1, 2)
    assert "Traceback" not in said
    assert "unexpected " not in re.sub("got an unexpected keyword argument|unexpected object", "", said)
    assert said.endswith("\n")
    lines = said.splitlines()
    # The lines below the first, where there are any, name the equation and what it was given.
    assert lines[0].startswith(start), said
    assert max(map(len, lines)) < 1000
    assert all(line.startswith("    ") for line in lines[1:]), said
    assert re.search(row.says, lines[0]), said


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_each_answer_is_one_sentence(place: Path, command: str) -> None:
    """At once: memory is not taken, no file is written, nor does the folder change."""
    before = state(place)
    for row in rows(command):
        used = forget_memory()
        code, said = answer(row.arguments)
        with case(ascii(" ".join(row.arguments))[:200]):
            require_sentence(row, code, said)
            assert state(place) == before
            assert most_memory() - used < BYTES


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_bad_case_of_its_own(command: str) -> None:
    """Beside those that all options have. A file goes into a folder that is there, and a folder not into a file."""
    added = [line for _, *lines in ROWS[command] for line in lines]
    written = {word for line in added for word in line.split() if word.startswith("--")}
    options = {action.option_strings[0] for action in options_of(command) if action.nargs != 0}
    require_rows(options - written - SHARED.keys(), "bad_invocations.py", "what it cannot mean")
    for action in options_of(command):
        name = action.option_strings[0]
        if action.metavar in ("FILE", "FOLDER") and name not in READ:
            place = "none" if action.metavar == "FILE" else "text.txt"
            tried = any(re.search(rf"{name} {place}/", line) for line in added)
            require_rows([] if tried else [command], "bad_invocations.py", f"{name} {place}/...")


def test_two_dashes_are_a_value_or_end_the_options() -> None:
    """Python 3.11 would make [] of the value; then the option is ignored, or fails after the work."""
    read = make_parser().parse_args
    for command in COMMANDS:
        good = GOOD[command].split()
        assert read(good).command == command  # or the rows would be refused for another reason than theirs
        for action in options_of(command):
            if action.nargs is None and action.type is None and not action.choices:
                with case(command, action.option_strings[0]):
                    found = read([*good, f"{action.option_strings[0]}=--"])
                    assert getattr(found, action.dest) == "--"
    assert read(["sample", "--length", "3", "--", "--odd-name"]).model == "--odd-name"
    assert read(["draw", "LSTM", "--", "--odd-name"]).what == ["LSTM", "--odd-name"]
    assert read(["train", "--"]).data is None


@pytest.mark.parametrize("code", [1, 2])
def test_so_it_is_in_a_process_of_its_own(place: Path, code: int) -> None:
    """What cannot be read ends with 1, what cannot be meant with 2."""
    row = bad({1: "train none.txt --out new", 2: "train text.txt --units 0"}[code], "none.txt|units must be")
    before = state(place)
    environment = {**os.environ, "PYTHONPATH": str(Path(rnn.__file__).parents[1])}
    line = [sys.executable, "-m", "graphnet_rnn", *row.arguments]
    ended = subprocess.run(
        line, cwd=place, env=environment, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    assert ended.returncode == code
    assert ended.stdout == b""
    require_sentence(row, ended.returncode, ended.stderr.decode())
    assert state(place) == before
