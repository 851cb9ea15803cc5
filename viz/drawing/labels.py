"""Labels of edges and numbers of operands, each on its own edge, where it hides least.

Graphviz places labels beside edges, where a reader cannot tell which of two edges a label belongs to. Here it lays out
the picture without labels (`bare_dot_of`). Each label then covers a stretch of its edge that covers no shape and no
other label, and is crossed by no other edge, wherever there is such a stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from viz.drawing.geometry import Point, Rect, at, curve, width_of
from viz.drawing.layout import BOX, drawn_edges, frame_of, frames_of
from viz.drawing.markup import backed, html_label
from viz.drawing.picture import Edge, Picture
from viz.style import Style

#: Distance of two points of a wire.
_STEP = 3.0
#: Costs of a place: a shape or label below the label, the tip of its own edge, another edge below it, each point of
#: another edge nearby, the border of a cluster, the start of its own edge, and distance from this share of the edge.
_COVERED, _TIP, _CROSSED, _NEAR, _BORDER, _START, _AWAY, _BEST = (
    1000.0,
    400.0,
    300.0,
    100.0,
    60.0,
    40.0,
    6.0,
    0.6,
)
_ROUNDS, _PLACES = 4, 80
#: Best distance of the number of an operand from the tip of its edge.
_BEFORE_THE_TIP = 18.0

Points = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Text:
    """Label of an edge, or number of an operand: its edge, the number of that, and the best distance from its tip."""

    edge: Edge
    key: str
    markup: str
    size: float
    color: str
    wire: int
    best: float | None = None

    @property
    def extent(self) -> Points:
        return np.array([0.75 * width_of(self.markup, self.size) + 4, 1.72 * self.size])


@dataclass
class Layout:
    """Frames of shapes and of clusters, and points of edges at equal distances, from the tail to the tip."""

    shapes: list[Rect]
    clusters: list[Rect]
    wires: list[Points]

    @cached_property
    def frames(self) -> Points:
        return np.array(self.shapes)

    @cached_property
    def points(self) -> Points:
        """Points of all wires from left to right, and the number of the wire of each."""
        found = [np.column_stack([wire, np.full(len(wire), k)]) for k, wire in enumerate(self.wires)]
        every = np.concatenate(found)
        return every[every[:, 0].argsort()]


def with_labels(bare: str, picture: Picture, theme: Style) -> str:
    """DOT text with fixed positions, and a node for each label of an edge and each number of an operand.

    bare: DOT text of the picture without labels of edges, as Graphviz lays it out.
    """
    bare = bare.replace("\\\n", "")  # breaks of long lines
    drawn = drawn_edges(bare, picture)
    clusters = [frame_of(box) for _, _, box in BOX.findall(bare)]
    layout = Layout(list(frames_of(bare).values()), clusters, [points_of(spline) for _, spline in drawn])
    labels = [(edge, wire) for wire, (edge, _) in enumerate(drawn) if edge.label]
    operands = [(edge, wire) for wire, (edge, _) in enumerate(drawn) if edge.operand is not None]
    texts = [
        *(
            _Text(edge, f"label_{n}", edge.label, theme.edge_size, theme.text, k)
            for n, (edge, k) in enumerate(labels)
        ),
        *(
            _Text(edge, f"operand_{n}", str(edge.operand), theme.small_size, theme.muted, k, _BEFORE_THE_TIP)
            for n, (edge, k) in enumerate(operands)
        ),
    ]
    head, rest = bare.split("{", 1)
    places = _chosen([_Places(layout, text) for text in texts])
    nodes = [_node(text, place, layout, theme) for text, place in zip(texts, places, strict=True)]
    fixed = "  graph [layout=nop2, outputorder=edgesfirst]"
    return "\n".join([f"{head}{{", fixed, rest.rstrip().removesuffix("}").rstrip(), *nodes, "}", ""])


def _node(text: _Text, place: Points, layout: Layout, theme: Style) -> str:
    inside = any(abs(place[0] - c.x) < c.w and abs(place[1] - c.y) < c.h for c in layout.clusters)
    label = html_label(backed(text.markup, theme.cluster if inside else theme.background))
    return (
        f'  {text.key} [pos="{at((place[0], place[1]))}", label={label}, shape=plain, style=solid, '
        f'fixedsize=false, width=0, height=0, fontsize={text.size}, fontcolor="{text.color}", tooltip=" ", '
        # In animations, the text is shown together with the shapes at both ends of its edge.
        f'class="{text.edge.tail} {text.edge.head}"]'
    )


def points_of(pos: str) -> Points:
    """Points of a spline of Graphviz: s,x,y and e,x,y are its tips, the other words knots."""
    tips: dict[str, Point] = {}
    knots: list[Point] = []
    for word in pos.split():
        *mark, x, y = word.split(",")
        if mark:
            tips[mark[0]] = float(x), float(y)
        else:
            knots.append((float(x), float(y)))
    whole = np.array(
        [*(tips[s] for s in "s" if s in tips), *curve(knots), *(tips[e] for e in "e" if e in tips)]
    )
    along = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(whole, axis=0).T))])
    wanted = np.linspace(0, along[-1], max(2, int(along[-1] / _STEP) + 1))
    return np.column_stack([np.interp(wanted, along, whole[:, axis]) for axis in (0, 1)])


# -- places --------------------------------------------------------------------------------------


class _Places:
    """Places of one text on its edge, and what each costs without other texts."""

    def __init__(self, layout: Layout, text: _Text) -> None:
        own = layout.wires[text.wire]
        share = np.linspace(0, 1, min(len(own), _PLACES))
        self.points = own[np.rint(share * (len(own) - 1)).astype(int)]
        self.half = text.extent / 2
        self.low, self.high = own.min(0) - self.half, own.max(0) + self.half
        if text.best is None:
            self.cost = _AWAY * np.abs(share - _BEST)
        else:
            self.cost = _AWAY * np.abs((1 - share) * len(own) * _STEP - text.best) / _STEP
        for x, y, w, h in self._near(layout.frames):
            self.cost += _COVERED * self.overlap(np.array([x, y]), np.array([w, h]))
        for x, y, w, h in layout.clusters:
            away = np.abs(self.points - (x, y)) - (w, h)
            self.cost += _BORDER * ((away < self.half).all(1) & (away > -self.half).any(1))
        for part in np.array_split(np.arange(len(self.points)), -(-len(self.points) // 8)):
            self._avoid(layout, text.wire, part)
        self._show_the_ends(own)

    def _avoid(self, layout: Layout, wire: int, part: npt.NDArray[np.int_]) -> None:
        """Adds the costs of other edges to a part of the places, which lie close together."""
        reach, places = 1.15 * (self.half + 1.5), self.points[part]
        low, high = places.min(0) - reach, places.max(0) + reach
        near = layout.points[slice(*np.searchsorted(layout.points[:, 0], (low[0], high[0])))]
        near = near[(near[:, 2] != wire) & (near[:, 1] > low[1]) & (near[:, 1] < high[1]), :2]
        gaps = np.abs(places[:, None] - near)
        self.cost[part] += _NEAR * np.clip(1 - (gaps / reach).max(2), 0, None).sum(1)
        self.cost[part] += _CROSSED * (gaps < self.half - 2).all(2).any(1)

    def _near(self, frames: Points) -> Points:
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return frames[(np.abs(frames[:, :2] - middle) < half + frames[:, 2:]).all(1)]

    def _show_the_ends(self, own: Points) -> None:
        hidden = (np.abs(self.points[:, None] - own) < self.half).all(2)
        before, after = hidden.argmax(1) * _STEP, hidden[:, ::-1].argmax(1) * _STEP
        self.cost += _START * np.clip(1 - before / 8, 0, None) + _TIP * np.clip(1 - after / 14, 0, None)

    def overlap(self, center: Points, half: Points) -> Points:
        """Share of the label that a box covers, at each place."""
        room = self.half + half + 1 - np.abs(self.points - center)
        share: Points = np.clip(room / (2 * self.half), 0, 1).prod(1)
        return share

    def is_near(self, other: _Places) -> bool:
        return bool((self.low < other.high).all() and (other.low < self.high).all())


def _chosen(labels: Sequence[_Places]) -> list[Points]:
    """Center of each label: in turn, each takes the best place beside the others."""
    chosen = [int(each.cost.argmin()) for each in labels]
    near = [[k for k, b in enumerate(labels) if b is not a and a.is_near(b)] for a in labels]
    for _ in range(_ROUNDS):
        before = list(chosen)
        for index, each in enumerate(labels):
            covered = [each.overlap(labels[k].points[chosen[k]], labels[k].half) for k in near[index]]
            chosen[index] = int((each.cost + _COVERED * sum(covered)).argmin())
        if chosen == before:
            break
    return [each.points[k] for each, k in zip(labels, chosen, strict=True)]
