"""Losses in nats (or squared units) of each time step or of a whole sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module
from graphnet.ops.loss import sigmoid_cross_entropy, softmax_cross_entropy, squared_error
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.network.ctc.loss import ctc_loss
from graphnet_rnn.network.lengths import Lengths

#: name -> function of (outputs, targets), both (..., outputs), that returns the losses of single values, to be summed.
VALUE_LOSSES: dict[str, Callable[[Node, Node], Node]] = {
    "sigmoid": sigmoid_cross_entropy,
    "squared": squared_error,
}


def _added(name: str) -> Callable[[Node, Node], Node]:
    return lambda o, targets: gn.sum(VALUE_LOSSES[name](o, targets), axis=-1)


#: name -> function of (outputs (time, batch, outputs), targets) that returns (time, batch); without time, (batch,).
LOSSES: dict[str, Callable[[Node, Node], Node]] = {
    "softmax": softmax_cross_entropy,
    **{name: _added(name) for name in VALUE_LOSSES},
}

#: name -> function of (outputs (time, batch, outputs), labels (batch, maximum) padded by -1, lengths (batch,) or None)
#: that returns (batch,).
SEQUENCE_LOSSES: dict[str, Callable[[Node, Node, Node | None], Node]] = {
    "ctc": lambda o, labels, lengths: ctc_loss(o, labels, lengths=lengths)
}


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


#: name -> function of a layer, its outputs (batch, units) at each step, and the lengths, that returns (batch, units).
POOLS: dict[str, Callable[[Cell, Sequence[Node], Lengths | None], Node]] = {
    "last": _last,
    "mean": _mean,
    "max": _max,
}
