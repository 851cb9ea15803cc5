"""Table of the current runs of a sweep, redrawn in place if the terminal allows."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from graphnet.system.text import in_brief
from graphnet_rnn.apps.cli.console import InPlace, moves
from graphnet_rnn.apps.sweep.results import ENDS, Entry
from graphnet_rnn.apps.sweep.sweep import Sweep

#: Maximum width of a setting's value.
WIDEST = 16
#: Columns between two table cells.
BETWEEN = 2


class SweepTable:
    """A line for each finished run on standard output; below it, on a terminal, the current runs and the work left.

    stream: stream of the table, standard error.
    """

    def __init__(
        self, sweep: Sweep, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sweep, self._clock = sweep, clock
        stream = sys.stderr if stream is None else stream
        self._place = InPlace(stream) if moves(stream) else None
        entries = sweep.results.look()
        self._ended = {entry.name for entry in entries if entry.state in ENDS}
        self._begun, self._before = clock(), self._over(entries)
        many = "as many as possible" if sweep.workers < 0 else sweep.workers
        before = f"; {len(self._ended):,} have ended, the sweep is resumed" if self._ended else ""
        print(f"{_runs(len(entries))} in {sweep.results.folder}, {many} at a time{before}", flush=True)
        self._draw()

    def seen(self, entry: Entry) -> None:
        """Records a change."""
        if entry.state in ENDS and entry.name not in self._ended:
            self._ended.add(entry.name)
            self.close()
            print(self._line(entry), flush=True)
        self._draw()

    def close(self) -> None:
        """Erases the table."""
        if self._place is not None:
            self._place.erase()

    def _over(self, entries: Sequence[Entry]) -> int:
        """Finished epochs, or finished runs for other budgets."""
        if self._sweep.recipe.effort:
            return sum(entry.epochs for entry in entries)
        return sum(entry.state in ENDS for entry in entries)

    def _line(self, entry: Entry) -> str:
        names = self._sweep.recipe.ranges
        words = " ".join(f"{name}={value}" for name, value in entry.settings.items() if name in names)
        what = entry.sentence if entry.state == "failed" else f"{_number(entry.best)} {entry.unit}"
        return f"{entry.name} {entry.state}: {what}  {words}".rstrip()

    def _draw(self) -> None:
        if self._place is None:
            return
        size, entries = shutil.get_terminal_size(), self._sweep.results.entries
        width = max(1, size.columns - 1)
        lines = table(self._now(entries), self._sweep.results.names, self._sweep.recipe.epochs, width)
        room = max(1, size.lines - 3)
        if len(lines) > room:
            lines = [*lines[:room], in_brief(f"and {_runs(len(lines) - room)} more", width)]
        plain = "NO_COLOR" in os.environ
        lines = [lines[0] if plain else f"\x1b[1m{lines[0]}\x1b[0m", *lines[1:]] if lines else []
        self._place.show([*lines, self._stands(entries, width)])

    def _now(self, entries: Sequence[Entry]) -> list[Entry]:
        """Current runs: those that have written last."""
        going = [e for e in entries if e.state == "begun" and not e.has_used(self._sweep.rung)]
        if 0 < self._sweep.workers < len(going):
            going = sorted(going, key=_touched, reverse=True)[: self._sweep.workers]
        return sorted(going, key=lambda entry: entry.name)

    def _stands(self, entries: Sequence[Entry], width: int) -> str:
        known = [entry for entry in entries if math.isfinite(entry.best)]
        words = [f"{len(self._ended):,} of {_runs(len(entries))} ended"]
        if known:
            best = min(known, key=lambda entry: entry.best)
            words.append(f"best {_number(best.best)} {best.unit} ({best.name})")
        whole, over = self._sweep.recipe.effort or len(entries), self._over(entries)
        spent, new = self._clock() - self._begun, over - self._before
        if new > 0 and whole > over:
            words.append(f"{_time(spent / new * (whole - over))} left")
        while len(words) > 1 and len(", ".join(words)) > width:
            words.pop(-1 if len(words) < 3 else 1)
        return ", ".join(words)[:width]


def table(entries: Sequence[Entry], names: Sequence[str], most: int, width: int) -> list[str]:
    """A header and a line for each run: settings, epoch, last and best validation, time left.

    Lines fit into `width`: settings are left out first, the last ones first, then the other columns from the right.
    most: epochs of a whole run. [] without current runs.
    """
    if not entries:
        return []
    columns = [("run", [entry.name for entry in entries])]
    settings = [
        (name, [_shown(entry.settings[name]) if name in entry.settings else "" for entry in entries])
        for name in names
    ]
    known = most < 1_000_000
    stands = [
        ("epoch", [f"{entry.epochs}/{most}" if known else str(entry.epochs) for entry in entries]),
        ("last", [_number(entry.values[-1]) if entry.values else "" for entry in entries]),
        ("best", [_number(entry.best) for entry in entries]),
        ("left", [_left(entry, most) if known else "" for entry in entries]),
    ]
    columns += settings + stands
    for each in [*reversed(settings), *reversed(stands)]:
        if _width(columns) > width:
            columns.remove(each)
    wide = [_wide(column) for column in columns]
    rows = [[name for name, _ in columns], *zip(*(cells for _, cells in columns), strict=True)]
    gap = " " * BETWEEN
    return [gap.join(c.ljust(w) for c, w in zip(row, wide, strict=True)).rstrip()[:width] for row in rows]


def _wide(column: tuple[str, list[str]]) -> int:
    return max(len(column[0]), *map(len, column[1]))


def _width(columns: Sequence[tuple[str, list[str]]]) -> int:
    return sum(map(_wide, columns)) + BETWEEN * (len(columns) - 1)


def _shown(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return in_brief(text, WIDEST)


def _number(value: float) -> str:
    return (f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}") if math.isfinite(value) else ""


def _left(entry: Entry, most: int) -> str:
    return (
        _time(entry.seconds / entry.epochs * (most - entry.epochs)) if entry.epochs and entry.seconds else ""
    )


def _time(seconds: float) -> str:
    """40 s, 12 min, 3.2 h"""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


def _touched(entry: Entry) -> float:
    try:
        return (entry.run / "history.jsonl").stat().st_mtime
    except OSError:
        return math.inf  # it begins
