"""Objectives of bare parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.riemannian.blocks import Solver


class Plain(rnn.Objective):
    """With the metric I, so that an optimizer that asks for one steps along the gradient."""

    units = 1000

    def metric(self, w: Array, metric: Any, part: str = "all", draw: int = 0) -> tuple[float, Array, Array]:
        return *self.gradient(w), np.ones(1)

    def metric_size(self, metric: Any, part: str = "all") -> int:
        return 1

    def metric_solver(self, metric: Any, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        return Solver(lambda g: np.asarray(g, np.float64) / (numbers + damping), 1.0)


def rosenbrock() -> Plain:
    """(1 - x)² + 100 (y - x²)², from (-1.2, 1), as squared errors."""
    p = gn.parameter(np.array([-1.2, 1.0]), name="p")
    x, y = p[0], p[1]
    return Plain(gn.sum(gn.squared_error(gn.stack([1 - x, 10 * (y - x**2)]), np.zeros(2))), [p])


H = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
CENTRE = np.array([1.0, -2.0, 0.5])


class Quadratic:
    """½ (w - c)ᵀ H (w - c)"""

    def gradient(self, w: Array) -> tuple[float, Array]:
        g = H.astype(w.dtype) @ (w - CENTRE.astype(w.dtype))
        return float((w - CENTRE) @ g / 2), g
