"""What a network's output is judged by: one value in nats (or squared units) for each case and step."""

from __future__ import annotations

from collections.abc import Callable

import graphnet as gn
from graphnet.node import Node

__all__ = ["LOSSES"]

#: name -> function of (outputs (time, batch, outputs), targets) that gives (time, batch).
LOSSES: dict[str, Callable[[Node, Node], Node]] = {
    "softmax": gn.softmax_cross_entropy,
    "sigmoid": lambda o, targets: gn.sum(gn.sigmoid_cross_entropy(o, targets), axis=2),
    "squared": lambda o, targets: gn.sum(gn.squared_error(o, targets), axis=2),
}
