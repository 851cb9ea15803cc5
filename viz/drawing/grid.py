"""DOT text of a closed picture with computed positions and curves.

Graphviz only draws (layout=nop2): its own layout minimizes crossings and may put t=3 before t=2.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import sqrt

from viz.colours import ink_on
from viz.drawing.closed import Box, BoxKind, ClosedPicture, Link
from viz.drawing.geometry import Point, Rect, across, at, past_the_row, plus, rising, straight, width_of
from viz.drawing.legend import legend_rows, legend_table
from viz.drawing.markup import TILE, backed, html_label, note_rows, quoted, scale_table, table
from viz.style import EdgeRole, Role, Style

_LANE = 13.0  # between edges that pass a row
_STATE = 30.0  # between the states of one layer
_GAP = 46.0  # between rows
_SMALL_GAP, _MANY = 20.0, 8  # between more rows than this, so that text stays readable on a slide
_BESIDE = 70.0  # between two pictures
_ARROW = 6.5
_RADIUS = 18.0
_INPUTS = (BoxKind.DATA, BoxKind.IMAGINARY)
_CELLS = (BoxKind.CELL, BoxKind.STEPS)


def grid_dot(picture: ClosedPicture, theme: Style) -> str:
    """DOT text of a closed picture, and of the one next to it."""
    text = f'fontname="{theme.font}"'
    lines = [
        "digraph graphnet {",
        f'  graph [layout=nop2, bgcolor="{theme.background}", {text}, margin=0, pad=0.15]',
        f"  node [{text}, fontsize={theme.font_size}, penwidth=1.2, fixedsize=true, margin=0]",
        f'  edge [{text}, fontsize={theme.edge_size}, fontcolor="{theme.text}", penwidth=1.2, arrowsize=0.65]',
    ]
    grids = [_Grid(picture, theme)]
    while (beside := grids[-1].picture.beside) is not None:
        grids.append(_Grid(beside, theme))
    half = max(grid.widest() for grid in grids)
    pitch = max(grid.column_pitch(half) for grid in grids)
    rows = [max(heights) for heights in zip(*(grid.row_heights() for grid in grids), strict=True)]
    left: float | None = None
    for grid in grids:
        grid.place(half, pitch, rows, left)
        lines += [f"  {grid.node(box)}" for box in grid.picture.shapes]
        lines += [f"  {grid.edge(link)}" for link in grid.picture.edges]
        lines += [f"  {line}" for line in grid.captions()]
        left = grid.right + _BESIDE
    return "\n".join([*lines, "}", ""])


class _Grid:
    def __init__(self, picture: ClosedPicture, theme: Style) -> None:
        self.picture = picture
        self.theme = theme
        self.shift = 0.0
        self.box = {box.key: box for box in picture.shapes}
        self.row_of: dict[int, list[Box]] = {}
        for box in picture.shapes:
            if box.kind in (*_CELLS, BoxKind.OUTPUT):
                self.row_of.setdefault(box.row, []).append(box)
        self.lanes = {side: self.assign_lanes(side) for side in ("left", "right")}
        labels = (width_of(link.label, theme.edge_size) for lanes in self.lanes.values() for link in lanes)
        #: Distance of two lanes, with room for their labels.
        self.apart = max(_LANE, max(labels, default=0.0) + 4)

    def reach(self, side: str, lane: int | None = None) -> float:
        """Distance of a lane from the boxes of the column; of the last one by default."""
        if lane is None:
            lane = max(self.lanes[side].values(), default=-1)
        return 0.0 if lane < 0 else _LANE + self.apart * lane

    def place(self, half: float, pitch: float, rows: list[float], left: float | None) -> None:
        """Sets the positions of all boxes.

        half: half the width of a cell. pitch: distance of columns. rows: half the height of each row. Pictures side by
        side share these. left: left edge of the picture; None: anywhere.
        """
        self.half, self.pitch = half, pitch
        self.heights = self.row_centres(rows)
        self.frames = {box.key: self.frame(box) for box in self.picture.shapes}
        if left is not None:
            self.shift = left - min(frame.x - frame.w for frame in self.frames.values())
            self.frames = {
                key: Rect(frame.x + self.shift, frame.y, frame.w, frame.h)
                for key, frame in self.frames.items()
            }
        self.right = max(frame.x + frame.w for frame in self.frames.values())

    # -- sizes -------------------------------------------------------------------------------

    def size(self, box: Box) -> tuple[float, float]:
        width = max(width_of(line, self.theme.font_size) for line in box.lines)
        height = 18.0 * len(box.lines)
        if box.note is not None:
            lines = [width_of(line, self.theme.small_size) for line in box.note.lines]
            tile = box.note.tile
            width = max([width, *lines, *(len(row) * TILE + 4.0 for row in tile)])
            height += 12.0 * len(lines) + (len(tile) * TILE + 10.0 if tile else 0.0)
        if box.kind in _CELLS:
            states = self.picture.states[box.row]
            return max(48.0, width / 2 + 12), max(26.0, height / 2 + 8, states * _STATE / 2)
        if box.kind is BoxKind.OUTPUT and max(width, height) <= 1.6 * _RADIUS:
            return _RADIUS, _RADIUS
        if box.kind in (BoxKind.OUTPUT, BoxKind.COST):
            return width / 2 + 14, height / 2 + 6
        return max(16.0, width / 2 + 6), max(13.0, height / 2 + 4)

    def widest(self) -> float:
        cells = [self.size(box) for box in self.picture.shapes if box.kind is BoxKind.CELL]
        # A label stands between the edge into a lane, at 0.8 of half the box, and the one in its middle.
        labels = [width_of(link.label, self.theme.edge_size) for link in self.lanes["left"]]
        return max([*(w for w, _ in cells), *((w + 12) / 0.8 for w in labels if w)], default=_RADIUS)

    def column_pitch(self, half: float) -> float:
        labels = [
            width_of(link.label, self.theme.edge_size) for link in self.picture.edges if self.is_state(link)
        ]
        room = max(44.0, max(labels, default=0.0) + 26)
        lanes = self.reach("left") + self.reach("right")
        widths: dict[tuple[int, int], float] = {}
        for box in self.picture.shapes:
            stacked = box.kind in (BoxKind.COST, BoxKind.STATE)
            if not stacked and box.row <= len(self.picture.states) - 1:
                w, _ = self.size(box)
                widths[box.row, box.column] = widths.get((box.row, box.column), 0.0) + 2 * w + 8
        if any(link.role is EdgeRole.GENERATED for link in self.picture.edges):
            room += _LANE
        widest = max(widths.values(), default=0.0)
        return max(2 * half + lanes + room, widest + 16)

    def row_heights(self) -> list[float]:
        half = [13.0] * (len(self.picture.states) + 1)
        for box in self.picture.shapes:
            pitch = self.stack_pitch(box) if self.is_stacked(box) else 0.0
            high = pitch * box.slots / 2 if pitch > _STATE else self.size(box)[1]
            half[box.row] = max(half[box.row], high)
        return half

    def is_stacked(self, box: Box) -> bool:
        """True for boxes that are stacked vertically: initial states, and data next to the cost."""
        return box.kind is BoxKind.STATE or (box.kind is BoxKind.DATA and box.row == len(self.picture.states))

    def stack_pitch(self, box: Box) -> float:
        same = (x for x in self.picture.shapes if x.kind is box.kind and x.row == box.row)
        return max(_STATE, 2 * max(self.size(x)[1] for x in same) + 4)

    @property
    def gap(self) -> float:
        """Distance of two rows."""
        return _GAP if len(self.picture.states) < _MANY else _SMALL_GAP

    def row_centres(self, half: list[float]) -> list[float]:
        centres = [0.0]
        for row in range(1, len(half)):
            fan = 5.0 * self.picture.columns if row == len(half) - 1 else 0.0
            centres.append(centres[-1] + half[row - 1] + self.gap + fan + half[row])
        return centres

    def frame(self, box: Box) -> Rect:
        w, h = self.size(box)
        if box.kind in _CELLS:
            w = self.half
        x, y = box.column * self.pitch, self.heights[box.row]
        top = box.row == len(self.heights) - 1
        middle = (self.picture.columns - 1) * self.pitch / 2
        shift = box.slot - (box.slots - 1) / 2
        if box.kind is BoxKind.STATE:
            before = all(box.column < other.column for other in self.row_of[box.row])
            away = self.half + self.reach("left" if before else "right") + 42 + w
            if not any(x.column == box.column and x.kind is BoxKind.OUTPUT for x in self.picture.shapes):
                x += self.pitch - away if before else away - self.pitch
            y -= shift * self.stack_pitch(box)
        elif top and box.kind is BoxKind.DATA:
            cost = self.size(self.box["cost"])[0]
            x, y = middle + cost + 44 + w, y - shift * self.stack_pitch(box)
        elif top:
            x = middle
        elif box.kind is BoxKind.DATA:
            x += self.beside(box)
        return Rect(x, y, w, h)

    def beside(self, box: Box) -> float:
        """Offset of data from the middle of a shared column."""
        if box.slots == 1:
            return 0.0
        same = [
            x for x in self.picture.shapes if (x.kind, x.row, x.column) == (box.kind, box.row, box.column)
        ]
        widths = {x.slot: 2 * self.size(x)[0] + 8 for x in same}
        before = sum(width for slot, width in widths.items() if slot < box.slot)
        return before + widths[box.slot] / 2 - sum(widths.values()) / 2

    # -- nodes -------------------------------------------------------------------------------

    def node(self, box: Box) -> str:
        frame, theme = self.frames[box.key], self.theme
        shape, style, colours = "box", "filled", (theme.leaf, theme.leaf, theme.leaf_text)
        if box.kind is BoxKind.CELL:
            style, colours = '"filled,rounded"', (theme.cluster, theme.line, theme.text)
        elif box.kind is BoxKind.STEPS:
            style, colours = '"dashed,rounded"', (theme.background, theme.cluster_line, theme.muted)
        elif box.kind is BoxKind.COST:
            style, colours = '"filled,rounded"', (theme.cost, theme.cost, theme.cost_text)
        elif box.kind is BoxKind.OUTPUT:
            shape = "circle" if frame.w == frame.h else "ellipse" if self.is_round(box) else "box"
            style = '"filled,rounded"' if shape == "box" else style
            colours = (theme.label, theme.line, theme.text)
        elif box.kind is BoxKind.DATA:
            colours = (theme.leaf, theme.rim(Role.INPUT), theme.leaf_text)
        elif box.kind is BoxKind.IMAGINARY:
            colours = (theme.label, theme.label, theme.text)
        fill, line, ink = colours
        noted = box.note.fill(theme, self.picture.scale) if box.note else None
        if noted:
            fill, ink = noted, ink_on(noted)
        attributes = [
            f'pos="{at((frame.x, frame.y))}", width={frame.w / 36:.3f}, height={frame.h / 36:.3f}',
            f"label={html_label(_lines(box, theme))}",
            f"shape={shape}, style={style}",
            f'fillcolor="{fill}", color="{line}", fontcolor="{ink}"',
            f"tooltip={quoted(box.tooltip)}",
        ]
        return f"{box.key} [{', '.join(attributes)}]"

    def is_round(self, box: Box) -> bool:
        frame = self.frames[box.key]
        return box.kind is BoxKind.OUTPUT and (frame.w == frame.h or not box.note)

    def captions(self) -> Iterator[str]:
        middle = self.shift + (self.picture.columns - 1) * self.pitch / 2
        key = self.picture.shapes[0].key
        if self.picture.title:
            top = max(frame.y + frame.h for frame in self.frames.values())
            text = f'<font point-size="{self.theme.font_size + 2}">{escape(self.picture.title)}</font>'
            yield self.words(f"title_{key}", (middle, top + 24.0), text)
        bottom = min(frame.y - frame.h for frame in self.frames.values()) - 16
        if self.picture.scale is not None:
            yield self.words(
                f"scale_{key}", (middle, bottom - 18.0), scale_table(self.picture.scale, self.theme)
            )
            bottom -= 36
        if self.picture.legend:
            high = 18.0 * legend_rows(self.picture, self.theme)
            markup = legend_table(self.picture, self.theme)
            yield self.words(f"legend_{key}", (middle, bottom - high / 2), markup, high)

    def words(self, key: str, place: Point, markup: str, high: float = 36.0) -> str:
        return (
            f'{key} [pos="{at(place)}", width=4, height={high / 72:g}, shape=plaintext, style=solid, '
            f'fontcolor="{self.theme.text}", label={html_label(markup)}]'
        )

    # -- edges -------------------------------------------------------------------------------

    def edge(self, link: Link) -> str:
        points, label_at = self.route(link)
        if link.back:
            points = points[::-1]
        *curve, before, tip = points
        dx, dy = tip[0] - before[0], tip[1] - before[1]
        length = sqrt(dx * dx + dy * dy) or 1.0
        back = (-dx / length * _ARROW, -dy / length * _ARROW)
        curve += [plus(before, back), plus(tip, back)]
        attributes = [
            f'pos="e,{at(tip)} {" ".join(map(at, curve))}"',
            f'color="{self.theme.edge(link.role)}"',
        ]
        if link.label and label_at is not None:
            on_it = any(link in lanes for lanes in self.lanes.values())
            text = backed(link.label, self.theme.background) if on_it else link.label
            attributes += [f"label={html_label(text)}", f'lp="{at(label_at)}"']
        tail, head = (link.head, link.tail) if link.back else (link.tail, link.head)
        return f"{tail} -> {head} [{', '.join(attributes)}]"

    def route(self, link: Link) -> tuple[list[Point], Point | None]:
        tail, head = self.box[link.tail], self.box[link.head]
        a, b = self.frames[link.tail], self.frames[link.head]
        if link.role is EdgeRole.GENERATED:
            return self.fed_back(a, b), None
        if self.is_state(link):
            return self.sideways(link, a, b)
        if self.is_judge(head):
            return self.to_cost(link, tail, a, b)
        if tail.column != head.column or tail.row >= head.row:
            if tail.row == head.row:
                return past_the_row(a, b, -1 if tail.kind is BoxKind.STATE else 1), None
            if head.kind is BoxKind.OUTPUT and head.row == tail.row + 1 and tail.column < head.column:
                beside = 0.7 * (head.column - tail.column) / self.picture.columns
                foot = (b.x - beside * b.w, b.y - b.h * sqrt(1 - beside * beside))
                return rising((a.x, a.y + a.h), foot), None
            return across(a, b, 0.87 if tail.kind is BoxKind.OUTPUT else 1.0), None
        for side, sign in (("left", -1), ("right", 1)):
            if link in self.lanes[side]:
                return self.along_lane(link, a, b, sign, self.lanes[side][link])
        onto = min(max(a.x, b.x - b.w + 12), b.x + b.w - 12)
        start = (onto if abs(onto - a.x) < a.w else a.x, a.y + a.h)
        end = (onto if head.kind in _CELLS else b.x, b.y - b.h)
        width = width_of(link.label, self.theme.edge_size)
        return straight(start, end), (start[0] + width / 2 + 7, (start[1] + end[1]) / 2)

    def is_judge(self, box: Box) -> bool:
        return box.row == len(self.picture.states) and box.kind in (BoxKind.COST, BoxKind.OUTPUT)

    def is_state(self, link: Link) -> bool:
        """True for edges from a box to its neighbor in the row, and from initial states."""
        tail, head = self.box[link.tail], self.box[link.head]
        beside = tail.row == head.row and abs(tail.column - head.column) == 1
        return link.slot is not None and beside and head.kind in _CELLS

    def sideways(self, link: Link, a: Rect, b: Rect) -> tuple[list[Point], Point]:
        states = self.picture.states[self.box[link.head].row]
        tail = self.box[link.tail]
        slots = tail.slots if tail.kind is BoxKind.STATE else self.slots_into(link)
        spread = _STATE if slots <= states else 2 * b.h / (slots + 1)
        y = b.y + ((slots - 1) / 2 - (link.slot or 0)) * spread
        onward = 1 if a.x < b.x else -1
        start, end = (a.x + onward * a.w, a.y if tail.kind is BoxKind.STATE else y), (b.x - onward * b.w, y)
        middle = (start[0] + end[0] + self.reach("right") - self.reach("left")) / 2
        return straight(start, end), (middle, y + self.theme.edge_size * 0.72)

    def slots_into(self, link: Link) -> int:
        same = (x for x in self.picture.edges if x.head == link.head and x.tail == link.tail)
        return max([1 + (x.slot or 0) for x in same if x.slot is not None], default=1)

    def assign_lanes(self, side: str) -> dict[Link, int]:
        """Lanes of edges that pass a row: from data on the right of the column, others on its left."""
        found: dict[tuple[int, int], list[Link]] = {}
        for link in self.picture.edges:
            tail, head = self.box[link.tail], self.box[link.head]
            goes_up = self.is_judge(head) or tail.column == head.column
            if not goes_up or head.row - tail.row < 2 or tail.row == len(self.picture.states):
                continue
            if (side == "right") == (tail.kind in _INPUTS):
                found.setdefault((head.row - tail.row, tail.row), []).append(link)
        return {
            link: lane for lane, links in enumerate(map(found.get, sorted(found))) for link in links or ()
        }

    def along_lane(self, link: Link, a: Rect, b: Rect, sign: int, lane: int) -> tuple[list[Point], Point]:
        """Curve up along the column, then into the box from below, or into the circle from the side."""
        x, start = self.leave(link, a, sign, lane)
        if self.box[link.head].kind in _CELLS:
            end = (b.x + sign * b.w * 0.55, b.y - b.h)
            turn = (x, end[1] - self.gap * 0.72)
            bend = [(x, end[1] - self.gap * 0.3), (end[0], end[1] - self.gap * 0.5), end]
        else:
            dy = min(0.7 * b.h, 7.0 * lane)
            reach = b.w if b.w != b.h else sqrt(max(0.0, b.w * b.w - dy * dy))
            end = (b.x + sign * reach, b.y + dy)
            turn = (x, b.y - b.h - 4)
            bend = [(x, end[1] - 4), (x, end[1]), end]
        return [*start, *straight(start[-1], turn)[1:], *bend], (x, turn[1] - self.theme.edge_size)

    def leave(self, link: Link, a: Rect, sign: int, lane: int) -> tuple[float, list[Point]]:
        away = self.half + self.reach("left" if sign < 0 else "right", lane)
        x = self.shift + self.box[link.tail].column * self.pitch + sign * away
        if self.box[link.tail].kind in _INPUTS:
            start = (a.x + sign * a.w, a.y)
            bend = [start, (x - sign * 6, a.y), (x, a.y + 6), (x, a.y + a.h + 14)]
        else:
            # At 0.8 of half its width an ellipse is 0.6 of half its height high.
            round_top = 0.6 if self.is_round(self.box[link.tail]) else 1.0
            start = (a.x + sign * a.w * 0.8, a.y + a.h * round_top)
            up = a.y + a.h + self.gap * 0.72
            bend = [start, (start[0], start[1] + self.gap * 0.5), (x, up - self.gap * 0.42), (x, up)]
        return x, bend

    def fed_back(self, a: Rect, b: Rect) -> list[Point]:
        """Curve from the side of a circle down, right of its column, into the side of a box of the next column."""
        x = a.x + self.half + self.reach("right") + _LANE * 0.7
        start, end = (a.x + a.w, a.y), (b.x - b.w, b.y)
        over = [start, (x - 8, a.y), (x, a.y - 4), (x, a.y - 18)]
        down = straight(over[-1], (x, end[1] + 18))
        return [*over, *down[1:], (x, end[1] + 4), (x + 8, end[1]), end]

    def to_cost(self, link: Link, tail: Box, a: Rect, b: Rect) -> tuple[list[Point], Point | None]:
        if tail.row == self.box[link.head].row:  # targets, next to the cost
            return straight((a.x - a.w, a.y), (b.x + b.w, min(max(a.y, b.y - b.h + 6), b.y + b.h - 6))), None
        middle = (self.picture.columns - 1) / 2
        step = 1.6 * b.w / max(4, self.picture.columns)
        end = (b.x + (tail.column - middle) * step, b.y - b.h)
        for side, sign in (("left", -1), ("right", 1)):
            if link in self.lanes[side]:
                x, start = self.leave(link, a, sign, self.lanes[side][link])
                turn = (x, self.heights[-2] + self.row_half(len(self.heights) - 2) + 4)
                return [*start, *straight(start[-1], turn)[1:], *rising(turn, end)[1:]], None
        return rising((a.x, a.y + a.h), end), None

    def row_half(self, row: int) -> float:
        return max(self.frames[box.key].h for box in self.picture.shapes if box.row == row)


# -- text ------------------------------------------------------------------------------------


def _lines(box: Box, theme: Style) -> str:
    noted = note_rows(box.note, theme) if box.note else []
    if noted:
        return table([*(f"<td>{line}</td>" for line in _styled(box, theme)), *noted])
    return "<br/>".join(_styled(box, theme))


def _styled(box: Box, theme: Style) -> Iterator[str]:
    first, *rest = box.lines
    yield f"<b>{first}</b>" if box.kind is BoxKind.CELL else first
    for line in rest:
        yield f'<font point-size="{theme.title_size}">{line}</font>'
