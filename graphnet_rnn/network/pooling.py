"""What makes one vector of the outputs of a layer at all steps, for a network with one output for a whole sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.network.lengths import Lengths

__all__ = ["POOLS"]

hide_module(__file__)


def _last(cell: Cell, steps: Sequence[Node], ends: Lengths | None) -> Node:
    return cell.whole(steps[0], steps[-1] if ends is None else ends.last(gn.stack(steps)))


def _mean(cell: Cell, steps: Sequence[Node], ends: Lengths | None) -> Node:
    h = gn.stack(steps)
    if ends is None:
        return gn.mean(h, axis=0)
    count = gn.reshape(gn.cast(gn.maximum(ends.node, 1), h.dtype), (-1, 1))
    return gn.sum(ends.cut(h), axis=0) / count


def _max(cell: Cell, steps: Sequence[Node], ends: Lengths | None) -> Node:
    h = gn.stack(steps)
    if ends is None:
        return gn.max(h, axis=0)
    found = gn.max(ends.cut(h, float(np.finfo(h.dtype).min)), axis=0)
    return gn.where(gn.reshape(ends.node > 0, (-1, 1)), found, 0)


#: name -> function of a layer, its outputs (batch, units) at each step, and where cases end; gives (batch, units).
POOLS: dict[str, Callable[[Cell, Sequence[Node], Lengths | None], Node]] = {
    "last": _last,
    "mean": _mean,
    "max": _max,
}
