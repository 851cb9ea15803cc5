"""Masks: dropout in an unrolled network."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module

hide_module(__file__)


@dataclass
class Masks:
    """Inverted dropout: y = x ⊙ m / (1 - p), m = 1 with probability 1 - p, else 0; y = x if not training.

    variational: one mask for all time steps of a place, instead of a new one at each (Gal & Ghahramani 2016).
    recurrent: dropout rate of states in products; `reached`: True once a product has used it.
    """

    random: gn.RandomSource
    training: bool
    variational: bool = False
    recurrent: float = 0.0
    reached: bool = False
    _kept: dict[Hashable, Node] = field(default_factory=dict, repr=False)

    def drop(self, x: Node, share: float, place: Hashable) -> Node:
        """Returns x with dropout of rate `share`; place: key of the mask within a step."""
        if not self.training or not share:
            return x
        key = (place, share, x.shape)
        mask = self._kept.get(key) if self.variational else None
        if mask is None:
            keep = 1 - share
            of_all_steps = (
                {"time": None, "layer": None, "cell": None, "part": None} if self.variational else {}
            )
            with gn.scope(**of_all_steps):
                mask = self._kept[key] = self.random.bernoulli(keep, x.shape, x.dtype) * (1 / keep)
        return x * mask
