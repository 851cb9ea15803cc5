"""Sizes that depend on the number of cases: graphs for several numbers are compared, and sizes fitted as a + k n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphnet.errors import UsageError
from graphnet.graph.node import Array, Node
from graphnet.ops.leaf import Parameter
from graphnet.settings import shown

#: The first two are primes that no width of a network equals, so that only the number of cases differs. They give a
#: and k, which must hold for an even and for a small number, too. The file is compared with graphs for more numbers.
CASES = (10007, 10009, 10014, 6)

#: Types of the settings that are compared; the number of a fill is left to the rows of the table.
SETTINGS = (bool, int, float, str, tuple, np.dtype)
FOUND_BY_ROWS = frozenset({"number"})


REMEDY = (
    "so one file cannot hold all batch sizes; export with a fixed batch size (pass nodes, not a function)"
)


class Size(NamedTuple):
    """plus + per_case · n, n the number of cases"""

    per_case: int
    plus: int = 0


#: A fixed size, or one that depends on the number of cases.
Extent = int | Size


def broadcast_extents(shapes: Sequence[Sequence[Extent]]) -> tuple[Extent, ...]:
    """Returns the shape that these shapes broadcast to, without checking that they do."""
    longest = max(map(len, shapes), default=0)
    padded = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((n for n in axis if n != 1), 1) for axis in zip(*padded, strict=True))


class Twins:
    """The nodes of one graph, each with its counterparts in graphs for other numbers of cases.

    cases: the numbers. All may be the same graph: then no size depends on anything.
    Raises UsageError if they do not compute the same.
    """

    def __init__(self, cases: Sequence[int], outputs: Sequence[Node], *others: Sequence[Node]) -> None:
        self.cases = cases
        self._of: dict[Node, tuple[Node, ...]] = {}
        pending = list(zip(outputs, *others, strict=True))
        seen: set[tuple[Node, ...]] = set()
        while pending:
            twins = node, *rest = pending.pop()
            if twins in seen:
                continue
            seen.add(twins)
            for number, other in enumerate(rest, start=1):
                if type(node.op) is not type(other.op) or len(node.inputs) != len(other.inputs):
                    raise UsageError(
                        f"export_onnx: {node.describe()} (made at {node.origin}) is computed in another way for "
                        f"another batch size ({other.describe()}), {REMEDY}{self._hint(number)}"
                    )
                if isinstance(node.op, Parameter) and not np.array_equal(
                    node.value, other.value, equal_nan=True
                ):
                    raise UsageError(
                        f"export_onnx: {node.describe()} (made at {node.origin}) has other values in each call of the "
                        "function; create parameters outside of the function"
                    )
            self._of.setdefault(node, twins)
            for name in vars(node.op).keys() - FOUND_BY_ROWS:
                if isinstance(getattr(node.op, name), SETTINGS):
                    self.merged(node, [getattr(twin.op, name) for twin in twins])
            pending += zip(*(twin.inputs for twin in twins), strict=True)

    def _hint(self, number: int) -> str:
        """Remedy if only the graph for the smallest number of cases differs."""
        least = self.cases[-1] + 1
        return f", or set least={least} if no batch is smaller" if number == len(self.cases) - 1 else ""

    def shape(self, node: Node) -> tuple[Extent, ...]:
        """Returns the node's shape, for any number of cases."""
        found: tuple[Extent, ...] = self.merged(node, [twin.shape for twin in self._of[node]])
        return found

    def setting(self, node: Node, name: str) -> Any:
        """Returns a setting of the node's op, for any number of cases: a number or a tuple."""
        return self.merged(node, [getattr(twin.op, name) for twin in self._of[node]])

    def numbers(self, node: Node) -> list[Any]:
        """Returns the value of a fill for each number of cases."""
        return [getattr(twin.op, "number", 0) for twin in self._of[node]]

    def arrays(self, node: Node) -> list[Array]:
        """Returns the values of a constant for each number of cases."""
        return [twin.value for twin in self._of[node]]

    def merged(self, node: Node, found: Sequence[Any]) -> Any:
        """Returns the common number or tuple, with Size where values differ."""
        one, *others = found
        hint = ""
        if isinstance(one, tuple) and all(
            isinstance(other, tuple) and len(other) == len(one) for other in others
        ):
            return tuple(self.merged(node, each) for each in zip(*found, strict=True))
        if all(one == other for other in others):
            return one
        if all(isinstance(each, (int, np.integer)) for each in found):
            per_case = (others[0] - one) // (self.cases[1] - self.cases[0])
            plus = one - per_case * self.cases[0]
            fits = [each == plus + per_case * count for each, count in zip(found, self.cases, strict=True)]
            if all(fits):
                return Size(int(per_case), int(plus))
            hint = self._hint(len(fits) - 1) if all(fits[:-1]) else ""
        at = ", ".join(
            f"{shown(each, 30)} for {count:,}" for each, count in zip(found, self.cases, strict=True)
        )
        raise UsageError(
            f"export_onnx: {node.describe()} (made at {node.origin}) has {at} cases, which is not linear in the "
            f"batch size, {REMEDY}{hint}"
        )
