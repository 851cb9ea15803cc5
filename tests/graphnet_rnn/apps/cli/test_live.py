"""Displays that are redrawn in place in a terminal: the curve of a run, the table of a sweep."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pyte
import pytest

from graphnet_rnn.apps.cli import console
from graphnet_rnn.apps.cli.console import Console
from graphnet_rnn.apps.cli.sweep_table import SweepTable, table
from graphnet_rnn.apps.sweep import Halving, Recipe, Sweep, Values
from tests.graphnet_rnn.apps.sweep.conftest import command_of, history
from tests.tables import case


def seen(text: str, lines: int = 30, columns: int = 60, scrolled: bool = False) -> list[str]:
    """Lines on the screen, without empty ones at the end. scrolled: includes lines that scrolled off."""
    screen = pyte.HistoryScreen(columns, lines, history=10_000)
    screen.set_mode(pyte.modes.LNM)  # as a terminal's driver does
    pyte.Stream(screen).feed(text)
    rows = [*(screen.history.top if scrolled else ()), *(screen.buffer[y] for y in range(lines))]
    shown = ["".join(row[x].data for x in range(columns)).rstrip() for row in rows]
    while len(shown) > 1 and not shown[-1]:
        shown.pop()
    return shown


class Stream(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Bar(Stream):
    """A terminal with a progress bar on its last line."""

    def get_lock(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def clear(self, nolock: bool) -> None:
        self.write("\r   \r")

    def refresh(self, nolock: bool) -> None:
        self.write("\rBAR")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Bar:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "60", "LINES": "30"}.items():
        monkeypatch.setenv(name, value)
    return Bar()


def curve(terminal: Bar, steps: int = 50) -> console.LiveCurve:
    """A curve that is redrawn at each call."""
    clock = iter(range(0, 10**6, 10))
    found = console.LiveCurve(terminal, clock=lambda: float(next(clock)))
    for step in range(steps):
        found.step(step / steps, 5 - step / steps)
    return found


def test_curve_is_redrawn_in_place_above_the_bar(terminal: Bar, monkeypatch: Any) -> None:
    terminal.write("log 1\n")
    shown = curve(terminal)
    for _ in range(3):
        shown.draw(terminal, 4.2)
    first, *plot, caption, bar = seen(terminal.getvalue())
    assert (first, bar, len(plot)) == ("log 1", "BAR", console.HEIGHT)
    assert [plot[0][:5], plot[-1][:5]] == ["4.98┤", "4.02┤"]
    assert caption == "⠒ training 4.200  bits/char  epochs 0.0 to 1.0"
    shown.unit = ""
    shown.draw(terminal, 4.2)
    assert seen(terminal.getvalue())[-2] == "⠒ training 4.200  epochs 0.0 to 1.0"
    shown.unit = "bits/char"
    shown.epoch(1, 4.5)
    shown.draw(terminal, 4.1)
    lines = seen(terminal.getvalue())
    assert lines[-2] == "⠒ training 4.100  ● validation 4.500  bits/char"  # all that fits
    assert "●" in "".join(lines[1:-2])
    assert "\x1b[34m" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    other = Bar()
    curve(other).draw(other, 4.2)
    assert not re.search(r"\x1b\[\d*m", other.getvalue())


def test_cleared_curve_leaves_no_text(terminal: Bar) -> None:
    shown = curve(terminal)
    for number in range(3):
        terminal.write(f"log {number}\n")
        shown.draw(terminal, 4.2)
        shown.draw(terminal, 4.2)
        terminal.clear(nolock=True)  # as a bar does when it is closed
        shown.erase()
        shown.erase()
    assert seen(terminal.getvalue()) == ["log 0", "log 1", "log 2"]


def test_curve_is_redrawn_after_the_terminal_becomes_narrower(terminal: Bar, monkeypatch: Any) -> None:
    """Lines of 59 columns fold at 45 columns: the cursor must move up by all folded lines."""
    shown = curve(terminal)
    shown.draw(terminal, 4.2)
    width = [len(re.sub(r"\x1b\[\d*[mK]", "", line)) for line in terminal.getvalue().split("\n")]
    before = len(terminal.getvalue())
    monkeypatch.setenv("COLUMNS", "45")
    shown.draw(terminal, 4.2)
    (up,) = re.findall(r"\x1b\[(\d+)A", terminal.getvalue()[before:])
    assert int(up) == sum(1 if w <= 45 else 2 for w in width[: console.HEIGHT + 1])


def test_curve_is_drawn_after_enough_steps_and_seconds(terminal: Bar) -> None:
    curve(terminal, console.LEAST_STEPS - 1).draw(terminal, 4.2)
    now = [0.0]
    shown = console.LiveCurve(terminal, clock=lambda: now[0])
    for step in range(50):
        shown.step(step, 1.0)
    shown.draw(terminal, 1.0)
    assert terminal.getvalue() == ""
    now[0] = console.SECONDS
    shown.draw(terminal, 1.0)
    drawn = terminal.getvalue()
    shown.draw(terminal, 1.0)
    assert drawn
    assert terminal.getvalue() == drawn, "not again at once"


def test_curve_of_long_runs_keeps_few_points(terminal: Bar) -> None:
    shown = curve(terminal, 10 * console.POINTS)
    assert len(shown._steps) <= console.POINTS + 1
    shown.draw(terminal, 4.2)
    assert seen(terminal.getvalue())[console.HEIGHT - 1].startswith("   4┤")


def test_curve_is_not_drawn_in_unsuitable_terminals(terminal: Bar, monkeypatch: pytest.MonkeyPatch) -> None:
    """No curve in small or dumb terminals, in pipes, or with live=False."""
    assert console.allows(terminal)
    for variable, value in (("TERM", "dumb"), ("TERM", None), ("COLUMNS", "39"), ("LINES", "12")):
        with pytest.MonkeyPatch.context() as patch, case(variable, value):
            if value is None:
                patch.delenv(variable)
            else:
                patch.setenv(variable, value)
            assert not console.allows(terminal)
    assert not console.allows(io.StringIO())
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert Console(live=True)._curve is not None
    assert Console(live=False)._curve is None
    terminal.encoding = "latin-1"
    assert not console.allows(terminal)


real = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX's")


@real
def test_training_draws_the_curve_in_terminals_only(tmp_path: Path) -> None:
    """In a terminal, and in a pipe."""
    from tests.graphnet_rnn.apps.cli.pseudo_terminal import Terminal

    (tmp_path / "text.txt").write_text("a cat sat on a mat, and a rat sat on it.\n" * 330, encoding="utf-8")
    lines = [
        "import sys",
        "from graphnet_rnn.apps.cli import console, main",
        "console.SECONDS = 0.0",
        "sys.exit(main(sys.argv[1:]))",
    ]
    (tmp_path / "quick.py").write_text("\n".join(lines), encoding="utf-8")
    how = "quick.py train text.txt --units 8 --time 10 --batch 4 --epochs 2 --sample 30 --out"
    path = [str(Path(console.__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"LINES": "30", "COLUMNS": "90", "PYTHONIOENCODING": "utf-8"}
    environment["PYTHONPATH"] = os.pathsep.join(path)

    def written(line: str) -> str:
        terminal = {"rows": 30, "columns": 90, "environment": environment, "folder": tmp_path}
        with Terminal(["sh", "-c", f"exec '{sys.executable}' {line}"], **terminal) as t:
            assert t.wait() == 0
            return t.drawn.decode()

    text = written(f"{how} run")
    assert text.count("⠒\x1b[0m training") >= 2, "it was drawn more than once"
    lines = seen(text, 30, 90, scrolled=True)
    assert not [line for line in lines if "┤" in line or "█" in line]
    assert [line.split(":")[0] for line in lines[1:3]] == ["text", "folder"]
    ends = [line.split(":")[0] for line in lines if line.startswith("e")]
    assert ends == ["epoch   1", "epoch   2", "ended (epochs)"]
    # In the second epoch, the curve with the first validation is below the log.
    assert any("●" in line for line in seen(text[: text.rindex("training")], 30, 90))
    assert "┤" in written(f"{how} other > log")
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert "ended (epochs)" in log
    assert not set("\x1b┤") & set(log)


@pytest.fixture
def sweep(tmp_path: Path, terminal: Bar, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "t.txt").write_text("abc" * 99, encoding="utf-8")
    settings = {"cell": Values(("GRU", "LSTM")), "units": Values((32, 64)), "rate": 0.01, "epochs": 9}
    return Sweep(Recipe(str(tmp_path / "t.txt"), settings), tmp_path / "s", workers=2)


def trained(sweep: Sweep, number: int, *values: float, state: str = "") -> Any:
    """Writes a run with these values, 20 s per epoch."""
    entry = sweep.results.entries[number]
    history(entry.run, *values)
    times = [json.dumps({"epoch": i, "seconds": 20.0}) + "\n" for i in range(len(values))]
    (entry.run / "timing.jsonl").write_text("".join(times), encoding="utf-8")
    if state:
        entry.end(state)
    entry.look()
    return entry


def test_table_of_running_runs(sweep: Sweep) -> None:
    entries = [trained(sweep, 0, 2.5, 2.0, 2.25), trained(sweep, 3)]
    assert table(entries, ["cell", "units"], 9, 80) == [
        "run     cell  units  epoch  last   best   left",
        "0000-0  GRU   32     3/9    2.250  2.000  2 min",
        "0003-0  LSTM  64     0/9",
    ]
    narrow = ["run     epoch  last", "0000-0  3/9    2.250", "0003-0  0/9"]
    assert table(entries, ["cell", "units"], 9, 20) == narrow
    for width in range(1, 60):
        assert [len(line) <= width for line in table(entries, ["cell", "units"], 9, width)] == [True] * 3
    assert table([], ["cell"], 9, 80) == []


@pytest.mark.parametrize("columns", [80, 20])
def test_table_is_redrawn_in_place(sweep: Sweep, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Messages of ended runs scroll above the table, which is erased at the end."""
    stream = Stream()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", stream)
    clock = iter(range(0, 10_000, 60))
    shown = SweepTable(sweep, stream, clock=lambda: float(next(clock)))
    head = seen(stream.getvalue(), 24, columns)
    assert head[-1] == "0 of 4 runs ended"[: columns - 1]
    trained(sweep, 0, 2.5)
    shown.seen(trained(sweep, 1, 2.5, 2.125))
    lines = seen(stream.getvalue(), 24, columns)
    going = table(sweep.results.entries[:2], ["cell", "units"], 9, columns - 1)
    assert lines[:-1] == [*head[:-1], *going]
    told = "0 of 4 runs ended, best 2.125 bits/char (0001-0), 22 min left"
    assert lines[-1].startswith(told if columns == 80 else told[:17])
    shown.seen(trained(sweep, 1, 2.5, 2.125, state="done"))
    text = "".join(seen(stream.getvalue(), 24, columns))
    assert "0001-0 done: 2.125 bits/char  cell=GRU units=64" in text
    assert "0 of 4" not in text
    assert "1 of 4 runs ended"[: columns - 1] in text
    shown.close()
    left = "\n".join(seen(stream.getvalue(), 24, columns))
    assert not re.search("epoch|ended", left)


def test_table_omits_runs_waiting_for_the_next_rung(tmp_path: Path, sweep: Sweep) -> None:
    wanted = Recipe(str(tmp_path / "t.txt"), {"units": Values((1, 2, 3)), "epochs": 9}, halving=Halving(1, 3))
    halved = Sweep(wanted, tmp_path / "h", workers=2)
    for number in range(3):
        trained(halved, number, *([2.0] if number else []))
    stream = Stream()
    SweepTable(halved, stream)
    assert [line.split()[0] for line in seen(stream.getvalue())] == ["run", "0000-0", "0"]


def test_without_colours_and_in_a_pipe(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    out, pipe = io.StringIO(), io.StringIO()
    trained(sweep, 0, 2.5)
    for colour in (True, False):
        if not colour:
            monkeypatch.setenv("NO_COLOR", "1")
        stream = Stream()
        SweepTable(sweep, stream)
        assert ("\x1b[1m" in stream.getvalue()) == colour
    monkeypatch.setattr(sys, "stdout", out)
    shown = SweepTable(sweep, pipe)
    shown.seen(trained(sweep, 0, 2.5, 2.25))
    shown.seen(trained(sweep, 0, 2.5, 2.25, state="done"))
    shown.close()
    assert pipe.getvalue() == ""
    assert out.getvalue().splitlines() == [
        f"4 runs in {sweep.results.folder}, 2 at a time",
        "0000-0 done: 2.250 bits/char  cell=GRU units=32",
    ]


@pytest.mark.slow
@real
def test_a_sweep_in_a_terminal(tmp_path: Path) -> None:
    from tests.graphnet_rnn.apps.cli.pseudo_terminal import Terminal

    (tmp_path / "book.txt").write_text("the cat sat on the mat, and the rat sat on the hat.\n" * 20, "utf-8")
    command = [*command_of(tmp_path, 100, "[4, 8]")[:-2], "--out=s", "--workers=1"]
    with Terminal(command, rows=20, columns=60, folder=tmp_path, environment={"NO_COLOR": "1"}) as t:
        t.until(lambda: t.sees("0000-0  4      ") and t.sees("/100"))
        place = next(i for i, line in enumerate(t.lines) if line.startswith("0000-0"))
        assert t.lines[place - 1].split() == ["run", "units", "epoch", "last", "best", "left"]
        assert t.lines[place + 1].startswith("0 of 2 runs ended")
        t.until(lambda: t.sees("0001-0  8      "))
        assert t.lines[place - 1].startswith("0000-0 done: ")  # where the head was
        assert t.wait() == 0
        assert not any("runs ended" in line for line in t.lines)
        assert t.sees("best run: s/000")
