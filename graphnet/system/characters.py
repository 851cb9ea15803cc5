"""Characters that can be shown: what a text holds may be a command to a terminal, or not allowed in a picture."""

from __future__ import annotations

import unicodedata
from typing import TextIO

__all__ = ["in_brief", "on_one_line", "shown_on", "visible"]

#: What a terminal may have as it is: breaks and tabs, and what only joins letters, which some scripts need.
_HARMLESS = "\n\t\u200c\u200d"


def visible(character: str) -> str:
    """One visible character: a control character printed raw could move the cursor or worse."""
    if character == "\n":
        return "⏎"
    code = ord(character[0]) if character else 0x20
    if code < 0x20:
        return chr(0x2400 + code)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp") or _is_none(code):
        return "�"
    return chr(code)


def shown_on(stream: TextIO, text: str) -> str:
    """The text as this stream is to have it: with control characters visible on a terminal, which would obey them.

    A file or a pipe gets the text as it is.
    """
    if text.isprintable() or not stream.isatty():
        return text
    return "".join(c if c in _HARMLESS else visible(c) for c in text)


def on_one_line(text: str) -> str:
    """With escapes for all that cannot be printed, line breaks too: a name within a sentence."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def in_brief(words: object, most: int = 60) -> str:
    """What a file calls something, on one line and in a few characters; ... where there were more."""
    text = str(words)
    shown = on_one_line(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 4]} ..."


def _is_none(code: int) -> bool:
    """Whether it will never be a character; XML, and so SVG, takes some of these for the end of a file."""
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
