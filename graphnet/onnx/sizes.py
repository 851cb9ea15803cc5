"""Sizes that depend on the number of cases: a graph is made twice, for two numbers, and what differs is a + k n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphnet.errors import UsageError
from graphnet.graph.node import Array, Node

__all__ = ["CASES", "Extent", "Pairs", "Size", "broadcast_extents"]

#: Primes: no width of a network is equal to one of them, so that nothing but the number of cases differs.
CASES = (10007, 10009)


#: What settings of ops are compared, and what is left to the rows of the table: the number of a fill.
SETTINGS = (bool, int, float, str, tuple, np.dtype)
FOUND_BY_ROWS = frozenset({"number"})


class Size(NamedTuple):
    """plus + per_case · n, n the number of cases"""

    per_case: int
    plus: int = 0


#: A size that is known, or one that depends on the number of cases.
Extent = int | Size


def broadcast_extents(shapes: Sequence[Sequence[Extent]]) -> tuple[Extent, ...]:
    """What these shapes broadcast to, aligned from the right; that they fit is known."""
    longest = max(map(len, shapes), default=0)
    padded = [(1,) * (longest - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((n for n in axis if n != 1), 1) for axis in zip(*padded, strict=True))


class Pairs:
    """The nodes of one graph, each with what it is in the other, which was made for another number of cases.

    Both may be the same graph: then no size depends on anything. Raises UsageError where they do not compute the same.
    """

    def __init__(self, outputs: Sequence[Node], others: Sequence[Node]) -> None:
        self.other: dict[Node, Node] = {}
        pending = list(zip(outputs, others, strict=True))
        while pending:
            node, other = pending.pop()
            if node in self.other:
                continue
            if type(node.op) is not type(other.op) or len(node.inputs) != len(other.inputs):
                raise UsageError(
                    f"export_onnx: {node.describe()} (made at {node.origin}) is computed otherwise where there are "
                    f"more cases ({other.describe()}), so no file can be for any number of them; give the nodes of a "
                    "fixed number, or let the equations not depend on it."
                )
            self.other[node] = other
            for name in vars(node.op).keys() - FOUND_BY_ROWS:
                if isinstance(getattr(node.op, name), SETTINGS):
                    self.setting(node, name)
            pending += zip(node.inputs, other.inputs, strict=True)

    def shape(self, node: Node) -> tuple[Extent, ...]:
        """The node's shape, for any number of cases."""
        found: tuple[Extent, ...] = self.merged(node, node.shape, self.other[node].shape)
        return found

    def setting(self, node: Node, name: str) -> Any:
        """A setting of its op, for any number of cases: numbers, and tuples of these."""
        return self.merged(node, getattr(node.op, name), getattr(self.other[node].op, name))

    def array(self, node: Node) -> tuple[Array, Array]:
        """What a constant holds in both graphs."""
        return node.value, self.other[node].value

    def merged(self, node: Node, one: Any, other: Any) -> Any:
        """A number or a tuple that both have, with sizes where they differ."""
        if isinstance(one, tuple):
            return tuple(self.merged(node, a, b) for a, b in zip(one, other, strict=True))
        if one == other:
            return one
        whole = isinstance(one, (int, np.integer)) and isinstance(other, (int, np.integer))
        per_case, rest = divmod(other - one, CASES[1] - CASES[0]) if whole else (0, 1)
        if rest:
            raise UsageError(
                f"export_onnx: {node.describe()} (made at {node.origin}) has {one!r:.40} where there are {CASES[0]} "
                f"cases and {other!r:.40} where there are {CASES[1]}, so no file can be for any number of them; give "
                "the nodes of a fixed number, or let the equations not depend on it."
            )
        return Size(int(per_case), int(one - per_case * CASES[0]))
