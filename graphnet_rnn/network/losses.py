"""What a network's output is judged by, in nats (or squared units): each step, or a sequence as a whole."""

from __future__ import annotations

from collections.abc import Callable

import graphnet as gn
from graphnet.graph.node import Node
from graphnet_rnn.network.ctc.loss import ctc_loss

__all__ = ["LOSSES", "SEQUENCE_LOSSES"]

#: name -> function of (outputs (time, batch, outputs), targets) that gives (time, batch); of (batch, outputs), (batch,).
LOSSES: dict[str, Callable[[Node, Node], Node]] = {
    "softmax": gn.softmax_cross_entropy,
    "sigmoid": lambda o, targets: gn.sum(gn.sigmoid_cross_entropy(o, targets), axis=-1),
    "squared": lambda o, targets: gn.sum(gn.squared_error(o, targets), axis=-1),
}

#: name -> function of (outputs (time, batch, outputs), labels (batch, most), -1 behind the last) that gives (batch,).
SEQUENCE_LOSSES: dict[str, Callable[[Node, Node], Node]] = {"ctc": ctc_loss}
