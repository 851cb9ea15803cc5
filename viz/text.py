"""Text colored by the probability of each character, with wrong guesses below (Lynge 2016, 5.4)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from graphnet.settings import is_number, shown
from graphnet.system.text import visible
from viz.errors import DrawingError, count_of

_Colour = tuple[int, int, int]


class Scale(NamedTuple):
    """Colors of probability 0, ½ and 1, and of letters on them; background, text and guesses of a page."""

    colours: tuple[_Colour, _Colour, _Colour]
    words: tuple[str, str, str]
    ink: str
    paper: str
    text: str
    guess: str


#: Light enough for black letters, or dark enough for white ones. Orange and blue differ for all kinds of color vision.
SCALES = {
    "light": Scale(
        ((244, 120, 108), (250, 218, 120), (122, 204, 130)), ("red", "amber", "green"),
        "#111111", "#ffffff", "#111111", "#6b6b6b",
    ),
    "dark": Scale(
        ((156, 38, 32), (118, 88, 10), (22, 104, 52)), ("red", "amber", "green"),
        "#ffffff", "#15181d", "#eceff3", "#949ba6",
    ),
    "colour-blind": Scale(
        ((230, 159, 0), (240, 240, 240), (86, 180, 233)), ("orange", "gray", "blue"),
        "#111111", "#ffffff", "#111111", "#6b6b6b",
    ),
}  # fmt: skip
_RESET = "\x1b[0m"
#: Levels of probability for numbered colors.
LEVELS = 24


class _Cell(NamedTuple):
    character: str
    probability: float | None
    guess: str


#: None: no prediction, so no color.
Probabilities = Sequence[float | None] | Sequence[float]


def coloured(
    text: str,
    probabilities: Probabilities,
    guesses: Sequence[str] | None = None,
    width: int = 80,
    theme: str = "light",
) -> str:
    """Text colored for a terminal: red for characters of low probability, green for high.

    text: text to color. probabilities: probability of each character; None for characters without a prediction, which
    get no color. guesses: most probable character at each position; wrong guesses are printed below. None (default) for
    none. width: characters in a line; 80 by default. theme: "light" (default), "dark", or "colour-blind" (orange and
    blue). A line break is shown as ⏎, a wrongly guessed space as ␣.
    Raises DrawingError if the lengths differ.

    >>> viz.coloured("ab", [0.9, 0.1]).count("[30;48")
    2
    """
    scale = scale_of(theme)
    lines = []
    for row in _rows(text, probabilities, guesses, width):
        painted = "".join(paint(cell.character, cell.probability, scale) for cell in row)
        lines.append(painted + _RESET)
        lines += _beneath(row)
    return "\n".join(lines)


def coloured_html(
    text: str,
    probabilities: Probabilities,
    guesses: Sequence[str] | None = None,
    width: int = 80,
    theme: str = "light",
) -> str:
    """Text colored by probability, as one `<pre>` element; tooltips show the probability of each character.

    text, probabilities, guesses, width, theme: as for `coloured`.
    Raises DrawingError if the lengths differ.

    >>> page = viz.coloured_html("ab", [0.9, 0.1])
    >>> page.count("<span"), 'title="p = 0.1"' in page
    (2, True)
    """
    scale = scale_of(theme)
    lines = []
    for row in _rows(text, probabilities, guesses, width):
        lines.append("".join(_span(cell, scale) for cell in row))
        lines += [f'<span style="color:{scale.guess}">{escape(line)}</span>' for line in _beneath(row)]
    body = "\n".join(lines)
    style = f"font-family:monospace;line-height:1.35;color:{scale.text};background:{scale.paper}"
    return f'<pre style="{style}">{body}</pre>'


def scale_of(theme: str) -> Scale:
    """Colors of a theme; raises DrawingError for an unknown name."""
    if not isinstance(theme, str) or theme not in SCALES:
        raise DrawingError(f"theme must be one of {', '.join(map(repr, SCALES))}, not {shown(theme, 40)}.")
    return SCALES[theme]


def paint(words: str, probability: float | None, scale: Scale) -> str:
    """Words on the color of a probability, for a terminal, without a reset."""
    if probability is None:
        return f"{_RESET}{words}"
    r, g, b = colour_of(probability, scale)
    return f"\x1b[{30 if scale.ink == '#111111' else 97};48;2;{r};{g};{b}m{words}"


def swatch(words: str, probability: float, scale: Scale) -> str:
    """Words on the color of a probability, as HTML."""
    return f'<span style="background:{_hex(probability, scale)};color:{scale.ink}">{escape(words)}</span>'


def palette(scale: Scale) -> list[str]:
    """Colors of the probabilities 0, 1/LEVELS ... 1, as #rrggbb."""
    return [_hex(level / LEVELS, scale) for level in range(LEVELS + 1)]


def _hex(probability: float, scale: Scale) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour_of(probability, scale))


def _span(cell: _Cell, scale: Scale) -> str:
    if cell.probability is None:
        return f'<span title="not predicted">{escape(cell.character)}</span>'
    ink = "" if scale.ink == scale.text else f";color:{scale.ink}"
    shown = f'style="background:{_hex(cell.probability, scale)}{ink}" title="p = {cell.probability:.3g}"'
    return f"<span {shown}>{escape(cell.character)}</span>"


def _rows(
    text: str, probabilities: Probabilities, guesses: Sequence[str] | None, width: int
) -> Iterator[list[_Cell]]:
    _check(text, probabilities, guesses, width)
    row: list[_Cell] = []
    used = 0
    for i, character in enumerate(text):
        wrong = guesses is not None and guesses[i] != character
        guess = visible(guesses[i]).replace(" ", "␣") if guesses and wrong else " "
        cell = _Cell(visible(character), _float(probabilities[i]), guess)
        places = cells(cell.character)
        if row and used + places > width:
            yield row
            row, used = [], 0
        row.append(cell)
        used += places
        if character == "\n":
            yield row
            row, used = [], 0
    if row:
        yield row


def _float(probability: float | None) -> float | None:
    return None if probability is None else float(probability)


def _check(text: str, probabilities: Probabilities, guesses: Sequence[str] | None, width: int) -> None:
    if not isinstance(text, str):
        raise DrawingError(f"text must be a str, not {shown(text)}.")
    for name, values in (("probabilities", probabilities), ("guesses", guesses)):
        if not hasattr(values, "__len__") and not (name == "guesses" and values is None):
            raise DrawingError(f"{name} must be a list with a value for each character, not {shown(values)}.")
        if values is not None and len(values) != len(text):
            raise DrawingError(
                f"{name} holds {len(values)} values for {len(text)} characters; give one for each character."
            )
    for i, p in enumerate(probabilities):
        if p is not None and not (is_number(p) and 0 <= p <= 1):
            raise DrawingError(f"probabilities[{i}] is {shown(p, 40)}; it must be in [0, 1].")
    if guesses is not None and not all(isinstance(guess, str) for guess in guesses):
        raise DrawingError("guesses must hold a str for each character of the text.")
    count_of("width", width, least=2)


def _beneath(row: Sequence[_Cell]) -> list[str]:
    if all(cell.guess == " " for cell in row):
        return []
    line = ""
    for cell in row:
        room = cells(cell.character)
        guess = cell.guess if cells(cell.guess) <= room else "…"
        line += (guess + " " * room)[: room if cells(guess) == len(guess) else 1] if room else ""
    return [line.rstrip()]


def cells(character: str) -> int:
    """Number of terminal columns of a character."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def colour_of(probability: float, scale: Scale) -> _Colour:
    """Red, green and blue, 0 to 255."""
    low, middle, high = scale.colours
    start, end, along = (
        (low, middle, 2 * probability) if probability < 0.5 else (middle, high, 2 * probability - 1)
    )
    r, g, b = (round(a + (z - a) * along) for a, z in zip(start, end, strict=True))
    return r, g, b
