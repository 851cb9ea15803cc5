"""Legend of a picture: the kinds of shapes and edges that it contains."""

from __future__ import annotations

from collections.abc import Iterator

from viz.drawing.closed import BoxKind, ClosedPicture
from viz.drawing.markup import table
from viz.drawing.picture import Picture
from viz.style import EdgeRole, Role, Style

_IN_A_ROW = 3
_EDGES = {
    EdgeRole.FROM_INPUT: "from an input",
    EdgeRole.TO_OUTPUT: "to the output",
    EdgeRole.GENERATED: "to the next input",
}
#: Words of a kind of box, and the colors inside and of its outline, as names in Style.
_BOXES = {
    BoxKind.CELL: ("layer at one time step", "cluster", "line"),
    BoxKind.STEPS: ("several time steps", "background", "cluster_line"),
    BoxKind.DATA: ("input", "leaf", "input_edge"),
    BoxKind.STATE: ("initial state", "leaf", "leaf"),
    BoxKind.IMAGINARY: ("generated input", "label", "label"),
    BoxKind.OUTPUT: ("output", "label", "line"),
    BoxKind.COST: ("cost", "cost", "cost"),
}
_ROUND = (BoxKind.CELL, BoxKind.OUTPUT, BoxKind.COST)


def legend_table(picture: Picture | ClosedPicture, theme: Style) -> str:
    """Table of all kinds in the picture, a few in each row."""
    small = f'<font point-size="{theme.title_size}" color="{theme.text}">'
    cells = [
        f'<td width="24">{mark}</td><td align="left">{small}{words}&nbsp;&nbsp;</font></td>'
        for mark, words in _entries(picture, theme)
    ]
    rows = ("".join(cells[k : k + _IN_A_ROW]) for k in range(0, len(cells), _IN_A_ROW))
    return table(['<td height="8"></td>', *rows])


def legend_rows(picture: Picture | ClosedPicture, theme: Style) -> int:
    return -(-len(list(_entries(picture, theme))) // _IN_A_ROW)


def _entries(picture: Picture | ClosedPicture, theme: Style) -> Iterator[tuple[str, str]]:
    if isinstance(picture, Picture):
        shapes = [shape for shape in picture.shapes if not shape.hidden and not shape.fork]
        for role in Role:
            if any(shape.role is role and not shape.is_cost for shape in shapes):
                yield _mark(theme.fill(role), theme.rim(role), role is Role.OPERATOR), role.value
        if any(shape.is_cost for shape in shapes):
            yield _mark(theme.cost, theme.cost, True), "cost"
    else:
        for kind, (words, fill, rim) in _BOXES.items():
            if any(box.kind is kind for box in picture.shapes):
                yield _mark(getattr(theme, fill), getattr(theme, rim), kind in _ROUND), words
    for line, words in _EDGES.items():
        if any(edge.role is line for edge in picture.edges):
            yield f'<font color="{theme.edge(line)}">→</font>', words


def _mark(fill: str, rim: str, is_round: bool) -> str:
    style = "rounded,filled" if is_round else "filled"
    look = f'border="1" cellborder="0" color="{rim}" bgcolor="{fill}" style="{style}"'
    return f'<table {look} fixedsize="true" width="18" height="12"><tr><td></td></tr></table>'
