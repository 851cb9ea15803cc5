"""The curve that is drawn in place: what a person sees of it, and that nothing is left of it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphnet_rnn.cli import live
from graphnet_rnn.cli.console import Console
from tests.graphnet_rnn.cli.screen import Screen
from tests.tables import case

pytest.importorskip("matplotlib")


class Terminal(io.StringIO):
    """A stream that is a terminal; `clear` and `refresh` are those of a progress bar on its last line."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def get_lock(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def clear(self, nolock: bool) -> None:
        self.write("\r   \r")

    def refresh(self, nolock: bool) -> None:
        self.write("\rBAR")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "30")
    return Terminal()


def curve(terminal: Terminal, steps: int = 50) -> live.LiveCurve:
    """One that is due at each call."""
    clock = iter(range(0, 10**6, 10))
    found = live.LiveCurve(terminal, clock=lambda: float(next(clock)))
    for step in range(steps):
        found.step(step / steps, 5 - step / steps)
    return found


def seen(terminal: Terminal, columns: int = 60) -> list[str]:
    screen = Screen(30, columns)
    screen.write(terminal.getvalue())
    return screen.text().split("\n")


def test_it_is_redrawn_in_its_place_above_the_bar(terminal: Terminal) -> None:
    terminal.write("log 1\n")
    shown = curve(terminal)
    for _ in range(3):
        shown.draw(terminal, 4.2)
    first, *plot, caption, bar = seen(terminal)
    assert (first, bar) == ("log 1", "BAR")
    assert len(plot) == live.HEIGHT
    assert plot[0].startswith("4.98┤")
    assert plot[-1].startswith("4.02┤")
    assert caption == "⠒ training 4.200  bits/char  epochs 0.0 to 1.0"
    shown.epoch(1, 4.5)
    shown.draw(terminal, 4.1)
    assert seen(terminal)[-2] == "⠒ training 4.100  ● validation 4.500  bits/char"  # all that fits
    assert "●" in "".join(seen(terminal)[1:-2])


@pytest.mark.parametrize(("unit", "said"), [("bits/symbol", "  bits/symbol"), ("", "")])
def test_the_caption_has_the_unit_of_the_run(terminal: Terminal, unit: str, said: str) -> None:
    shown = curve(terminal)
    shown.unit = unit
    shown.draw(terminal, 4.2)
    assert seen(terminal)[-2] == f"⠒ training 4.200{said}  epochs 0.0 to 1.0"


def test_nothing_is_left_of_it(terminal: Terminal) -> None:
    shown = curve(terminal)
    for number in range(3):
        terminal.write(f"log {number}\n")
        shown.draw(terminal, 4.2)
        shown.draw(terminal, 4.2)
        terminal.clear(nolock=True)  # as the bar does when it closes
        shown.erase()
        shown.erase()
    assert seen(terminal) == ["log 0", "log 1", "log 2"]


def test_a_terminal_that_becomes_narrower_folds_its_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of 59 columns take two of a terminal of 45: the next picture begins above all of them."""
    shown = curve(terminal)
    shown.draw(terminal, 4.2)
    width = [len(re.sub(r"\x1b\[\d*[mK]", "", line)) for line in terminal.getvalue().split("\n")]
    before = len(terminal.getvalue())
    monkeypatch.setenv("COLUMNS", "45")
    shown.draw(terminal, 4.2)
    up = re.findall(r"\x1b\[(\d+)A", terminal.getvalue()[before:])
    assert up == [str(sum(1 if w <= 45 else 2 for w in width[: live.HEIGHT + 1]))]


def test_it_waits_until_there_is_something_to_see(terminal: Terminal) -> None:
    curve(terminal, live.LEAST_STEPS - 1).draw(terminal, 4.2)
    assert terminal.getvalue() == ""
    now = [0.0]
    shown = live.LiveCurve(terminal, clock=lambda: now[0])
    for step in range(50):
        shown.step(step, 1.0)
    shown.draw(terminal, 1.0)
    assert terminal.getvalue() == ""
    now[0] = live.SECONDS
    shown.draw(terminal, 1.0)
    drawn = terminal.getvalue()
    shown.draw(terminal, 1.0)
    assert drawn
    assert terminal.getvalue() == drawn, "not again at once"


def test_no_colours_where_none_are_wanted(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    curve(terminal).draw(terminal, 4.2)
    assert "\x1b[34m" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    other = Terminal()
    curve(other).draw(other, 4.2)
    assert not re.search(r"\x1b\[\d*m", other.getvalue())


def test_long_runs_keep_few_points_and_their_mean(terminal: Terminal) -> None:
    shown = curve(terminal, 10 * live.POINTS)
    assert len(shown._steps) <= live.POINTS + 1
    shown.draw(terminal, 4.2)
    assert seen(terminal)[live.HEIGHT - 1].startswith("   4┤")


def test_where_the_terminal_does_not_allow_it(terminal: Terminal) -> None:
    assert live.allows(terminal)
    for variable, value in (("TERM", "dumb"), ("TERM", None), ("COLUMNS", "39"), ("LINES", "12")):
        with pytest.MonkeyPatch.context() as patch, case(variable, value):
            if value is None:
                patch.delenv(variable)
            else:
                patch.setenv(variable, value)
            assert not live.allows(terminal)


def test_other_streams(terminal: Terminal) -> None:
    assert not live.allows(io.StringIO())
    terminal.encoding = "latin-1"
    assert not live.allows(terminal)


# -- in a real pseudo-terminal -------------------------------------------------------------------


def train_in_terminal(folder: Path, *more: str, log: bool = False) -> tuple[str, str]:
    """What `train` writes to a terminal of 30 lines and 90 columns, and, apart, to its standard output if log."""
    pty = pytest.importorskip("pty")
    (folder / "text.txt").write_text("a cat sat on a mat, and a rat sat on the cat. " * 300, encoding="utf-8")
    (folder / "quick.py").write_text(
        "import sys\nfrom graphnet_rnn.cli import live, main\nlive.SECONDS = 0.0\nsys.exit(main(sys.argv[1:]))\n",
        encoding="utf-8",
    )
    command = [
        sys.executable, "quick.py", "train", "text.txt", "--units", "8", "--time", "10", "--batch", "4", "--epochs",
        "2", "--sample", "30", "--out", "run", *more,
    ]  # fmt: skip
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "LINES": "30", "COLUMNS": "90", "PYTHONIOENCODING": "utf-8"}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(live.__file__).parents[2]), environment.get("PYTHONPATH")])
    )
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=subprocess.PIPE if log else theirs,
        stderr=theirs,
    )
    os.close(theirs)
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    output: Any = process.communicate(timeout=300)[0] or b""
    os.close(ours)
    assert process.returncode == 0
    return b"".join(pieces).decode(), output.decode()


def test_training_in_a_terminal_shows_it_and_leaves_the_log_alone(tmp_path: Path) -> None:
    written, _ = train_in_terminal(tmp_path)
    assert written.count("⠒\x1b[0m training") >= 2, "it was drawn more than once"
    screen = Screen()
    screen.write(written)
    lines = screen.everything().split("\n")
    assert not [line for line in lines if "┤" in line or "█" in line]
    assert [line.split(":")[0] for line in lines[:3]] == [
        "Network([LSTM(units=8)], inputs=14, outputs=14, loss='softmax')",
        "text",
        "folder",
    ]
    assert [line.split(":")[0] for line in lines if line.startswith("e")] == [
        "epoch   1",
        "epoch   2",
        "ended (epochs)",
    ]
    # Half-way through the second epoch the curve stands below the log, with the first validation in it.
    middle = Screen()
    middle.write(written[: written.rindex("training")])
    assert "●" in middle.text()


def test_a_log_in_a_pipe_has_nothing_of_it(tmp_path: Path) -> None:
    written, log = train_in_terminal(tmp_path, log=True)
    assert "┤" in written
    assert "\x1b" not in log
    assert "┤" not in log


def test_it_can_be_left_out(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the very terminal where it would be drawn."""
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert Console(live=True)._curve is not None
    assert Console(live=False)._curve is None
