"""Limits on a gradient, as nodes (Lynge 2016, 3.7.1)."""

from __future__ import annotations

import graphnet as gn
from graphnet.graph.node import Node

__all__ = ["clip_by_norm", "clip_by_value", "norm"]


def norm(x: Node) -> Node:
    """‖x‖₂, summed in float64"""
    wide = gn.cast(x, "float64")
    return gn.sqrt(gn.sum(wide * wide))


def clip_by_norm(gradient: Node, threshold: float | Node) -> Node:
    """g · min(1, threshold / ‖g‖). Source: Pascanu, Mikolov & Bengio 2012; Lynge 2016, eq. 3.66."""
    length = norm(gradient)
    share = gn.where(gn.greater(length, threshold), threshold / length, 1.0)
    return gradient * gn.cast(share, gradient.dtype)


def clip_by_value(gradient: Node, limit: float | Node) -> Node:
    """Each g_i truncated to [-limit, limit]. (For truncation at every node, see gn.gradient.)"""
    return gn.minimum(gn.maximum(gradient, -limit), limit)
