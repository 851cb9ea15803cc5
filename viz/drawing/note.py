"""Note: what a picture says of a node beyond its op, and what its colours mean; `viz.notes` makes them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from graphnet.graph.node import Node
from viz.style import Style

__all__ = ["Note", "NoteScale", "Notes"]


@dataclass(frozen=True)
class NoteScale:
    """What the colours mean: a title, and, if they stand for numbers, the least and the greatest of them in words."""

    title: str
    low: float = 0.0
    high: float = 0.0
    words: tuple[str, str] | None = None
    logarithmic: bool = False

    def place(self, x: float) -> float:
        """Where a number stands between the least (0) and the greatest (1); infinity at 1, NaN at 0."""
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
    """What stands under a node's symbol, and how it is filled.

    lines: small print. heat: a number that the picture's scale turns into a colour. tile: numbers in [-1, 1], drawn as
    a small heat map. mark: "new" or "gone".
    """

    lines: tuple[str, ...] = ()
    heat: float | None = None
    tile: tuple[tuple[float, ...], ...] = ()
    mark: str = ""

    def fill(self, theme: Style, scale: NoteScale | None) -> str | None:
        """The colour that it gives a node, if it gives one."""
        if self.heat is not None and scale is not None:
            return theme.heat(scale.place(self.heat))
        return {"new": theme.new, "gone": theme.gone}.get(self.mark)


class Notes(ABC):
    """Notes on the nodes of a graph: `nodes` are those that there is one of."""

    nodes: Collection[Node] = ()

    @abstractmethod
    def note(self, nodes: Sequence[Node]) -> Note | None:
        """The note on nodes that are drawn as one, inputs first; None if there is nothing to say."""

    def scale(self, notes: Iterable[Note | None]) -> NoteScale | None:
        """What the colours of these notes mean, if there is anything to say."""
        return None
