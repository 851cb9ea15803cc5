"""Subscripts and superscripts in SVG.

Graphviz writes `baseline-shift` without a smaller font size; Firefox does not support it. Here they become smaller and
are shifted in every browser.
"""

from __future__ import annotations

import re

#: Shares of the font size; indices stay readable in a large picture on a slide.
SIZE, DOWN, UP = 0.85, 0.2, 0.36

_SHIFTED = re.compile(r'<text [^>]*? baseline-shift="(sub|super)"[^>]*>')
_Y = re.compile(r' y="([-\d.]+)"')
_FONT_SIZE = re.compile(r' font-size="([\d.]+)"')


def with_scripts(svg: str) -> str:
    """SVG of Graphviz with small, shifted sub- and superscripts."""
    return _SHIFTED.sub(_placed, svg)


def _placed(match: re.Match[str]) -> str:
    tag, kind = match[0], match[1]
    size = _FONT_SIZE.search(tag)
    y = _Y.search(tag)
    if size is None or y is None:
        return tag
    letters = float(size[1])
    shift = DOWN if kind == "sub" else -UP
    tag = tag.replace(f' baseline-shift="{kind}"', "")
    tag = tag.replace(size[0], f' font-size="{SIZE * letters:.2f}"')
    return tag.replace(y[0], f' y="{float(y[1]) + shift * letters:.2f}"')
