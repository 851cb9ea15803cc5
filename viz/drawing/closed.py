"""Closed pictures: each layer at each time step is one box, the cost is one node.

    cost            row by row, from the bottom: data x_t, the layers, o_t, the cost;
    o_1   o_2       from left to right: initial states, then the time steps
h_0 LSTM→ LSTM
    x_1   x_2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Any

from graphnet.graph.dtypes import BOOL
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.broadcast import Sum
from graphnet.ops.elementwise import Where
from graphnet.ops.random import Random
from graphnet.ops.shape import Slice, Stack
from viz.drawing.composites import LABEL
from viz.drawing.condense import StepGroup, condense, data_behind, leaf_behind, times_of
from viz.drawing.fold import fold, symbol_of
from viz.drawing.names import Names, layer_words, number, printable
from viz.drawing.note import Note, Notes, NoteScale
from viz.drawing.states import States, states_of
from viz.errors import DrawingError
from viz.style import EdgeRole


class BoxKind(Enum):
    """Kind of a box."""

    CELL = "cell"
    DATA = "data"
    #: Data from another step: a label on its output.
    IMAGINARY = "imaginary"
    STATE = "state"
    OUTPUT = "output"
    COST = "cost"
    #: Several time steps of a cell.
    STEPS = "steps"


@dataclass(frozen=True)
class Box:
    """Cell of the grid: row 0 is at the bottom. Initial states are in the column before the first step of their row,
    or after the last one for a row that runs backward in time.

    Its lines are markup. `slot` of `slots` is its place among boxes in the same cell.
    """

    key: str
    kind: BoxKind
    row: int
    column: int
    lines: tuple[str, ...]
    tooltip: str
    slot: int = 0
    slots: int = 1
    note: Note | None = None


@dataclass(frozen=True)
class Link:
    """Arrow between two boxes; `slot` is the number of the state that it carries, if any."""

    tail: str
    head: str
    role: EdgeRole = EdgeRole.INNER
    label: str = ""
    slot: int | None = None
    #: True for an arrow at the tail, for derivatives.
    back: bool = False


#: Hidden layers of a network whose open picture would be a strip.
_MANY = 4


@dataclass(frozen=True)
class ClosedPicture:
    """Boxes and links, and for each row the maximum number of states. parts: columns of each network, if one runs after
    the other.
    """

    shapes: tuple[Box, ...]
    edges: tuple[Link, ...]
    columns: int
    states: tuple[int, ...]
    parts: tuple[range, ...]
    scale: NoteScale | None = None
    title: str = ""
    #: Picture with the same rows and columns, drawn to the right.
    beside: ClosedPicture | None = None
    legend: bool = False


def closes_by_default(graph: Graph) -> bool:
    """True for a network of several time steps, or of many layers, in which no value flows back in time."""
    times = times_of(graph)
    layers = {node.scope.get("layer") for node in graph.order} - {None, "input", "output", "cost"}
    if len(times) < 2 and (not times or len(layers) < _MANY):
        return False
    try:
        return bool(condense(graph).cells)
    except DrawingError:
        return False


def closed_picture(graph: Graph, names: Names, notes: Notes | None = None) -> ClosedPicture:
    """Closed picture of a graph that was unrolled in time."""
    return _Closing(graph, names, notes).picture()


class _Closing:
    def __init__(self, graph: Graph, names: Names, notes: Notes | None) -> None:
        self.graph = graph
        self.names = names
        self.notes = notes
        self.groups = condense(graph)
        self.states = {row: states_of(row, self.groups) for row in self.groups.rows}
        #: Initial state -> its row.
        self.row_of = {node: row for row, states in self.states.items() for node in states.initial}
        self.symbols = {drawn.node: drawn.symbol for drawn in fold(graph, names)}
        #: Row 0 is the data's.
        self.level: dict[Hashable, int] = {row: i for i, row in enumerate(self.groups.rows, start=1)}
        self.boxes: dict[object, Box] = {}
        self.links: dict[tuple[str, str, int | None], Link] = {}

    def picture(self) -> ClosedPicture:
        groups = self.groups
        self.place_data()
        for row in groups.rows:
            self.place_states(row)
        for group in groups.every:
            if group.row in self.level:
                self.place_group(group)
        if groups.after:
            self.place_cost()
        for group in groups.every:
            if group.row in self.level:
                self.link_group(group)
        self.link_cost()
        most = (max(1, len(self.states[row].initial)) for row in groups.rows)
        boxes = tuple(self.boxes.values())
        scale = self.notes.scale(box.note for box in boxes) if self.notes else None
        links = tuple(self.links.values())
        return ClosedPicture(boxes, links, self.last + 1, (1, *most), groups.parts, scale)

    def note(self, thing: object) -> Note | None:
        if self.notes is None:
            return None
        if isinstance(thing, StepGroup):
            output = self.output_of(thing)
            return self.notes.note([*(node for node in thing.nodes if node is not output), output])
        return self.notes.note([thing]) if isinstance(thing, Node) else None

    def output_of(self, group: StepGroup) -> Node:
        """Node of a step that other rows read, or else its last node; the same at all steps."""
        for node in group.nodes:
            others = [self.groups.of.get(reader) for reader in self.graph.consumers[node]]
            if any(other is None or other.row != group.row for other in others):
                return node
        return group.nodes[-1]

    # -- boxes -------------------------------------------------------------------------------

    def place_data(self) -> None:
        """Places inputs at the bottom: x_t, made from the data for each step, or data that a step reads."""
        groups = self.groups
        found: dict[object, tuple[int, str]] = {}
        for group in groups.every:
            if group.row in groups.inputs:
                found[group] = group.column, self.data_name(group)
            else:
                for leaf in self.data_of(group):
                    found.setdefault(leaf, (group.column, self.name_of(leaf)))
        counts = Counter(column for column, _ in found.values())
        slots: Counter[int] = Counter()
        for i, (thing, (column, name)) in enumerate(found.items()):
            self.boxes[thing] = Box(
                f"x{i}", BoxKind.DATA, 0, column, (name,), _tooltip(thing), slots[column], counts[column],
                self.note(thing),
            )  # fmt: skip
            slots[column] += 1

    def data_of(self, group: StepGroup) -> Iterator[Node]:
        for node in group.nodes:
            for source in node.inputs:
                if source not in self.groups.of and source not in self.row_of:
                    yield from data_behind(source, self.groups)

    def data_name(self, group: StepGroup, first: StepGroup | None = None) -> str:
        nodes = (first or group).nodes
        leaves = [leaf for n in nodes for x in n.inputs for leaf in data_behind(x, self.groups)]
        bases = dict.fromkeys(leaf.name or leaf.op.symbol or "x" for leaf in leaves)
        return self.at_time(", ".join(bases) or "x", group)

    def place_states(self, row: Hashable) -> None:
        initial, part = self.states[row].initial, self.groups.part_of(row)
        first = self.groups.steps(row)[0].column if initial else 0  # after an output of the initial states
        for i, node in enumerate(initial):
            name = self.states[row].name(i)
            shown = (
                self.names.markup(f"{name}_{self.before_all(row)}")
                if name
                else self.name_of(leaf_behind(node))
            )
            level = self.level[row]
            self.boxes["state", row, node] = Box(
                f"s{level}_{i}",
                BoxKind.STATE,
                level,
                part.stop if row in self.groups.reversed else first - 1,
                (shown,),
                _tooltip(node),
                i,
                len(initial),
                self.note(node),
            )

    def before_all(self, row: Hashable) -> Any:
        """Time of initial states: 0, or after the last step."""
        last = self.groups.numbers[self.groups.part_of(row)[-1]]
        return 0 if row not in self.groups.reversed else last + 1 if isinstance(last, int) else "T+1"

    def place_group(self, group: StepGroup) -> None:
        level = self.level[group.row]
        is_cell = group.row in self.groups.cells
        lines = self.title(group) if is_cell else self.operation(group)
        kind = BoxKind.CELL if is_cell else BoxKind.OUTPUT
        self.boxes[group] = Box(
            f"b{level}_{group.column}",
            kind,
            level,
            group.column,
            lines,
            self.contents(group),
            note=self.note(group),
        )

    def title(self, group: StepGroup) -> tuple[str, ...]:
        label = group.label
        layer = label.get("layer")
        text = f"layer {layer}" if isinstance(layer, int) else str(layer or "")
        words = [str(label.get("cell") or ""), layer_words(text)]
        words.append(str(label.get("part") or ""))
        lines = [escape(printable(word)) for word in words if word] or ["step"]
        return *lines, *_dropout(group)

    def operation(self, group: StepGroup) -> tuple[str, ...]:
        last = group.nodes[-1]
        drops = any(_is_masked(node) for node in (last, *last.inputs))  # the mask is scaled before it is used
        if drops:
            return _dropout(group)
        pool = group.label.get("pool")
        if pool is not None:  # one output for all steps
            weights = [self.weight(n) for n in group.nodes if not self.reads_others(n, group)]
            own = [f"× {weight}" for weight in weights if weight]  # of pooled values, so no arrow has it
            return self.names.markup("o"), *map(escape, str(pool).split(", ")), *own, *_dropout(group)
        layer, _, of = str(group.row).rpartition(".")
        if of == "outputs":  # of all steps of a layer, for another network
            return "outputs", f"of {escape(printable(layer_words(layer), 20))}"
        return self.output_name(group), *_dropout(group)

    def reads_others(self, node: Node, group: StepGroup) -> bool:
        return any(self.groups.of.get(x, group) is not group for x in node.inputs)

    def output_name(self, group: StepGroup) -> str:
        of = str(group.row).rpartition(".")[2]
        if of == "output":
            return self.at_time("o", group)
        if of == "input":  # of a network that reads its own predictions
            return self.data_name(group, self.groups.steps(group.row)[0])
        last = group.nodes[-1]
        return self.names.markup(last.name) if last.name else self.symbols.get(last, symbol_of(last))

    def at_time(self, base: str, group: StepGroup) -> str:
        return self.names.markup(f"{base}_{self.groups.numbers[group.column]}")

    def contents(self, group: StepGroup) -> str:
        label = group.label
        words = [str(label[key]) for key in ("cell", "layer", "part") if label.get(key) is not None]
        count = f"{len(group.nodes)} operators"
        return printable(f"{' '.join(words)} t={self.groups.numbers[group.column]}: {count}".strip(), 200)

    def place_cost(self) -> None:
        after = self.groups.after
        outputs = [node for node in after if node in set(self.graph.outputs)]
        top = len(self.level) + 1
        kind = BoxKind.COST if all(not node.shape for node in outputs) else BoxKind.OUTPUT
        lines = tuple(_cost_lines(after)) or (self.symbols[after[-1]],)
        note = self.notes.note(after) if self.notes else None
        self.boxes["cost"] = Box("cost", kind, top, self.last, lines, f"{len(after)} operators", note=note)
        data = {leaf: None for n in after for x in n.inputs for leaf in data_behind(x, self.groups)}
        data |= {
            node: None for node in self.graph.inputs if "ends" in node.scope and node.dtype.kind == "i"
        }  # lengths mask all steps
        for i, leaf in enumerate(data):
            # It has a separate place, even if a step reads the same data.
            self.boxes["cost", leaf] = Box(
                f"t{i}", BoxKind.DATA, top, self.last + 1, (self.name_of(leaf),), _tooltip(leaf), i, len(data)
            )

    @property
    def last(self) -> int:
        return self.groups.parts[-1][-1]

    def name_of(self, node: Node) -> str:
        if node.name:
            return self.names.markup(node.name)
        everywhere = node.op.everywhere
        return f"<i>{node.op.symbol}</i>" if everywhere is None else escape(number(everywhere))

    # -- links -------------------------------------------------------------------------------

    def link(self, tail: object, head: object, label: str = "", slot: int | None = None) -> None:
        a, b = self.boxes[tail], self.boxes[head]
        role = EdgeRole.INNER
        if a.kind is BoxKind.DATA:
            role = EdgeRole.FROM_INPUT
        elif b.kind is BoxKind.COST or (b.kind is BoxKind.OUTPUT and not self.is_read_by_a_cell(head)):
            role = EdgeRole.TO_OUTPUT
        known = self.links.get((a.key, b.key, slot))
        if known is None or (label and not known.label):
            self.links[a.key, b.key, slot] = Link(a.key, b.key, role, label, slot)

    def is_read_by_a_cell(self, thing: object) -> bool:
        if not isinstance(thing, StepGroup):
            return False
        readers = (self.groups.of.get(x) for node in thing.nodes for x in self.graph.consumers[node])
        return any(reader is not None and reader.row in self.groups.cells for reader in readers)

    def link_group(self, group: StepGroup) -> None:
        carried = self.link_states(group)
        for leaf in self.data_of(group):
            self.link(leaf, group)
        unnamed: dict[Node, None] = {}
        for node in group.nodes:
            for source in node.inputs:
                other = self.groups.of.get(source)
                if (
                    source in self.row_of and group.row not in self.groups.cells
                ):  # an output of initial states
                    self.link(("state", self.row_of[source], source), group, self.weight(node))
                if other is None or other is group or source in carried or _is_end(node):
                    continue
                if other.column != group.column and other.row == group.row:
                    unnamed[source] = None
                else:
                    self.link(other, group, self.weight(node) if group.row not in self.groups.cells else "")
        for slot, source in enumerate(unnamed, start=len(carried)):
            self.link(self.groups.of[source], group, slot=slot)

    def link_states(self, group: StepGroup) -> set[Node]:
        """Draws the states that a step reads; returns those from the previous step of its row."""
        states: States = self.states[group.row]
        carried: set[Node] = set()
        linked: set[Node] = set()
        for index, (source, name) in enumerate(states.read_by(group)):
            other = self.groups.of.get(source)
            if other is None:
                self.link(("state", group.row, source), group, slot=index)
                linked.add(source)
            elif other.row == group.row and other is not group:
                self.link(other, group, self.names.markup(name) if name else "", index)
                carried.add(source)
        for node in group.nodes:
            for source in node.inputs:
                if source in states.initial and source not in linked:
                    self.link(("state", group.row, source), group, slot=states.initial.index(source))
        return carried

    def weight(self, product: Node) -> str:
        weights = [x for x in product.inputs if x.op.is_parameter and x.name]
        return self.names.markup(weights[0].name or "") if product.op.is_product and weights else ""

    def link_cost(self) -> None:
        unscored = _unscored(self.groups.after)
        for node in self.groups.after:
            for source in node.inputs:
                if source in self.groups.of and (node, source) not in unscored:
                    self.link(self.groups.of[source], "cost")
        for thing in list(self.boxes):
            if isinstance(thing, tuple) and thing[0] == "cost":
                self.link(thing, "cost")


def _tooltip(thing: object) -> str:
    if isinstance(thing, StepGroup):
        return f"{len(thing.nodes)} operators"
    assert isinstance(thing, Node)
    return printable(f"{thing.describe()} {thing.dtype}", 200)


def _dropout(group: StepGroup) -> tuple[str, ...]:
    read = {
        x for node in group.nodes for x in (node, *node.inputs)
    }  # the mask of all steps is made before them
    return ("<i>dropout</i>",) if any(map(_is_masked, read)) else ()


def _is_masked(node: Node) -> bool:
    return any(map(_is_mask, node.inputs))


def _is_mask(node: Node) -> bool:
    match node.op:
        case Random(distribution="bernoulli"):
            return True
    return False


def _is_end(node: Node) -> bool:
    """True for the mask of cases that have ended, which every layer reads beside its inputs."""
    return node.scope.get(LABEL) == "case has ended" and node.dtype == BOOL


def _unscored(after: Sequence[Node]) -> set[tuple[Node, Node]]:
    """(stack, piece) of steps whose loss is computed but left out of the cost by a slice."""
    readers: dict[Node, list[Node]] = {}
    for node in after:
        for source in node.inputs:
            readers.setdefault(source, []).append(node)
    found: set[tuple[Node, Node]] = set()
    for losses in after:
        judged = losses.op.judged_input
        reading = readers.get(losses, [])
        keys = [reader.op.key[0] for reader in reading if isinstance(reader.op, Slice) and losses.shape]
        if judged is None or not reading or len(keys) < len(reading):
            continue
        stack = losses.inputs[judged]
        match stack.op:
            case Stack(axis=0) if readers[stack] == [losses]:
                read = {i for key in keys for i in ((key,) if isinstance(key, int) else range(*key))}
                found |= {(stack, piece) for i, piece in enumerate(stack.inputs) if i not in read}
    return found


def _cost_lines(after: Iterable[Node]) -> Iterator[str]:
    """`cross-entropy`, `mean over 3 steps`."""
    judges = [node for node in after if node.op.judged_input is not None]
    if not judges:
        yield from {escape(str(node.scope[LABEL])): None for node in after if node.scope.get(LABEL)}
        return
    symbols = dict.fromkeys(node.op.symbol or node.op.name for node in judges)
    yield escape(" and ".join(symbols))
    if len(symbols) > 1 or len({node.ndim for node in judges}) > 1:  # "mean" would describe only one of them
        return
    sums = [node for node in after if isinstance(node.op, Sum) and not node.shape]
    if any(
        isinstance(node.op, Where) and judges[0] in (node.inputs[1], *node.inputs[1].inputs) for node in after
    ):
        yield "mean over the steps of all cases"
    elif sums and judges[0].ndim == 1:
        yield f"mean over {judges[0].size} case{'s' if judges[0].size != 1 else ''}"
    elif sums:
        steps = sums[-1].inputs[0].shape
        judged = judges[0].shape[:1]
        cut = any(isinstance(node.op, Slice) for node in after)
        every = f" of {judged[0]}" if cut and judged and steps and judged[0] != steps[0] else ""
        if steps:
            yield f"mean over {steps[0]}{every} step{'s' if steps[0] != 1 or every else ''}"
