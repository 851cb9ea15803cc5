"""Layout computed by Graphviz, read from its DOT output."""

from __future__ import annotations

import re
from collections import deque

from viz.drawing.geometry import Rect
from viz.drawing.picture import Edge, Picture
from viz.errors import DrawingError

#: Statements: key and attributes of a node; tail, head and attributes of an edge; number and box of a cluster.
NODE = re.compile(r"^\t+(\w+)\t\[(.*?)\];\n", re.MULTILINE | re.DOTALL)
EDGE = re.compile(r"^\t+(\w+) -> (\w+)\t\[(.*?)\];\n", re.MULTILINE | re.DOTALL)
BOX = re.compile(r'(\bcluster_(\d+) \{\s*graph \[bb=")([^"]+)"')
POS = re.compile(r'\bpos="([^"]*)"')
_ALL = re.compile(r'\bbb="([^"]+)"')
_SIZE = re.compile(r"\b(width|height)=([\d.]+)")


def frames_of(text: str) -> dict[str, Rect]:
    """Rectangle of each visible shape; invisible ones have the default size, which is not written."""
    found = {}
    for key, attributes in NODE.findall(text):
        pos, size = POS.search(attributes), dict(_SIZE.findall(attributes))
        if pos and size:
            x, y = map(float, pos[1].split(","))
            found[key] = Rect(x, y, 36 * float(size["width"]), 36 * float(size["height"]))
    return found


def extent_of(text: str) -> tuple[float, float]:
    """Width and height of a layout, in points."""
    frame = frame_of(_ALL.findall(text)[0])
    return 2 * frame.w, 2 * frame.h


def frame_of(box: str) -> Rect:
    """Rectangle of a box, which is written as left,bottom,right,top."""
    left, low, right, high = map(float, box.split(","))
    return Rect((left + right) / 2, (low + high) / 2, (right - left) / 2, (high - low) / 2)


def drawn_edges(text: str, picture: Picture) -> list[tuple[Edge, str]]:
    """Edges of the picture with their splines. Raises DrawingError if Graphviz has found none for an edge."""
    splines: dict[tuple[str, str], deque[str]] = {}
    for tail, head, attributes in EDGE.findall(text):
        if pos := POS.search(attributes):
            splines.setdefault((tail, head), deque()).append(pos[1])
    try:
        return [(edge, splines[edge.tail, edge.head].popleft()) for edge in picture.edges]
    except LookupError:
        raise DrawingError("Graphviz has found no way for an edge.") from None
