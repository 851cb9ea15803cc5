"""TikZ code of a picture: `\\input` sets it in the fonts of a paper.

Graphviz writes the layout as JSON, with the drawing operations of each shape and edge (format xdot). An operation is
a color, a font, a shape or a piece of text with its position.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["tikz_of"]

_HEAD = """\
% \\usepackage{tikz} in the preamble, \\input{this file} in a figure;
% \\resizebox{\\linewidth}{!}{\\input{this file}} fits it to a line.
\\begin{tikzpicture}[x=1bp, y=1bp, line join=round, every node/.style={inner sep=0, anchor=base}]
"""
_ITALIC, _SUPER, _SUB = 2, 8, 16
_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar"}
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_MATH = {
    "∂": r"\partial", "√": r"\sqrt{\;}", "∞": r"\infty", "−": "-", "×": r"\times", "·": r"\cdot", "∘": r"\circ",
    "⊙": r"\odot", "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "‖": r"\|", "∫": r"\int", "→": r"\to", "⋯": r"\cdots",
    "…": r"\ldots", "∨": r"\vee", "∧": r"\wedge", "¬": r"\neg", "⌊": r"\lfloor", "⌋": r"\rfloor", "⌈": r"\lceil",
    "⌉": r"\rceil", "▷": r"\triangleright", "½": r"\frac12", "ᵀ": r"^{\top}", "ˣ": "^{x}", "µ": r"\mu", "⁻": "^{-}",
    "±": r"\pm", "∈": r"\in", "<": "<", ">": ">", "|": "|",
    "′": "'",
}  # fmt: skip


def tikz_of(layout: str | bytes) -> str:
    """TikZ picture of a layout that Graphviz wrote as JSON."""
    graph = json.loads(layout)
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
    return _Run(operation["text"], flags, size, color, left, left + width, y)


def _text(line: Sequence[_Run]) -> str:
    """Node with a line of text in its middle, as the fonts of a paper have other widths."""
    first = line[0]
    middle = (first.left + line[-1].right) / 2
    font = rf"\fontsize{{{first.size:g}}}{{{1.2 * first.size:g}}}\selectfont"
    return rf"\node[text={first.color}, font={font}] at ({middle:g},{first.y:g}) {{{_words(line)}}};"


def _words(line: Sequence[_Run]) -> str:
    parts = []
    for run in line:
        letters = unicodedata.normalize("NFD", run.text)
        if run.flags & _SUB:
            parts.append(f"$_{{{_math(letters)}}}$")
        elif run.flags & _SUPER:
            parts.append(f"$^{{{_math(letters)}}}$")
        elif run.flags & _ITALIC:
            parts.append(f"${_math(letters)}$")
        else:
            parts.append("".join(map(_plain, letters)))
    return "".join(parts).replace("$$", "")


def _math(letters: str) -> str:
    found: list[str] = []
    for letter in letters:
        if letter in _ACCENTS and found:
            found[-1] = rf"\{_ACCENTS[letter]}{{{found[-1]}}}"
        else:
            found.append(_symbol(letter) or _escaped(letter))
    return "".join(found)


def _plain(letter: str) -> str:
    symbol = _symbol(letter)
    return f"${symbol}$" if symbol else _escaped(letter)


def _symbol(letter: str) -> str:
    """Code of a letter in math mode; "" for one of ASCII, or unknown."""
    if letter in _MATH:
        return _MATH[letter] + " " * _MATH[letter][-1].isalpha()
    match unicodedata.name(letter, "").split():
        case ["GREEK", "SMALL", "LETTER", name]:
            return rf"\{name.lower()} "
        case ["GREEK", "CAPITAL", "LETTER", name]:
            return rf"\{name.capitalize()} "
        case ["SUPERSCRIPT", *_]:
            return f"^{{{unicodedata.normalize('NFKC', letter)}}}"
        case ["SUBSCRIPT", *_]:
            return f"_{{{unicodedata.normalize('NFKC', letter)}}}"
    return ""


def _escaped(letter: str) -> str:
    return rf"\{letter}" if letter in "{}$&#_%" else _SPECIAL.get(letter, letter)
