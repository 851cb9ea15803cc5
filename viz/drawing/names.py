"""Names and numbers in the typography of a paper: W_xh with a subscript, theta as θ."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi "
    "chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
GREEK = dict(zip(_GREEK_NAMES.split(), "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", strict=True))

_ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LONGEST = 32
_OUTPUT = "output"
_LAYER = re.compile(r"layer_?(\d+)", re.IGNORECASE)
_QUANTITY = re.compile(r"(?P<base>[^\W\d_]{1,2}|" + "|".join(GREEK) + r")(?P<digits>\d*)(?P<primes>'*)")


def printable(text: str, longest: int = _LONGEST) -> str:
    """One line without control characters, cut to a length."""
    # Line breaks inside a name would break the layout, and control characters are not valid XML.
    clean = " ".join(text.split())
    if not clean.isprintable():
        clean = "".join("�" if _is_unprintable(c) else c for c in clean)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def _is_unprintable(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Cn", "Co")


@dataclass(frozen=True)
class Names:
    """Names as the HTML-like markup of Graphviz.

    `W_xh` and `h0` get a subscript, `y_hat` its hat, Greek names their letter, `encoder.W_xh` a small prefix.
    Words such as `hidden_state` are unchanged. The layer in `layer1.W_xh` and `h_0^1` becomes a superscript (1)
    if there are several layers; the `output` in `output.W_ho` is left out.
    """

    math_font: str
    small_size: int
    several_layers: bool = False

    def markup(self, name: str) -> str:
        text = printable(name)
        prefix, last, layer = _parts(text)
        quantity = _as_quantity(last, layer if self.several_layers else "", self.math_font)
        if not prefix and (quantity or not layer):
            return quantity or escape(text) or " "
        prefix = prefix or text.partition(".")[0]
        if quantity and prefix == _OUTPUT:
            return quantity
        return f'<font point-size="{self.small_size}">{escape(prefix)}.</font>{quantity or escape(last)}'


def layer_words(label: str) -> str:
    """`layer 0` for `layer0` and `layer_0`; other labels are unchanged."""
    return _LAYER.sub(r"layer \1", label)


def several_layers(names: Iterable[str | None]) -> bool:
    """True if names belong to more than one layer, or to layers and an output, or a name is also that of a layer."""
    found, plain, of_layers = set[str](), set[str](), set[str]()
    for name in names:
        prefix, last, layer = _parts(name or "")
        if layer or prefix == _OUTPUT:
            found.add(layer)
        if not prefix:
            (of_layers if layer else plain).add(last)
    return len(found) > 1 or bool(plain & of_layers)


def _parts(text: str) -> tuple[str, str, str]:
    """Prefix, name and layer: `layer1.W_xh` is ``, `W_xh`, `1`.

    The prefix keeps a part of a cell: `layer1.forward.W_xh` is `forward`, `W_xh`, `1`.
    """
    prefix, _, last = text.rpartition(".")
    if prefix and last:
        first, _, rest = prefix.partition(".")
        match = _LAYER.fullmatch(first)
        return (rest, last, match[1]) if match else (prefix, last, "")
    base, hat, layer = text.partition("^")
    return ("", base, layer) if hat and layer.isdecimal() and base.endswith("_0") else ("", text, "")


def _as_quantity(text: str, layer: str, math_font: str) -> str:
    """Letter with its subscript and layer; "" if the text is a word."""
    base, _, subscript = text.partition("_")
    match = _QUANTITY.fullmatch(base)
    if match is None or text.endswith("_"):
        return ""
    letter = GREEK.get(match["base"], match["base"])
    # h_a_0 and h1_0 have two subscripts. In W_xi, x and i are two letters: only longer words are Greek.
    parts = [GREEK.get(part, part) if len(part) > 2 else part for part in subscript.split("_")]
    accent = _ACCENTS.get(parts[-1], "")
    if accent:
        parts.pop()
    below = ",".join(part for part in (match["digits"], *parts) if part)
    shown = f"<i>{escape(unicodedata.normalize('NFC', letter + accent) + match['primes'])}</i>"
    if below:
        shown += f"<sub>{escape(below)}</sub>"
    if layer:
        shown += f"<sup>({layer})</sup>"
    return f'<font face="{escape(math_font)}">{shown}</font>'


def number(value: float | int | bool, digits: int = 3) -> str:
    """A number with at most `digits` digits: 0.1, 2·10⁻⁵, ∞."""
    if isinstance(value, bool):
        return str(value)
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "NaN")
    mantissa, e, exponent = f"{value:.{digits}g}".partition("e")
    power = f"·10{str(int(exponent)).translate(_SUPERSCRIPT)}" if e else ""
    return mantissa.replace("-", "−") + power


def shape_text(shape: tuple[int, ...]) -> str:
    """`32 × 10`; "" for a scalar."""
    return " × ".join(map(str, shape))
