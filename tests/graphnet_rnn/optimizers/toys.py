"""Objectives of bare parameters, which have no units: their metric is the identity."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.riemannian.blocks import Solver


class Plain(rnn.Objective):
    """With the metric I, so that an optimizer that asks for one steps along the gradient."""

    units = 1000  # type: ignore[assignment]

    def metric(self, w: Array, metric: Any, part: str = "all", draw: int = 0) -> tuple[float, Array, Array]:
        return *self.gradient(w), np.ones(1)

    def metric_size(self, metric: Any, part: str = "all") -> int:
        return 1

    def metric_solver(self, metric: Any, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        return Solver(lambda g: np.asarray(g, np.float64) / (numbers + damping), 1.0)
