"""SVG of colored terminal text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from viz.text import Scale, cells

#: Size of a character cell, in pixels.
WIDTH, HEIGHT, MARGIN, SIZE = 7.8, 17.0, 10.0, 13.0
_CODE = re.compile(r"\x1b\[([\d;]*)m")


class _Run(NamedTuple):
    column: int
    text: str
    ground: str
    bold: bool

    @property
    def places(self) -> int:
        return sum(map(cells, self.text))


def as_svg(terminal: str, scale: Scale) -> str:
    """`<svg>` of colored terminal text.

    Supports the escape codes of `viz.text`: background color, bold, and reset.
    """
    lines = [list(_runs(line)) for line in terminal.split("\n")]
    columns = max((run.column + run.places for line in lines for run in line), default=0)
    width, height = columns * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" '
        f'font-size="{SIZE:g}">',
        f'<rect width="100%" height="100%" fill="{scale.paper}"/>',
    ]
    coloured = False
    for row, line in enumerate(lines):
        y = MARGIN + row * HEIGHT
        beneath = coloured and not any(run.ground for run in line)
        coloured = any(run.ground for run in line)
        for run in line:
            x = MARGIN + run.column * WIDTH
            if run.ground:
                parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{run.places * WIDTH + 0.2:.1f}" height="{HEIGHT - 2:g}" '
                    f'fill="{run.ground}"/>'
                )
            if run.text.strip():
                ink = scale.ink if run.ground else scale.guess if beneath and not run.bold else scale.text
                weight = ' font-weight="bold"' if run.bold else ""
                # Each character has a fixed position, in any font.
                places = " ".join(f"{place:.1f}" for place in _places(run, x))
                parts.append(
                    f'<text x="{places}" y="{y + 12:.1f}" fill="{ink}"{weight} xml:space="preserve">'
                    f"{escape(run.text)}</text>"
                )
    return "\n".join([*parts, "</svg>", ""])


def _places(run: _Run, x: float) -> Iterator[float]:
    for character in run.text:
        yield x
        x += cells(character) * WIDTH


def _runs(line: str) -> Iterator[_Run]:
    column, ground, bold, start = 0, "", False, 0
    for code in [*_CODE.finditer(line), None]:
        text = line[start : code.start() if code else len(line)]
        if text:
            run = _Run(column, text, ground, bold)
            yield run
            column += run.places
        if code is not None:
            ground, bold, start = (*_after(code[1], ground, bold), code.end())


def _after(code: str, ground: str, bold: bool) -> tuple[str, bool]:
    if code in ("", "0"):
        return "", False
    if code == "1":
        return ground, True
    numbers = [int(part) for part in code.split(";")]
    if 48 in numbers:
        r, g, b = numbers[numbers.index(48) + 2 :][:3]
        return f"#{r:02x}{g:02x}{b:02x}", bold
    return ground, bold
