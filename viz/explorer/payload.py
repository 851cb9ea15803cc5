"""Graphs, values and derivatives as plain data for JSON; the scripts of the page read it.

texts    all strings, once; a string elsewhere is its place in this list
values   results of `values.summary`, each once
boxes    [parent or -1, kind, title, subtitle]: the composites, time > layer and cell > other labels of the scope
ops      [name, formula]
nodes    [op, name, symbol, shape, dtype, origin, box, inputs, role, value, stem, plain];
         symbol and name are markup, plain is the name as in Python
stages   {name, order, outputs, gone, fresh, compact}; compact: [node, symbol, source, label, source, label, ...]
backward, rop   {of: [node, derivative, ...], made: [[node, made, ...], ...]}
side     maximum rows and columns of a heat map
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from viz.drawing.fold import fold, symbol_of
from viz.drawing.names import Names, layer_words, number, printable, several_layers
from viz.drawing.picture import role_of
from viz.explorer.derivatives import Derivative
from viz.explorer.stages import AfterPass
from viz.explorer.values import summary
from viz.feeds import computed

#: Roles by number, as in the scripts of the page.
ROLES = ("operator", "input", "parameter", "constant", "label", "fill")

#: Maximum letters of all heat maps; with more values, each has fewer cells.
_LETTERS = 600_000
_SIDES = (5, 12)
#: Name of the font of quantities in markup, which the page uses.
_MATH = "math"

T = TypeVar("T", bound=Hashable)


def payload(
    stages: Sequence[AfterPass],
    given: Mapping[Node, Array],
    backward: Derivative | None,
    rop: Derivative | None,
    rules: bool,
) -> dict[str, Any]:
    """Data of one page. rules: True includes every step of the derivatives."""
    return _Writer(stages).write(given, backward, rop, rules)


@dataclass
class _Table:
    rows: list[Any] = field(default_factory=list)
    places: dict[Hashable, int] = field(default_factory=dict)

    def place(self, key: Hashable, row: Any = None) -> int:
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = len(self.rows)
            self.rows.append(key if row is None else row)
        return found


class _Writer:
    def __init__(self, stages: Sequence[AfterPass]) -> None:
        self.stages = stages
        self.names = Names(_MATH, 9, several_layers(n.name for n in stages[0].graph.order))
        self.texts, self.values, self.boxes, self.ops = _Table(), _Table(), _Table(), _Table()
        self.ids: dict[Node, int] = {}
        self.rows: list[list[Any]] = []

    def write(
        self, given: Mapping[Node, Array], backward: Derivative | None, rop: Derivative | None, rules: bool
    ) -> dict[str, Any]:
        stages = [self.stage(stage) for stage in self.stages]
        derived = {
            "backward": self.derivative(backward, rules),
            "rop": self.derivative(rop, rules),
        }
        self.compute(given, (backward, rop))
        return {
            "texts": self.texts.rows,
            "values": self.values.rows,
            "boxes": self.boxes.rows,
            "ops": self.ops.rows,
            "nodes": self.rows,
            "stages": stages,
            "side": self.side,
            **derived,
        }

    # -- nodes ---------------------------------------------------------------------------------

    def node(self, node: Node, stem: Node | None = None) -> int:
        """Index of a node; its visible inputs are written first."""
        found = self.ids.get(node)
        if found is not None:
            return found
        place = self.ids[node] = len(self.rows)
        origin = f"{os.path.basename(node.origin.file)}:{node.origin.line}"
        formula = (node.op.name, printable(node.op.formula(), 200))
        self.rows.append(
            [
                self.ops.place(formula, [self.text(part) for part in formula]),
                self.text(self.names.markup(node.name)) if node.name else -1,
                self.text(self.symbol(node)),
                list(node.shape),
                self.text(str(node.dtype)),
                self.text(origin),
                self.box(node),
                [self.ids[x] for x in node.inputs if x in self.ids],
                _role(node),
                -1,
                place if stem is None else self.rows[self.ids[stem]][10],
                self.text(printable(node.name)) if node.name else -1,
            ]
        )
        return place

    def symbol(self, node: Node) -> str:
        return symbol_of(node) if node.op.everywhere is None else number(node.op.everywhere)

    def text(self, text: str) -> int:
        return self.texts.place(text)

    def box(self, node: Node) -> int:
        scope = {key: _plain(label) for key, label in node.scope.items() if label is not None}
        levels: list[tuple[str, Any, str]] = []
        if "time" in scope:
            levels.append(("time", scope.pop("time"), ""))
        layer, cell = scope.pop("layer", None), scope.pop("cell", None)
        if layer is not None or cell is not None:
            words = layer_words(str(layer)) if layer is not None else ""
            levels.append(("cell", cell, words) if cell is not None else ("cell", words, ""))
        levels += [("scope", label, key) for key, label in scope.items()]
        path: tuple[Any, ...] = ()
        place = -1
        for kind, title, subtitle in levels:
            path += ((kind, title, subtitle),)
            shown = title if isinstance(title, (int, float)) else self.text(printable(str(title)))
            row = [
                place,
                kind,
                {"number": shown} if isinstance(title, (int, float)) else shown,
                self.text(subtitle),
            ]
            place = self.boxes.place(path, row)
        return place

    # -- graphs --------------------------------------------------------------------------------

    def stage(self, stage: AfterPass) -> dict[str, Any]:
        graph = stage.graph
        order = [self.node(node, stage.stems.get(node)) for node in graph.order]
        first = stage is self.stages[0]
        return {
            "name": stage.name,
            "order": order,
            "outputs": [self.ids[y] for y in dict.fromkeys(graph.outputs)],
            "gone": stage.gone,
            "fresh": [] if first else [self.ids[n] for n in graph.order if n not in stage.stems],
            "compact": self.compact(graph),
        }

    def compact(self, graph: Graph) -> list[list[int]]:
        rows = []
        for drawn in fold(graph, self.names):
            symbol = drawn.symbol if drawn.node.op.everywhere is None else self.symbol(drawn.node)
            row = [self.ids[drawn.node], self.text(symbol)]
            for operand in drawn.operands:
                row += [
                    self.ids[operand.source],
                    self.text(" ".join(operand.labels)) if operand.labels else -1,
                ]
            rows.append(row)
        return rows

    def derivative(self, derivative: Derivative | None, rules: bool) -> dict[str, Any] | None:
        if derivative is None:
            return None
        if rules:
            for node in Graph(derivative.of.values()).order:
                self.node(node)
        of = [place for pair in derivative.of.items() for place in map(self.node, pair)]
        made = (
            [[self.ids[n], *map(self.node, nodes)] for n, nodes in derivative.made.items()] if rules else []
        )
        return {"of": of, "made": made}

    @property
    def side(self) -> int:
        least, most = _SIDES
        return max(least, min(most, int((_LETTERS / max(1, len(self.ids))) ** 0.5)))

    def compute(self, given: Mapping[Node, Array], derivatives: Sequence[Derivative | None]) -> None:
        outputs = [y for stage in self.stages for y in stage.graph.outputs]
        outputs += [d for found in derivatives if found is not None for d in found.of.values()]
        for node, value in computed(dict.fromkeys(outputs), given):
            if node in self.ids:
                found = summary(value, self.side)
                self.rows[self.ids[node]][9] = self.values.place(repr(found), found)


def _role(node: Node) -> int:
    is_number = node.op.everywhere is not None and node.name is None
    return ROLES.index("fill" if is_number else role_of(node).value)


def _plain(label: Any) -> Any:
    return label if isinstance(label, (int, float)) and not isinstance(label, bool) else str(label)
