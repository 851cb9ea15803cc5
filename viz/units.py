"""Units: notes that say which weights meet in which units.

groups = rnn.riemannian.unit_groups(u.cost, net.parameters)
viz.draw(u.cost, notes=viz.units(groups))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from graphnet.graph.node import Node
from viz.drawing.note import Note, Notes, NoteScale
from viz.errors import DrawingError

__all__ = ["Grouped", "Units", "units"]


class Grouped(Protocol):
    """What is asked of a group, as rnn.riemannian.UnitGroup: its weights, where they meet, and how many units."""

    @property
    def incoming(self) -> Sequence[Any]: ...

    @property
    def pre_activations(self) -> Sequence[Any]: ...

    @property
    def units(self) -> int: ...

    @property
    def symbols(self) -> int: ...


class Units(Notes):
    """Of a weight, the units that it leads into; of a pre-activation, those that it is of. A colour for each group."""

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
    """Notes with the units of a net, for viz.draw: what rnn.riemannian.unit_groups(cost, parameters) gives.

    Raises DrawingError for what are no groups.
    """
    listed = list(groups) if isinstance(groups, Iterable) else [groups]
    for each in listed:
        if not hasattr(each, "incoming") or not hasattr(each, "pre_activations"):
            raise DrawingError(
                f"groups: units takes what rnn.riemannian.unit_groups(cost, parameters) gives, not {each!r:.60}."
            )
    return Units(listed)
