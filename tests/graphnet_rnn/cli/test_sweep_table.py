"""The table of the runs that go on: what is seen on a terminal, on a narrow one, and in a pipe."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from graphnet_rnn.cli.sweep_table import SweepTable, table
from graphnet_rnn.sweep import Halving, Recipe, Sweep, Values
from tests.graphnet_rnn.cli.screen import Screen

if sys.platform != "win32":
    from tests.graphnet_rnn.cli.pseudo_terminal import Terminal


class Stream(io.StringIO):
    """What standard output and standard error write to."""

    encoding = "utf-8"

    def __init__(self, terminal: bool = True) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def seen(self, columns: int = 80) -> list[str]:
        screen = Screen(24, columns)
        screen.write(self.getvalue())
        return screen.text().split("\n")


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    (tmp_path / "t.txt").write_text("abc" * 99, encoding="utf-8")
    settings = {"cell": Values(("GRU", "LSTM")), "units": Values((32, 64)), "rate": 0.01, "epochs": 9}
    return Sweep(Recipe(str(tmp_path / "t.txt"), settings), tmp_path / "s", workers=2)


def trained(sweep: Sweep, number: int, *values: float, state: str = "") -> Any:
    """A run that has these values, of 20 s each."""
    entry = sweep.book.entries[number]
    entry.run.mkdir(parents=True, exist_ok=True)
    rows = [{"event": "start", "unit": "bits/char"}, *({"event": "epoch", "valid_bpc": v} for v in values)]
    (entry.run / "history.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    times = "".join(json.dumps({"epoch": i, "seconds": 20.0}) + "\n" for i, _ in enumerate(values))
    (entry.run / "timing.jsonl").write_text(times, encoding="utf-8")
    if state:
        entry.end(state)
    entry.look()
    return entry


def test_a_table_of_what_goes_on(sweep: Sweep) -> None:
    entries = [trained(sweep, 0, 2.5, 2.0, 2.25), trained(sweep, 3)]
    assert table(entries, ["cell", "units"], 9, 80) == [
        "run     cell  units  epoch  last   best   left",
        "0000-0  GRU   32     3/9    2.250  2.000  2 min",
        "0003-0  LSTM  64     0/9",
    ]
    assert table(entries, ["cell", "units"], 9, 40) == [
        "run     cell  epoch  last   best   left",
        "0000-0  GRU   3/9    2.250  2.000  2 min",
        "0003-0  LSTM  0/9",
    ]
    assert table(entries, ["cell", "units"], 9, 20) == [
        "run     epoch  last",
        "0000-0  3/9    2.250",
        "0003-0  0/9",
    ]
    for width in range(1, 60):
        found = table(entries, ["cell", "units"], 9, width)
        assert len(found) == 3
        assert all(len(line) <= width for line in found)
    assert table([], ["cell"], 9, 80) == []


@pytest.mark.parametrize("columns", [80, 40, 20])
def test_it_is_drawn_in_its_place(sweep: Sweep, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """What has ended scrolls above it; nothing of it is left at the end."""
    stream = Stream()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", stream)
    clock = iter(range(0, 10_000, 60))
    shown = SweepTable(sweep, stream, clock=lambda: float(next(clock)))
    head = stream.seen(columns)
    assert head[-1] == "0 of 4 runs ended"[: columns - 1]
    trained(sweep, 0, 2.5)
    shown.seen(trained(sweep, 1, 2.5, 2.125))
    lines = stream.seen(columns)
    going = table(sweep.book.entries[:2], ["cell", "units"], 9, columns - 1)
    assert lines == [*head[:-1], *going, lines[-1]]
    assert lines[-1].startswith("0 of 4 runs ended"[: columns - 1])
    if columns == 80:
        assert lines[-1] == "0 of 4 runs ended, best 2.125 bits/char (0001-0), 22 min left"
    shown.seen(trained(sweep, 1, 2.5, 2.125, state="done"))
    lines = "\n".join(stream.seen(columns)).replace("\n", "")
    assert "0001-0 done: 2.125 bits/char  cell=GRU units=64" in lines
    assert lines.count("0 of 4") == 0
    assert "1 of 4 runs ended"[: columns - 1] in lines
    shown.close()
    left = "\n".join(stream.seen(columns))
    assert "epoch" not in left
    assert "ended" not in left


def test_a_run_that_waits_for_the_next_rung_is_not_among_them(tmp_path: Path, sweep: Sweep) -> None:
    wanted = Recipe(str(tmp_path / "t.txt"), {"units": Values((1, 2, 3)), "epochs": 9}, halving=Halving(1, 3))
    halved = Sweep(wanted, tmp_path / "h", workers=2)
    for number in range(3):
        trained(halved, number, *([2.0] if number else []))
    stream = Stream()
    SweepTable(halved, stream)
    assert [line.split()[0] for line in stream.seen()] == ["run", "0000-0", "0"]


def test_without_colours_and_in_a_pipe(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Stream(terminal=False)
    monkeypatch.setattr(sys, "stdout", out)
    trained(sweep, 0, 2.5)
    coloured = Stream()
    SweepTable(sweep, coloured)
    assert "\x1b[1m" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Stream()
    SweepTable(sweep, plain)
    assert "\x1b[1m" not in plain.getvalue()
    assert plain.seen() == coloured.seen()
    out.truncate(0)
    out.seek(0)
    pipe = Stream(terminal=False)
    shown = SweepTable(sweep, pipe)
    shown.seen(trained(sweep, 0, 2.5, 2.25))
    shown.seen(trained(sweep, 0, 2.5, 2.25, state="done"))
    shown.close()
    assert pipe.getvalue() == ""
    assert out.getvalue().splitlines() == [
        f"4 runs in {sweep.book.folder}, 2 at a time",
        "0000-0 done: 2.250 bits/char  cell=GRU units=32",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX's")
def test_a_sweep_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(
        "the cat sat on the mat, and the rat sat on the hat.\n" * 20, encoding="utf-8"
    )
    (tmp_path / "r.toml").write_text(
        "data = 'book.txt'\n[settings]\nunits = { values = [4, 8] }\ntime = 10\nbatch = 4\nsample = 0\n"
        "no_early_stopping = true\nepochs = 100\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "graphnet_rnn", "sweep", "r.toml", "--out=s", "--workers=1"]
    with Terminal(command, rows=20, columns=60, folder=tmp_path, environment={"NO_COLOR": "1"}) as t:
        t.until(lambda: t.sees("0000-0  4      ") and t.sees("/100"), 60)
        place = next(i for i, line in enumerate(t.lines) if line.startswith("0000-0"))
        assert t.lines[place - 1].split() == ["run", "units", "epoch", "last", "best", "left"]
        assert t.lines[place + 1].startswith("0 of 2 runs ended")
        t.until(lambda: t.sees("0001-0  8      "), 60)
        assert t.lines[place - 1].startswith("0000-0 done: ")  # where the head was
        assert t.wait(300) == 0
        assert not any("runs ended" in line for line in t.lines)
        assert t.sees("the best run is in s/000")
