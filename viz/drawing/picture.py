"""Picture: shapes and edges, independent of a drawing program."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from viz.drawing.fold import DrawnNode, Operand, fold, unfolded
from viz.drawing.names import Names, number, printable, several_layers, shape_text
from viz.drawing.note import Note, Notes, NoteScale
from viz.errors import DrawingError
from viz.style import EdgeRole, Role, Style

#: Ops that change the form of data.
STYLES = {"full": unfolded, "compact": fold}


@dataclass(frozen=True)
class Cluster:
    """Nodes of one cell of one layer at one time step; with its own title if it covers several."""

    time: Any = None
    layer: Any = None
    cell: Any = None
    part: Any = None
    title: str = ""

    @property
    def row(self) -> tuple[Any, ...]:
        """Key that clusters of other time steps share."""
        return self.layer, self.cell, self.part

    @property
    def lines(self) -> tuple[str, ...]:
        """Title in up to two lines: `LSTM layer0` and `t=1`."""
        if self.title:
            return (self.title,)
        layer = f"layer {self.layer}" if isinstance(self.layer, int) else self.layer
        place = " ".join(str(part) for part in (self.cell, layer, self.part) if part is not None)
        time = f"t={self.time}" if self.time is not None else ""
        return tuple(line for line in (place, time) if line)


@dataclass(frozen=True)
class Shape:
    """Square or circle: its lines are markup, the first in full size."""

    key: str
    role: Role
    lines: tuple[str, ...]
    tooltip: str
    cluster: Cluster | None
    is_cost: bool = False
    note: Note | None = None
    #: Nodes of the graph that it represents.
    nodes: tuple[Node, ...] = ()
    #: True for an invisible placeholder.
    hidden: bool = False
    #: True for a point at which one edge becomes several.
    fork: bool = False


@dataclass(frozen=True)
class Edge:
    """Arrow between two shapes; its label is markup."""

    tail: str
    head: str
    role: EdgeRole
    label: str = ""
    #: True for an arrow at the tail, for derivatives.
    back: bool = False
    hidden: bool = False
    #: Number of the operand if the order matters: 1, 2, ...
    operand: int | None = None
    #: False for an edge that ends at a fork, without an arrow.
    arrow: bool = True


@dataclass(frozen=True)
class Picture:
    """Shapes and edges in topological order, and the color scale of notes."""

    shapes: tuple[Shape, ...]
    edges: tuple[Edge, ...]
    scale: NoteScale | None = None
    #: Keys of shapes side by side.
    pairs: tuple[tuple[str, str], ...] = ()
    legend: bool = False

    @property
    def times(self) -> list[Any]:
        """Time steps, in order of appearance."""
        return list(
            dict.fromkeys(s.cluster.time for s in self.shapes if s.cluster and s.cluster.time is not None)
        )


def picture_of(graph: Graph, style: str, theme: Style, notes: Notes | None = None) -> Picture:
    """Picture of a graph.

    style: "full" draws every node; "compact" folds weights into edges and biases into operators.
    """
    check_style(style)
    names = names_in(graph, theme)
    return _Painter(graph, names, notes).paint(STYLES[style](graph, names))


def check_style(style: str) -> None:
    if not isinstance(style, str) or style not in STYLES:
        raise DrawingError(f"style must be {' or '.join(map(repr, STYLES))}, not {style!r}.")


def names_in(graph: Graph, theme: Style) -> Names:
    """Names of a graph as printed."""
    return Names(theme.math_font, theme.small_size, several_layers(node.name for node in graph.order))


class _Painter:
    def __init__(self, graph: Graph, names: Names, notes: Notes | None) -> None:
        self.graph = graph
        self.names = names
        self.notes = notes
        self.outputs = set(graph.outputs)
        self.raw = _raw(graph)
        # Positions, unlike identities or serials, are the same in every run.
        self.keys = {node: f"n{i}" for i, node in enumerate(graph.order)}

    def paint(self, drawn: Iterable[DrawnNode]) -> Picture:
        shapes: list[Shape] = []
        edges: list[Edge] = []
        for item in drawn:
            if self.is_copied(item.node):
                continue
            shapes.append(self.shape(item))
            numbered = len(item.operands) == len(item.node.inputs) and _order_matters(item.node)
            for slot, operand in enumerate(item.operands):
                tail = self.keys[operand.source]
                if self.is_copied(operand.source):
                    tail = f"{self.keys[item.node]}_{slot}"
                    shapes.append(self.number(tail, operand.source, item.node))
                edges.append(self.edge(tail, operand, item.node, slot + 1 if numbered else None))
        scale = self.notes.scale(shape.note for shape in shapes) if self.notes else None
        return Picture(tuple(shapes), tuple(edges), scale)

    def is_copied(self, node: Node) -> bool:
        return node.op.everywhere is not None and node.name is None and node not in self.outputs

    def shape(self, item: DrawnNode) -> Shape:
        node = item.node
        role = role_of(node)
        is_cost = node in self.outputs and not node.shape and not node.is_leaf
        return Shape(
            self.keys[node], role, self.lines(item, role), _tooltip(node), self.cluster(node), is_cost,
            self.notes.note([node]) if self.notes else None, (node,),
        )  # fmt: skip

    def number(self, key: str, fill: Node, consumer: Node) -> Shape:
        return Shape(key, Role.CONSTANT, (self.value(fill),), _tooltip(fill), self.cluster(consumer))

    def value(self, fill: Node) -> str:
        assert fill.op.everywhere is not None
        return escape(number(fill.op.everywhere))

    def lines(self, item: DrawnNode, role: Role) -> tuple[str, ...]:
        """Text inside: name and shape of a square, symbol and any name of a circle."""
        node = item.node
        name = self.names.markup(node.name) if node.name else ""
        if not role.is_square:
            return (item.symbol, name) if name else (item.symbol,)
        if node.op.everywhere is not None:
            return (name, self.value(node)) if name else (self.value(node),)
        title = name or (f"<i>{item.symbol}</i>" if len(item.symbol) == 1 else item.symbol)
        return (title,) if role is Role.LABEL or not node.shape else (title, shape_text(node.shape))

    def cluster(self, node: Node) -> Cluster | None:
        if not node.is_leaf:
            return _cluster(node)
        if not node.op.is_parameter:
            return None
        # A weight that one cell at one time step uses belongs inside; one that several share does not.
        places = {_cluster(consumer) for consumer in self.graph.consumers[node]}
        return places.pop() if len(places) == 1 else None

    def edge(self, tail: str, operand: Operand, head: Node, number: int | None) -> Edge:
        role = EdgeRole.INNER
        if operand.source in self.raw:
            role = EdgeRole.FROM_INPUT
        elif head in self.outputs or _leads_out(operand.source, head):
            role = EdgeRole.TO_OUTPUT
        return Edge(tail, self.keys[head], role, " ".join(operand.labels), operand=number)


def in_order(times: list[Any]) -> list[Any]:
    """Time steps: sorted if they are numbers, else in order of appearance."""
    return sorted(times) if all(isinstance(time, (int, float)) for time in times) else times


def _raw(graph: Graph) -> set[Node]:
    """Inputs and other forms of them: a step of a sequence, a symbol as a vector."""
    found: set[Node] = set()
    for node in graph.order:
        if node.op.is_input or ((node.op.moves or node.op.is_one_hot) and found.issuperset(node.inputs)):
            found.add(node)
    return found


def _order_matters(node: Node) -> bool:
    """True if operands need numbers, since no name, shape or convention distinguishes them."""
    if node.op.is_product:
        a, b = (x.shape for x in node.inputs[:2])
        return a == b and a[-1] == a[-2]
    if len(set(node.inputs)) < 2:
        return False
    if node.op.joins_along is not None or node.op.name == "Stack":
        # Time steps are in their order; within one, numbers would make its column unlike the others.
        return "time" not in node.scope and len({(x.shape, x.scope.get("time")) for x in node.inputs}) == 1
    return node.op.is_elementwise and node.op.judged_input is None and not node.op.commutes


def _leads_out(source: Node, head: Node) -> bool:
    """True for edges from the layers of a network to its output, or from that to the cost."""
    before, after = source.scope.get("layer"), head.scope.get("layer")
    if source.is_leaf or before == after:
        return False
    return (after == "output" and before != "cost") or after == "cost"


def role_of(node: Node) -> Role:
    """Role of a node."""
    if node.op.is_input:
        return Role.INPUT
    if node.op.is_parameter:
        return Role.PARAMETER
    if node.is_leaf:
        return Role.CONSTANT
    return Role.LABEL if node.op.is_label else Role.OPERATOR


def _cluster(node: Node) -> Cluster | None:
    found = Cluster(*(_hashable(node.scope.get(label)) for label in ("time", "layer", "cell", "part")))
    return found if found.lines else None


def _hashable(label: Any) -> Any:
    return label if isinstance(label, (int, float, str, type(None))) else str(label)


def _tooltip(node: Node) -> str:
    name = printable(node.name or node.op.name, 200)
    # The file's name without its folder: one graph gives the same text wherever it is drawn.
    place = f"{os.path.basename(node.origin.file)}:{node.origin.line}"
    return f"{name}{list(node.shape)} {node.dtype}\n{printable(node.op.formula(), 200)}\nmade at {place}"
