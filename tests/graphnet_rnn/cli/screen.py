"""A terminal of so many lines and columns, as far as progress bars and curves drawn in place need one."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b.|[\s\S]")


class Screen:
    """What a person sees after some bytes: `text()`; `everything()` with what has scrolled away."""

    def __init__(self, lines: int = 30, columns: int = 90) -> None:
        self.lines, self.columns = lines, columns
        self.rows: list[dict[int, str]] = [{}]
        self.row = self.column = 0

    def write(self, text: str) -> None:
        for match in _TOKEN.finditer(text):
            token, number, kind = match[0], int(match[1] or 1), match[2]
            if kind == "A":
                self.row = max(self.row - number, self._top, 0)
            elif kind == "K":
                self.rows[self.row] = {c: x for c, x in self.rows[self.row].items() if c < self.column}
            elif kind == "J":
                self.rows[self.row] = {c: x for c, x in self.rows[self.row].items() if c < self.column}
                del self.rows[self.row + 1 :]
            elif kind == "m":
                pass
            elif kind:
                raise AssertionError(f"this terminal does not know {token!r}")
            elif token == "\r":
                self.column = 0
            elif token == "\n":
                self._down()
            else:
                if self.column == self.columns:
                    self._down()
                self.rows[self.row][self.column] = token
                self.column += 1

    def _down(self) -> None:
        """To the start of the next line, as a terminal's driver has it."""
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.rows):
            self.rows.append({})

    @property
    def _top(self) -> int:
        return len(self.rows) - self.lines

    def everything(self) -> str:
        lines = [
            "".join(row.get(c, " ") for c in range(max(row, default=-1) + 1)).rstrip() for row in self.rows
        ]
        return "\n".join(lines).rstrip("\n")

    def text(self) -> str:
        return "\n".join(self.everything().split("\n")[-self.lines :])
