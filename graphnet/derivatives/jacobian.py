"""Jacobians: every derivative of an array by an array, as one graph of walks.

A walk back along a unit vector gives a row, a walk forward a column (`backward`, `rop`). Rules of ops know shapes, so
no walk carries several vectors; where walks multiply by the same weights, passes make one product of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphnet.derivatives.gradient import float_nodes, pull_back, push_forward
from graphnet.errors import UsageError
from graphnet.graph.graph import Nodes, ancestors, dependents
from graphnet.graph.node import Node
from graphnet.ops.leaf import fill, zeros
from graphnet.ops.shape import Pad, reshape, stack
from graphnet.system.process import collector_paused

__all__ = ["jacobian"]


def jacobian(output: Node, wrt: Nodes) -> list[Node]:
    """J[i, j] = ∂y_i/∂w_j for each w of `wrt`, of shape y.shape + w.shape; zeros for one that y does not depend on.

    output: a float node y of any shape. wrt: nodes of any shapes, as for `gradient`; the Hessian of a cost is the
    Jacobian of its gradient. It costs as many walks through the graph as y has elements or, if those are fewer, as
    all w together have: for products with a Jacobian, `gn.backward` and `gn.rop` take one.
    Raises ValueAccessError for what is no node, DifferentiationError for one that is no float.
    """
    outputs = float_nodes("jacobian", "output", output, "differentiate")
    if len(outputs) != 1:
        raise UsageError(
            f"jacobian: output must be one node, not a list of {len(outputs)}; ask for the Jacobian of each, or of "
            "their gn.concatenate."
        )
    (y,) = outputs
    targets = float_nodes("jacobian", "wrt", wrt, "differentiate with respect to")
    with collector_paused():
        if sum(w.size for w in targets) < y.size:
            return [_columns(y, w) for w in targets]
        return _rows(y, targets)


def _rows(y: Node, targets: Sequence[Node]) -> list[Node]:
    """By a walk back for each element of y."""
    order = ancestors([y])
    reached = dependents(order, targets)
    rows = [pull_back(order, reached, {y: unit}, targets, None) for unit in _units(y)]
    return [_joined([row[i] for row in rows], 0, y, w) for i, w in enumerate(targets)]


def _columns(y: Node, w: Node) -> Node:
    """By a walk forward for each element of w."""
    order = ancestors([y], stop=[w])
    return _joined([push_forward(order, [y], {w: unit})[0] for unit in _units(w)], y.ndim, y, w)


def _units(node: Node) -> list[Node]:
    """For each of its elements, an array of its shape that is 1 there and 0 elsewhere."""
    one = fill(1, (), node.dtype)
    return [Pad(node.shape, tuple(map(int, at)))(one) for at in np.ndindex(node.shape)]


def _joined(parts: Sequence[Node], axis: int, y: Node, w: Node) -> Node:
    shape = (*y.shape, *w.shape)
    return reshape(stack(parts, axis), shape) if parts else zeros(shape, y.dtype)
