"""Successive halving and Hyperband."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import is_number, shown, whole_number, yes_or_no


class Bracket(NamedTuple):
    """Configurations that are compared among themselves: their numbers, and the index of the first rung."""

    numbers: range
    begin: int


@dataclass(frozen=True)
class Halving:
    """Successive halving: stop the worst configurations early.

    All configurations train for `first`; the best 1/`factor` of them train `factor` times as long, and so on up to the
    whole budget R.
    first: budget of the first rung, in epochs, steps or core-seconds, as the recipe has it; 1 by default. factor: η, 3
    by default. brackets: True for Hyperband, which also tries longer first rungs; False by default. With S rungs above
    the first, bracket s = S ... 0 has n = ⌈(S+1)/(s+1) η^s⌉ configurations. They begin with R/η^s and are halved among
    themselves. Brackets are filled in the order of configurations; then the first bracket begins again.
    budget, in methods: R. count: number of configurations.
    Source: Karnin, Koren & Somekh 2013; Jamieson & Talwalkar 2016; Li, Jamieson, DeSalvo, Rostamizadeh & Talwalkar
    2018, algorithm 1.

    >>> halving = rnn.sweep.Halving(first=1, factor=3)
    >>> halving.rungs(20), halving.kept(27)
    ([1, 3, 9, 20], 9)
    >>> halving.mapping(), list(halving.divided(27, budget=20))
    ({'first': 1, 'factor': 3}, [Bracket(numbers=range(0, 27), begin=0)])
    >>> hyperband = rnn.sweep.Halving(brackets=True)
    >>> hyperband.sizes(9), [len(bracket.numbers) for bracket in hyperband.divided(20, budget=9)]
    ([9, 5, 3], [9, 5, 3, 3])
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
        """Returns the budgets at which runs are compared; the last is the whole budget."""
        found: list[float] = []
        while self.first * self.factor ** len(found) < budget:
            found.append(self.first * self.factor ** len(found))
        return [*found, budget]

    def kept(self, count: int) -> int:
        """Returns how many of `count` configurations continue."""
        return max(1, count // self.factor)

    def sizes(self, budget: float) -> list[int]:
        """Returns the number of configurations in each bracket; the shortest first rung comes first."""
        top = len(self.rungs(budget)) - 1
        return [-(-(top + 1) * self.factor**s // (s + 1)) for s in range(top, -1, -1)]

    def divided(self, count: int, budget: float) -> Iterator[Bracket]:
        """Yields brackets with `count` configurations in all; the last one may be smaller."""
        if not self.brackets:
            yield Bracket(range(count), 0)
            return
        sizes, start, place = self.sizes(budget), 0, 0
        while start < count:
            end = min(start + sizes[place], count)
            yield Bracket(range(start, end), place)
            start, place = end, (place + 1) % len(sizes)

    def mapping(self) -> dict[str, Any]:
        """Returns the settings as in a recipe's file."""
        return {"first": self.first, "factor": self.factor} | ({"brackets": True} if self.brackets else {})
