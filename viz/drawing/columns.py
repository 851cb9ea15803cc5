"""Time steps as equal columns of an open picture.

Graphviz lays out each time step in its own way: gates in another order, states on long detours. Here the most compact
step is the model of all: the others become copies of it, side by side, with the states that pass between them drawn
from left to right.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viz.drawing.geometry import Point, Rect, at, curve, plus, straight
from viz.drawing.layout import BOX, EDGE, NODE, POS, drawn_edges, frames_of
from viz.drawing.picture import Edge, Picture, in_order

_ROOT = re.compile(r'\A(.*?\n\tgraph \[)bb="[^"]*",(.*?\n\t\];)', re.DOTALL)
_PAIR = re.compile(r"(-?[\d.]+(?:e[-+]\d+)?),(-?[\d.]+(?:e[-+]\d+)?)")
#: Points between columns, between the edges there, and between what is beside the columns.
_GAP, _LANE, _BESIDE = 56.0, 12.0, 18.0
_ARROW = 6.5


def in_columns(bare: str, picture: Picture) -> str:
    """DOT text with new positions; the same text if time steps differ, or more than states pass between them.

    bare: DOT text of the picture as Graphviz lays it out, from bottom to top.
    """
    steps = _steps_of(picture)
    if steps is None:
        return bare
    try:
        return _Columns(bare.replace("\\\n", ""), picture, steps).text()
    except _Irregular:
        return bare


class _Irregular(Exception):
    """An edge that cannot be drawn between columns."""


@dataclass(frozen=True)
class TimeStep:
    """Shapes of a time step, in an order that all steps share."""

    time: Any
    keys: tuple[str, ...]


def _steps_of(picture: Picture) -> list[TimeStep] | None:
    """Time steps, if all have the same shapes and edges."""
    times = in_order(picture.times)
    names = _structure(picture)
    steps = []
    for time in times:
        own = [s.key for s in picture.shapes if s.cluster is not None and s.cluster.time == time]
        steps.append(TimeStep(time, tuple(sorted(own, key=lambda key: names[key]))))
    alike = {tuple(names[key] for key in step.keys) for step in steps}
    return steps if len(steps) > 1 and len(alike) == 1 else None


def _structure(picture: Picture) -> dict[str, str]:
    """Text for each shape, the same in all time steps: what it is, and what it is computed from within the step."""
    clusters = {shape.key: shape.cluster for shape in picture.shapes}
    into: dict[str, list[Edge]] = {}
    out: dict[str, list[str]] = {}
    for edge in picture.edges:
        into.setdefault(edge.head, []).append(edge)
        out.setdefault(edge.tail, []).append(edge.label)
    numbers: dict[str, int] = {}
    found: dict[str, str] = {}
    for shape in sorted(picture.shapes, key=lambda shape: not shape.fork):
        cluster = shape.cluster
        own = [shape.role.value, cluster.row if cluster else None, len(shape.lines)]
        own += [re.sub(r"\d+", "#", line) for line in shape.lines[:1]]
        if shape.fork:
            own += sorted(out[shape.key])
        for edge in into.get(shape.key, ()):
            other = clusters[edge.tail]
            inside = cluster and other and cluster.time == other.time
            own.append((edge.label, found.get(edge.tail) if inside else ""))
        text = str(own)
        found[shape.key] = f"{numbers.setdefault(text, len(numbers)):09d}"
    return found


class _Columns:
    def __init__(self, text: str, picture: Picture, steps: Sequence[TimeStep]) -> None:
        self.bare, self.picture, self.steps = text, picture, steps
        self.frames, self.drawn = frames_of(text), drawn_edges(text, picture)
        self.clusters = list(dict.fromkeys(s.cluster for s in picture.shapes if s.cluster is not None))
        self.boxes = {int(k): _numbers(box) for _, k, box in BOX.findall(text)}
        self.times = {step.time: k for k, step in enumerate(steps)}
        self.step_of = {key: k for k, step in enumerate(steps) for key in step.keys}
        self.model = min(range(len(steps)), key=self._length_within)
        self.partner = {
            key: own for step in steps for key, own in zip(step.keys, steps[self.model].keys, strict=True)
        }
        low, high = self._span_of(self.model)
        self.pitch = high - low + _GAP + _LANE * self._most_lanes()
        self.shifts = [self.pitch * k - low for k in range(len(steps))]
        self.left, self.right = 0.0, self.pitch * (len(steps) - 1) + high - low
        self.gaps: Counter[int] = Counter()

    def text(self) -> str:
        """Text with the new positions, without the invisible shapes that ordered the time steps."""
        self._place_shapes()
        routes: dict[tuple[str, str], deque[str]] = {}
        for edge, pos in self.drawn:
            routes.setdefault((edge.tail, edge.head), deque()).append(self._route(edge, pos))
        self.places |= {f"title_{number}": self._title(number) for number in range(len(self.clusters))}

        def node(found: re.Match[str]) -> str:
            key = found[1]
            place = self.places.get(key)
            if place is None:
                return "" if re.fullmatch(r"(below|above)_\d+", key) else found[0]
            return POS.sub(f'pos="{at((place.x, place.y))}"', found[0], count=1)

        def edge_(found: re.Match[str]) -> str:
            ways = routes.get((found[1], found[2]))
            return POS.sub(f'pos="{ways.popleft()}"', found[0], count=1) if ways else ""

        text = NODE.sub(node, EDGE.sub(edge_, self.bare))
        text = BOX.sub(lambda found: f'{found[1]}{self._box(int(found[2]))}"', text)
        return _ROOT.sub(lambda found: f"{found[1]}{re.sub(r'lp=.[^,]*,[^,]*,', '', found[2])}", text)

    # -- the model -----------------------------------------------------------------------------

    def _length_within(self, step: int) -> float:
        total = 0.0
        for edge, pos in self.drawn:
            if self.step_of.get(edge.tail) == self.step_of.get(edge.head) == step:
                x, y = zip(*_points(pos), strict=True)
                total += max(x) - min(x) + max(y) - min(y)
        return total

    def _span_of(self, step: int) -> tuple[float, float]:
        """Left and right end of a step."""
        found = [box for k, box in self.boxes.items() if self.clusters[k].time == self.steps[step].time]
        xs = [x for box in found for x in (box[0], box[2])]
        for edge, pos in self.drawn:
            if self.step_of.get(edge.tail) == self.step_of.get(edge.head) == step:
                xs += [x for x, _ in _points(pos)]
        return min(xs), max(xs)

    def _most_lanes(self) -> int:
        passing = Counter(
            self.step_of[edge.head]
            for edge in self.picture.edges
            if edge.tail in self.step_of
            and edge.head in self.step_of
            and self.step_of[edge.tail] != self.step_of[edge.head]
        )
        return max(passing.values(), default=0)

    # -- places --------------------------------------------------------------------------------

    def _place_shapes(self) -> None:
        self.places: dict[str, Rect] = {}
        for k, step in enumerate(self.steps):
            for key in step.keys:
                frame = self.frames[self.partner[key]]
                self.places[key] = self.frames[key]._replace(x=frame.x + self.shifts[k], y=frame.y)
        middle = (self.left + self.right) / 2
        rest = [s.key for s in self.picture.shapes if s.key not in self.step_of]
        heads: dict[str, list[str]] = {}
        for edge in self.picture.edges:
            heads.setdefault(edge.tail, []).append(edge.head)
        #: What comes after all steps, as Graphviz has laid it out.
        self.after = {key for key in rest if not any(head in self.step_of for head in heads.get(key, ()))}
        xs = [self.frames[key].x for key in self.after]
        shift = middle - (min(xs) + max(xs)) / 2 if xs else 0.0
        self.after_shift = shift
        for key in self.after:
            self.places[key] = self.frames[key]._replace(x=self.frames[key].x + shift)
        self._place_before([key for key in rest if key not in self.after], heads, middle)

    def _place_before(self, keys: Sequence[str], heads: Mapping[str, list[str]], middle: float) -> None:
        """States before the first step beside it, what several steps read below all."""
        beside: list[Rect] = []
        lowest = min(frame.y - frame.h for frame in self.places.values())
        below = [key for key in keys if len({self.step_of.get(head) for head in heads[key]}) > 1]
        wide = sum(2 * self.frames[key].w + _BESIDE for key in below)
        at_left = middle - wide / 2
        for key in keys:
            steps = {self.step_of.get(head, -1) for head in heads[key]}
            frame = self.frames[key]
            if key in below:
                place = frame._replace(x=at_left + _BESIDE / 2 + frame.w, y=min(frame.y, lowest - 40))
                at_left += 2 * frame.w + _BESIDE
            elif steps == {0}:
                place = frame._replace(x=self.left - _GAP - frame.w, y=self.places[heads[key][0]].y)
                for other in beside:
                    if abs(other.y - place.y) < other.h + place.h + _BESIDE:
                        place = place._replace(y=other.y + other.h + place.h + _BESIDE)
                beside.append(place)
            else:
                raise _Irregular
            self.places[key] = place

    def _like(self, number: int) -> tuple[int, float]:
        """Number of the cluster of the model that a cluster looks like, and its shift."""
        cluster = self.clusters[number]
        if cluster.time not in self.times:
            return number, self.after_shift
        return self.clusters.index(replace(cluster, time=self.steps[self.model].time)), self.shifts[
            self.times[cluster.time]
        ]

    def _box(self, number: int) -> str:
        like, shift = self._like(number)
        left, low, right, high = self.boxes[like]
        return f"{left + shift:.2f},{low:.2f},{right + shift:.2f},{high:.2f}"

    def _title(self, number: int) -> Rect:
        like, shift = self._like(number)
        model = self.frames[f"title_{like}"]
        return self.frames[f"title_{number}"]._replace(x=model.x + shift, y=model.y)

    # -- edges ---------------------------------------------------------------------------------

    def _route(self, edge: Edge, pos: str) -> str:
        a, b = self.step_of.get(edge.tail), self.step_of.get(edge.head)
        tail, head = self.places[edge.tail], self.places[edge.head]
        if a is not None and a == b:
            return _moved(self._model_of(edge), self.shifts[a])
        if a is None and b is None and edge.tail in self.after:
            return _moved(pos, self.after_shift)
        if edge.back or edge.tail in self.after:
            raise _Irregular
        if b is None or (a is None and tail.x > self.left):
            points = _up(tail, head)
        elif b == (0 if a is None else a + 1):
            points = self._across(tail, head, b)
        else:
            raise _Irregular
        others = [frame for key, frame in self.places.items() if key not in (edge.tail, edge.head)]
        if _touches(points, others):
            raise _Irregular
        return _drawn(points, edge)

    def _model_of(self, edge: Edge) -> str:
        wanted = self.partner[edge.tail], self.partner[edge.head], edge.label
        for other, pos in self.drawn:
            if (other.tail, other.head, other.label) == wanted:
                return pos
        raise _Irregular

    def _across(self, tail: Rect, head: Rect, step: int) -> list[Point]:
        """Curve from the side of a shape to the gap before a column, along it, and into a shape of that column."""
        low = tail.y
        if step:
            low = _free(tail.y, [f for f in self._frames_in(step - 1) if f.x > tail.x])
        high = _free(head.y, [f for f in self._frames_in(step) if f.x < head.x])
        start, end = (tail.x + tail.w, tail.y), (head.x - head.w, head.y)
        x = self.pitch * step - _GAP / 2 - _LANE * self.gaps[step]
        if start[0] > x - 6:  # beside the first column
            x = start[0] + 20
        elif abs(low - high) >= 8:
            self.gaps[step] += 1
        points = [start]
        if low != start[1]:
            away = (start[0] + 2 * abs(low - start[1]), low)
            points += [(start[0] + 8, start[1]), (away[0] - 8, low), away]
        near = end
        if high != end[1]:
            near = (end[0] - 2 * abs(high - end[1]), high)
        if abs(low - high) < 8:
            points += straight(points[-1], near)[1:]
        else:
            turn = min(26.0, abs(high - low) / 2)
            down = turn if high > low else -turn
            first, last = (x, low + down), (x, high - down)
            into = (x + turn, high)
            points += straight(points[-1], (x - turn, low))[1:] if x - turn > points[-1][0] else []
            points += [(x - turn * 0.4, low), (x, low + down * 0.4), first, *straight(first, last)[1:]]
            points += [(x, last[1] + down * 0.6), (x + turn * 0.4, high), into, *straight(into, near)[1:]]
        if near != end:
            points += [(near[0] + 8, high), (end[0] - 8, end[1]), end]
        return points

    def _frames_in(self, step: int) -> list[Rect]:
        return [self.places[key] for key in self.steps[step].keys]


def _free(height: float, others: Sequence[Rect]) -> float:
    """Nearest height at which none of these shapes is."""
    near = (height + sign * 4.0 * k for k in range(14) for sign in (1, -1))
    return next((y for y in near if all(abs(y - other.y) > other.h + 4 for other in others)), height)


def _touches(points: Sequence[Point], shapes: Sequence[Rect]) -> bool:
    drawn = curve(points)
    return any((np.abs(drawn - (x, y)) < (w, h)).all(1).any() for x, y, w, h in shapes)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def _points(pos: str) -> list[Point]:
    return [(float(x), float(y)) for x, y in _PAIR.findall(pos)]


def _moved(pos: str, shift: float) -> str:
    return _PAIR.sub(lambda found: f"{float(found[1]) + shift:.2f},{found[2]}", pos)


def _up(tail: Rect, head: Rect) -> list[Point]:
    """Curve from the top of a shape to the bottom of a higher one."""
    start, end = (tail.x, tail.y + tail.h), (head.x, head.y - head.h)
    rise = 0.45 * (end[1] - start[1])
    return [start, (start[0], start[1] + rise), (end[0], end[1] - rise), end]


def _drawn(points: Sequence[Point], edge: Edge) -> str:
    """Spline of Graphviz; an arrow takes the last points of the curve."""
    *curve, before, tip = points
    if not edge.arrow:
        return " ".join(map(at, points))
    dx, dy = tip[0] - before[0], tip[1] - before[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    back = (-dx / length * _ARROW, -dy / length * _ARROW)
    return f"e,{at(tip)} {' '.join(map(at, [*curve, plus(before, back), plus(tip, back)]))}"
