"""Checks of the triples (a, h, μ) of structural damping, see gauss_newton_product."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphnet.errors import UsageError
from graphnet.graph.node import Node
from graphnet.settings import listed, shown


def damping_of(entries: Any) -> list[tuple[Node, Node, Any]]:
    """Returns the triples; raises UsageError unless h is computed from a, and μ >= 0."""
    return [_damping(entry) for entry in listed("gauss_newton_product: damping", entries, "(a, h, μ)")]


def _damping(entry: Any) -> tuple[Node, Node, Any]:
    if not (
        isinstance(entry, (tuple, list)) and len(entry) == 3 and all(isinstance(n, Node) for n in entry[:2])
    ):
        raise UsageError(
            f"gauss_newton_product: damping must hold triples (a, h, μ) of two nodes and a "
            f"number, not {shown(entry, 80)}"
        )
    a, h, weight = entry
    if not _is_computed_from(h, a):
        raise UsageError(
            f"gauss_newton_product: damping: h = {h.describe()} (made at {h.origin}) is not computed from a = "
            f"{a.describe()} (made at {a.origin})"
        )
    if isinstance(weight, Node):
        return a, h, weight
    try:
        numbers = np.asarray(weight, h.dtype)
    except (TypeError, ValueError):
        numbers = np.array(-1.0)
    if not (numbers >= 0).all() or not np.isfinite(numbers).all():
        raise UsageError(
            f"gauss_newton_product: damping: μ must be a node, or finite numbers >= 0, not {shown(weight)}"
        )
    return a, h, numbers


def _is_computed_from(h: Node, a: Node) -> bool:
    """Looks only at nodes that are newer than a, not at the whole past of a state."""
    seen, pending = {h}, [h]
    while pending:
        node = pending.pop()
        if node is a:
            return True
        newer = {x for x in node.inputs if x.serial >= a.serial} - seen
        seen |= newer
        pending += newer
    return False
