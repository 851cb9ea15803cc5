"""Text coloured by the probability of each character, the wrong guess under it (Lynge 2016, 5.4)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from viz.errors import DrawingError

__all__ = ["coloured", "coloured_html"]

#: Red, amber, green: the colours of probability 0, ½ and 1, light enough for black letters.
_SCALE = ((244, 120, 108), (250, 218, 120), (122, 204, 130))
_RESET = "\x1b[0m"


class _Cell(NamedTuple):
    """A character, its probability, and the guess under it (a space where the guess was right)."""

    character: str
    probability: float
    guess: str


def coloured(
    text: str, probabilities: Sequence[float], guesses: Sequence[str] | None = None, width: int = 80
) -> str:
    """The text for a terminal: red where the model gave it low probability, green where high.

    guesses: the character that the model thought most probable at each place; wrong ones are printed
    beneath. A line break is shown as ⏎. Raises DrawingError if the lengths differ.
    """
    lines = []
    for row in _rows(text, probabilities, guesses, width):
        painted = "".join(
            f"\x1b[30;48;2;{r};{g};{b}m{cell.character}"
            for cell in row
            for r, g, b in [_colour(cell.probability)]
        )
        lines.append(painted + _RESET)
        lines += _beneath(row)
    return "\n".join(lines)


def coloured_html(
    text: str, probabilities: Sequence[float], guesses: Sequence[str] | None = None, width: int = 80
) -> str:
    """The same as one `<pre>` element; each character's tooltip tells its probability."""
    lines = []
    for row in _rows(text, probabilities, guesses, width):
        lines.append("".join(_span(cell) for cell in row))
        lines += [f'<span style="color:#777777">{escape(line)}</span>' for line in _beneath(row)]
    body = "\n".join(lines)
    return (
        f'<pre style="font-family:monospace;line-height:1.35;color:#111111;background:#ffffff">{body}</pre>'
    )


def _span(cell: _Cell) -> str:
    r, g, b = _colour(cell.probability)
    shown = f'style="background:#{r:02x}{g:02x}{b:02x}" title="p = {cell.probability:.3g}"'
    return f"<span {shown}>{escape(cell.character)}</span>"


def _rows(
    text: str, probabilities: Sequence[float], guesses: Sequence[str] | None, width: int
) -> Iterator[list[_Cell]]:
    """The text cut into lines: at its line breaks, and where a line is full."""
    _check(text, probabilities, guesses, width)
    row: list[_Cell] = []
    used = 0
    for i, character in enumerate(text):
        wrong = guesses is not None and guesses[i] != character
        cell = _Cell(
            _visible(character), float(probabilities[i]), _visible(guesses[i]) if guesses and wrong else " "
        )
        cells = _cells(cell.character)
        if row and used + cells > width:
            yield row
            row, used = [], 0
        row.append(cell)
        used += cells
        if character == "\n":
            yield row
            row, used = [], 0
    if row:
        yield row


def _check(text: str, probabilities: Sequence[float], guesses: Sequence[str] | None, width: int) -> None:
    for name, values in (("probabilities", probabilities), ("guesses", guesses)):
        if values is not None and len(values) != len(text):
            raise DrawingError(
                f"{name} holds {len(values)} values for {len(text)} characters; give one for each character."
            )
    for i, p in enumerate(probabilities):
        if not 0 <= p <= 1:
            raise DrawingError(f"probabilities[{i}] is {p}; a probability is in [0, 1].")
    if width < 2:
        raise DrawingError(f"width must be at least 2, not {width}.")


def _beneath(row: Sequence[_Cell]) -> list[str]:
    """The line of wrong guesses, each exactly under its character; no line if all were right."""
    if all(cell.guess == " " for cell in row):
        return []
    line = ""
    for cell in row:
        room = _cells(cell.character)
        guess = cell.guess if _cells(cell.guess) <= room else "…"
        line += (guess + " " * room)[: room if _cells(guess) == len(guess) else 1] if room else ""
    return [line.rstrip()]


def _visible(character: str) -> str:
    """One visible character: a control character printed raw could move the cursor or worse."""
    if character == "\n":
        return "⏎"
    code = ord(character[0]) if character else 0x20
    if code < 0x20:
        return chr(0x2400 + code)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return "�"
    return chr(code)


def _cells(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _colour(probability: float) -> tuple[int, int, int]:
    low, middle, high = _SCALE
    start, end, along = (
        (low, middle, 2 * probability) if probability < 0.5 else (middle, high, 2 * probability - 1)
    )
    r, g, b = (round(a + (z - a) * along) for a, z in zip(start, end, strict=True))
    return r, g, b
