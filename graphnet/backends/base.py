"""Interface of a back end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.plan import RunMemory

__all__ = ["Backend", "Program"]


class Program(ABC):
    """A compiled graph. `memory`: the bytes that a run needs, known before running."""

    memory: RunMemory
    #: Whether `run` writes the values of the last outputs to the arrays that they are updates of, and does not return
    #: them (see Backend.build).
    updates_in_place: bool = False

    @abstractmethod
    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs' values. The arrays are those of the graph's inputs, of the right shapes and dtypes.

        Made with check=True, it raises NonFiniteError for the first node that makes a NaN or an infinity.
        """

    def again(self, arrays: Sequence[Array]) -> list[Array]:
        """As `run`, where nothing but the arrays of varying inputs differs from the last call."""
        return self.run(arrays)

    def begin(self, arrays: Sequence[Array], wanted: Sequence[int]) -> list[Array] | None:
        """The outputs at these positions, none of which depends on a varying input; `again` may then follow.

        What stands for the arrays of varying inputs is of no meaning. None where the program cannot do a part of its
        work, or where something went wrong in it: nothing is then ready to be finished.
        """
        return None

    def taken(self, array: Any) -> Any:
        """The array, if it lies already where the program computes and can be read there; else None."""
        return None

    @abstractmethod
    def timed(self, arrays: Sequence[Array]) -> Mapping[Node, float]:
        """Runs, and tells the seconds that each node took; nodes that cost nothing may be left out."""

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The program as what JSON can hold, and arrays. BackendError where no file can hold it."""
        raise BackendError("functions of this back end cannot be stored; compile with backend='numba'.")

    def leaves_by_key(self) -> Mapping[str, Node]:
        """The leaves that the program reads, by the names that their arrays have where it is stored."""
        return {}


class Backend(ABC):
    """Makes programs from graphs."""

    name: str
    #: What it has that some passes are for (see passes.Pass): it compiles loops; its memory is behind caches.
    has: Set[str] = frozenset({"loops"})
    #: True if its memory is not the host's, so that what is computed with over and over should stay there.
    apart: bool = False
    #: True if the number of threads changes no bit of a result.
    deterministic: bool = True

    def missing(self) -> str:
        """Reason why the back end cannot run here, with the remedy; empty if it can."""
        return ""

    def place(self, array: Array) -> Any:
        """A copy of the array where this back end computes. Functions that are given it leave their results there."""
        return np.array(array)

    @abstractmethod
    def build(
        self,
        graph: Graph,
        source: Graph,
        threads: int | None,
        check: bool,
        updated: Sequence[int] | None = None,
    ) -> Program:
        """A program for the graph, which passes made of `source`: errors speak of the user's own nodes.

        It uses at most so many threads; None leaves the choice to it. updated: positions of the inputs whose arrays are
        to have the values of the last outputs. A program may write them itself; else its caller does. If it is not
        None, nothing is called again, and inputs may be read where they lie.
        """

    def rehearse(
        self, graph: Graph, source: Graph, arrays: Sequence[Array], check: bool = False
    ) -> Iterator[tuple[str, list[Array]]]:
        """(which order, the outputs) for orders in which cores may happen to run, one that is always right first.

        All outputs must have the same bits. Work is divided as finely as it can be, one core runs at a time, and memory
        is full of NaN before each run, so that what is read too early is seen. A back end without cores gives nothing.
        """
        return iter(())

    def situation(self) -> str:
        """Everything besides the graph on which programs depend, such as processor and number of cores. Empty if
        programs cannot be cached.
        """
        return ""

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
    ) -> Program:
        """The program that was stored. BackendError if it was made for another machine.

        source: the graph that it is a program of, which tells what went wrong, and some of whose leaves it reads (see
        `own` in files.restored_schedule).
        """
        raise BackendError(f"the {self.name} back end stores no functions")
