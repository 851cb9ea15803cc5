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
        """Like `run`, if only the arrays of varying inputs differ from the last call."""
        return self.run(arrays)

    def begin(self, arrays: Sequence[Array], wanted: Sequence[int]) -> list[Array] | None:
        """The outputs at these positions, none of which depends on a varying input; `again` may then follow.

        The arrays of varying inputs are ignored. None if the program cannot run in parts, or if an error occurred; then
        `again` must not follow.
        """
        return None

    def taken(self, array: Any) -> Any:
        """The array, if it is in the program's memory and can be read in place; else None."""
        return None

    @abstractmethod
    def timed(self, arrays: Sequence[Array]) -> Mapping[Node, float]:
        """Runs, and returns the seconds that each node took; nodes without cost may be left out."""

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The program as JSON-compatible values and arrays. BackendError if it cannot be stored."""
        raise BackendError("functions of this back end cannot be stored; compile with backend='numba'.")

    def leaves_by_key(self) -> Mapping[str, Node]:
        """The leaves that the program reads, by the names of their arrays in a stored program."""
        return {}


class Backend(ABC):
    """Makes programs from graphs."""

    name: str
    #: Features that some passes require (see passes.Pass): it compiles loops; its memory is behind caches.
    has: Set[str] = frozenset({"loops"})
    #: True if its memory is not the host's, so that arrays which are used repeatedly should stay there.
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
        """A program for the graph, which passes made of `source`: errors name the user's nodes in `source`.

        threads: maximum number of threads; None: chosen by the program. updated: positions of the inputs whose arrays
        receive the values of the last outputs. A program may write them itself; else its caller does. If updated is not
        None, `again` is never called, and inputs may be read in place.
        """

    def rehearse(
        self, graph: Graph, source: Graph, arrays: Sequence[Array], check: bool = False
    ) -> Iterator[tuple[str, list[Array]]]:
        """Yields (name of an order, outputs) for possible orders of the cores' work, first an order that is always
        valid.

        All outputs must have the same bits. Work is divided as finely as possible, one core runs at a time, and memory
        is filled with NaN before each run to expose premature reads. A back end without cores yields nothing.
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
        """The stored program. BackendError if it was made for another machine.

        source: the program's graph, used in errors; the program reads some of its leaves (see files.restored_schedule).
        """
        raise BackendError(f"the {self.name} back end cannot store functions; compile with backend='numba'")
