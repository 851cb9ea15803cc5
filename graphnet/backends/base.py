"""What a back end must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from graphnet.node import Array
from graphnet.plan import Plan

__all__ = ["Backend", "Observer", "Program"]

#: Called with (position of the node in the plan, its value, seconds) after each node.
Observer = Callable[[int, Array, float], None]


class Program(ABC):
    """A compiled plan."""

    @abstractmethod
    def run(self, arrays: Sequence[Array], observer: Observer | None = None) -> list[Array]:
        """The outputs' values. The arrays are those of the graph's inputs, of the right shapes and dtypes.

        With an observer, it is told each node's value and time, in the order of the plan.
        """


class Backend(ABC):
    """Makes programs from plans."""

    name: str

    @abstractmethod
    def build(
        self, plan: Plan, inputs: Sequence[int], outputs: Sequence[int], threads: int | None
    ) -> Program:
        """A program; `inputs` and `outputs` are positions in the plan (-1: an input that nothing reads)."""
