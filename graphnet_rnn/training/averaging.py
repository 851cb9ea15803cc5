"""An average of the weights that steps pass: often better than the last ones, and steadier."""

from __future__ import annotations

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.optimizers.vectors import Declared, fused

__all__ = ["average_in"]


def average_in(average: Array, theta: Array, keep: float, step: int) -> None:
    """a ← κ_t a + (1 - κ_t) θ, κ_t = min(κ, 1 - 1/t), in place; step: t, how many there were

    So it is the mean of all, until they are more than 1 / (1 - κ), and what it began with counts for nothing.
    Source: Polyak & Juditsky 1992 (κ = 1).
    """
    _averaged(average, theta, min(keep, 1 - 1 / step))


@fused
def _averaged(average: Node, theta: Node, keep: Node) -> Declared:
    share = gn.cast(keep, average.dtype)
    return {average: share * average + (1 - share) * theta}, []
