"""What cannot be meant or cannot be done is answered in one sentence, at once, and changes nothing."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphnet_rnn as rnn
from graphnet.system import memory
from graphnet_rnn.cli import COMMANDS, main, make_parser
from tests.graphnet_rnn.cli.bad_invocations import GOOD, ROWS, Bad, make_place, options_of, rows

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="devices and pipes are Linux's")

#: A second of computing would be felt; memory is more than what the process has anyway.
SECONDS, BYTES = 2.0, 300e6
ALL = rows()
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


@pytest.mark.parametrize("row", ALL, ids=[ascii(" ".join(row.arguments))[:90] for row in ALL])
def test_the_answer_is_one_sentence(place: Path, row: Bad) -> None:
    before, used, began = state(place), forget_memory(), time.process_time()
    code, said = answer(row.arguments)
    seconds, grown = time.process_time() - began, most_memory() - used
    require_sentence(row, code, said)
    assert state(place) == before
    assert seconds < SECONDS
    assert grown < BYTES


def test_there_are_three_hundred() -> None:
    assert len({tuple(row.arguments) for row in ALL}) >= 300


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_bad_case_of_its_own(command: str) -> None:
    """Beside those that all options have: one that says what this option cannot mean."""
    written = {word for added, _ in ROWS[command] for word in added.split() if word.startswith("--")}
    options = {action.option_strings[0] for action in options_of(command) if action.nargs != 0}
    assert options <= written, f"give each a row in bad_invocations.py: {sorted(options - written)}"


@pytest.mark.parametrize("command", COMMANDS)
def test_one_rule_for_all_that_is_written(command: str) -> None:
    """A file goes into a folder that is there, and a folder not into a file, whichever option names it."""
    for action in options_of(command):
        name = action.option_strings[0]
        if action.metavar in ("FILE", "FOLDER") and name not in READ:
            place = "none" if action.metavar == "FILE" else "text.txt"
            tried = [added for added, _ in ROWS[command] if re.search(rf"{name} {place}/", added)]
            assert tried, f"give {command} {name} {place}/... a row in bad_invocations.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_that_is_two_dashes_is_kept(command: str) -> None:
    """Python 3.11 would make [] of it; then the option is ignored, or fails after the work."""
    good = GOOD[command].split()
    for action in options_of(command):
        if action.nargs is None and action.type is None and not action.choices:
            read = make_parser().parse_args([*good, f"{action.option_strings[0]}=--"])
            assert getattr(read, action.dest) == "--"


def test_two_dashes_alone_end_the_options() -> None:
    read = make_parser().parse_args
    assert read(["sample", "--length", "3", "--", "--odd-name"]).model == "--odd-name"
    assert read(["draw", "LSTM", "--", "--odd-name"]).what == ["LSTM", "--odd-name"]
    assert read(["train", "--"]).data is None


def in_a_process(place: Path, arguments: list[str], **how: object) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(rnn.__file__).parents[1])}
    line = [sys.executable, "-m", "graphnet_rnn", *arguments]
    return subprocess.run(
        line, cwd=place, env=environment, capture_output=True, check=False, timeout=60, **how
    )  # type: ignore[call-overload,no-any-return]


SAMPLE = [
    row for row in ALL if row.about in ("--resume", "--cell", "--out") and "\0" not in "".join(row.arguments)
][::12]


@pytest.mark.parametrize("row", SAMPLE, ids=[" ".join(row.arguments)[:60] for row in SAMPLE])
def test_so_it_is_in_a_process_of_its_own(place: Path, row: Bad) -> None:
    before = state(place)
    ended = in_a_process(place, row.arguments, stdin=subprocess.DEVNULL)
    require_sentence(row, ended.returncode, ended.stderr.decode())
    assert state(place) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_the_good_commands_are_understood(command: str) -> None:
    """Or the rows would be refused for another reason than theirs."""
    assert make_parser().parse_args(GOOD[command].split()).command == command
