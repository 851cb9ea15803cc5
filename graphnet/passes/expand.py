"""Expand: the softmax family, the losses, argmax, products scaled by case and lookups along later axes, in simpler ops.

A compiled back end then needs to know loops and reductions only, and what two of them share (the exponentials of
a loss and of its gradient) is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphnet.dtypes import BOOL, INT64, is_float
from graphnet.graph import Graph
from graphnet.node import Node
from graphnet.ops.broadcast import Sum
from graphnet.ops.elementwise import cast, equal, exp, log, logical_not, logical_or, where
from graphnet.ops.index import OneHot, ScatterAdd, Take, is_by_columns
from graphnet.ops.leaf import constant
from graphnet.ops.linear import BatchMatMul, MatMul, ScaledMatMul, scaled_rows
from graphnet.ops.loss import SoftmaxCrossEntropy, SymbolCrossEntropy
from graphnet.ops.reduce import ArgMax, LogSoftmax, LogSumExp, Max, Min, Softmax, spread
from graphnet.ops.shape import reshape, transpose

__all__ = ["expand"]


def expand(graph: Graph) -> Graph:
    """Replaces each node whose op has a row in EXPANSIONS."""

    def replace(node: Node) -> Node:
        expansion = EXPANSIONS.get(type(node.op))
        return node if expansion is None or not node.size else expansion(node)

    return graph.rewrite(replace)


def _shifted(x: Node, axis: int) -> Node:
    return x - spread(Max((axis,))(x), x, (axis,))


def _softmax(node: Node) -> Node:
    (x,) = node.inputs
    axis = node.op.axis  # type: ignore[attr-defined]
    e = exp(_shifted(x, axis))
    return e / spread(Sum((axis,))(e), x, (axis,))


def _log_softmax_of(x: Node, axis: int) -> Node:
    shifted = _shifted(x, axis)
    return shifted - spread(log(Sum((axis,))(exp(shifted))), x, (axis,))


def _log_softmax(node: Node) -> Node:
    return _log_softmax_of(node.inputs[0], node.op.axis)  # type: ignore[attr-defined]


def _log_sum_exp(node: Node) -> Node:
    (x,) = node.inputs
    axis = node.op.axis  # type: ignore[attr-defined]
    top = Max((axis,))(x)
    top = where(equal(top - top, 0), top, 0)  # beside an infinity the others count for nothing
    return log(Sum((axis,))(exp(x - spread(top, x, (axis,))))) + top


def _symbol_cross_entropy(node: Node) -> Node:
    z, t = node.inputs
    axis = z.ndim - 1
    shifted = _shifted(z, axis)
    right = OneHot(z.shape[axis], BOOL)(t)
    return log(Sum((axis,))(exp(shifted))) - Sum((axis,))(where(right, shifted, 0))


def _softmax_cross_entropy(node: Node) -> Node:
    z, t = node.inputs
    axis = z.ndim - 1
    return -Sum((axis,))(where(equal(t, 0), 0, t * _log_softmax_of(z, axis)))


def _scaled_product(node: Node) -> Node:
    x, weight, u, v = node.inputs
    return Sum((1,))(reshape(_product(scaled_rows(x, u) @ weight), v.shape) * v)


def _take(node: Node) -> Node:
    """Rows of a matrix: along a later axis those of a transposed view, transposed back."""
    x, index = node.inputs
    axis = node.op.axis  # type: ignore[attr-defined]
    if is_by_columns(x, index, axis):
        return node
    if axis:
        return _to_back(_take(Take(0)(_to_front(x, axis, 1), index)), axis, index.ndim)
    if x.ndim == 2:
        return node
    table = reshape(x, (x.shape[0], math.prod(x.shape[1:])))
    return reshape(Take(0)(table, index), node.shape)


def _scatter_add(node: Node) -> Node:
    """Numbers, along the first axis or the columns of a matrix."""
    x, index = node.inputs
    op: ScatterAdd = node.op  # type: ignore[assignment]
    if node.dtype == BOOL:
        return _scatter_add(op(cast(x, INT64), index)) > 0
    if not op.axis or is_by_columns(x, index, op.axis):
        return node
    return _to_back(ScatterAdd(op.size, 0)(_to_front(x, op.axis, index.ndim), index), op.axis, 1)


def _product(node: Node) -> Node:
    """Of truths: how many of a row and a column are both true."""
    if node.dtype != BOOL:
        return node
    return node.op(*(cast(x, INT64) for x in node.inputs)) > 0


def _arg_max(node: Node) -> Node:
    """The first place that holds the maximum; of floats a NaN, which is it then."""
    (x,) = node.inputs
    axis = node.op.axis  # type: ignore[attr-defined]
    wins = equal(x, spread(Max((axis,))(x), x, (axis,)))
    if is_float(x.dtype):
        wins = logical_or(wins, logical_not(equal(x, x)))
    size = x.shape[axis]
    places = reshape(constant(np.arange(size)), [size if i == axis else 1 for i in range(x.ndim)])
    return Min((axis,))(where(wins, places, size))


def _to_front(x: Node, axis: int, count: int) -> Node:
    """`count` axes from `axis` on, moved before all others."""
    order = list(range(x.ndim))
    return transpose(x, (*order[axis : axis + count], *order[:axis], *order[axis + count :]))


def _to_back(x: Node, axis: int, count: int) -> Node:
    """The first `count` axes, moved to `axis`."""
    order = list(range(x.ndim))
    return transpose(x, (*order[count : count + axis], *order[:count], *order[count + axis :]))


EXPANSIONS: dict[type, Callable[[Node], Node]] = {
    ArgMax: _arg_max,
    BatchMatMul: _product,
    LogSoftmax: _log_softmax,
    LogSumExp: _log_sum_exp,
    MatMul: _product,
    ScaledMatMul: _scaled_product,
    ScatterAdd: _scatter_add,
    Take: _take,
    Softmax: _softmax,
    SoftmaxCrossEntropy: _softmax_cross_entropy,
    SymbolCrossEntropy: _symbol_cross_entropy,
}
