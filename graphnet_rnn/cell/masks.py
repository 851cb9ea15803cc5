"""Masks: which values an unrolled network drops while it trains."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module

__all__ = ["Masks"]

hide_module(__file__)


@dataclass
class Masks:
    """Inverted dropout: y = x ⊙ m / (1 - p), m = 1 with probability 1 - p, else 0; y = x if not training.

    variational: one mask for all time steps of a place, instead of a new one at each (Gal & Ghahramani 2016).
    recurrent: share of the states' values that are dropped on their way into products; `reached`: whether any was.
    """

    random: gn.RandomSource
    training: bool
    variational: bool = False
    recurrent: float = 0.0
    reached: bool = False
    _kept: dict[Hashable, Node] = field(default_factory=dict, repr=False)

    def drop(self, x: Node, share: float, place: Hashable) -> Node:
        """x with `share` of its values zeroed; place: what tells this mask from the others of a step."""
        if not self.training or not share:
            return x
        key = (place, share, x.shape)
        mask = self._kept.get(key) if self.variational else None
        if mask is None:
            keep = 1 - share
            mask = self._kept[key] = self.random.bernoulli(keep, x.shape, x.dtype) * (1 / keep)
        return x * mask
