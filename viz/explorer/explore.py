"""viz.explore: HTML page to explore a graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, overload

from graphnet.call.function import Function
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.passes import DEFAULT, Pass
from graphnet.settings import shown
from viz.drawing.names import printable
from viz.drawing.things import Drawable, graph_of
from viz.errors import DrawingError, named_file
from viz.explorer.changes import program_of
from viz.explorer.derivatives import (
    checked_nodes,
    cost_of,
    cotangents,
    default_tangents,
    in_its_own_place,
    tangents_of,
)
from viz.explorer.page import page
from viz.explorer.payload import payload
from viz.explorer.stages import stages_of
from viz.explorer.values import FEW
from viz.feeds import fed
from viz.files import write_file
from viz.style import Style, Theme, style_of

#: Maximum number of nodes of graphs with compiler passes and steps of rules by default.
_LARGE = 2500
#: Of the frame in a notebook, in pixels: the height of a screen without the cell.
_HEIGHT = 640


@dataclass(frozen=True)
class ExplorerPage:
    """HTML page of the explorer; a notebook shows it.

    title: title of the page. html: its text; `.save("page.html")` writes it.
    path, in `save`: file that ends in .html.

    >>> viz.explore(gn.mean(gn.input((3, 2), name="x")))
    ExplorerPage(title='Graph of 4 nodes')
    """

    title: str
    html: str = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a .html file; an existing one is replaced when the new one is complete. Raises DrawingError."""
        target = _page_file(path)
        write_file(target, self.html.encode())
        return target

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The page in a frame, so that its styles and keys do not interfere with the notebook."""
        frame = (
            f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{_HEIGHT}px;border:1px solid #8888"></iframe>'
        )
        return {"text/plain": repr(self), "text/html": frame}


@overload
def explore(
    thing: Drawable,
    path: None = None,
    *,
    feeds: Mapping[Node, Any] | None = None,
    wrt: Node | Iterable[Node] | None = None,
    tangents: Mapping[Node, Any] | None = None,
    passes: Sequence[Pass | Callable[[Graph], Graph]] | None = None,
    theme: Theme = "light",
) -> ExplorerPage: ...


@overload
def explore(
    thing: Drawable,
    path: str | os.PathLike[str],
    *,
    feeds: Mapping[Node, Any] | None = None,
    wrt: Node | Iterable[Node] | None = None,
    tangents: Mapping[Node, Any] | None = None,
    passes: Sequence[Pass | Callable[[Graph], Graph]] | None = None,
    theme: Theme = "light",
) -> Path: ...


def explore(
    thing: Drawable,
    path: str | os.PathLike[str] | None = None,
    *,
    feeds: Mapping[Node, Any] | None = None,
    wrt: Node | Iterable[Node] | None = None,
    tangents: Mapping[Node, Any] | None = None,
    passes: Sequence[Pass | Callable[[Graph], Graph]] | None = None,
    theme: Theme = "light",
) -> ExplorerPage | Path:
    """HTML page to browse, search and step through a graph: forward, backward, with the R-operator, and pass by pass.

    The page is one file and needs no network. Values come from the NumPy back end. If a reader changes something
    (scales a weight, holds an operator at a value, cuts an input), the page itself computes all values and derivatives.
    It can do so for graphs of up to 500 nodes whose ops have native code.

    thing: object that `viz.draw` draws; for a Function, the original graph and the result of its passes.
    path: `.html` file to write; the path is returned. An existing file is replaced when the new one is complete. None
    (default) returns the page, which a notebook shows.
    feeds: input -> array, for all inputs; None (default) draws them from a fixed seed (standard normal; random
    indices). wrt: nodes at which ∂cost/∂node is shown; the cost is the first scalar output. None (default) for all.
    tangents: node -> tangent of its shape; None (default) takes a fixed random direction on the parameters, or on the
    inputs without parameters. R{node} = Σ (∂node/∂w) v_w.
    passes: passes of the slider; None (default) for those of `gn.compile` (none for graphs of over 2500 nodes).
    theme: "light" (default), "dark", "colour-blind", a viz.Style, or "auto" for the setting of the reader's system.
    Raises DrawingError, which names the argument; ShapeError and DtypeError for arrays that do not fit.

    >>> x = gn.input((3, 2), name="x")
    >>> page = viz.explore(gn.mean(gn.tanh(x)))
    >>> page
    ExplorerPage(title='Graph of 5 nodes')
    >>> page.save("graph.html").name
    'graph.html'
    """
    target = None if path is None else _page_file(path)
    style = None if theme == "auto" else style_of(theme)
    made = _page_of(thing, feeds, wrt, tangents, passes, style)
    return made if target is None else made.save(target)


def _page_file(path: str | os.PathLike[str]) -> Path:
    target = named_file("path", path)
    if target.suffix.lower() != ".html":
        raise DrawingError(f"path {str(path)!r}: the suffix must be .html.")
    return target


def _page_of(
    thing: Drawable,
    feeds: Mapping[Node, Any] | None,
    wrt: Node | Iterable[Node] | None,
    tangents: Mapping[Node, Any] | None,
    passes: Sequence[Pass | Callable[[Graph], Graph]] | None,
    style: Style | None,
) -> ExplorerPage:
    function = thing if isinstance(thing, Function) else None
    original = graph_of(thing) if function is None else function.source
    given = fed(original, feeds)
    graph, copies = in_its_own_place(original)
    given |= {copies[node]: array for node, array in given.items()}
    is_large = len(graph) > _LARGE
    if passes is None:
        passes = () if is_large else DEFAULT
    elif isinstance(passes, str) or not isinstance(passes, Sequence) or not all(map(callable, passes)):
        raise DrawingError(
            "passes must be a sequence of passes, such as gn.passes.DEFAULT or gn.passes.without('fuse'), not "
            f"{shown(passes)}."
        )

    cost = cost_of(graph)
    backward = None
    if cost is not None:
        backward = cotangents(graph, cost, _chosen(wrt, original, copies))
    elif wrt is not None:
        raise DrawingError("wrt: no output is a scalar cost, so there is no gradient to show.")
    directions = _directions(tangents, original, copies) or default_tangents(graph)
    rop = tangents_of(graph, directions) if directions else None

    data = payload(stages_of(graph, passes, function), given, backward, rop, rules=not is_large)
    ids = dict(zip(graph.order, data["stages"][0]["order"], strict=True))
    wanted = [list(found.of) if found else [] for found in (backward, rop)]
    changes = program_of(graph, given, ids, cost, wanted[0], directions, wanted[1])
    data["changes"] = changes and changes | {"side": data["side"], "few": FEW}
    title = _title(thing, original)
    data |= {"title": title, "about": _about(original, feeds, tangents, directions, is_large)}
    return ExplorerPage(title, page(data, title, style))


def _chosen(
    wrt: Node | Iterable[Node] | None, graph: Graph, copies: Mapping[Node, Node]
) -> list[Node] | None:
    if wrt is None:
        return None
    listed = list(wrt) if isinstance(wrt, Iterable) and not isinstance(wrt, (str, Node)) else [wrt]
    checked_nodes("wrt", listed, graph)
    return [copies[node] for node in listed]


def _directions(
    tangents: Mapping[Node, Any] | None, graph: Graph, copies: Mapping[Node, Node]
) -> dict[Node, Any]:
    if tangents is None:
        return {}
    if not isinstance(tangents, Mapping) or not tangents:
        raise DrawingError(
            f"tangents must be a dict {{node: tangent}} with at least one, not {shown(tangents)}."
        )
    checked_nodes("tangents", tangents, graph)
    return {copies[node]: tangent for node, tangent in tangents.items()}


# -- words -----------------------------------------------------------------------------------------


def _title(thing: Drawable, graph: Graph) -> str:
    if isinstance(thing, type):
        return thing.__name__
    if isinstance(thing, Node):
        return printable(thing.name, 80) if thing.name else f"Graph of {len(graph)} nodes"
    if isinstance(thing, Function):
        return f"Function of {len(graph)} nodes"
    text = repr(thing).strip("<>")
    # Memory addresses and positions in a list of nodes differ between runs.
    if " at 0x" in text or isinstance(thing, Sequence):
        return f"Graph of {len(graph)} nodes" if isinstance(thing, Sequence) else type(thing).__name__
    return printable(text, 120)


def _about(
    graph: Graph,
    feeds: Mapping[Node, Any] | None,
    tangents: Mapping[Node, Any] | None,
    directions: Mapping[Node, Any],
    is_large: bool,
) -> list[str]:
    lines = []
    if feeds is None and graph.inputs:
        lines.append(
            "Inputs: standard normal numbers and random indices from a fixed seed (to use your own, pass feeds=)."
        )
    if tangents is None and directions:
        of = "parameters" if any(node.op.is_parameter for node in directions) else "inputs"
        lines.append(
            f"R-operator: along a random direction on the {of}, from a fixed seed (to use your own, pass tangents=)."
        )
    if is_large:
        lines.append(
            "A large graph: the steps inside of each rule are left out; to show passes, use passes=."
        )
    return lines
