"""Notes on nodes and their color scale; `viz.notes` makes them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from graphnet.graph.node import Node
from viz.style import Style


@dataclass(frozen=True)
class NoteScale:
    """Meaning of the colors of notes: a title and, for numbers, the minimum and maximum, in words."""

    title: str
    low: float = 0.0
    high: float = 0.0
    words: tuple[str, str] | None = None
    logarithmic: bool = False

    def place(self, x: float) -> float:
        """Position of x between the minimum (0) and the maximum (1); infinity is at 1, NaN at 0."""
        if x == math.inf:
            return 1.0
        if not math.isfinite(x) or self.high <= 0:
            return 0.0
        if not self.logarithmic:
            return x / self.high
        if x <= 0:
            return 0.0
        span = math.log(self.high / self.low)
        return math.log(x / self.low) / span if span else 1.0


@dataclass(frozen=True)
class Note:
    """Text under the symbol of a node, and its color.

    lines: small print. heat: number that the scale of the picture turns into a color. tile: numbers in [-1, 1], drawn
    as a small heat map. mark: "new" or "gone".
    """

    lines: tuple[str, ...] = ()
    heat: float | None = None
    tile: tuple[tuple[float, ...], ...] = ()
    mark: str = ""

    def fill(self, theme: Style, scale: NoteScale | None) -> str | None:
        """Color of the node, if the note has one."""
        if self.heat is not None and scale is not None:
            return theme.heat(scale.place(self.heat))
        return {"new": theme.new, "gone": theme.gone}.get(self.mark)


class Notes(ABC):
    """Base class of notes on the nodes of a graph, for `viz.draw(thing, notes=...)`.

    nodes: nodes that have a note; all nodes of `note`, which are drawn as one, inputs first. notes: all notes of a
    picture.

    >>> x = gn.input((3, 2), name="x")
    >>> notes = viz.values(x + 1.0, {x: np.zeros((3, 2), "float32")})
    >>> isinstance(notes, viz.Notes), x in notes.nodes
    (True, True)
    >>> note = notes.note([x])
    >>> note.lines, notes.scale([note]).title.split("; ")[0]
    (('0 · 0 · 0',), 'least · mean · greatest')
    """

    nodes: Collection[Node] = ()

    @abstractmethod
    def note(self, nodes: Sequence[Node]) -> Note | None:
        """Returns the note on `nodes`, or None."""

    def scale(self, notes: Iterable[Note | None]) -> NoteScale | None:
        """Returns the scale of the colors of these notes, or None."""
        return None
