"""Lengths: where the sequences of a batch end, so that what fills them up to the longest reaches nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module

__all__ = ["ENDS", "Lengths"]

#: The label of a scope whose inputs say where cases end: pictures do not draw them at each step.
ENDS = "ends"

hide_module(__file__)


class Lengths:
    """inside_tn = t < L_n: the steps t = 0 ... time - 1 that case n has, L_n in 0 ... time (checked when it runs)

    node: int64 (batch,). A step that a case has not reads its last one again, zeros if it has none: whatever its
    equations are, they meet no numbers there that they would not meet otherwise, and padding is not even read. What
    they make of it is left out.
    """

    def __init__(self, time: int, node: Node) -> None:
        with gn.scope(layer="lengths"):  # pictures keep it together
            (batch,) = node.shape
            # A lookup, whose error names the input and the lengths that there may be.
            self.node = gn.take(gn.constant(np.arange(time + 1)), node)
            steps = gn.constant(np.arange(time)[:, None])
            self.inside = steps < self.node
            last = gn.maximum(self.node - 1, 0)
            self._is_last = gn.equal(steps, last)
            self._columns = gn.reshape(self.inside, (time, batch, 1))
            self._any = self.node > 0

    def inside_at(self, t: int) -> Node:
        """(batch, 1): which cases have this step."""
        return self._columns[t]

    def held(self, x: Node) -> Node:
        """(time, batch) or (time, batch, n): x, its last step again where a case has ended."""
        with gn.scope(composite="held"):
            if x.ndim == 2:
                return gn.where(self.inside, x, gn.where(self._any, self.last(x), 0))
            return gn.where(self._columns, x, gn.where(gn.reshape(self._any, (-1, 1)), self.last(x), 0))

    def first(self, x: Node) -> Node:
        """(1, batch) or (1, batch, n): x at the first step, zeros for a case that has none."""
        return gn.where(self._any if x.ndim == 2 else gn.reshape(self._any, (-1, 1)), x, 0)

    def last(self, x: Node) -> Node:
        """(batch,) or (batch, n): the last step of each case, of x (time, batch) or (time, batch, n)."""
        # No lookup among the rows of all cases, which would mix them for gn.per_example_gradients.
        is_last = self._is_last if x.ndim == 2 else gn.reshape(self._is_last, (*self._is_last.shape, 1))
        return gn.sum(gn.where(is_last, x, 0), axis=0)

    def cut(self, x: Node, beyond: Any = 0) -> Node:
        """(time, batch) or (time, batch, n): x, and something else where a case has ended."""
        return gn.where(self.inside if x.ndim == 2 else self._columns, x, beyond)
