"""No character and no closed stream ends a program."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphnet

ROOT = Path(graphnet.__file__).parents[1]
GREEK = "aφb ⣿c " * 60
SMALL = ["--units", "4", "--time", "5", "--batch", "2", "--epochs", "1", "--sample", "30"]


def started(
    words: list[str], here: Path, redirected: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """The program, by a shell that redirects its streams."""
    line = ["sh", "-c", f'"$@" {redirected}', "sh", sys.executable, *as_bytes(words)]
    found = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(ROOT)}
    cache = os.environ.get("GRAPHNET_CACHE")
    env = {**found, **({"GRAPHNET_CACHE": cache} if cache else {}), **environment}
    return subprocess.run(line, cwd=here, env=env, capture_output=True, check=False, timeout=120)


def as_bytes(words: list[str]) -> list[bytes]:
    """In UTF-8, whatever this process would make of them."""
    return [word.encode("utf-8", "surrogateescape") for word in words]


def command(
    here: Path, *words: str, redirected: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return started(["-m", "graphnet_rnn", *words], here, redirected, **environment)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text of characters that few encodings have, and a model of it."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "greek.txt").write_text(GREEK, encoding="utf-8")
    trained = command(folder, "train", "greek.txt", *SMALL, "--out", "run", PYTHONIOENCODING="ascii")
    assert trained.returncode == 0, trained.stderr.decode()
    assert b"\\u03c6" in trained.stdout  # its sample
    assert b"    | " in trained.stdout
    assert trained.stderr.decode().splitlines() == [
        "graphnet-rnn train: standard output is ascii, which cannot hold some of the characters: they were written as "
        "\\x.., \\u.... (PYTHONIOENCODING=utf-8 keeps them)"
    ]
    return folder


def sampled(here: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return command(here, "sample", "run/model.safetensors", "--length", "40", **environment)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii", "utf-8", "utf-16", "ascii:replace"])
def test_any_encoding_takes_any_character(here: Path, encoding: str) -> None:
    """UTF-8 is exact; what another cannot hold is an escape, from which the text can be had back."""
    ended, exact = (
        sampled(here, PYTHONIOENCODING=encoding),
        sampled(here, PYTHONIOENCODING="utf-8").stdout.decode(),
    )
    assert ended.returncode == 0
    written = ended.stdout.decode(encoding.split(":", maxsplit=1)[0])
    if encoding.startswith("utf"):
        assert written == exact
        assert ended.stderr == b""
    elif encoding.endswith("replace"):  # as it was asked for
        assert "?" in written
        assert ended.stderr == b""
    else:
        assert written.encode("latin-1").decode("unicode_escape") == exact
        assert ended.stderr.startswith(b"graphnet-rnn sample: standard output is ")


@pytest.mark.parametrize(
    "environment",
    [
        {"LANG": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "tr_TR.UTF-8"},
        {"TERM": "dumb"},
        {"NO_COLOR": "1"},
        {"COLUMNS": "0"},
        {"COLUMNS": "1"},
        {"COLUMNS": "-5"},
        {"COLUMNS": "wide"},
        {"PYTHONWARNINGS": "error"},
    ],
    ids=lambda e: " ".join(f"{k}={v}" for k, v in e.items()),
)
def test_any_terminal_will_do(here: Path, environment: dict[str, str]) -> None:
    words = ["evaluate", "run/model.safetensors", "greek.txt", "--context", "5", "--colour", "--length", "12"]
    ended = command(here, *words, **environment)
    assert ended.returncode == 0
    assert b"bits/char" in ended.stdout
    assert command(here, "train", "--help", **environment).returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell closes the streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_are_nothing(here: Path, closed: str) -> None:
    ended = command(here, "sample", "run/model.safetensors", "--length", "5", redirected=closed)
    assert ended.returncode == 0
    assert b"rror" not in ended.stdout + ended.stderr
    assert command(here, "sample", "none", redirected=closed).returncode == 1
    assert command(here, "sample", redirected=closed).returncode == 2
    name = f"run{abs(hash(closed))}"
    trained = command(here, "train", "greek.txt", *SMALL, "--out", name, redirected=closed)
    assert trained.returncode == 0
    model = (here / name / "model.safetensors").read_bytes()
    assert model == (here / "run" / "model.safetensors").read_bytes()  # nothing was written into it


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is Linux's")
@pytest.mark.parametrize(
    "words",
    [["cells", "GRU"], ["sample", "run/model.safetensors"], ["--help"], ["--version"], ["draw", "--help"]],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("redirected", "reason"),
    [("> /dev/full", "No space left on device"), ("1< /dev/null", "Bad file descriptor")],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_takes_no_more_is_one_sentence(
    here: Path, words: list[str], redirected: str, reason: str, unbuffered: str
) -> None:
    ended = command(here, *words, redirected=redirected, PYTHONUNBUFFERED=unbuffered)
    assert ended.returncode == 1
    name = "graphnet-rnn" if words[-1].startswith("--") else f"graphnet-rnn {words[0]}"
    assert ended.stderr.decode().splitlines() == [f"{name}: standard output could not be written: {reason}"]


OWNED = "\x1b]0;owned\x07\x9b2J\u202e"


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run of a model that writes what a terminal would obey."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "odd.txt").write_text(f"{OWNED}\t\n" * 100, encoding="utf-8")
    trained = command(folder, "train", "odd.txt", *SMALL, "--out", "run", PYTHONIOENCODING="utf-8")
    assert trained.returncode == 0, trained.stderr.decode()
    assert re.search("[\x07\x1b\x9b\u202e]", trained.stdout.decode()), "a pipe gets it as it is"
    return folder


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize(
    "words",
    [
        ["sample", "run/model.safetensors", "--length", "200", "--warm-up", OWNED],
        ["train", "odd.txt", *SMALL, "--sample", "200", "--no-live", "--out", "again"],
    ],
    ids=["sample", "train"],
)
def test_a_terminal_gets_no_commands_of_a_text(owner: Path, words: list[str]) -> None:
    shown = in_a_terminal(owner, ["-m", "graphnet_rnn", *words])
    assert {"␛", "␇", "�", "\t"} <= set(shown)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", shown)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_a_pipe_gets_the_text_as_it_is(owner: Path) -> None:
    words = ["sample", "run/model.safetensors", "--length", "200", "--warm-up", OWNED]
    piped = command(owner, *words, PYTHONIOENCODING="utf-8")
    assert piped.stdout.decode().startswith(OWNED)
    assert (set(OWNED) | set("\t\n")) >= set(piped.stdout.decode())


def in_a_terminal(folder: Path, words: list[str]) -> str:
    """What a program writes to a terminal as its standard output."""
    ours, theirs = importlib.import_module("pty").openpty()
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1",
    }  # fmt: skip
    line = [sys.executable, *as_bytes(words)]
    with subprocess.Popen(line, cwd=folder, env=environment, stdout=theirs) as process:
        os.close(theirs)
        pieces = []
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 65536):
                pieces.append(piece)
    os.close(ours)
    assert process.returncode == 0
    return b"".join(pieces).decode()


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes are Linux's")
def test_names_that_are_no_text(here: Path) -> None:
    """Read, written, drawn and printed, with their bytes as escapes."""
    odd = os.fsdecode(b"g\xff.txt")
    (here / odd).write_text(GREEK, encoding="utf-8")
    run: Any = os.fsdecode(b"run\xff")
    for words in (
        ["train", odd, *SMALL, "--out", run],
        ["draw", run, "run", "--out", os.fsdecode(b"c\xff.svg")],
        ["evaluate", "run/model.safetensors", odd, "--context", "5", "--save", os.fsdecode(b"p\xff.html")],
        ["export", "run/model.safetensors", "--to", "torch", "--out", os.fsdecode(b"w\xff.safetensors")],
    ):
        ended = command(here, *words)
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert b"\\udcff" in ended.stdout
    assert "run\\xff" in (here / os.fsdecode(b"c\xff.svg")).read_text(encoding="utf-8")


PROGRAMS = [
    path
    for folder in ("benchmarks", "docs", "graphnet_rnn", "tutorials", "viz", "graphnet")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8") and path.name != "worker.py"
]


@pytest.mark.parametrize("path", [*PROGRAMS, ROOT / "run.py"], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_program_prepares_its_streams(path: Path) -> None:
    """Before all else: `python -m graphnet_rnn` leaves it to main, and workers speak to their program alone."""
    (body,) = [
        node.body for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.If)
    ]
    if path.parent.name != "graphnet_rnn":
        assert ast.unparse(body[0]) == "prepare_streams()"


@pytest.mark.skipif(sys.getfilesystemencoding() == "ascii", reason="no argument can hold these characters")
def test_run_py_says_names_that_its_terminal_cannot(tmp_path: Path) -> None:
    ended = started([str(ROOT / "run.py"), "größer"], tmp_path, PYTHONIOENCODING="ascii")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"run.py: there is no command 'gr\\xf6\\xdfer'")
