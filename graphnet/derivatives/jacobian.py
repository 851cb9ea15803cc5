"""Jacobians: all derivatives of an array by an array, as one graph.

A backward walk from a unit vector gives a row, a forward walk a column (`backward`, `rop`). Each walk carries one
vector, since rules of ops depend on shapes. Where walks multiply by the same weights, passes join the products.
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


def jacobian(output: Node, wrt: Nodes) -> list[Node]:
    """J[i, j] = ∂y_i/∂w_j for each w of `wrt`, of shape y.shape + w.shape; zeros for one that y does not depend on.

    output: a float node y of any shape. wrt: nodes of any shapes, as for `gradient`. The Hessian of a cost is the
    Jacobian of its gradient. The cost is one walk through the graph for each element of y, or of all w together if
    these are fewer. For products with a Jacobian, `gn.backward` and `gn.rop` need only one walk.
    Raises ValueAccessError for objects that are not nodes, DifferentiationError for nodes that are not floats.

    >>> w = gn.parameter([1.0, 2.0])
    >>> (J,) = gn.jacobian(w * w, [w])
    >>> gn.compile(J)()[0].tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    outputs = float_nodes("jacobian", "output", output, "differentiate")
    if len(outputs) != 1:
        raise UsageError(
            f"jacobian: output must be one node, not a list of {len(outputs)}; call jacobian for each, or for their "
            "gn.concatenate."
        )
    (y,) = outputs
    targets = float_nodes("jacobian", "wrt", wrt, "differentiate with respect to")
    with collector_paused():
        if sum(w.size for w in targets) < y.size:
            return [_columns(y, w) for w in targets]
        return _rows(y, targets)


def _rows(y: Node, targets: Sequence[Node]) -> list[Node]:
    order = ancestors([y])
    reached = dependents(order, targets)
    rows = [pull_back(order, reached, {y: unit}, targets, None) for unit in _units(y)]
    return [_joined([row[i] for row in rows], 0, y, w) for i, w in enumerate(targets)]


def _columns(y: Node, w: Node) -> Node:
    order = ancestors([y], stop=[w])
    return _joined([push_forward(order, [y], {w: unit})[0] for unit in _units(w)], y.ndim, y, w)


def _units(node: Node) -> list[Node]:
    one = fill(1, (), node.dtype)
    return [Pad(node.shape, tuple(map(int, at)))(one) for at in np.ndindex(node.shape)]


def _joined(parts: Sequence[Node], axis: int, y: Node, w: Node) -> Node:
    shape = (*y.shape, *w.shape)
    return reshape(stack(parts, axis), shape) if parts else zeros(shape, y.dtype)
