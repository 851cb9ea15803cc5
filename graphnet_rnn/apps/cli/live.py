"""A curve that is drawn again and again in its place, above the progress bar, where the terminal allows."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

__all__ = ["InPlace", "LiveCurve", "allows", "moves"]

#: Rows of the curve; with its caption, the bar and a line of the log it needs some more.
HEIGHT = 7
LEAST_LINES, LEAST_COLUMNS = HEIGHT + 6, 40
#: Between pictures: more often nobody looks.
SECONDS = 1.0
#: Fewer steps make no curve.
LEAST_STEPS = 10
#: More points than this are halved: a terminal has no more columns of dots.
POINTS = 4096


def moves(stream: TextIO) -> bool:
    """Whether the stream is a terminal that moves its cursor."""
    if not stream.isatty() or os.environ.get("TERM", "dumb" if os.name == "posix" else "") == "dumb":
        return False
    return os.name != "nt" or bool(os.environ.get("WT_SESSION"))  # older consoles show escape codes as text


def allows(stream: TextIO) -> bool:
    """Whether the stream is a terminal that moves its cursor, has room, and can write the dots."""
    if not moves(stream):
        return False
    try:
        "⣿●┤".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    size = shutil.get_terminal_size()
    return size.columns >= LEAST_COLUMNS and size.lines >= LEAST_LINES


class InPlace:
    """Lines at the end of a terminal that are drawn again where they were."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn: list[int] = []  # how many columns each line takes

    def show(self, lines: Sequence[str]) -> None:
        """These, in the place of those that were there; the cursor is below them then."""
        fewer = "\x1b[J" if len(lines) < len(self._drawn) else ""
        self._stream.write(self._up() + "".join(f"{line}\x1b[K\n" for line in lines) + fewer)
        self._stream.flush()
        self._drawn = [_columns(line) for line in lines]

    def erase(self) -> None:
        """Takes them away."""
        if self._drawn:
            self._stream.write(self._up() + "\x1b[J")
            self._stream.flush()
        self._drawn = []

    def _up(self) -> str:
        """To the first line of what was drawn; a terminal that has become narrower has folded long lines."""
        columns = shutil.get_terminal_size().columns
        lines = sum(max(1, -(-width // columns)) for width in self._drawn)
        return f"\r\x1b[{lines}A" if lines else "\r"


class LiveCurve:
    """The cost of each step, and validation as points; erased without a trace before anything is printed.

    unit: in words, for the caption.
    """

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic, unit: str = "bits/char"
    ) -> None:
        self._place, self._clock, self.unit = InPlace(stream), clock, unit
        self._steps: list[tuple[float, float]] = []
        self._epochs: list[tuple[float, float]] = []
        self._due = clock() + SECONDS

    def step(self, epoch: float, cost: float) -> None:
        """epoch: how many have passed, a fraction."""
        self._steps.append((epoch, cost))
        if len(self._steps) > POINTS:
            pairs = zip(self._steps[::2], self._steps[1::2], strict=False)
            self._steps = [((a + c) / 2, (b + d) / 2) for (a, b), (c, d) in pairs]

    def epoch(self, epoch: float, cost: float) -> None:
        """The validation after an epoch."""
        self._epochs.append((epoch, cost))

    def draw(self, bar: Any, smoothed: float) -> None:
        """Draws above a tqdm bar, if it is time. smoothed: the cost of late, for the caption."""
        if self._clock() < self._due or len(self._steps) < LEAST_STEPS:
            return
        lines = self._lines(smoothed)
        with bar.get_lock():
            bar.clear(nolock=True)
            self._place.show(lines)
            bar.refresh(nolock=True)
        self._due = self._clock() + SECONDS

    def erase(self) -> None:
        """Takes the picture away; the bar below it must be closed."""
        self._place.erase()

    def _lines(self, smoothed: float) -> list[str]:
        from viz.charts.braille import text_curve

        size = shutil.get_terminal_size()
        width, colour = min(100, size.columns - 1), "NO_COLOR" not in os.environ
        room = max(2, min(HEIGHT, size.lines - 6))
        rows = text_curve(self._steps, self._epochs, width, room, colour)
        return [
            *rows,
            self._caption(smoothed, width, *(("\x1b[34m", "\x1b[31m", "\x1b[0m") if colour else ("",) * 3)),
        ]

    def _caption(self, smoothed: float, width: int, blue: str, red: str, plain: str) -> str:
        """What the lines are; the less important words are left out where they do not fit."""
        words = [f"{blue}⠒{plain} training {smoothed:.3f}"]
        if self._epochs:
            words.append(f"{red}●{plain} validation {self._epochs[-1][1]:.3f}")
        words += [
            *([self.unit] if self.unit else []),
            f"epochs {self._steps[0][0]:.1f} to {self._steps[-1][0]:.1f}",
        ]
        while _columns("  ".join(words)) > width:
            words.pop()
        return "  ".join(words)


def _columns(line: str) -> int:
    """How many columns it takes: escape codes take none."""
    return len(re.sub(r"\x1b\[\d*m", "", line))
