"""Text: characters that can be shown, JSON that is looked at before it is read, templates of pages."""

from __future__ import annotations

import difflib
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

#: Control characters that a terminal may get unchanged: breaks, tabs, and joiners of letters, which some scripts need.
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

    For a file or a pipe, the text is unchanged.
    """
    if text.isprintable() or not stream.isatty():
        return text
    return "".join(c if c in _HARMLESS else visible(c) for c in text)


def on_one_line(text: str) -> str:
    """With escapes for all that cannot be printed, line breaks too: a name within a sentence."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def matches(name: str, pattern: str) -> bool:
    """True if the name fits the pattern, in which `*` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def in_brief(words: object, most: int = 60) -> str:
    """Text from a file on one line, shortened with "..."."""
    text = str(words)
    shown = on_one_line(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 4]} ..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggestion of the closest known word, for the end of a message; empty if none is close."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _is_none(code: int) -> bool:
    """True for code points that are not characters; XML, and so SVG, forbids some of them."""
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


#: Lists and objects, and values, of a text at most: a few bytes of each become some hundred in memory.
NESTED, VALUES = 1 << 17, 1 << 20
#: Surrogates, which a file can only contain as escapes.
_HALVES = re.compile("[\ud800-\udfff]")


def read_json(text: str | bytes) -> Any:
    """Parsed JSON. ValueError if the text is not JSON, or exceeds the maximum nesting or number of values."""
    content = text if isinstance(text, bytes) else text.encode()
    nested, values = content.count(b"[") + content.count(b"{"), content.count(b",")
    if nested > NESTED or values > VALUES:
        raise ValueError(f"it has {nested:,} lists and objects with {values:,} values, more than are allowed")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except ValueError:  # Python's limit on the digits of a number
        raise ValueError(f"it has a number of more than {sys.get_int_max_str_digits():,} digits") from None


def json_for_script(value: Any) -> str:
    """JSON for a script element: no text in it can end the element. ValueError for NaN and infinities."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text.replace("<", "\\u003c"))


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with its parts filled in, in one pass: text of a part is never taken for a placeholder."""
    pieces = template.split("%%")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
