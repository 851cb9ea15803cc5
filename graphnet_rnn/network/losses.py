"""What a network's output is judged by, in nats (or squared units): each step, or a sequence as a whole."""

from __future__ import annotations

from collections.abc import Callable

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.ops.loss import sigmoid_cross_entropy, softmax_cross_entropy, squared_error
from graphnet_rnn.network.ctc.loss import ctc_loss

__all__ = ["LOSSES", "SEQUENCE_LOSSES", "VALUE_LOSSES"]

#: name -> function of (outputs, targets), both (..., outputs), that gives the loss of each value, which are added up.
VALUE_LOSSES: dict[str, Callable[[Node, Node], Node]] = {
    "sigmoid": sigmoid_cross_entropy,
    "squared": squared_error,
}


def _added(name: str) -> Callable[[Node, Node], Node]:
    return lambda o, targets: gn.sum(VALUE_LOSSES[name](o, targets), axis=-1)


#: name -> function of (outputs (time, batch, outputs), targets) that gives (time, batch); without time, (batch,).
LOSSES: dict[str, Callable[[Node, Node], Node]] = {
    "softmax": softmax_cross_entropy,
    **{name: _added(name) for name in VALUE_LOSSES},
}

#: name -> function of (outputs (time, batch, outputs), labels (batch, most), -1 behind the last, lengths (batch,) or
#: None) that gives (batch,).
SEQUENCE_LOSSES: dict[str, Callable[[Node, Node, Node | None], Node]] = {
    "ctc": lambda o, labels, lengths: ctc_loss(o, labels, lengths=lengths)
}
