"""Reductions, and functions that normalize over an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import ShapeError, table_of_inputs
from graphnet.graph.dtypes import FLOAT64, INT64, is_float
from graphnet.graph.node import Array, Dtype, Node, Op, Shape, shared
from graphnet.ops.broadcast import Reduction, Sum, broadcast_to, summed
from graphnet.ops.elementwise import cast, equal, exp, log, logical_not, logical_or, where
from graphnet.ops.leaf import as_node, constant, zeros
from graphnet.ops.shape import concatenate, normalize_axes, normalize_axis, reshape, slice_along
from graphnet.settings import yes_or_no


def spread(reduced: Node, like: Node, axes: Sequence[int]) -> Node:
    """Broadcasts a reduced node over the axes that it lost."""
    kept = [1 if i in axes else n for i, n in enumerate(like.shape)]
    return broadcast_to(reshape(reduced, kept), like.shape)


@dataclass(frozen=True, eq=False)
class Max(Reduction):
    """y = max x over some axes; equal maxima share the derivative equally"""

    how: ClassVar[str] = "max"
    symbol: ClassVar[str] = "max"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        if any(x.shape[i] == 0 for i in self.axes):
            raise ShapeError(
                f"{self.name}: an axis of size 0 has no {self.symbol}imum." + table_of_inputs(inputs)
            )
        return Reduction.infer(self, *inputs)

    def forward(self, x: Array) -> Array:
        return x.max(axis=self.axes)

    def shares(self, y: Node, x: Node) -> Node:
        winners = cast(equal(x, spread(y, x, self.axes)), y.dtype)
        return winners / spread(Sum(self.axes)(winners), x, self.axes)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (spread(gy, x, self.axes) * self.shares(y, x),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return Sum(self.axes)(rx * self.shares(y, x))


@dataclass(frozen=True, eq=False)
class Min(Max):
    """y = min x over some axes; equal minima share the derivative equally"""

    how: ClassVar[str] = "min"
    symbol: ClassVar[str] = "min"

    def forward(self, x: Array) -> Array:
        return x.min(axis=self.axes)


@dataclass(frozen=True, eq=False)
class ArgMax(Op):
    """y = the first index of the largest x along an axis; no derivative passes"""

    axis: int = -1
    symbol: ClassVar[str] = "argmax"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        if x.shape[self.axis] == 0:
            raise ShapeError("ArgMax: an axis of size 0 has no maximum." + table_of_inputs(inputs))
        return (*x.shape[: self.axis], *x.shape[self.axis + 1 :]), INT64

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0 if self.axis > 0 else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return (axis + (axis >= self.axis % inputs[0].ndim),)

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        """Writes it as the first position of the maximum; for floats a NaN counts as the maximum."""
        (x,) = inputs
        axis = self.axis
        wins = equal(x, spread(Max((axis,))(x), x, (axis,)))
        if is_float(x.dtype):
            wins = logical_or(wins, logical_not(equal(x, x)))
        size = x.shape[axis]
        places = reshape(constant(np.arange(size)), [size if i == axis else 1 for i in range(x.ndim)])
        return Min((axis,))(where(wins, places, size))

    def forward(self, x: Array) -> Array:
        return x.argmax(axis=self.axis)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (zeros(x.shape, x.dtype),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return zeros(y.shape, rx.dtype)


@dataclass(frozen=True, eq=False)
class CumSum(Op):
    """y[t] = Σ_{s ≤ t} x[s] along an axis, or Σ_{s ≥ t} from its end: each is the other's transpose"""

    axis: int = 0
    reverse: bool = False
    symbol: ClassVar[str] = "cumsum"
    zero_if: ClassVar[str] = "all"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        return x.shape, x.dtype

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0 if self.axis > 0 else None

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        """Sums of 1, 2, 4, ... terms: log n parallel sweeps instead of n dependent sums (Hillis, Steele).

        Rounding errors grow with log n, as in a pairwise sum.
        """

        def between(start: int, stop: int) -> Node:
            return slice_along(x, self.axis, (start, stop, 1))

        (x,) = inputs
        size, step = x.shape[self.axis], 1
        while step < size:
            added = between(0, size - step) + between(step, size)
            parts = [added, between(size - step, size)] if self.reverse else [between(0, step), added]
            x, step = concatenate(parts, self.axis), 2 * step
        return x

    def forward(self, x: Array) -> Array:
        if self.reverse:
            return np.flip(np.cumsum(np.flip(x, self.axis), axis=self.axis, dtype=x.dtype), self.axis)
        return np.cumsum(x, axis=self.axis, dtype=x.dtype)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (shared(CumSum, self.axis, not self.reverse)(gy),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


def shifted(x: Array, axis: int) -> Array:
    """Returns x minus its maximum over the axis; where that is infinite, the whole row becomes NaN."""
    return np.asarray(x - x.max(axis=axis, keepdims=True))


def shifted_node(x: Node, axis: int) -> Node:
    """Returns `shifted`, built of nodes."""
    return x - spread(Max((axis,))(x), x, (axis,))


def log_softmax_nodes(x: Node, axis: int) -> Node:
    """Returns x_k - log Σ_j exp(x_j) along an axis, built of nodes."""
    from_top = shifted_node(x, axis)
    return from_top - spread(log(Sum((axis,))(exp(from_top))), x, (axis,))


class _OverAxis(Op):
    axis: int

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0 if self.axis > 0 else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return (None if axis == self.axis % y.ndim else axis,)

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        (x,) = Op.prepare(self, inputs)
        return (x if is_float(x.dtype) else cast(x, FLOAT64),)

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        if x.shape[self.axis] == 0:
            raise ShapeError(
                f"{self.name}: axis {self.axis} is empty: nothing to normalize over."
                + table_of_inputs(inputs)
            )
        return x.shape, x.dtype


@dataclass(frozen=True, eq=False)
class Softmax(_OverAxis):
    """y_k = exp(x_k) / Σ_j exp(x_j) along an axis"""

    axis: int = -1
    symbol: ClassVar[str] = "softmax"

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        (x,) = inputs
        e = exp(shifted_node(x, self.axis))
        return e / spread(Sum((self.axis,))(e), x, (self.axis,))

    def forward(self, x: Array) -> Array:
        e = np.exp(shifted(x, self.axis))
        return e / summed(e, (self.axis,), keepdims=True)

    def jacobian_product(self, u: Node, y: Node) -> Node:
        weighted = u * y
        return weighted - y * spread(Sum((self.axis,))(weighted), y, (self.axis,))

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (self.jacobian_product(gy, y),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self.jacobian_product(rx, y)


@dataclass(frozen=True, eq=False)
class LogSoftmax(_OverAxis):
    """y_k = x_k - log Σ_j exp(x_j) along an axis"""

    axis: int = -1
    symbol: ClassVar[str] = "log softmax"

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        return log_softmax_nodes(inputs[0], self.axis)

    def forward(self, x: Array) -> Array:
        x = shifted(x, self.axis)
        return x - np.log(summed(np.exp(x), (self.axis,), keepdims=True))

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (gy - exp(y) * spread(Sum((self.axis,))(gy), y, (self.axis,)),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return rx - spread(Sum((self.axis,))(exp(y) * rx), y, (self.axis,))


@dataclass(frozen=True, eq=False)
class LogSumExp(_OverAxis):
    """y = log Σ_j exp(x_j) along an axis, which disappears"""

    axis: int = -1
    symbol: ClassVar[str] = "log Σ exp"

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        (x,) = inputs
        axis = self.axis
        top = Max((axis,))(x)
        top = where(equal(top - top, 0), top, 0)  # if a term is infinite, all others vanish
        return log(Sum((axis,))(exp(x - spread(top, x, (axis,))))) + top

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        shape, dtype = _OverAxis.infer(self, *inputs)
        return (*shape[: self.axis], *shape[self.axis + 1 :]), dtype

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return (axis + (axis >= self.axis % inputs[0].ndim),)

    def forward(self, x: Array) -> Array:
        top = x.max(axis=self.axis, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)  # if a term is infinite, all others vanish
        with np.errstate(divide="ignore"):  # log 0 = -inf is the right answer for an all -inf row
            total = summed(np.exp(x - top), (self.axis,), keepdims=True)
            return np.asarray((np.log(total) + top).squeeze(self.axis))

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (spread(gy, x, (self.axis,)) * Softmax(self.axis)(x),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return Sum((self.axis,))(rx * Softmax(self.axis)(x))


# -- the functions that users call -----------------------------------------------------------


def _with_dims(reduced: Node, like: Node, axes: Sequence[int], keepdims: bool) -> Node:
    if not yes_or_no("keepdims", keepdims, "; pass several axes as a tuple: axis=(0, 1)"):
        return reduced
    return reshape(reduced, [1 if i in axes else n for i, n in enumerate(like.shape)])


def _wide(x: Any) -> Node:
    """Casts short integers and booleans to 64 bits, so that their sums do not wrap."""
    node = as_node(x)
    if node.dtype.kind in "biu" and node.dtype.itemsize < INT64.itemsize:
        return cast(node, "uint64" if node.dtype.kind == "u" else INT64)
    return node


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Node:
    """y = Σ x over one axis, several, or (None) all.

    x: node or array; short integers and booleans are added in 64 bits. axis: one axis, a tuple of axes, or None
    (default) for all. keepdims: True keeps the reduced axes with size 1.

    >>> gn.compile(gn.sum([[1.0, 2.0], [3.0, 4.0]], axis=0))()[0].tolist()
    [4.0, 6.0]
    """
    node = _wide(x)
    axes = normalize_axes(axis, node.ndim, "Sum")
    return _with_dims(shared(Sum, axes)(node) if axes else node, node, axes, keepdims)


def cumsum(x: Any, axis: int, reverse: bool = False) -> Node:
    """y[t] = Σ_{s ≤ t} x[s] along an axis; with reverse=True, Σ_{s ≥ t}.

    x: node or array; short integers and booleans are added in 64 bits. axis: the axis to sum along. reverse: True sums
    from the end, False by default.

    >>> gn.compile(gn.cumsum([1.0, 2.0, 3.0], axis=0))()[0].tolist()
    [1.0, 3.0, 6.0]
    """
    node = _wide(x)
    return shared(CumSum, normalize_axis(axis, node.ndim, "CumSum"), yes_or_no("cumsum: reverse", reverse))(
        node
    )


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Node:
    """y = Σ x / n over one axis, several, or (None) all.

    x: node or array; integers become float64. axis: one axis, a tuple of axes, or None (default) for all. keepdims:
    True keeps the reduced axes with size 1.
    Raises ShapeError if n = 0.

    >>> gn.compile(gn.mean([[1.0, 2.0], [3.0, 4.0]], axis=1))()[0].tolist()
    [1.5, 3.5]
    """
    node = as_node(x)
    if not is_float(node.dtype):
        node = cast(node, FLOAT64)
    axes = normalize_axes(axis, node.ndim, "Mean")
    count = 1
    for i in axes:
        count *= node.shape[i]
    if not count:
        raise ShapeError("Mean: an axis of size 0 has no mean." + table_of_inputs([node]))
    total = shared(Sum, axes)(node) if axes else node
    return _with_dims(total * (1 / count), node, axes, keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Node:
    """y = max x over one axis, several, or (None) all; equal maxima share the derivative equally.

    x: node or array. axis: one axis, a tuple of axes, or None (default) for all. keepdims: True keeps the reduced axes
    with size 1.
    Raises ShapeError for an axis of size 0.

    >>> gn.compile(gn.max([[1.0, 2.0], [3.0, 4.0]], axis=1))()[0].tolist()
    [2.0, 4.0]
    """
    node = as_node(x)
    axes = normalize_axes(axis, node.ndim, "Max")
    return _with_dims(Max(axes)(node) if axes else node, node, axes, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Node:
    """y = min x over one axis, several, or (None) all; equal minima share the derivative equally.

    x: node or array. axis: one axis, a tuple of axes, or None (default) for all. keepdims: True keeps the reduced axes
    with size 1.
    Raises ShapeError for an axis of size 0.

    >>> gn.compile(gn.min([[1.0, 2.0], [3.0, 4.0]], axis=1))()[0].tolist()
    [1.0, 3.0]
    """
    node = as_node(x)
    axes = normalize_axes(axis, node.ndim, "Min")
    return _with_dims(Min(axes)(node) if axes else node, node, axes, keepdims)


def argmax(x: Any, axis: int = -1) -> Node:
    """y = the first index of the largest x along an axis; an int64 node without derivatives.

    x: node or array. axis: the axis to search, the last by default.

    >>> gn.compile(gn.argmax([[1.0, 5.0], [4.0, 2.0]]))()[0].tolist()
    [1, 0]
    """
    node = as_node(x)
    return ArgMax(normalize_axis(axis, node.ndim, "ArgMax"))(node)


def softmax(x: Any, axis: int = -1) -> Node:
    """y_k = exp(x_k) / Σ_j exp(x_j) along an axis.

    x: node or array; integers become float64. axis: the axis that sums to 1, the last by default.

    >>> gn.compile(gn.softmax([0.0, 0.0, np.log(2.0)]))()[0].round(3).tolist()
    [0.25, 0.25, 0.5]
    """
    node = as_node(x)
    return Softmax(normalize_axis(axis, node.ndim, "Softmax"))(node)


def log_softmax(x: Any, axis: int = -1) -> Node:
    """y_k = x_k - log Σ_j exp(x_j) along an axis, accurate for every x.

    x: node or array; integers become float64. axis: the axis to normalize over, the last by default.

    >>> gn.compile(gn.log_softmax([0.0, 1000.0]))()[0].tolist()
    [-1000.0, 0.0]
    """
    node = as_node(x)
    return LogSoftmax(normalize_axis(axis, node.ndim, "LogSoftmax"))(node)


def logsumexp(x: Any, axis: int = -1) -> Node:
    """y = log Σ_j exp(x_j) along an axis, accurate for every x.

    x: node or array; integers become float64. axis: the axis to sum over, which disappears; the last by default.

    >>> gn.compile(gn.logsumexp([1000.0, 1000.0]))()[0].round(3).item()
    1000.693
    """
    node = as_node(x)
    return LogSumExp(normalize_axis(axis, node.ndim, "LogSumExp"))(node)
