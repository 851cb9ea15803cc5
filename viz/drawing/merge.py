"""Merging of shapes, for readable pictures of large graphs.

Composites: all operators of a cell become one. Time and blocks: all between the first and the last few become one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from html import escape
from typing import Any

from viz.drawing.closed import Box, BoxKind, ClosedPicture, Link
from viz.drawing.names import printable
from viz.drawing.note import Notes
from viz.drawing.picture import Cluster, Edge, Picture, Shape, in_order
from viz.errors import DrawingError
from viz.style import Role

ELLIPSIS = "⋯"


def check_steps(steps: int | None, default: int) -> int:
    """Maximum number of drawn time steps; raises DrawingError for less than three."""
    if steps is None:
        return default
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 3:
        raise DrawingError(
            "steps must be a whole number of at least 3 (the first, the last, and those between as one), not "
            f"{steps!r}."
        )
    return steps


def merged(picture: Picture, groups: Mapping[str, Shape]) -> Picture:
    """Picture with the shape of each key replaced; edges inside one shape vanish, equal ones are merged."""
    shapes = dict.fromkeys(groups.get(shape.key, shape) for shape in picture.shapes)
    edges: dict[Edge, None] = {}
    for edge in picture.edges:
        tail, head = (groups[key].key if key in groups else key for key in (edge.tail, edge.head))
        if tail != head:
            operand = edge.operand if (tail, head) == (edge.tail, edge.head) else None
            edges[replace(edge, tail=tail, head=head, operand=operand)] = None
    pairs = (tuple(groups[key].key if key in groups else key for key in pair) for pair in picture.pairs)
    kept = tuple((first, second) for first, second in dict.fromkeys(pairs) if first != second)
    return replace(picture, shapes=tuple(shapes), edges=tuple(edges), pairs=kept)


# -- composites ----------------------------------------------------------------------------------


def close_clusters(picture: Picture, notes: Notes | None) -> Picture:
    """Draws each cell as one operator. Raises DrawingError if there are none."""
    members: dict[Cluster, list[Shape]] = {}
    for shape in picture.shapes:
        if shape.cluster is not None:
            members.setdefault(shape.cluster, []).append(shape)
    if not members:
        raise DrawingError(
            "closed: no node of this graph was made in a scope (of a cell, or `with gn.scope(cell='SSE'):`) that "
            "could be drawn as one box; draw it with closed=False."
        )
    groups: dict[str, Shape] = {}
    for cluster, shapes in members.items():
        one = _composite(cluster, shapes, notes)
        groups |= {shape.key: one for shape in shapes}
    found = _with_single_edges(merged(picture, groups), {one.key for one in groups.values()})
    scale = notes.scale(shape.note for shape in found.shapes) if notes else None
    return replace(found, scale=scale)


def _with_single_edges(picture: Picture, boxes: set[str]) -> Picture:
    """Draws several edges from one shape into a box as one, without their weights, which are inside."""
    ends = Counter((edge.tail, edge.head) for edge in picture.edges)
    edges = dict.fromkeys(
        replace(edge, label="") if edge.head in boxes and ends[edge.tail, edge.head] > 1 else edge
        for edge in picture.edges
    )
    return replace(picture, edges=tuple(edges))


def _composite(cluster: Cluster, shapes: Sequence[Shape], notes: Notes | None) -> Shape:
    nodes = tuple(node for shape in shapes for node in shape.nodes)
    operators = sum(shape.role is Role.OPERATOR for shape in shapes)
    title = printable(f"{' '.join(cluster.lines)}: {operators} operators", 200)
    return Shape(
        shapes[-1].key, Role.OPERATOR, tuple(escape(printable(line, 200)) for line in cluster.lines), title,
        None, any(shape.is_cost for shape in shapes), notes.note(nodes) if notes else None, nodes,
    )  # fmt: skip


# -- time, in open pictures ----------------------------------------------------------------------


def fold_time(picture: Picture, steps: int) -> Picture:
    """Draws all time steps except the first and the last few as one operator a layer, and one for the backward pass."""
    times = in_order(picture.times)
    first, last = _ends(len(times), steps)
    hidden = {time: i for i, time in enumerate(times) if first <= i < len(times) - last}
    if len(hidden) < 2:
        return picture
    place = {time: i for i, time in enumerate(times)}
    late = _after_later(
        picture,
        {s.key: place[s.cluster.time] for s in picture.shapes if s.cluster and s.cluster.time in place},
    )
    title = f"t={times[first]} {ELLIPSIS} {times[-last - 1]}"
    groups: dict[str, Shape] = {}
    ones: dict[tuple[Any, ...], Shape] = {}
    for shape in picture.shapes:
        cluster = shape.cluster
        if cluster is None or cluster.time not in hidden:
            continue
        row = (shape.key in late, cluster.row)
        if row not in ones:
            place_of_all = replace(cluster, time=times[first], title=title)
            words = f"{len(hidden)} time steps"
            ones[row] = Shape(f"steps_{len(ones)}", Role.OPERATOR, (ELLIPSIS,), words, place_of_all)
        groups[shape.key] = ones[row]
    _take_along(picture, groups)
    found = _without_lonely(merged(picture, groups), {one.key for one in ones.values()})
    # This alone keeps it at the height of its layer.
    level = {
        (shape.key in late, shape.cluster.row): shape.key
        for shape in found.shapes
        if shape.cluster is not None and shape.cluster.time == times[0] and shape.role is Role.OPERATOR
    }
    return replace(found, pairs=tuple((one.key, level[row]) for row, one in ones.items() if row in level))


def fold_blocks(picture: Picture, blocks: int = 3) -> Picture:
    """Draws the blocks of a cell, each made in `gn.scope(block=number)`, between the first and the last few as one."""
    places: dict[tuple[Any, ...], dict[int, list[str]]] = {}
    for shape in picture.shapes:
        scope = shape.nodes[-1].scope if shape.nodes and shape.role in (Role.OPERATOR, Role.LABEL) else {}
        if type(block := scope.get("block")) is int:
            around = (shape.cluster, *(f"{key}={scope[key]}" for key in sorted(scope) if key != "block"))
            places.setdefault(around, {}).setdefault(block, []).append(shape.key)
    groups: dict[str, Shape] = {}
    for (cluster, *_), found in places.items():
        first, last = _ends(len(found), blocks)
        hidden = list(found.values())[first : len(found) - last]
        if len(hidden) < 2:
            continue
        late = _after_later(picture, {key: i for i, keys in enumerate(found.values()) for key in keys})
        forward, backward = (
            Shape(f"blocks_{len(groups)}_{way}", Role.OPERATOR, (ELLIPSIS, f"{len(hidden)} blocks"),
                  f"{len(hidden)} blocks like the next", cluster)
            for way in ("ahead", "back")
        )  # fmt: skip
        groups |= {key: backward if key in late else forward for keys in hidden for key in keys}
    if not groups:
        return picture
    folded = _without_lonely(merged(picture, groups), {one.key for one in groups.values()})
    return picture if _has_a_cycle(folded) else folded  # such as of derivatives of derivatives


def _has_a_cycle(picture: Picture) -> bool:
    reads: dict[str, set[str]] = {}
    for edge in picture.edges:
        reads.setdefault(edge.head, set()).add(edge.tail)
    try:
        TopologicalSorter(reads).prepare()
    except CycleError:
        return True
    return False


def weights_beside_uses(picture: Picture) -> Picture:
    """Draws a weight that several time steps share once in each of them, instead of once for all."""
    clusters = {shape.key: shape.cluster for shape in picture.shapes}
    weights = {s.key: s for s in picture.shapes if s.role is Role.PARAMETER and s.cluster is None}
    uses: dict[str, set[Cluster | None]] = {key: set() for key in weights}
    for edge in picture.edges:
        if edge.tail in weights:
            uses[edge.tail].add(clusters[edge.head])
        if edge.head in weights:  # its derivative
            uses[edge.head].add(None)
    shared = {
        key for key, found in uses.items() if len(found) > 1 and all(c and c.time is not None for c in found)
    }
    copies: dict[tuple[str, Cluster], Shape] = {}
    edges = []
    for edge in picture.edges:
        cluster = clusters[edge.head]
        if edge.tail in shared and cluster is not None:
            number = sum(key == edge.tail for key, _ in copies)
            copy = replace(weights[edge.tail], key=f"{edge.tail}_{number}", cluster=cluster)
            edge = replace(edge, tail=copies.setdefault((edge.tail, cluster), copy).key)
        edges.append(edge)
    shapes = [shape for shape in picture.shapes if shape.key not in shared]
    return replace(picture, shapes=(*shapes, *copies.values()), edges=tuple(edges))


def fork_states(picture: Picture) -> Picture:
    """Draws several edges from a shape into a cell of another time step as one, with a fork inside the cell."""
    clusters = {shape.key: shape.cluster for shape in picture.shapes}
    leaves = {shape.key for shape in picture.shapes if shape.role is Role.INPUT}
    ways: dict[tuple[str, Cluster], list[Edge]] = {}
    for edge in picture.edges:
        a, b = clusters[edge.tail], clusters[edge.head]
        if b is None or b.time is None or edge.back:
            continue
        if edge.tail in leaves if a is None else a.time is not None and a.time != b.time:
            ways.setdefault((edge.tail, b), []).append(edge)
    forks, bundles, instead = list[Shape](), list[Edge](), dict[Edge, Edge]()
    for (tail, cluster), edges in ways.items():
        if len(edges) > 1:
            key = f"fork_{len(forks)}"
            forks.append(Shape(key, Role.LABEL, (), "", cluster, fork=True))
            bundles.append(Edge(tail, key, edges[0].role, arrow=False))
            instead |= {edge: replace(edge, tail=key) for edge in edges}
    edges = [instead.get(edge, edge) for edge in picture.edges]
    return replace(picture, shapes=(*forks, *picture.shapes), edges=(*bundles, *edges))


def _take_along(picture: Picture, groups: dict[str, Shape]) -> None:
    consumers: dict[str, set[str]] = {}
    for edge in picture.edges:
        consumers.setdefault(edge.tail, set()).add(edge.head)
    for shape in reversed(picture.shapes):
        free = shape.role is Role.OPERATOR and (shape.cluster is None or shape.cluster.time is None)
        if free and shape.key not in groups:
            into = {groups.get(head) for head in consumers.get(shape.key, ())}
            if into and None not in into:
                groups[shape.key] = min((one for one in into if one is not None), key=lambda one: one.key)


def _ends(count: int, steps: int) -> tuple[int, int]:
    if count <= steps:
        return count, 0
    return steps // 2, (steps - 1) // 2


def _after_later(picture: Picture, place: Mapping[str, int]) -> set[str]:
    """Shapes with a place that read, through others, from a later place."""
    inputs: dict[str, list[str]] = {}
    for edge in picture.edges:
        inputs.setdefault(edge.head, []).append(edge.tail)
    latest: dict[str, int] = {}
    found = set()
    for shape in picture.shapes:
        own = place.get(shape.key, -1)
        reads = max((latest.get(tail, -1) for tail in inputs.get(shape.key, ())), default=-1)
        if own >= 0 and reads > own:
            found.add(shape.key)
        latest[shape.key] = max(own, reads) if not shape.role.is_square or shape.role is Role.LABEL else -1
    return found


def _without_lonely(picture: Picture, folded: set[str]) -> Picture:
    """Removes weights that only folded steps read, and edges from weights into them."""
    squares = {shape.key: shape.role for shape in picture.shapes if shape.role.is_square}
    edges = [
        edge
        for edge in picture.edges
        if edge.head not in folded or squares.get(edge.tail, Role.INPUT) in (Role.INPUT, Role.LABEL)
    ]
    used = {key for edge in edges for key in (edge.tail, edge.head)}
    had = {key for edge in picture.edges for key in (edge.tail, edge.head)}
    shapes = [shape for shape in picture.shapes if shape.key in used or shape.key not in had]
    # An edge between operators has no weight to show.
    plain = (replace(edge, label="") if edge.head in folded else edge for edge in edges)
    return replace(picture, shapes=tuple(shapes), edges=tuple(dict.fromkeys(plain)))


# -- time, in closed pictures --------------------------------------------------------------------


def fold_columns(picture: ClosedPicture, steps: int) -> ClosedPicture:
    """Draws the columns of each part between the first and the last few as one, with an ellipsis for each row of cells.

    A row with boxes only there, such as the memory of a decoder, keeps one of them.
    """
    for number in range(len(picture.parts)):
        picture = _fold_part(picture, picture.parts[number], max(3, steps // len(picture.parts)))
    return picture


def _fold_part(picture: ClosedPicture, part: range, steps: int) -> ClosedPicture:
    first, last = _ends(len(part), steps)
    hidden = part[first : len(part) - last]
    if len(hidden) < 2:
        return picture
    moved = len(hidden) - 1
    boxes: dict[str, Box] = {}
    becomes: dict[str, str] = {}
    elsewhere = {box.row for box in picture.shapes if box.column not in hidden or box.kind is BoxKind.CELL}
    kept: dict[int, str] = {}
    for box in picture.shapes:
        if box.column not in hidden:
            column = box.column if box.column < hidden.start else box.column - moved
            boxes[box.key] = replace(box, column=column)
        elif box.kind is BoxKind.CELL:
            key = f"steps_{box.row}"
            becomes[box.key] = key
            boxes[key] = Box(
                key,
                BoxKind.STEPS,
                box.row,
                hidden.start,
                (ELLIPSIS, f"{len(hidden)} steps"),
                f"{len(hidden)} time steps",
            )
        elif box.row not in elsewhere:
            key = becomes[box.key] = kept.setdefault(box.row, box.key)
            boxes.setdefault(key, replace(box, column=hidden.start))
    links = _folded_links(picture.edges, boxes, becomes)
    parts = (
        range(
            each.start - moved * (each.start >= hidden.stop), each.stop - moved * (each.stop > hidden.start)
        )
        for each in picture.parts
    )
    columns = picture.columns - moved
    return replace(
        picture, shapes=tuple(boxes.values()), edges=tuple(links), columns=columns, parts=tuple(parts)
    )


def _folded_links(
    links: Iterable[Link], boxes: Mapping[str, Box], becomes: Mapping[str, str]
) -> Iterable[Link]:
    found: dict[tuple[str, str, int | None], Link] = {}
    for link in links:
        tail, head = becomes.get(link.tail, link.tail), becomes.get(link.head, link.head)
        if tail == head or tail not in boxes or head not in boxes:
            continue
        a, b = boxes[tail], boxes[head]
        if BoxKind.STEPS in (a.kind, b.kind) and (
            b.kind is BoxKind.COST or (a.column != b.column and a.row != b.row)
        ):
            continue  # edges that skip layers or go to the cost are drawn at the other steps
        known = found.get((tail, head, link.slot))
        if known is None or (link.label and not known.label):
            found[tail, head, link.slot] = replace(link, tail=tail, head=head)
    return found.values()
