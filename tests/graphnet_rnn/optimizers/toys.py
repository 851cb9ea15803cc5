"""Objectives of bare parameters, which have no units: their metric is the identity."""

from __future__ import annotations

from typing import Any

import graphnet_rnn as rnn
from graphnet.graph.node import Array


class Plain(rnn.Objective):
    """With the metric I, so that an optimizer that asks for one steps along the gradient."""

    units = 1000  # type: ignore[assignment]

    def metric(self, w: Array, metric: Any, part: str = "all", draw: int = 0) -> tuple[float, Array, Any]:
        return *self.gradient(w), None

    def solved(self, measured: Any, g: Array) -> Array:
        return g
