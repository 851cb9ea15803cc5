"""Programs accept any character and closed streams, and escape control characters in terminals."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import graphnet
from graphnet.system.text import in_brief, on_one_line, shown_on, visible
from graphnet_rnn.apps.cli import main
from tests.tables import case

ROOT = Path(graphnet.__file__).parents[1]
GREEK = "aφb ⣿c " * 60
SMALL = ["--units", "4", "--time", "5", "--batch", "2", "--epochs", "1", "--sample", "30"]


def started(words: list[str], here: Path, redirected: str = "", **environment: str) -> Any:
    """Runs the program in a shell that redirects its streams."""
    line = ["sh", "-c", f'"$@" {redirected}', "sh", sys.executable, *as_bytes(words)]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "GRAPHNET_CACHE") if name in os.environ}
    env = {**kept, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(line, cwd=here, env=env, capture_output=True, check=False, timeout=600)


def as_bytes(words: list[str]) -> list[bytes]:
    """The words in UTF-8, for any locale of this process."""
    return [word.encode("utf-8", "surrogateescape") for word in words]


def command(here: Path, *words: str, redirected: str = "", **environment: str) -> Any:
    return started(["-m", "graphnet_rnn", *words], here, redirected, **environment)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text of rare characters, and a model of it."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "greek.txt").write_text(GREEK, encoding="utf-8")
    trained = command(folder, "train", "greek.txt", *SMALL, "--out", "run", PYTHONIOENCODING="ascii")
    assert trained.returncode == 0, trained.stderr.decode()
    assert b"\\u03c6" in trained.stdout  # its sample
    assert b"    | " in trained.stdout
    assert re.fullmatch(".*standard output is ascii, .*PYTHONIOENCODING=utf-8.*\n", trained.stderr.decode())
    return folder


def test_any_encoding_accepts_any_character(here: Path) -> None:
    """UTF-8 is exact. Other encodings get reversible escapes for missing characters."""
    words = ["sample", "run/model.safetensors", "--length", "40"]
    exact = command(here, *words, PYTHONIOENCODING="utf-8")
    assert (exact.returncode, exact.stderr) == (0, b"")
    for encoding in ("cp1252", "ascii:replace"):
        ended = command(here, *words, PYTHONIOENCODING=encoding)
        assert ended.returncode == 0
        written = ended.stdout.decode(encoding.split(":", maxsplit=1)[0])
        if encoding.endswith("replace"):  # as it was asked for
            assert "?" in written
            assert ended.stderr == b""
        else:
            assert written.encode("latin-1").decode("unicode_escape") == exact.stdout.decode()
            assert ended.stderr.startswith(b"graphnet-rnn sample: standard output is ")


EVALUATE = ["evaluate", "run/model.safetensors", "greek.txt", "--context", "5", "--colour", "--length", "12"]


def test_any_locale_and_terminal_work(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONWARNINGS": "error"}
    ended = command(here, *EVALUATE, **plain)
    assert (ended.returncode, b"bits/char" in ended.stdout) == (0, True), ended.stderr
    monkeypatch.chdir(here)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    for columns in ("0", "1", "-5", "wide"):
        with case(columns):
            monkeypatch.setenv("COLUMNS", columns)
            with pytest.raises(SystemExit) as stopped:
                main(["train", "--help"])
            assert not stopped.value.code
            assert main(EVALUATE) == 0
            assert "bits/char" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell closes the streams")
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_ignored(here: Path, closed: str) -> None:
    assert command(here, "sample", "none", redirected=closed).returncode == 1
    name = f"run{len(closed)}"
    trained = command(here, "train", "greek.txt", *SMALL, "--out", name, redirected=closed)
    assert trained.returncode == 0
    assert b"rror" not in trained.stdout + trained.stderr
    model = (here / name / "model.safetensors").read_bytes()
    assert model == (here / "run" / "model.safetensors").read_bytes()  # nothing was written into it


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is Linux's")
@pytest.mark.parametrize(("words", "redirected", "unbuffered", "reason"), [
    (["cells", "GRU"], "> /dev/full", "", "No space left on device"),
    (["--help"], "> /dev/full", "1", "No space left on device"),
    (["sample", "run/model.safetensors"], "1< /dev/null", "", "Bad file descriptor"),
])  # fmt: skip
def test_full_output_device_gives_a_one_line_error(
    here: Path, words: list[str], redirected: str, unbuffered: str, reason: str
) -> None:
    ended = command(here, *words, redirected=redirected, PYTHONUNBUFFERED=unbuffered)
    assert ended.returncode == 1
    name = "graphnet-rnn" if words[-1].startswith("--") else f"graphnet-rnn {words[0]}"
    assert ended.stderr.decode().splitlines() == [f"{name}: standard output could not be written: {reason}"]


OWNED = "\x1b]0;owned\x07\x9b2J\u202e"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_control_characters_are_escaped_in_terminals_only(tmp_path: Path) -> None:
    """The model writes control characters, which terminals would execute."""
    (tmp_path / "odd.txt").write_text(f"{OWNED}\t\n" * 100, encoding="utf-8")
    train = ["train", "odd.txt", *SMALL, "--sample", "200", "--no-live", "--out", "run"]
    sample = ["sample", "run/model.safetensors", "--length", "200", "--warm-up", OWNED]
    for words in (train, sample):
        shown = in_a_terminal(tmp_path, ["-m", "graphnet_rnn", *words])
        assert {"␛", "␇", "�", "\t"} <= set(shown)
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", shown)
    piped = command(tmp_path, *sample, PYTHONIOENCODING="utf-8").stdout.decode()
    assert piped.startswith(OWNED)
    assert (set(OWNED) | set("\t\n")) >= set(piped)


def in_a_terminal(folder: Path, words: list[str]) -> str:
    """Runs a program with a terminal as its standard output. Returns the output."""
    ours, theirs = importlib.import_module("pty").openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"}
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
def test_undecodable_file_names(here: Path) -> None:
    """Files with such names are read, written and drawn; output shows their bytes as escapes."""
    odd = os.fsdecode(b"g\xff.txt")
    (here / odd).write_text(GREEK, encoding="utf-8")
    run: Any = os.fsdecode(b"run\xff")
    draw = ["draw", run, "run", "--out", os.fsdecode(b"c\xff.svg")]
    for words in (["train", odd, *SMALL, "--out", run], draw):
        ended = command(here, *words)
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert b"\\udcff" in ended.stdout
    assert "run\\xff" in (here / os.fsdecode(b"c\xff.svg")).read_text(encoding="utf-8")


def test_every_program_prepares_its_streams() -> None:
    """Every program calls `prepare_streams` first: in main, or in `options_of` of experiments."""
    folders = ("benchmarks", "docs", "graphnet_rnn", "tutorials", "viz", "graphnet")
    paths = [ROOT / "run.py", *(path for folder in folders for path in (ROOT / folder).glob("**/*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in paths if path.name != "worker.py"}
    programs = {path: text for path, text in texts.items() if 'if __name__ == "__main__":' in text}
    for path, text in programs.items():
        (body,) = [node.body for node in ast.parse(text).body if isinstance(node, ast.If)]
        in_main = path.parent.name == "graphnet_rnn" or "experiments" in path.parts
        assert in_main or ast.unparse(body[0]) == "prepare_streams()", path
    assert len(programs) > 10


@pytest.mark.skipif(sys.getfilesystemencoding() == "ascii", reason="no argument can hold these characters")
def test_run_py_escapes_names_the_terminal_cannot_encode(tmp_path: Path) -> None:
    ended = started([str(ROOT / "run.py"), "größer"], tmp_path, PYTHONIOENCODING="ascii")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"run.py: there is no command 'gr\\xf6\\xdfer'")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_characters_have_visible_forms() -> None:
    for character, shown in (
        ("a", "a"), ("φ", "φ"), ("\n", "⏎"), ("\x1b", "␛"), ("\x00", "␀"), ("\x7f", "�"), ("\x9b", "�"),
        ("\u202e", "�"), ("\ud800", "�"), ("\ufdd0", "�"), ("\ufffe", "�"), ("\uffff", "�"), ("\U0001fffe", "�"),
    ):  # fmt: skip
        assert visible(character) == shown


def test_visible_forms_are_valid_xml() -> None:
    shown = {visible(chr(code)) for code in range(0x110000)}
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") or c in "\ufffe\uffff"]


def test_visible_forms_are_used_in_terminals_only() -> None:
    odd = "a\x1b]0;owned\x07\x9b\r\u202e\ud800\ufffe\uffff\U0010ffff"
    joined = "two\n\tlines می\u200cشود φ"
    assert shown_on(io.StringIO(), odd) == odd
    assert shown_on(Terminal(), odd) == "a␛]0;owned␇�␍�����"
    assert shown_on(Terminal(), joined) == joined


def test_names_in_messages_are_short_and_on_one_line() -> None:
    assert on_one_line("two lines φ") == "two lines φ"
    assert on_one_line("two\nlines\x1b") == r"two\nlines\x1b"
    for words in ("x" * 10_000_000, "\x1b" * 1000, "\n" * 61):
        assert in_brief(words).endswith(" ...")
        assert len(in_brief(words)) == 60
        assert in_brief(words).isprintable()
    assert in_brief("fc.weight") == "fc.weight"
