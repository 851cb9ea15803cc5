"""A gradient that is known already, as a guarded step asks for it."""

from __future__ import annotations

from typing import Any

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.optimizers.first_order import FirstOrder

__all__ = ["KnownGradient", "first_order"]


class KnownGradient:
    """A loss and its gradient, known already, as an optimizer asks for them."""

    def __init__(self, network: Network, loss: float, gradient: Array) -> None:
        self.network, self.found = network, (loss, gradient)

    def gradient(self, w: Array) -> tuple[float, Array]:
        """What was given; w is where it was taken."""
        return self.found

    def set(self, w: Array) -> None:
        """Gives the network's parameters the values of the vector."""
        self.network.theta = w

    def explain_non_finite(self) -> None:
        """Nothing is known of where it came from."""


def first_order(who: str, optimizer: Any) -> FirstOrder:
    """The optimizer, if it makes do with one gradient a step; else UsageError, for `who` asks."""
    if not isinstance(optimizer, FirstOrder):
        raise UsageError(
            f"{who}: optimizer must be one of first order, e.g. rnn.Adam(rate=0.001), not {optimizer!r:.60}; others "
            "look at a batch more than once."
        )
    return optimizer
