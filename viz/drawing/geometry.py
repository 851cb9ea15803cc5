"""Curves, and widths of text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import unescape
from re import sub
from typing import NamedTuple

import numpy as np

from graphnet.graph.node import Array

Point = tuple[float, float]


class Rect(NamedTuple):
    """Center of a box and half its size."""

    x: float
    y: float
    w: float
    h: float


def straight(start: Point, end: Point) -> list[Point]:
    """Straight line, as a curve."""
    third = ((end[0] - start[0]) / 3, (end[1] - start[1]) / 3)
    return [start, plus(start, third), (end[0] - third[0], end[1] - third[1]), end]


def rising(start: Point, end: Point) -> list[Point]:
    """Curve that leaves and arrives vertically."""
    half = (end[1] - start[1]) / 2
    return [start, (start[0], start[1] + half), (end[0], end[1] - half), end]


def past_the_row(a: Rect, b: Rect, side: int) -> list[Point]:
    """Curve over (1) or under (-1) the boxes between two of one row."""
    onward = 1 if a.x < b.x else -1
    start, end = (a.x + onward * 0.6 * a.w, a.y + side * a.h), (b.x - onward * 0.6 * b.w, b.y + side * b.h)
    height = b.y + side * (b.h + 30)
    return [start, (start[0], height), (end[0], height), end]


def across(a: Rect, b: Rect, reach: float) -> list[Point]:
    """Curve from the side of a box into the corner of one in another column and row."""
    up = 1 if b.y > a.y else -1
    start, end = (a.x + reach * a.w, a.y + up * a.h * 0.5), (b.x - 0.75 * b.w, b.y - up * b.h)
    return [start, (start[0] + 30, start[1]), (end[0], end[1] - up * 34), end]


def curve(knots: Sequence[Point]) -> Array:
    """Points of a chain of cubic Bézier curves, 32 for each and the first knot."""
    t = np.linspace(0, 1, 33)[1:, None]
    points = np.array(knots, float)
    parts = [points[:1]]
    for k in range(0, len(points) - 3, 3):
        a, b, c, d = points[k : k + 4]
        parts.append((1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d)
    return np.concatenate(parts)


def plus(a: Point, b: Point) -> Point:
    return a[0] + b[0], a[1] + b[1]


def at(point: Point) -> str:
    return f"{point[0] + 0.0:.1f},{point[1] + 0.0:.1f}"


# -- text ------------------------------------------------------------------------------------

_NARROW, _WIDE = frozenset("iljtfrI.,:;'|()[] "), frozenset("mwMWQO@%")


def width_of(markup: str, size: float) -> float:
    """Width of text in the widest font that may draw it, in points, without its markup."""
    text = unescape(sub("<.*?>", "", markup))
    return size * sum(map(_letter, text))


def _letter(character: str) -> float:
    if character in _NARROW:
        return 0.42
    if character in _WIDE:
        return 0.98
    return 1.05 if unicodedata.east_asian_width(character) in "WFA" else 0.7
