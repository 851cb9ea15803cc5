"""Matrices as others lay them out: (out, in), those of all gates one below the other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.cell.cell import Cell

__all__ = ["stacked"]


def stacked(cell: Cell, names: Iterable[str]) -> Array:
    """The transposed weights of these names, end to end along axis 0: a new array in row order.

    Matrices (in, units) give (gates · units, in); vectors (units,) give (gates · units,).
    """
    return np.ascontiguousarray(np.concatenate([cell.weights[name].value.T for name in names]))
