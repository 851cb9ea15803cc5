"""Halving: who is trained for how long, when those that learn worst are cut down early."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import is_number, shown, whole_number, yes_or_no

__all__ = ["Bracket", "Halving"]


class Bracket(NamedTuple):
    """Configurations that are judged among themselves: their numbers, and the place of the first rung."""

    numbers: range
    begin: int


@dataclass(frozen=True)
class Halving:
    """Successive halving: those that learn worst are cut down early.

    All configurations train for `first` (epochs, steps or core-seconds, as the recipe says), the best 1/`factor` of
    them `factor` times as long, and so on to the whole budget R.
    brackets: Hyperband, which does not trust the first rung alone. With S rungs above the first, bracket s = S ... 0
    has n = ⌈(S+1)/(s+1) η^s⌉ configurations, which begin with R/η^s and are halved among themselves; configurations
    are dealt to brackets by their numbers, and begin again with the first bracket when all are full.
    Source: Karnin, Koren & Somekh 2013; Jamieson & Talwalkar 2016; Li, Jamieson, DeSalvo, Rostamizadeh & Talwalkar
    2018, algorithm 1.
    """

    first: float = 1
    factor: int = 3
    brackets: bool = False

    def __post_init__(self) -> None:
        if not is_number(self.first) or not 0 < self.first < float("inf"):
            raise UsageError(f"halving: first must be a number above 0, not {shown(self.first)}")
        object.__setattr__(self, "factor", whole_number("halving: factor", self.factor, least=2))
        yes_or_no("halving: brackets", self.brackets)

    def rungs(self, budget: float) -> list[float]:
        """What is spent on a run until it is decided who goes on, the whole budget included."""
        found: list[float] = []
        while self.first * self.factor ** len(found) < budget:
            found.append(self.first * self.factor ** len(found))
        return [*found, budget]

    def kept(self, count: int) -> int:
        """How many of so many go on."""
        return max(1, count // self.factor)

    def sizes(self, budget: float) -> list[int]:
        """How many configurations each bracket has, that with the shortest first rung first."""
        top = len(self.rungs(budget)) - 1
        return [-(-(top + 1) * self.factor**s // (s + 1)) for s in range(top, -1, -1)]

    def divided(self, count: int, budget: float) -> Iterator[Bracket]:
        """So many configurations, in brackets; the last one may not be full."""
        if not self.brackets:
            yield Bracket(range(count), 0)
            return
        sizes, start, place = self.sizes(budget), 0, 0
        while start < count:
            end = min(start + sizes[place], count)
            yield Bracket(range(start, end), place)
            start, place = end, (place + 1) % len(sizes)

    def mapping(self) -> dict[str, Any]:
        """As a recipe's file says it."""
        return {"first": self.first, "factor": self.factor} | ({"brackets": True} if self.brackets else {})
