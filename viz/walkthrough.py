"""Walkthrough: a picture whose shapes appear one after the other, in order of execution."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from html import unescape
from importlib import resources
from typing import Any

import numpy as np

from graphnet.settings import shown
from graphnet.system.text import filled, json_for_script
from viz.animation import Moving, pillow
from viz.drawing.closed import Box, BoxKind, ClosedPicture
from viz.drawing.labels import points_of
from viz.drawing.picture import Picture, Shape
from viz.drawing.render import Drawing, matplotlib_fonts
from viz.errors import DrawingError, seconds_of

#: Endings of keys in the second pass of a mirror, see viz/mirror.py.
_BACK, _ALONG = "_back", "_along"
#: Boxes of a closed picture that are there before the first step.
_GIVEN = (BoxKind.DATA, BoxKind.IMAGINARY, BoxKind.STATE)
#: Margin of Graphviz in points; height and font size of the caption in pixels.
_PAD, _CAPTION, _FONT = 10.8, 52, 24
_PALE, _NOW = 0.12, "#c62828"
#: Half the width of a hidden edge with its arrow, and of one that is shown, in pixels.
_EDGE, _LINE = 13, 4
#: Names of the nodes that are labels of edges.
_TEXTS = ("label_", "operand_")


@dataclass(frozen=True, repr=False)
class Walkthrough(Moving):
    """A picture whose operators appear one after the other. viz.walkthrough makes one.

    `.save("lstm.html")` writes it, or a `.gif` or `.mp4`; a notebook shows it. drawing: the picture. seconds: time of a
    step.

    >>> walk = viz.walkthrough(viz.draw(rnn.Elman, style="compact"))
    >>> walk.steps[0]
    ('n8', '+ b_h: y = Σ_i x_i')
    >>> walk.drawing.size, walk.seconds
    (5, 1.0)
    """

    drawing: Drawing
    seconds: float

    @property
    def steps(self) -> list[tuple[str, str]]:
        """(key of a shape, caption): operators in order of execution; of a mirror, then the derivatives."""
        picture = self.drawing.picture
        if isinstance(picture, Picture):
            shapes = [shape for shape in picture.shapes if shape.nodes and not shape.hidden]
            ahead = [s for s in shapes if not s.key.endswith((_BACK, _ALONG)) and not s.nodes[0].is_leaf]
            back = [shape for shape in reversed(shapes) if shape.key.endswith(_BACK)]
            along = [shape for shape in shapes if shape.key.endswith(_ALONG)]
            return [
                *((shape.key, _caption(shape)) for shape in ahead),
                *((shape.key, f"∂cost/∂({_plain(shape)})") for shape in back),
                *((shape.key, f"R{{{_plain(shape)}}}") for shape in along),
            ]
        ahead_boxes = [box for box in _executed(picture) if box.kind not in _GIVEN]
        beside = picture.beside
        is_back = beside is not None and any(box.key.endswith(_BACK) for box in beside.shapes)
        other = list(_executed(beside, -1 if is_back else 1)) if beside else []
        return [
            *((box.key, _title(box)) for box in ahead_boxes),
            *((box.key, f"∂cost/∂({_title(box)})" if is_back else f"R{{{_title(box)}}}") for box in other),
        ]

    def __repr__(self) -> str:
        return f"<Walkthrough of {self.drawing!r}, {len(self.steps)} steps>"

    @property
    def html(self) -> str:
        template = resources.files("viz").joinpath("assets", "walkthrough.html").read_text(encoding="utf-8")
        data = {"steps": self.steps, "seconds": self.seconds}
        theme = self.drawing.theme
        colours = {"background": theme.background, "text": theme.text}
        return filled(template, {**colours, "picture": self.drawing.svg, "data": json_for_script(data)})

    def _frames(self) -> tuple[list[Any], float]:
        """A frame for each step and its caption."""
        Image, ImageDraw, ImageFont = pillow()
        steps = self.steps
        fonts = matplotlib_fonts()
        font = ImageFont.truetype(fonts / "DejaVuSans.ttf", _FONT) if fonts else ImageFont.load_default(_FONT)
        whole = Image.open(io.BytesIO(self.drawing._rendered("png"))).convert("RGB")
        paper = whole.getpixel((0, 0))
        layout = _Layout(json.loads(self.drawing._rendered("json")), whole.width)
        ground = Image.new("RGB", whole.size, paper)
        for frame in layout.clusters:
            ImageDraw.Draw(ground).rectangle(frame, fill=self.drawing.theme.cluster)
        pale = Image.blend(ground, whole, _PALE)
        width = max(whole.width, *(40 + int(font.getlength(caption)) for _, caption in steps))
        frames = []
        for count in range(len(steps) + 1):
            later = {key for key, _ in steps[count:]}
            mask = Image.new("L", whole.size, 0)
            layout.cover(ImageDraw.Draw(mask), later)
            frame = Image.new("RGB", (width, whole.height + _CAPTION), paper)
            frame.paste(Image.composite(pale, whole, mask))
            if count:
                key, caption = steps[count - 1]
                pen = ImageDraw.Draw(frame)
                pen.rectangle(layout.frame(layout.shapes[key], 4), outline=_NOW, width=3)
                pen.text((20, whole.height + 8), caption, fill=self.drawing.theme.text, font=font)
            frames.append(frame)
        return [*frames, frames[-1]], self.seconds


def walkthrough(drawing: Drawing, seconds: float = 1.0) -> Walkthrough:
    """The picture with its operators one after the other, as an HTML page, a GIF or an MP4.

    drawing: what viz.draw or viz.mirror returns; a mirror shows the forward pass, then the backward pass or the R
    pass. seconds: time of a step, 1 by default.
    Raises DrawingError for other objects, and if there is nothing to show.

    >>> viz.walkthrough(viz.mirror(gn.mean(gn.tanh(gn.input((3,), name="x")))))
    <Walkthrough of <Drawing of 6 nodes, compact style>, 5 steps>
    """
    if not isinstance(drawing, Drawing):
        raise DrawingError(
            f"walkthrough: drawing must be a picture, such as viz.draw(cell), not {shown(drawing)}."
        )
    found = Walkthrough(drawing, seconds_of("walkthrough: seconds", seconds))
    if not found.steps:
        raise DrawingError("walkthrough: the picture has no operators.")
    return found


def _text(lines: Sequence[str]) -> str:
    """Text of markup: W_xh, not its subscript."""
    return unescape(re.sub("<.*?>", "", " ".join(lines).replace("<sub>", "_").replace("<br/>", " ")))


def _title(box: Box) -> str:
    return f"{_text(box.lines)}, step {box.column + 1}" if box.kind is BoxKind.CELL else _text(box.lines)


def _caption(shape: Shape) -> str:
    """Text and formula; the text alone of a composite such as a mean, whose formula is not that of its last node."""
    text, op = _text(shape.lines[:1]), shape.nodes[-1].op
    return f"{text}: {op.formula()}" if not op.is_label and text.startswith(op.symbol or op.name) else text


def _plain(shape: Shape) -> str:
    return _text(shape.lines[:1]).removesuffix("′")


def _executed(picture: ClosedPicture, sign: int = 1) -> Iterator[Box]:
    """Boxes in order of execution; those that do not depend on each other by time and layer, or backward (sign -1)."""
    boxes = {box.key: box for box in picture.shapes}
    sorter = TopologicalSorter({key: [] for key in boxes})
    for link in picture.edges:
        sorter.add(*((link.tail, link.head) if link.back else (link.head, link.tail)))
    sorter.prepare()
    ready: list[tuple[int, int, str]] = []
    while sorter.is_active():
        for key in sorter.get_ready():
            heappush(ready, (sign * boxes[key].column, sign * boxes[key].row, key))
        key = heappop(ready)[-1]
        yield boxes[key]
        sorter.done(key)


class _Layout:
    """Positions of shapes, edges and labels in the pixels of an image, from the JSON of Graphviz."""

    def __init__(self, found: dict[str, Any], width: int) -> None:
        _, _, right, self.top = map(float, found["bb"].split(","))
        self.scale = width / (right + 2 * _PAD)
        names = [each["name"] for each in found["objects"]]
        places = {each["name"]: each for each in found["objects"] if "pos" in each}
        boxes = [each["bb"].split(",") for each in found["objects"] if each["name"].startswith("cluster_")]
        self.clusters = [(*self.pixel(box[0], box[3]), *self.pixel(box[2], box[1])) for box in boxes]
        self.shapes = {name: each for name, each in places.items() if not name.startswith(_TEXTS)}
        edges = [edge for edge in found.get("edges", []) if "pos" in edge]
        #: Ends and points of each edge.
        self.edges = [
            ({names[edge["tail"]], names[edge["head"]]}, self.pixels(points_of(edge["pos"])))
            for edge in edges
        ]
        #: Ends of the edge of each label, and the label's frame.
        self.labels = [
            (set(each["class"].split()), self.frame(each, 0))
            for name, each in places.items()
            if name.startswith(_TEXTS)
        ]
        for (ends, _), edge in zip(self.edges, edges, strict=True):
            self.labels += [(ends, self.text(op)) for op in edge.get("_ldraw_", []) if op["op"] == "T"]

    def pixels(self, points: Any) -> Any:
        return (np.asarray(points, float) * (1, -1) + (_PAD, self.top + _PAD)) * self.scale

    def pixel(self, x: str, y: str) -> tuple[float, float]:
        return tuple(self.pixels((float(x), float(y))))

    def frame(self, shape: dict[str, str], more: float) -> tuple[float, float, float, float]:
        x, y = self.pixel(*shape["pos"].split(","))
        w, h = (36 * float(shape[side]) * self.scale + more for side in ("width", "height"))
        return x - w, y - h, x + w, y + h

    def text(self, op: dict[str, Any]) -> tuple[float, float, float, float]:
        """Frame of a text of an edge; its place is that of the baseline."""
        (x, y), width = op["pt"], op["width"]
        left = x - width * {"l": 0.0, "c": 0.5, "r": 1.0}[op["align"]]
        return (*self.pixels((left - 2, y + 14)), *self.pixels((left + width + 2, y - 5)))

    def cover(self, pen: Any, later: set[str]) -> None:
        """Marks the shapes in `later`, and the edges from and to them with their labels."""
        hidden = [not later.isdisjoint(ends) for ends, _ in self.edges]
        for is_hidden, radius in ((True, _EDGE), (False, _LINE)):
            for (_, points), each in zip(self.edges, hidden, strict=True):
                if each == is_hidden:
                    for x, y in points:  # close to each other; a wide bent line would have holes
                        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=255 * is_hidden)
        for ends, frame in self.labels:
            pen.rectangle(frame, fill=255 * (not later.isdisjoint(ends)))
        for name, shape in self.shapes.items():
            pen.rectangle(self.frame(shape, 4), fill=255 * (name in later))
