"""Lengths of the sequences in a batch, and masks of the padding."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module

#: Scope of inputs that hold lengths; drawings do not repeat them at each time step.
ENDS = "ends"

hide_module(__file__)


class Lengths:
    """inside_tn = t < L_n: the steps t = 0 ... time - 1 that case n has, L_n in 0 ... time (checked when it runs)

    node: int64 (batch,), the lengths. Padded steps read the last step of their case again, or zeros if it has length 0,
    so that padding cannot cause NaN or infinities. Their results are masked.
    """

    def __init__(self, time: int, node: Node) -> None:
        with gn.scope(layer="lengths"):  # one group in drawings
            (batch,) = node.shape
            # A lookup, so that an invalid length raises an error with the input's name and the valid range.
            self.node = gn.take(gn.constant(np.arange(time + 1)), node)
            steps = gn.constant(np.arange(time)[:, None])
            self.inside = steps < self.node
            last = gn.maximum(self.node - 1, 0)
            self._is_last = gn.equal(steps, last)
            self._columns = gn.reshape(self.inside, (time, batch, 1))
            self._any = self.node > 0

    def inside_at(self, t: int) -> Node:
        """(batch, 1): True for the cases that have this time step."""
        return self._columns[t]

    def held(self, x: Node) -> Node:
        """(time, batch) or (time, batch, n): x, with padding replaced by the case's last step."""
        with gn.scope(composite="held"):
            if x.ndim == 2:
                return gn.where(self.inside, x, gn.where(self._any, self.last(x), 0))
            return gn.where(self._columns, x, gn.where(gn.reshape(self._any, (-1, 1)), self.last(x), 0))

    def first(self, x: Node) -> Node:
        """(1, batch) or (1, batch, n): x at the first step, zeros for a case of length 0."""
        return gn.where(self._any if x.ndim == 2 else gn.reshape(self._any, (-1, 1)), x, 0)

    def last(self, x: Node) -> Node:
        """(batch,) or (batch, n): the last step of each case, of x (time, batch) or (time, batch, n)."""
        # A lookup in the rows of all cases would mix cases in gn.per_example_gradients.
        is_last = self._is_last if x.ndim == 2 else gn.reshape(self._is_last, (*self._is_last.shape, 1))
        return gn.sum(gn.where(is_last, x, 0), axis=0)

    def cut(self, x: Node, beyond: Any = 0) -> Node:
        """(time, batch) or (time, batch, n): x, with padding replaced by `beyond`."""
        return gn.where(self.inside if x.ndim == 2 else self._columns, x, beyond)
