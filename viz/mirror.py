"""Forward and backward pass side by side, or forward and R pass; each derivative at the place of its node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.settings import shown
from viz.drawing.closed import BoxKind, ClosedPicture, closed_picture, closes_by_default
from viz.drawing.merge import check_steps, fold_blocks, fold_columns, fold_time
from viz.drawing.note import Note, Notes
from viz.drawing.picture import Cluster, Edge, Picture, Shape, check_style, names_in, picture_of
from viz.drawing.render import Drawing, check_limit
from viz.errors import DrawingError, chosen, whether
from viz.feeds import Feeds
from viz.notes import Gradients, ValueNotes, cotangents, evaluated, note_on, require_cost
from viz.style import EdgeRole, Role, Theme, style_of

_TRANSPOSE = "<sup>T</sup>"


def mirror(
    cost: Node,
    style: str = "compact",
    *,
    along: Mapping[Node, Any] | None = None,
    feeds: Feeds | None = None,
    values: bool = True,
    closed: bool | None = None,
    steps: int | None = None,
    limit: int | None = 3000,
    theme: Theme = "light",
) -> Drawing:
    """The forward pass to a scalar cost next to the backward pass with ∂cost/∂node, at the same positions.

    Edges of the backward pass point the other way. cost: scalar node. along: direction {node: array}; if given, the R
    pass along it is drawn in place of the backward pass, R{y} = J R{x}, as in Gauss-Newton products. values: True
    (default) shows the values of both, as `viz.values` does, and colors by the norm of each derivative. feeds: as for
    `viz.values`. style, closed, steps, limit, theme: as for `viz.draw`.
    Raises DrawingError if the cost is not a scalar, for a direction that does not fit, and the errors of `viz.values`
    for feeds.

    >>> x = gn.input((3, 2), name="x")
    >>> viz.mirror(gn.mean(gn.tanh(x)))
    <Drawing of 6 nodes, compact style>
    >>> viz.mirror(gn.mean(gn.tanh(x)), along={x: np.ones((3, 2))})
    <Drawing of 6 nodes, compact style>
    """
    check_style(style)
    check_limit(limit)
    require_cost("mirror", cost)
    colours = style_of(theme)
    values = whether("values", values)
    graph = Graph(cost)
    turned = _BACKWARD if along is None else _ALONG
    tangents = {} if along is None else _tangents(graph, along)
    forward: Notes | None = None
    second: Notes = _Reached(graph.order if along is None else tangents)
    if values:
        forward = ValueNotes(evaluated(graph, graph.order, feeds))
        if along is None:
            second = Cotangents(graph, cotangents(graph, cost, feeds))
        else:
            arrays = evaluated(graph, list(tangents.values()), feeds)
            second = Tangents(graph, {node: arrays[r] for node, r in tangents.items()})
    names = names_in(graph, colours)
    if chosen("closed", closed, closes_by_default(graph)):
        pictures = (closed_picture(graph, names, notes) for notes in (forward, second))
        ahead, back = (fold_columns(picture, check_steps(steps, 8)) for picture in pictures)
        return Drawing(_closed_pair(ahead, back, values, turned), "closed", None, limit, colours)
    pictures_open = (picture_of(graph, style, colours, notes) for notes in (forward, second))
    ahead_open, other = (
        fold_blocks(fold_time(picture, check_steps(steps, 4)), check_steps(steps, 3))
        for picture in pictures_open
    )
    return Drawing(_open_pair(ahead_open, other, values, turned), style, "LR", limit, colours)


class Cotangents(Gradients):
    """Notes with ∂cost/∂node: elements as in `ValueNotes` (of nodes drawn as one, the last), norm as a color."""

    def __init__(self, graph: Graph, arrays: Mapping[Node, Array]) -> None:
        super().__init__(graph, arrays)
        self.arrays = arrays

    def note(self, nodes: Sequence[Node]) -> Note | None:
        found = self.handed_on(nodes)
        if not found:
            return None
        shown = found[-1]
        return replace(note_on(self.arrays[shown], not shown.is_leaf), heat=self.together(nodes))


class Tangents(Cotangents):
    """Notes with R{node}."""

    title = "‖R{node}‖"


class _Reached(Notes):
    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node for node in nodes if is_float(node.dtype)}

    def note(self, nodes: Sequence[Node]) -> Note | None:
        return Note() if any(node in self.nodes for node in nodes) else None


@dataclass(frozen=True)
class _Pass:
    """Second pass of a mirror. mark: suffix of its keys. named: name of a derivative."""

    mark: str
    title: str
    named: Callable[[str], str]
    back: bool

    def key(self, key: str) -> str:
        return f"{key}_{self.mark}"


_BACKWARD = _Pass("back", "backward: ∂cost/∂node", "∂cost/∂({})".format, True)
_ALONG = _Pass("along", "R pass: R{node}", "R{{{}}}".format, False)


def _tangents(graph: Graph, along: Any) -> dict[Node, Node]:
    """R{node} for each node that depends on the direction."""
    known = set(graph.order)
    if not isinstance(along, Mapping) or not along:
        raise DrawingError(f"mirror: along must be a direction {{node: array}}, not {along!r:.80}.")
    arrays: dict[Node, Array] = {}
    for node, direction in along.items():
        if not isinstance(node, Node) or node not in known or not is_float(node.dtype):
            raise DrawingError(
                f"mirror: along must have float nodes that the cost depends on, not {node!r:.80}."
            )
        try:
            array = np.asarray(direction)
        except ValueError:
            array = np.array(None)
        if array.dtype.kind not in "biuf" or array.shape != node.shape:
            raise DrawingError(
                f"mirror: along must have an array of numbers {list(node.shape)} for {node.describe()}, not "
                f"{shown(direction)}."
            )
        arrays[node] = array.astype(node.dtype)
    nodes = [node for node in graph.order if is_float(node.dtype)]
    return {n: r for n, r in zip(nodes, gn.rop(nodes, arrays), strict=True) if not r.op.is_zeros}


# -- open ----------------------------------------------------------------------------------------


def _open_pair(forward: Picture, backward: Picture, with_values: bool, turned: _Pass) -> Picture:
    ahead = Cluster(title="forward")
    back = Cluster(title=turned.title)
    kept = {shape.key for shape in backward.shapes if shape.note is not None or _stands_for_many(shape)}
    # Nodes without a derivative keep their place, so that all others are placed as in the forward pass. Of two
    # clusters, Graphviz puts the first below.
    shapes = [
        replace(_derivative(shape, back, with_values, turned), hidden=shape.key not in kept)
        for shape in backward.shapes
    ]
    shapes += [replace(shape, cluster=ahead) for shape in forward.shapes]
    edges = [
        *forward.edges,
        *(_returned(edge, turned, {edge.tail, edge.head} <= kept) for edge in backward.edges),
    ]
    pairs = tuple((shape.key, turned.key(shape.key)) for shape in forward.shapes)
    return Picture(tuple(shapes), tuple(edges), backward.scale, pairs)


def _stands_for_many(shape: Shape) -> bool:
    """True for folded time steps or blocks."""
    return shape.role is Role.OPERATOR and not shape.nodes


def _derivative(shape: Shape, cluster: Cluster, with_values: bool, turned: _Pass) -> Shape:
    first, *rest = shape.lines
    node = shape.nodes[-1] if shape.nodes else None
    if node is not None and not shape.role.is_square and node.op.is_elementwise:
        # The derivative of a linear op is a number, or the other input, so it has no prime.
        first = first if node.op.zero_if in ("all", "any") else f"{first}′"
    note = shape.note if with_values else None
    return replace(
        shape, key=turned.key(shape.key), lines=(first, *rest), cluster=cluster, note=note,
        tooltip=turned.named(shape.tooltip),
    )  # fmt: skip


def _returned(edge: Edge, turned: _Pass, is_kept: bool) -> Edge:
    label = "" if not is_kept else _transposed(edge.label) if turned.back else edge.label
    ends = turned.key(edge.tail), turned.key(edge.head)
    return Edge(*ends, EdgeRole.INNER, label, back=turned.back, hidden=not is_kept)


def _transposed(label: str) -> str:
    """Label of an edge in the backward pass: Wᵀ for a weight W, none for a bias."""
    weight = label.partition("+")[0].strip()
    if weight.endswith(_TRANSPOSE):
        return weight.removesuffix(_TRANSPOSE)
    return f"{weight}{_TRANSPOSE}" if weight else ""


# -- closed --------------------------------------------------------------------------------------


def _closed_pair(
    forward: ClosedPicture, backward: ClosedPicture, with_values: bool, turned: _Pass
) -> ClosedPicture:
    kept = {box.key for box in backward.shapes if box.note is not None or box.kind is BoxKind.STEPS}
    boxes = (
        replace(
            box,
            key=turned.key(box.key),
            note=box.note if with_values else None,
            tooltip=turned.named(box.tooltip),
        )
        for box in backward.shapes
        if box.key in kept
    )
    links = (
        replace(
            link, tail=turned.key(link.tail), head=turned.key(link.head), role=EdgeRole.INNER, back=turned.back,
            label=_transposed(link.label) if turned.back and link.slot is None else link.label,
        )
        for link in backward.edges
        if link.tail in kept and link.head in kept
    )  # fmt: skip
    beside = replace(backward, shapes=tuple(boxes), edges=tuple(links), title=turned.title)
    return replace(forward, title="forward", beside=beside)
