"""DOT text of a graph, for Graphviz. A pure function: the same graph gives the same bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from itertools import combinations

from viz.colours import ink_on
from viz.drawing.geometry import width_of
from viz.drawing.legend import legend_table
from viz.drawing.markup import html_label, note_rows, quoted, scale_table, table
from viz.drawing.names import printable
from viz.drawing.picture import Cluster, Edge, Picture, Shape, in_order, picture_of
from viz.drawing.things import Drawable, graph_of
from viz.errors import DrawingError
from viz.style import LIGHT, Role, Style, Theme, style_of

DIRECTIONS = ("LR", "BT")
#: Ranks are shared across clusters: equal operators of all time steps are at the same height.
_ACROSS_CLUSTERS = ", newrank=true"
#: Distance of two ranks, in inches: from left to right, and from bottom to top.
_RANKS = {"LR": 0.38, "BT": 0.25}
_PAIR = re.compile(r"^  \{ rank=same; \w+; \w+ \}\n", re.MULTILINE)


def to_dot(thing: Drawable, style: str = "full", rankdir: str | None = None, theme: Theme = "light") -> str:
    """DOT text of all nodes of an object that `viz.draw` draws.

    thing: node, nodes, graph, function, cell or network. style: "full" (default) draws every node; "compact" folds
    weights into edges and biases into operators.
    rankdir: "LR" (left to right), "BT" (bottom to top), or None (default): "BT" for a graph unrolled in time, with time
    steps side by side, and "LR" for others. theme: "light" (default), "dark", "colour-blind", or a Style.

    >>> viz.to_dot(gn.tanh(gn.input((2,), name="x"))).splitlines()[0]
    'digraph graphnet {'
    """
    colours = style_of(theme)
    return dot_of(picture_of(graph_of(thing), style, colours), rankdir, colours)


def dot_of(picture: Picture, rankdir: str | None = None, theme: Style = LIGHT) -> str:
    """DOT text of a picture; Graphviz places the labels of edges."""
    return _dot_of(picture, rankdir, theme, bare=False)


def bare_dot_of(picture: Picture, rankdir: str | None, theme: Style, spread: float = 1) -> str:
    """DOT text of a picture without the labels of edges, with room for them, see `with_labels`.

    spread: factor of the distance between shapes of one rank.
    """
    return _dot_of(picture, rankdir, theme, bare=True, spread=spread)


def _dot_of(picture: Picture, rankdir: str | None, theme: Style, bare: bool, spread: float = 1) -> str:
    if rankdir is not None and rankdir not in DIRECTIONS:
        raise DrawingError(f"rankdir must be {' or '.join(map(repr, DIRECTIONS))}, not {rankdir!r}.")
    unrolled = len(picture.times) > 1
    direction = rankdir or ("BT" if unrolled else "LR")
    apart = spread * (_apart(picture, theme) if bare and direction == "BT" else 0.28)
    lines = ["digraph graphnet {", *_defaults(direction, theme, apart)]
    below = [scale_table(picture.scale, theme)] if picture.scale else []
    below += [legend_table(picture, theme)] if picture.legend else []
    if below:
        label = html_label(table(f"<td>{each}</td>" for each in below))
        lines.append(f'  graph [label={label}, fontcolor="{theme.text}", labelloc=b]')
    lines += _shapes(picture, theme, direction)
    side_by_side = unrolled and direction == "BT"
    lines += _edges(picture, theme, side_by_side, direction if bare else None)
    lines += _pairs(picture)
    if side_by_side:
        lines += _time_from_left_to_right(picture)
    return "\n".join([*lines, "}", ""])


def without_common_ranks(dot: str) -> str:
    """DOT text in which each cluster has its own ranks; pairs of shapes across clusters are separated."""
    return _PAIR.sub("", dot.replace(_ACROSS_CLUSTERS, ""))


def with_less_effort(dot: str) -> str:
    """DOT text with a faster, less even layout, for dense graphs of some hundred shapes."""
    head, rest = dot.split("{", 1)
    return f"{head}{{\n  graph [nslimit=0.5, nslimit1=0.5, mclimit=0.2]{rest}"


def _defaults(direction: str, theme: Style, apart: float) -> list[str]:
    """apart: inches between shapes of one rank."""
    text = f'fontname="{theme.font}"'
    # margin: margin of a PDF page, half an inch by default; pad: space around the drawing.
    return [
        f'  graph [rankdir={direction}, bgcolor="{theme.background}", {text}, margin=0, pad=0.15,'
        f" nodesep={apart:g}, ranksep={_RANKS[direction]}{_ACROSS_CLUSTERS}]",
        f'  node [{text}, fontsize={theme.font_size}, style=filled, penwidth=1.2, margin="0.07,0.04"]',
        f'  edge [{text}, fontsize={theme.edge_size}, fontcolor="{theme.text}", penwidth=1.2,'
        " arrowsize=0.65]",
    ]


def _apart(picture: Picture, theme: Style) -> float:
    """Inches between shapes of one rank, for labels of a cell side by side on their edges."""
    cells = {shape.key for shape in picture.shapes if _is_timed(shape.cluster)}
    labels = {edge.label for edge in picture.edges if edge.head in cells}
    return max([0.5, *(0.6 * width_of(label, theme.edge_size) / 72 for label in labels)])


# -- shapes ----------------------------------------------------------------------------------


def _shapes(picture: Picture, theme: Style, direction: str) -> Iterator[str]:
    members: dict[Cluster | None, list[Shape]] = {None: []}
    for shape in picture.shapes:
        members.setdefault(shape.cluster, []).append(shape)
    yield from (f"  {_shape(shape, picture, theme)}" for shape in members.pop(None))
    for index, (cluster, shapes) in enumerate(members.items()):
        assert cluster is not None
        last = next((shape for shape in reversed(shapes) if shape.role is Role.OPERATOR), shapes[-1])
        title = _title(index, cluster, last, theme, direction)
        yield f"  subgraph cluster_{index} {{"
        yield (
            f'    graph [style="filled,rounded", fillcolor="{theme.cluster}", color="{theme.cluster_line}",'
            " margin=10]"
        )
        yield from (f"    {line}" for line in title)
        yield from (f"    {_shape(shape, picture, theme)}" for shape in shapes)
        yield "  }"


def _title(index: int, cluster: Cluster, last: Shape, theme: Style, direction: str) -> Iterator[str]:
    """Title of a cluster: above it, or, if edges leave at the top, a node that edges avoid."""
    lines = [escape(printable(line, 40)) for line in cluster.lines]
    label = html_label("".join(f'{line}<br align="left"/>' for line in lines))
    text = f'fontcolor="{theme.muted}", fontsize={theme.title_size}'
    if direction == "LR":
        yield f"graph [label={label}, {text}, labelloc=t, labeljust=l]"
        return
    yield 'graph [label=""]'
    yield f"title_{index} [label={label}, {text}, shape=plaintext, style=solid, margin=0]"
    yield f"{{ rank=same; title_{index} -> {last.key} [style=invis] }}"


def _shape(shape: Shape, picture: Picture, theme: Style) -> str:
    if shape.fork:
        line = theme.edge(next(edge.role for edge in picture.edges if edge.tail == shape.key))
        return f'{shape.key} [shape=point, width=0.07, height=0.07, color="{line}", fillcolor="{line}"]'
    noted = shape.note.fill(theme, picture.scale) if shape.note else None
    fill = noted or theme.fill(shape.role, shape.is_cost)
    ink = ink_on(fill) if noted else theme.ink(shape.role, shape.is_cost)
    attributes = [
        f"label={html_label(_text(shape, theme))}",
        _outline(shape),
        f'fillcolor="{fill}"',
        f'color="{theme.rim(shape.role, shape.is_cost)}"',
        f'fontcolor="{ink}"',
        f"tooltip={quoted(shape.tooltip)}",
    ]
    if shape.role is Role.INPUT:
        attributes.append("penwidth=2.6")
    if shape.hidden:
        attributes.append("style=invis")
    return f"{shape.key} [{', '.join(attributes)}]"


def _text(shape: Shape, theme: Style) -> str:
    """Lines of a shape; those of a square as rows, as subscripts would overlap the next line."""
    first, *rest = shape.lines
    noted = note_rows(shape.note, theme) if shape.note else []
    if not rest and not noted and (not shape.role.is_square or "<i>" not in first):
        return first
    small = [f'<td><font point-size="{theme.small_size}">{line}</font></td>' for line in rest]
    # Math fonts have more space below a line than above it; the empty row compensates for that.
    return table(['<td height="4"></td>', f"<td>{first}</td>", *small, *noted])


def _outline(shape: Shape) -> str:
    if shape.role.is_square:
        return 'shape=box, width=0.4, height=0.4, margin="0.07,0.02"'
    if shape.note is not None and (shape.note.lines or shape.note.tile):
        # A circle around several lines would be mostly empty.
        return 'shape=box, style="filled,rounded", width=0.42, height=0.42, margin="0.07,0.02"'
    (first, *rest) = shape.lines
    if not rest and len(first) <= 2:
        return "shape=circle, fixedsize=true, width=0.42"
    return 'shape=ellipse, width=0.42, height=0.42, margin="0.01,0.01"'


# -- edges -----------------------------------------------------------------------------------


def _edges(picture: Picture, theme: Style, side_by_side: bool, room: str | None) -> Iterator[str]:
    """room: direction of a picture whose edges have room for labels instead of labels."""
    clusters = {shape.key: shape.cluster for shape in picture.shapes}
    crossings = _crossings(picture) if room else {}
    for edge in picture.edges:
        attributes = [f'color="{theme.edge(edge.role)}"']
        beside = side_by_side and _passes_time(edge, clusters)
        between = side_by_side and clusters[edge.tail] != clusters[edge.head]
        if edge.label and room is None:
            attributes.append(f"label={html_label(f' {edge.label} ')}")
        elif edge.label:
            crossing = min(3, crossings[edge.tail, edge.head])
            attributes.append(f"minlen={2 * between + crossing + _ranks_of(edge.label, room, theme)}")
        elif room and between and not beside and clusters[edge.tail] and _is_timed(clusters[edge.head]):
            attributes.append("minlen=3")
        if edge.back:
            attributes.append("dir=back")
        if edge.operand is not None and room is None:
            mark = f'<font point-size="{theme.small_size}" color="{theme.muted}">{edge.operand}</font>'
            # On either side, since two arrows may arrive in one place.
            side = 25 if edge.operand % 2 else -25
            attributes.append(f"headlabel={html_label(mark)}, labeldistance=1.3, labelangle={side}")
        if edge.hidden:
            attributes.append("style=invis")
        if not edge.arrow:
            attributes.append("dir=none")
        if beside:
            attributes.append("constraint=false")
        yield f"  {edge.tail} -> {edge.head} [{', '.join(attributes)}]"


def _crossings(picture: Picture) -> Mapping[tuple[str, str], int]:
    """Tail, head -> how many other heads the tail shares with another tail of this head, counting labeled edges."""
    heads: dict[str, set[str]] = {}
    for edge in picture.edges:
        if edge.label:
            heads.setdefault(edge.tail, set()).add(edge.head)
    found: Counter[tuple[str, str]] = Counter()
    for (a, of_a), (b, of_b) in combinations(heads.items(), 2):
        for head in (both := of_a & of_b):
            for tail in (a, b):
                found[tail, head] = max(found[tail, head], len(both) - 1)
    return found


def _ranks_of(label: str, direction: str | None, theme: Style) -> int:
    """Ranks that an edge with this label on it should span."""
    width = width_of(label, theme.edge_size)
    return 2 + round(width / 36) if direction == "BT" else 1 + round((width + 36) / (72 * _RANKS["LR"]))


def _pairs(picture: Picture) -> Iterator[str]:
    for first, second in picture.pairs:
        yield f"  {{ rank=same; {first}; {second} }}"


def _is_timed(cluster: Cluster | None) -> bool:
    return cluster is not None and cluster.time is not None


def _passes_time(edge: Edge, clusters: dict[str, Cluster | None]) -> bool:
    tail, head = clusters[edge.tail], clusters[edge.head]
    if tail is None or head is None or head.time is None:
        return False  # nodes after all steps are above them
    return bool(tail.time != head.time)


def _time_from_left_to_right(picture: Picture) -> Iterator[str]:
    """Invisible nodes, in order, below and above the time steps, tied to them.

    Graphviz orders clusters by the number of crossing edges. The edges of this scaffold cross only if time steps are
    out of order.
    """
    rows: dict[tuple[object, ...], dict[object, str]] = {}
    for shape in picture.shapes:
        cluster = shape.cluster
        if cluster is not None and cluster.time is not None and shape.role is Role.OPERATOR:
            # The last operator of a cell is its output: the same one at every step.
            rows.setdefault(cluster.row, {})[cluster.time] = shape.key
    place = {time: i for i, time in enumerate(in_order(picture.times))}
    yield '  node [style=invis, label="", shape=box, fixedsize=true, width=0.1, height=0.1]'
    yield "  edge [style=invis]"
    for side in ("below", "above"):
        yield f"  {{ rank=same; {' -> '.join(f'{side}_{i}' for i in range(len(place)))} }}"
    for row in rows.values():
        for time, key in row.items():
            yield f"  below_{place[time]} -> {key} -> above_{place[time]}"
