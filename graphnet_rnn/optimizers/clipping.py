"""Limits on a gradient (Lynge 2016, 3.7.1)."""

from __future__ import annotations

import numpy as np

from graphnet.node import Array
from graphnet_rnn.vectors import norm

__all__ = ["clip_by_norm", "clip_by_value"]


def clip_by_norm(gradient: Array, threshold: float) -> Array:
    """g · min(1, threshold / ‖g‖). Source: Pascanu, Mikolov & Bengio 2012; Lynge 2016, eq. 3.66."""
    length = norm(gradient)
    return gradient * gradient.dtype.type(threshold / length) if length > threshold else gradient


def clip_by_value(gradient: Array, limit: float) -> Array:
    """Each g_i truncated to [-limit, limit]. (For truncation at every node, see gn.gradient.)"""
    return np.clip(gradient, -limit, limit)
