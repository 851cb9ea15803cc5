"""Names and numbers as a paper prints them: W_xh with a subscript, theta as θ, 0.1 as 0.1."""

from __future__ import annotations

import math
import re
import unicodedata
from html import escape

__all__ = ["markup", "number", "printable", "shape_text"]

_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi "
    "chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
GREEK = dict(zip(_GREEK_NAMES.split(), "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", strict=True))

_LONGEST = 32
_LAYER = re.compile(r"layer_?(\d+)", re.IGNORECASE)
_QUANTITY = re.compile(r"(?P<base>[^\W\d_]{1,2}|" + "|".join(GREEK) + r")(?P<digits>\d*)(?P<primes>'*)")


def printable(text: str, longest: int = _LONGEST) -> str:
    """One line without control characters, cut to a length."""
    # Line breaks inside a name would break the layout, and control characters are not XML at all.
    clean = " ".join(text.split())
    if not clean.isprintable():
        clean = "".join("�" if _is_unprintable(c) else c for c in clean)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def _is_unprintable(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Cn", "Co")


def markup(name: str, math_font: str, small_size: int) -> str:
    """A name as the HTML-like markup of Graphviz.

    `W_xh` and `h0` get a subscript, Greek names their letter, `layer1.W_xh` a superscript (1), and
    `encoder.W_xh` a small prefix. Words such as `hidden_state` are left as they are.
    """
    text = printable(name)
    prefix, _, last = text.rpartition(".")
    if not prefix or not last:
        return _as_quantity(text, "", math_font) or escape(text) or " "
    layer = _LAYER.fullmatch(prefix)
    quantity = _as_quantity(last, layer[1] if layer else "", math_font)
    if layer and quantity:
        return quantity
    return f'<font point-size="{small_size}">{escape(prefix)}.</font>{quantity or escape(last)}'


def _as_quantity(text: str, layer: str, math_font: str) -> str:
    """A letter with its subscript and its layer, or nothing if the text is a word."""
    base, _, subscript = text.partition("_")
    match = _QUANTITY.fullmatch(base)
    if match is None or (match["digits"] and subscript):
        return ""
    letter = GREEK.get(match["base"], match["base"])
    # In W_xi, x and i are two letters: only longer words stand for a Greek subscript.
    below = (GREEK.get(subscript, subscript) if len(subscript) > 2 else subscript) or match["digits"]
    shown = f"<i>{escape(letter + match['primes'])}</i>"
    if below:
        shown += f"<sub>{escape(below)}</sub>"
    if layer:
        shown += f"<sup>({layer})</sup>"
    return f'<font face="{escape(math_font)}">{shown}</font>'


def number(value: float | int | bool) -> str:
    """A number as short as three digits tell it."""
    if isinstance(value, bool):
        return str(value)
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "NaN")
    return f"{value:.3g}".replace("-", "−")


def shape_text(shape: tuple[int, ...]) -> str:
    """`32 × 10`, or nothing for a scalar."""
    return " × ".join(map(str, shape))
