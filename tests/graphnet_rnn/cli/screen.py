"""What a person sees of what was written to a terminal (pyte)."""

from __future__ import annotations

import io

import pyte


def seen(text: str, lines: int = 30, columns: int = 60, scrolled: bool = False) -> list[str]:
    """The lines, without empty ones at the end. scrolled: with those that have scrolled away, too."""
    screen = pyte.HistoryScreen(columns, lines, history=10_000)
    screen.set_mode(pyte.modes.LNM)  # as a terminal's driver has it
    pyte.Stream(screen).feed(text)
    rows = [*(screen.history.top if scrolled else ()), *(screen.buffer[y] for y in range(lines))]
    shown = ["".join(row[x].data for x in range(columns)).rstrip() for row in rows]
    while len(shown) > 1 and not shown[-1]:
        shown.pop()
    return shown


class Stream(io.StringIO):
    """What is, or is not, a terminal."""

    encoding = "utf-8"

    def __init__(self, terminal: bool = True) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal
