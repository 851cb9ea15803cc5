"""HTML-like labels of Graphviz, and notes in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from viz.drawing.note import Note, NoteScale
from viz.style import Style

_TABLE = '<table border="0" cellborder="0" cellspacing="0" cellpadding="0">'
#: Side of a cell of a heat map, in points.
TILE = 6
_STEPS = 32


def html_label(markup: str) -> str:
    r"""Markup as a label, with escaped backslashes, as Graphviz replaces sequences such as \N."""
    return "<" + markup.replace("\\", "\\\\") + ">"


def quoted(text: str) -> str:
    """Text as a quoted DOT string, with quotes, backslashes and entities escaped."""
    escaped = text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def table(rows: Iterable[str]) -> str:
    """Table of one column."""
    return f"{_TABLE}{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def backed(markup: str, color: str) -> str:
    """Text that hides what is below it."""
    frame = 'border="0" cellborder="0" cellspacing="0" cellpadding="1"'
    return f'<table {frame} bgcolor="{color}"><tr><td>{markup}</td></tr></table>'


def note_rows(note: Note, theme: Style) -> list[str]:
    """Rows of a note below a symbol: small print, then the heat map."""
    rows = [
        f'<td><font point-size="{theme.small_size}">{escape(line)}</font></td>' for line in note.lines if line
    ]
    if note.tile:
        rows.append('<td height="3"></td>')
        rows.append(f'<td align="center">{_tile(note.tile, theme)}</td>')
        rows.append('<td height="3"></td>')
    return rows


def _tile(numbers: Sequence[Sequence[float]], theme: Style) -> str:
    size = f'fixedsize="true" width="{TILE}" height="{TILE}"'
    rows = (
        f"<tr>{''.join(f'<td {size} bgcolor={quoted(theme.signed(x))}></td>' for x in row)}</tr>"
        for row in numbers
    )
    # A table that is not fixed would be stretched to the width of the lines above it.
    whole = f'fixedsize="true" width="{TILE * len(numbers[0]) + 2}" height="{TILE * len(numbers) + 2}"'
    frame = f'border="1" color="{theme.muted}" cellborder="0" cellspacing="0" cellpadding="0"'
    return f"<table {frame} {whole}>{''.join(rows)}</table>"


def scale_table(scale: NoteScale, theme: Style) -> str:
    """Color scale with labels at its ends and a title."""
    small = f'<font point-size="{theme.title_size}">'
    title = f"<td>{small}{escape(scale.title)}</font></td>"
    if scale.words is None:
        return table([title])
    bar = "".join(
        f'<td fixedsize="true" width="5" height="10" bgcolor="{theme.heat(i / (_STEPS - 1))}"></td>'
        for i in range(_STEPS)
    )
    low, high = (f"{small} {escape(words)} </font>" for words in scale.words)
    ends = f"{_TABLE}<tr><td>{low}</td>{bar}<td>{high}</td></tr></table>"
    return table([f"<td>{ends}</td>", title])
