"""Progress on the terminal: a bar, lines, and a learning curve that is redrawn in place."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from graphnet_rnn.apps.cli.answers import fitting, print_sample
from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.training.listeners import Outcome
from graphnet_rnn.training.progress_bar import ProgressBar
from graphnet_rnn.training.text import TextProblem
from graphnet_rnn.training.trainer import Trainer

#: Rows of the curve, and of the terminal with its caption, the bar and a line of the log.
HEIGHT = 7
LEAST_LINES, LEAST_COLUMNS = HEIGHT + 6, 40
#: Seconds between pictures.
SECONDS = 1.0
#: Minimum number of steps for a curve.
LEAST_STEPS = 10
#: Maximum number of points; more are halved.
POINTS = 4096


def moves(stream: TextIO) -> bool:
    """True if the stream is a terminal with a movable cursor."""
    if not stream.isatty() or os.environ.get("TERM", "dumb" if os.name == "posix" else "") == "dumb":
        return False
    return os.name != "nt" or bool(os.environ.get("WT_SESSION"))  # older consoles show escape codes as text


def allows(stream: TextIO) -> bool:
    """True if the stream is a terminal with a movable cursor, enough room, and Braille dots."""
    if not moves(stream):
        return False
    try:
        "⣿●┤".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    size = shutil.get_terminal_size()
    return size.columns >= LEAST_COLUMNS and size.lines >= LEAST_LINES


class InPlace:
    """Lines at the end of a terminal that are redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn: list[int] = []  # how many columns each line takes

    def show(self, lines: Sequence[str]) -> None:
        """Replaces the previous lines; the cursor is below them."""
        fewer = "\x1b[J" if len(lines) < len(self._drawn) else ""
        self._stream.write(self._up() + "".join(f"{line}\x1b[K\n" for line in lines) + fewer)
        self._stream.flush()
        self._drawn = [_columns(line) for line in lines]

    def erase(self) -> None:
        """Erases the lines."""
        if self._drawn:
            self._stream.write(self._up() + "\x1b[J")
            self._stream.flush()
        self._drawn = []

    def _up(self) -> str:
        """Escape code to the first drawn line; a narrower terminal has wrapped long lines."""
        columns = shutil.get_terminal_size().columns
        lines = sum(max(1, -(-width // columns)) for width in self._drawn)
        return f"\r\x1b[{lines}A" if lines else "\r"


class LiveCurve:
    """Curve of the cost of each step, with validation as points; erased before anything is printed.

    unit: unit of the cost, for the caption.
    """

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic, unit: str = "bits/char"
    ) -> None:
        self._place, self._clock, self.unit = InPlace(stream), clock, unit
        self._steps: list[tuple[float, float]] = []
        self._epochs: list[tuple[float, float]] = []
        self._due = clock() + SECONDS

    def step(self, epoch: float, cost: float) -> None:
        """epoch: number of epochs so far, a fraction."""
        self._steps.append((epoch, cost))
        if len(self._steps) > POINTS:
            pairs = zip(self._steps[::2], self._steps[1::2], strict=False)
            self._steps = [((a + c) / 2, (b + d) / 2) for (a, b), (c, d) in pairs]

    def epoch(self, epoch: float, cost: float) -> None:
        """Adds the validation cost of an epoch."""
        self._epochs.append((epoch, cost))

    def draw(self, bar: Any, smoothed: float) -> None:
        """Draws above a tqdm bar, at most a few times a second. smoothed: recent cost, for the caption."""
        if self._clock() < self._due or len(self._steps) < LEAST_STEPS:
            return
        lines = self._lines(smoothed)
        with bar.get_lock():
            bar.clear(nolock=True)
            self._place.show(lines)
            bar.refresh(nolock=True)
        self._due = self._clock() + SECONDS

    def erase(self) -> None:
        """Erases the picture; close the bar below it before."""
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
        words = [f"{blue}⠒{plain} training {smoothed:.3f}"]
        if self._epochs:
            words.append(f"{red}●{plain} validation {self._epochs[-1][1]:.3f}")
        words += [
            *([self.unit] if self.unit else []),
            f"epochs {self._steps[0][0]:.1f} to {self._steps[-1][0]:.1f}",
        ]
        return fitting(words, width, _columns)


def _columns(line: str) -> int:
    return len(re.sub(r"\x1b\[\d*m", "", line))


class Console(ProgressBar):
    """Progress bar and lines, with samples and a learning curve.

    live: True draws a curve above the bar, if the terminal allows.
    """

    def __init__(self, quiet: bool = False, live: bool = True) -> None:
        super().__init__()
        self.quiet = quiet
        self._curve = LiveCurve(sys.stderr) if live and not quiet and allows(sys.stderr) else None

    def started(self, trainer: Trainer) -> None:
        if self.quiet:
            return
        progress, problem = trainer.progress, trainer.problem
        if self._curve is not None:
            self._curve.unit = problem.unit_name
        print(f"{problem.model!r}")
        if isinstance(problem, TextProblem):
            data = problem.corpus
            print(
                f"text: {len(data.train):,} characters to train on, {len(data.valid):,} to validate, "
                f"{len(data.test):,} to test; {len(data.vocabulary)} different"
            )
        if progress.step:
            print(f"continuing at epoch {progress.epoch + 1}, step {progress.step:,}")
            self._recall(trainer)
        print(f"folder: {trainer.folder.path}  (Ctrl-C stops with a checkpoint)")

    def _recall(self, trainer: Trainer) -> None:
        if self._curve is None:
            return
        from viz.charts.history import is_number, read_history

        trained, validated = trainer.problem.row_names
        for row in read_history(trainer.folder.history):
            if row.get("event") == "step" and is_number(row.get(trained)):
                self._curve.step(row["epoch"], row[trained])
            elif row.get("event") == "epoch" and is_number(row.get(validated)):
                self._curve.epoch(row["epoch"], row[validated])

    def stepped(self, trainer: Trainer, report: Report) -> None:
        if self.quiet:
            return
        super().stepped(trainer, report)
        if self._curve is not None:
            progress = trainer.progress
            self._curve.step(progress.epoch + progress.epoch_step / len(trainer.problem), trainer.cost)
            self._curve.draw(self._bar, self._mean)

    def close(self) -> None:
        """Erases the bar and the curve."""
        self._close()
        if self._curve is not None:
            self._curve.erase()

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self.close()
        if self.quiet:
            return
        validated = row[trainer.problem.row_names[1]]
        if self._curve is not None and validated is not None:
            self._curve.epoch(row["epoch"], validated)
        super().epoch_ended(trainer, row)
        if row.get("sample"):
            print_sample(str(row["sample"]))
        sys.stdout.flush()

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        self.close()
        if not self.quiet:
            super().ended(trainer, outcome)
