"""BroadcastTo and Sum: each is the other's transpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import ShapeError, table_of_inputs
from graphnet.graph.node import Array, Dtype, Node, Op, RowsOf, S, Shape, shared
from graphnet.ops.leaf import as_node, as_shape
from graphnet.ops.shape import reshape


@dataclass(frozen=True, eq=False)
class BroadcastTo(Op):
    """y = x repeated along new leading axes and along axes of size 1"""

    to: Shape = ()
    symbol: ClassVar[str] = "▷"
    moves: ClassVar[bool] = True
    zero_if: ClassVar[str] = "all"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        offset = len(self.to) - x.ndim
        if offset < 0 or any(
            size not in (1, wanted) for size, wanted in zip(x.shape, self.to[offset:], strict=True)
        ):
            raise ShapeError(
                f"BroadcastTo: {list(x.shape)} does not broadcast to {list(self.to)}."
                + table_of_inputs(inputs)
            )
        return self.to, x.dtype

    def view(self, x: S) -> S | None:
        return x.broadcast(self.to)

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        (x,) = inputs
        return 0 if x.ndim == y.ndim and x.shape[0] == y.shape[0] else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        (x,) = inputs
        own = axis - (y.ndim - x.ndim)
        return (own if own >= 0 and x.shape[own] == y.shape[axis] else None,)

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        (x,) = inputs
        found = x if self.row_offset(y, x) is None else of(x, some)  # a repeated row, or the same rows of x
        return None if found is None else broadcast_to(found, (len(some), *y.shape[1:]))

    def forward(self, x: Array) -> Array:
        return np.broadcast_to(x, self.to)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        shape = x.shape
        offset = len(self.to) - len(shape)
        axes = (*range(offset), *(i + offset for i, n in enumerate(shape) if n != self.to[i + offset]))
        return (reshape(shared(Sum, axes)(gy) if axes else gy, shape),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


@dataclass(frozen=True, eq=False)
class Reduction(Op):
    """Base of sums, maxima and minima: reduces some axes, which disappear."""

    axes: tuple[int, ...] = ()
    #: Operation by which compiled loops accumulate: "sum", "max" or "min"; empty if loops have none.
    how: ClassVar[str] = ""

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        return tuple(n for i, n in enumerate(x.shape) if i not in self.axes), x.dtype

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return None if 0 in self.axes else 0

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return ([i for i in range(inputs[0].ndim) if i not in self.axes][axis],)


@dataclass(frozen=True, eq=False)
class Sum(Reduction):
    """y = Σ x over some axes, which disappear"""

    how: ClassVar[str] = "sum"
    symbol: ClassVar[str] = "Σ"
    zero_if: ClassVar[str] = "all"

    def forward(self, x: Array) -> Array:
        return summed(x, self.axes)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        shape = x.shape
        kept = tuple(1 if i in self.axes else n for i, n in enumerate(shape))
        return (broadcast_to(reshape(gy, kept), shape),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


#: Number of terms that are added one after the other.
CHUNK = 16


def summed(x: Array, axes: Sequence[int], keepdims: bool = False) -> Array:
    """Returns Σ x over some axes, in the same dtype.

    NumPy sums pairwise along contiguous axes and sequentially along others, where rounding errors grow with the number
    of terms. Here terms are summed in chunks, and the sums of the chunks contiguously.
    """
    axes = tuple([axis % x.ndim for axis in axes])
    if x.dtype.kind == "f":
        for axis in axes:
            apart = x.strides[axis] != x.itemsize
            if apart and x.shape[axis] > CHUNK:
                x = _in_chunks(x, axis)
            if apart and (x.shape[axis] > CHUNK or len(axes) > 1):
                side_by_side = np.ascontiguousarray(np.moveaxis(x, axis, -1))
                x = np.expand_dims(side_by_side.sum(axis=-1), axis)
    return np.asarray(x.sum(axis=axes, dtype=x.dtype, keepdims=keepdims))


def _in_chunks(x: Array, axis: int) -> Array:
    before, count, after = x.shape[:axis], x.shape[axis] // CHUNK, x.shape[axis + 1 :]
    all_axes = (slice(None),) * axis
    whole = x[(*all_axes, slice(0, count * CHUNK))].reshape(*before, count, CHUNK, *after).sum(axis=axis + 1)
    rest = x[(*all_axes, slice(count * CHUNK, None))]
    return np.concatenate([whole, rest.sum(axis=axis, keepdims=True)], axis=axis) if rest.size else whole


def broadcast_to(x: Any, shape: Any) -> Node:
    """y = x repeated to `shape`, aligned from the right as in NumPy.

    x: node, array or number. shape: sizes of the result; each axis of x must have that size or 1.
    Raises ShapeError if x does not broadcast to the shape.

    >>> gn.compile(gn.broadcast_to([1.0, 2.0], (3, 2)))()[0].tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    node, to = as_node(x), as_shape(shape)
    return node if node.shape == to else shared(BroadcastTo, to)(node)
