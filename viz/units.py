"""Notes that show which weights lead into which units.

groups = rnn.riemannian.unit_groups(u.cost, net.parameters)
viz.draw(u.cost, notes=viz.units(groups))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from graphnet.graph.node import Node
from graphnet.settings import shown
from viz.drawing.note import Note, Notes, NoteScale
from viz.errors import DrawingError


class Grouped(Protocol):
    """Protocol of a group of units, such as rnn.riemannian.UnitGroup."""

    @property
    def incoming(self) -> Sequence[Any]: ...

    @property
    def pre_activations(self) -> Sequence[Any]: ...

    @property
    def units(self) -> int: ...

    @property
    def symbols(self) -> int: ...


class Units(Notes):
    """Notes with units: those that a weight leads into, and those of a pre-activation; a color for each group."""

    def __init__(self, groups: Sequence[Grouped]) -> None:
        self.count = len(groups)
        self._of: dict[Node, tuple[int, str]] = {}
        for number, group in enumerate(groups, 1):
            for each in group.incoming:
                self._of[each.weight] = number, f"into V{number}"
            many = f" for each of {group.symbols} symbols" if group.symbols > 1 else ""
            for each in group.pre_activations:
                self._of[each.V] = number, f"V{number}: {group.units} units{many}"
        self.nodes = self._of.keys()

    def note(self, nodes: Sequence[Node]) -> Note | None:
        found = next((self._of[node] for node in reversed(nodes) if node in self._of), None)
        return None if found is None else Note((found[1],), heat=float(found[0]))

    def scale(self, notes: Iterable[Note | None]) -> NoteScale | None:
        ends = "V1", f"V{self.count}"
        return NoteScale("units, by pre-activation", 0.0, float(self.count), ends) if self.count > 1 else None


def units(groups: Iterable[Grouped]) -> Units:
    """Notes with the units of a network, for viz.draw.

    groups: result of rnn.riemannian.unit_groups(cost, parameters).
    Raises DrawingError for other objects.

    >>> x, w = gn.input((3, 2), name="x"), gn.parameter(np.ones((2, 4), "float32"), name="w")
    >>> cost = gn.mean(gn.tanh(x @ w))
    >>> viz.draw(cost, notes=viz.units(rnn.riemannian.unit_groups(cost, [w])))
    <Drawing of 7 nodes, full style>
    """
    listed = list(groups) if isinstance(groups, Iterable) else [groups]
    for each in listed:
        if not hasattr(each, "incoming") or not hasattr(each, "pre_activations"):
            raise DrawingError(
                f"groups must be a result of rnn.riemannian.unit_groups(cost, parameters), not {shown(each)}."
            )
    return Units(listed)
