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
        (batch,) = node.shape
        # A lookup, whose error names the input and the lengths that there may be.
        self.node = gn.take(gn.constant(np.arange(time + 1)), node)
        steps = gn.constant(np.arange(time)[:, None])
        self.inside = steps < self.node
        last = gn.maximum(self.node - 1, 0)
        self._rows = gn.minimum(steps, last) * batch + gn.constant(np.arange(batch))
        self._last = last * batch + gn.constant(np.arange(batch))
        self._columns = gn.reshape(self.inside, (time, batch, 1))
        self._any = gn.reshape(self.node > 0, (1, batch))

    def inside_at(self, t: int) -> Node:
        """(batch, 1): which cases have this step."""
        return self._columns[t]

    def held(self, x: Node) -> Node:
        """(time, batch) or (time, batch, n): x, its last step again where a case has ended."""
        there = self._any if x.ndim == 2 else gn.reshape(self._any, (1, -1, 1))
        return gn.where(there, gn.reshape(x, (-1, *x.shape[2:]))[self._rows], 0)

    def last(self, x: Node) -> Node:
        """(batch, ...): the last step of each case, of x (time, batch, ...)."""
        return gn.reshape(x, (-1, *x.shape[2:]))[self._last]

    def cut(self, x: Node, beyond: Any = 0) -> Node:
        """(time, batch) or (time, batch, n): x, and something else where a case has ended."""
        return gn.where(self.inside if x.ndim == 2 else self._columns, x, beyond)
