"""Notes on nodes: values, gradients, times, changes by a compiler pass.

viz.draw(cost, notes=viz.values(cost, {x: array}))
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.call.function import Function
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from viz.blocks import block_means
from viz.drawing.names import number, shape_text
from viz.drawing.note import Note, Notes, NoteScale
from viz.drawing.things import Drawable, graph_of
from viz.errors import DrawingError, count_of
from viz.feeds import Feeds, computed, fed
from viz.matching import kept_nodes

#: Maximum numbers of rows and columns of a heat map.
ROWS, COLUMNS = 8, 12


# -- values ------------------------------------------------------------------------------------


class ValueNotes(Notes):
    """Notes with shape, minimum, mean and maximum of each node's value, and a heat map."""

    def __init__(self, arrays: Mapping[Node, Array]) -> None:
        self.arrays, self.nodes = arrays, arrays.keys()

    def note(self, nodes: Sequence[Node]) -> Note | None:
        array = self.arrays.get(nodes[-1])
        # A square shows its shape below its name.
        return None if array is None else note_on(array, not nodes[-1].is_leaf)

    def scale(self, notes: Iterable[Note | None]) -> NoteScale:
        return NoteScale("least · mean · greatest; in heat maps, blue is below zero, a warm color above")


def note_on(array: Array, with_shape: bool) -> Note:
    """Note with minimum, mean and maximum of an array, and a heat map."""
    if array.size == 1:
        return Note((number(array.item()),))
    lines = [shape_text(array.shape)] if with_shape else []
    numbers = np.asarray(array, "float64")
    finite = numbers[np.isfinite(numbers)]
    if finite.size:
        with np.errstate(over="ignore"):
            mean = float(finite.mean())
        least, greatest = float(finite.min()), float(finite.max())
        mean = mean if np.isfinite(mean) else float((finite / finite.size).sum())  # the sum overflows
        if abs(mean) < 1e-6 * max(abs(least), abs(greatest)):
            mean = 0.0  # the rest is rounding errors
        lines.append(" · ".join(number(x, digits=2) for x in (least, mean, greatest)))
    if finite.size < array.size:
        lines.append(f"{array.size - finite.size} of {array.size} not finite")
    return Note(tuple(lines), tile=heat_map(numbers))


def heat_map(array: Array) -> tuple[tuple[float, ...], ...]:
    """Array as at most 8 × 12 numbers in [-1, 1], divided by the largest absolute value; means of blocks for larger
    arrays.

    Leading axes are stacked vertically; NaN stays NaN.
    """
    small = block_means(array, ROWS, COLUMNS)
    size = np.abs(small[np.isfinite(small)]).max(initial=0.0)
    scaled = np.clip(small / size if size else small, -1.0, 1.0)
    return tuple(tuple(round(float(v), 3) for v in row) for row in scaled)


def values(thing: Drawable, feeds: Feeds | None = None) -> ValueNotes:
    """Notes with the value of each node, computed node by node.

    thing: object that `viz.draw` draws. feeds: array for each input; by default standard normal numbers and random
    indices from a fixed seed.
    Raises DrawingError for missing inputs and for keys that are not inputs; ShapeError and DtypeError for arrays that
    do not fit.

    >>> x = gn.input((3, 2), name="x")
    >>> y = gn.tanh(x)
    >>> viz.draw(y, notes=viz.values(y, {x: np.ones((3, 2), "float32")}))
    <Drawing of 2 nodes, full style>
    """
    graph = graph_of(thing)
    return ValueNotes(evaluated(graph, graph.order, feeds))


def evaluated(graph: Graph, nodes: Sequence[Node], feeds: Feeds | None = None) -> dict[Node, Array]:
    """Values of nodes, computed from the inputs of a graph by the rules of the ops."""
    wanted = set(nodes)
    found = {node: value for node, value in computed(nodes, fed(graph, feeds)) if node in wanted}
    return {node: found[node] for node in nodes}


# -- gradients and times -------------------------------------------------------------------------


class _Heated(Notes):
    title = ""
    logarithmic = False

    def __init__(self, numbers: Mapping[Node, float]) -> None:
        self.numbers, self.nodes = numbers, numbers.keys()

    @abstractmethod
    def together(self, nodes: Sequence[Node]) -> float | None:
        """Heat of nodes that are drawn as one."""

    @abstractmethod
    def text(self, x: float) -> str: ...

    def note(self, nodes: Sequence[Node]) -> Note | None:
        x = self.together(nodes)
        return None if x is None else Note((self.text(x),) if x else (), heat=x)

    def scale(self, notes: Iterable[Note | None]) -> NoteScale | None:
        found = [note.heat for note in notes if note is not None and note.heat is not None]
        # A logarithmic scale has no place for zero.
        shown = [x for x in found if math.isfinite(x) and (x > 0 or not self.logarithmic)]
        if not shown:
            return None
        low, high = (min(shown) if self.logarithmic else 0.0), max(shown)
        return NoteScale(self.title, low, high, (self.text(low), self.text(high)), self.logarithmic)


class Gradients(_Heated):
    """Notes with ‖∂cost/∂node‖, on a logarithmic scale; of nodes drawn as one, with respect to all their outputs."""

    title = "‖∂cost/∂node‖"
    logarithmic = True

    def __init__(self, graph: Graph, arrays: Mapping[Node, Array]) -> None:
        with np.errstate(all="ignore"):  # infinite values are shown as such
            super().__init__(
                {node: float(np.linalg.norm(np.asarray(a, "float64"))) for node, a in arrays.items()}
            )
        self.graph = graph

    def note(self, nodes: Sequence[Node]) -> Note | None:
        """Note without a color for 0, and for the cost, whose norm is 1: most others are far smaller."""
        found = super().note(nodes)
        if found is None or not found.heat:
            return None if found is None else Note((self.text(0.0),))
        is_cost = set(self.handed_on(nodes)) <= set(self.graph.outputs)
        return Note(found.lines) if is_cost else found

    def handed_on(self, nodes: Sequence[Node]) -> list[Node]:
        """Outputs of nodes drawn as one."""
        members = set(nodes)
        return [
            node
            for node in nodes
            if node in self.numbers
            and (node in self.graph.outputs or any(c not in members for c in self.graph.consumers[node]))
        ]

    def together(self, nodes: Sequence[Node]) -> float | None:
        found = [self.numbers[node] for node in self.handed_on(nodes)]
        return math.hypot(*found) if found else None

    def text(self, x: float) -> str:
        return number(x)


def gradients(cost: Node, feeds: Feeds | None = None) -> Gradients:
    """Notes with the norm of ∂cost/∂node for each node that the cost depends on.

    cost: scalar node. feeds: input -> array; see `values`, which lists its errors.
    Raises DrawingError if the cost is not a scalar.

    >>> x = gn.input((3, 2), name="x")
    >>> cost = gn.mean(gn.tanh(x))
    >>> viz.draw(cost, notes=viz.gradients(cost))
    <Drawing of 5 nodes, full style>
    """
    require_cost("gradients", cost)
    graph = Graph(cost)
    return Gradients(graph, cotangents(graph, cost, feeds))


def require_cost(function: str, cost: object) -> None:
    """Raises DrawingError unless `cost` is a floating-point scalar node."""
    if not isinstance(cost, Node) or cost.shape or not is_float(cost.dtype):
        raise DrawingError(f"cost: {function} needs a scalar float node, not {_described(cost)}.")


def cotangents(graph: Graph, cost: Node, feeds: Feeds | None = None) -> dict[Node, Array]:
    """∂cost/∂node for each floating-point node; zeros for nodes that the cost does not depend on."""
    nodes = [node for node in graph.order if is_float(node.dtype) and node is not cost]
    found = gn.backward({cost: gn.fill(1, (), cost.dtype)}, nodes)
    arrays = evaluated(graph, found, feeds)
    return {n: arrays[g] for n, g in zip(nodes, found, strict=True)} | {cost: np.ones((), cost.dtype)}


class TimeNotes(_Heated):
    """Notes with the seconds of each node; of nodes drawn as one, their sum."""

    title = "time"

    def __init__(self, numbers: Mapping[Node, float]) -> None:
        super().__init__(numbers)
        self.total = sum(numbers.values())

    def together(self, nodes: Sequence[Node]) -> float | None:
        found = [self.numbers[node] for node in nodes if node in self.numbers]
        return sum(found) if found and any(not node.is_leaf for node in nodes) else None

    def text(self, x: float) -> str:
        return f"{_seconds(x)}, {x / self.total:.0%}" if x and self.total else _seconds(x)


def times(function: Function, *arrays: Any, repeats: int = 5) -> TimeNotes:
    """Notes with the time of each node of `function.graph`, measured by `function.profile(*arrays)`.

    function: compiled function. arrays: its inputs. repeats: number of runs, 5 by default; their median counts.

    >>> x = gn.input((3, 2), name="x")
    >>> function = gn.compile(gn.tanh(x), [x])
    >>> viz.draw(function, notes=viz.times(function, np.ones((3, 2), "float32")))
    <Drawing of 2 nodes, full style>
    """
    if not isinstance(function, Function):
        raise DrawingError(
            f"function: times needs a compiled function (gn.compile), not {_described(function)}."
        )
    profile = function.profile(*arrays, repeats=count_of("repeats", repeats))
    return TimeNotes(dict(zip(profile.nodes, profile.seconds, strict=True)))


# -- changes -----------------------------------------------------------------------------------


class Marks(Notes):
    """Notes that highlight some nodes."""

    def __init__(self, nodes: Iterable[Node], mark: str) -> None:
        self.nodes = frozenset(nodes)
        self.mark = mark

    def note(self, nodes: Sequence[Node]) -> Note | None:
        return Note(mark=self.mark) if any(node in self.nodes for node in nodes) else None


def changes(before: Graph, after: Graph) -> tuple[Marks, Marks]:
    """Notes for two graphs: on nodes of the first that are missing in the second, and on new nodes of the second.

    before, after: graphs, e.g. of a compiler pass. A node that only has other inputs counts as unchanged; see
    `viz.matching`.
    Raises DrawingError for other objects.

    >>> x = gn.input((2,), name="x")
    >>> gone, new = viz.changes(gn.Graph([gn.tanh(x)]), gn.Graph([gn.exp(x)]))
    >>> len(gone.nodes), len(new.nodes)
    (1, 1)
    """
    for argument, graph in (("before", before), ("after", after)):
        if not isinstance(graph, Graph):
            raise DrawingError(
                f"{argument}: changes compares two graphs (gn.Graph), not {_described(graph)}."
            )
    kept = kept_nodes(before, after)
    left = set(kept.values())
    return (
        Marks((node for node in before.order if node not in left), "gone"),
        Marks((node for node in after.order if node not in kept), "new"),
    )


# -- words -------------------------------------------------------------------------------------


def _seconds(x: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if x >= size:
            return f"{x / size:.3g} {unit}"
    return f"{x * 1e9:.0f} ns"


def _described(thing: object) -> str:
    return f"{thing.describe()} of {thing.dtype}" if isinstance(thing, Node) else f"a {type(thing).__name__}"
