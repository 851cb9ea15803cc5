"""TikZ code of a picture: `\\input` sets it in the fonts of a paper.

Graphviz writes the layout as JSON, with the drawing operations of each shape and edge (format xdot). An operation is
a color, a font, a shape or a piece of text with its position.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from viz.drawing.names import GREEK
from viz.errors import DrawingError

_HEAD = """\
% Picture by graphnet: \\usepackage{tikz} in the preamble, \\input{this file} in a figure;
% \\resizebox{\\linewidth}{!}{\\input{this file}} fits it to a line.
% Names in other scripts than Latin and Greek need LuaLaTeX or XeLaTeX, and a font with these letters.
\\begin{tikzpicture}[x=1bp, y=1bp, line join=round, every node/.style={inner sep=0, anchor=base}]
"""
_ITALIC, _SUPER, _SUB = 2, 8, 16
#: Maximum extent of a picture in TeX, in points.
_LARGEST = 16_000
_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar"}
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
#: Greek letters, and Latin letters in place of those that TeX does not have.
_GREEK = {letter: rf"\{name} " for name, letter in GREEK.items()}
_GREEK |= dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True)) | {"Υ": r"\Upsilon ", "ς": r"\varsigma "}
_MATH = _GREEK | {
    "∂": r"\partial ", "√": r"\sqrt{\;}", "∞": r"\infty ", "−": "-", "×": r"\times ", "·": r"\cdot ", "∘": r"\circ ",
    "⊙": r"\odot ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "‖": r"\|", "∫": r"\int ", "→": r"\to ", "⋯": r"\cdots ",
    "…": r"\ldots ", "∨": r"\vee ", "∧": r"\wedge ", "¬": r"\neg ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ",
    "⌉": r"\rceil ", "▷": r"\triangleright ", "½": r"\frac12 ", "µ": r"\mu ", "±": r"\pm ", "∈": r"\in ",
    "∇": r"\nabla ", "∑": r"\sum ", "∏": r"\prod ", "′": "'", "<": "<", ">": ">", "|": "|",
}  # fmt: skip
#: A letter with its accents.
_CLUSTER = re.compile(r".[\u0300-\u036f]*", re.DOTALL)
_SCRIPTS = {"⁻": ("^", "-"), "ᵀ": ("^", r"\top "), "ˣ": ("^", "x")}


def tikz_of(layout: str | bytes) -> str:
    """TikZ picture of a layout that Graphviz wrote as JSON. Raises DrawingError if it is too large for TeX."""
    graph = json.loads(layout)
    extent = max(map(float, graph.get("bb", "0").split(",")))
    if extent > _LARGEST:
        raise DrawingError(
            f"the picture has an extent of {extent:.0f} points, more than the {_LARGEST} that TeX can draw. Draw fewer "
            "nodes, for example with closed=True or steps=3."
        )
    painter = _Painter()
    parts: list[Mapping[str, Any]] = [*graph.get("edges", ()), *graph.get("objects", ())]
    # Clusters are below edges, edges below nodes.
    parts.sort(key=lambda part: 1 if "tail" in part else 2 * ("nodes" not in part))
    lines = list(painter.lines(graph.get("_draw_", ())))
    for part in parts:
        for key in ("_draw_", "_hdraw_", "_tdraw_", "_ldraw_", "_hldraw_", "_tldraw_"):
            lines += painter.lines(part.get(key, ()))
    lines += painter.lines(graph.get("_ldraw_", ()))
    colors = [rf"\definecolor{{{name}}}{{HTML}}{{{code}}}" for code, name in painter.colors.items()]
    return _HEAD + "".join(f"  {line}\n" for line in [*colors, *lines]) + "\\end{tikzpicture}\n"


@dataclass(frozen=True)
class _Run:
    """Letters of one font and color, from left to right on one baseline."""

    text: str
    flags: int
    size: float
    color: str
    left: float
    right: float
    y: float


class _Painter:
    """TikZ commands of drawing operations; `colors` maps codes of colors to names."""

    def __init__(self) -> None:
        self.colors: dict[str, str] = {}

    def lines(self, operations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        pen = fill = dash = ""
        width, size, flags = 1.0, 0.0, 0
        line: list[_Run] = []
        for operation in operations:
            match operation["op"]:
                case "c":
                    pen = self.color(operation["color"])
                case "C":
                    fill = self.color(operation["color"])
                case "S" if (style := operation["style"]).startswith("setlinewidth("):
                    width = float(style[13:-1])
                case "S":
                    dash = style if style in ("dashed", "dotted") else ""
                case "F":
                    size = operation["size"]
                case "t":
                    flags = operation["fontchar"]
                case "T":
                    run = _run(operation, flags, size, pen)
                    if line and (abs(line[-1].right - run.left) > 1 or abs(line[-1].y - run.y) > 1):
                        yield _text(line)
                        line = []
                    line.append(run)
                case "E" | "e" | "P" | "p" | "L" | "B" | "b" as kind:
                    filled = [f"fill={fill}"] if fill and kind in "EPB" else []
                    drawn = [f"draw={pen}, line width={width:g}bp", *([dash] if dash else [])] if pen else []
                    if filled or drawn:
                        yield rf"\path[{', '.join([*filled, *drawn])}] {_path(kind, operation)};"
        if line:
            yield _text(line)

    def color(self, code: str) -> str:
        """Name of a color #rrggbb or #rrggbbaa; "" if it is transparent."""
        if len(code) == 9 and code.endswith("00"):
            return ""
        return self.colors.setdefault(code[1:7].upper(), f"picture{len(self.colors)}")


def _path(kind: str, operation: Mapping[str, Any]) -> str:
    if kind in "Ee":
        x, y, w, h = operation["rect"]
        return rf"({x:g},{y:g}) ellipse [x radius={w:g}, y radius={h:g}]"
    points = [f"({x:g},{y:g})" for x, y in operation["points"]]
    if kind in "PpL":
        return " -- ".join(points) + ("" if kind == "L" else " -- cycle")
    parts = [
        f" .. controls {a} and {b} .. {c}" for a, b, c in zip(*(points[k::3] for k in (1, 2, 3)), strict=True)
    ]
    return points[0] + "".join(parts)


# -- text ------------------------------------------------------------------------------------


def _run(operation: Mapping[str, Any], flags: int, size: float, color: str) -> _Run:
    (x, y), width = operation["pt"], operation["width"]
    left = x - width * {"l": 0, "c": 0.5, "r": 1}[operation["align"]]
    text = operation["text"].replace("\\\\", "\\")  # Graphviz escapes backslashes twice
    return _Run(text, flags, size, color, left, left + width, y)


def _text(line: Sequence[_Run]) -> str:
    """Node with a line of text in its middle, as the fonts of a paper have other widths."""
    first = line[0]
    middle = (first.left + line[-1].right) / 2
    font = rf"\fontsize{{{first.size:g}}}{{{1.2 * first.size:g}}}\selectfont"
    return rf"\node[text={first.color}, font={font}] at ({middle:g},{first.y:g}) {{{_words(line)}}};"


def _words(line: Sequence[_Run]) -> str:
    """Line as TeX: neighboring formulas are one."""
    parts: list[tuple[bool, str]] = []
    for run in line:
        letters = list(_letters(run.text))
        if run.flags & (_SUB | _SUPER):
            inner = "".join(code for _, code in _joined(letters, True))
            parts.append((True, f"{'_' if run.flags & _SUB else '^'}{{{inner}}}"))
        else:
            parts += _joined(letters, bool(run.flags & _ITALIC))
    groups = groupby(parts, itemgetter(0))
    texts = ((is_math, "".join(code for _, code in group)) for is_math, group in groups)
    return unicodedata.normalize("NFC", "".join(f"${text}$" if is_math else text for is_math, text in texts))


class _Letter(NamedTuple):
    """Code of a letter. kind: "text", "math", or "^" or "_" for a script."""

    kind: str
    code: str


def _letters(text: str) -> Iterator[_Letter]:
    for cluster in _CLUSTER.findall(unicodedata.normalize("NFD", text)):
        base, accents = cluster[0], cluster[1:]
        found = _letter(base)
        if found.kind == "text" and accents and not set(accents) <= _ACCENTS.keys():
            yield _Letter("text", unicodedata.normalize("NFC", cluster))
            continue
        for accent in accents:
            found = _Letter(
                "math", rf"\{_ACCENTS[accent]}{{{found.code}}}" if accent in _ACCENTS else found.code
            )
        yield found


def _letter(letter: str) -> _Letter:
    if letter in _MATH:
        return _Letter("math", _MATH[letter])
    if letter in _SCRIPTS:
        return _Letter(*_SCRIPTS[letter])
    plain = unicodedata.normalize("NFKC", letter)
    if letter.isascii() or plain == letter or len(plain) != 1:
        return _Letter("text", rf"\{letter}" if letter in "{}$&#_%" else _SPECIAL.get(letter, letter))
    kind = unicodedata.decomposition(letter).partition(" ")[0]
    found = _letter(plain)
    return (
        _Letter({"<super>": "^", "<sub>": "_"}[kind], found.code) if kind in ("<super>", "<sub>") else found
    )


def _joined(letters: Sequence[_Letter], is_math: bool) -> Iterator[tuple[bool, str]]:
    """(True for a formula, code); is_math: letters are part of a formula."""
    for kind, group in groupby(letters, attrgetter("kind")):
        code = "".join(letter.code for letter in group)
        if kind in ("^", "_"):
            yield True, f"{{}}{kind}{{{code}}}"
        else:
            yield is_math or kind == "math", code
