"""Indexing ops: row lookup, its transpose, one-hot codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import DtypeError, GraphnetError, ShapeError, table_of_inputs
from graphnet.graph.dtypes import BOOL, FLOAT32, INT64, as_dtype
from graphnet.graph.node import OPERATORS, Array, Dtype, Node, Op, Shape
from graphnet.ops.broadcast import broadcast_to
from graphnet.ops.elementwise import cast
from graphnet.ops.leaf import as_node, as_size, constant, zeros
from graphnet.ops.shape import basic_slice, normalize_axis, reshape, transpose
from graphnet.settings import shown


def _check_index(op_name: str, index: Array, size: int) -> None:
    if index.size and (index.min() < 0 or index.max() >= size):
        wrong = int(index.min() if index.min() < 0 else index.max())
        raise GraphnetError(
            f"{op_name}: index {wrong} is out of range: it must be 0 ... {size - 1}. (Usual causes: a symbol or label "
            "that the network does not have, a sequence length of 0 or beyond the last step, or a size that does not "
            "fit the data.)"
        )


def _require_index(op_name: str, index: Node, size: int, inputs: Sequence[Node]) -> None:
    if index.dtype.kind not in "iu":
        raise DtypeError(
            f"{op_name}: the index is {index.dtype}; it must hold integers. Use gn.input(shape, "
            "'int64') or gn.cast(index, 'int64')." + table_of_inputs(inputs)
        )
    if size == 0 and index.size:
        raise ShapeError(
            f"{op_name}: no index is valid, since the axis has size 0." + table_of_inputs(inputs)
        )


class Lookup(Op):
    """Base of lookups that loops can do while they compute other things; the index is the last input."""

    def load(self, *inputs: Node) -> str:
        """Returns how loops read it: "rows", "columns" or "one_hot" (plan.instructions.Load); empty if they cannot."""
        return ""


@dataclass(frozen=True, eq=False)
class Take(Lookup):
    """y = x[index] along an axis: a row lookup where axis = 0"""

    axis: int = 0
    moves: ClassVar[bool] = True
    symbol: ClassVar[str] = "take"
    zero_if: ClassVar[str] = "first"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        x, index = inputs
        _require_index(self.name, index, x.shape[self.axis], inputs)
        return (*x.shape[: self.axis], *index.shape, *x.shape[self.axis + 1 :]), x.dtype

    def index_size(self, position: int, *inputs: Node) -> int | None:
        return inputs[0].shape[self.axis] if position == 1 else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        after = self.axis + inputs[1].ndim
        if self.axis <= axis < after:
            return None, axis - self.axis
        return axis if axis < self.axis else axis - after + self.axis + 1, None

    def load(self, *inputs: Node) -> str:
        x, index = inputs
        if is_by_columns(x, index, self.axis):
            return "columns"
        return "rows" if x.ndim == 2 and self.axis == 0 else ""

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        """Writes lookups along later axes as row lookups of a transposed view."""
        x, index = inputs
        if self.load(x, index):
            return None
        if self.axis:
            return to_back(Take(0)(to_front(x, self.axis, 1), index), self.axis, index.ndim)
        table = reshape(x, (x.shape[0], math.prod(x.shape[1:])))
        return reshape(Take(0)(table, index), y.shape)

    def forward(self, x: Array, index: Array) -> Array:
        _check_index(self.name, index, x.shape[self.axis])
        return x.take(index, axis=self.axis)

    def backward(self, gy: Node, y: Node, x: Node, index: Node) -> Sequence[Node]:
        gx = ScatterAdd(x.shape[self.axis], self.axis)(gy, index)
        return gx, zeros(index.shape, gy.dtype)

    def rop(self, rx: Node, rindex: Node, y: Node, x: Node, index: Node) -> Node:
        return self(rx, index)


@dataclass(frozen=True, eq=False)
class ScatterAdd(Op):
    """y[j] = Σ x[i] over all i with index[i] = j, along an axis of `size`: the transpose of Take"""

    size: int = 0
    axis: int = 0
    symbol: ClassVar[str] = "scatter"
    zero_if: ClassVar[str] = "first"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        x, index = inputs
        _require_index(self.name, index, self.size, inputs)
        stop = self.axis + index.ndim
        if x.shape[self.axis : stop] != index.shape:
            raise ShapeError(
                f"ScatterAdd: axes {self.axis} ... {stop - 1} of input 1 must be the index's shape."
                + table_of_inputs(inputs)
            )
        return (*x.shape[: self.axis], self.size, *x.shape[stop:]), x.dtype

    def index_size(self, position: int, *inputs: Node) -> int | None:
        return self.size if position == 1 else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        if axis == self.axis:
            return None, None
        return axis if axis < self.axis else axis + inputs[1].ndim - 1, None

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        """Writes it as a sum of numbers, along the first axis or the columns of a matrix."""
        x, index = inputs
        if y.dtype == BOOL:
            return self(cast(x, INT64), index) > 0
        if not self.axis or is_by_columns(x, index, self.axis):
            return None
        return to_back(ScatterAdd(self.size, 0)(to_front(x, self.axis, index.ndim), index), self.axis, 1)

    def forward(self, x: Array, index: Array) -> Array:
        _check_index(self.name, index, self.size)
        before, after = x.shape[: self.axis], x.shape[self.axis + index.ndim :]
        rows = x.reshape((*before, index.size, *after))
        y = np.zeros((*before, self.size, *after), x.dtype)
        if index.size:
            # Sorting first makes one sum for each row that is hit, in a fixed order: np.add.at on
            # two-dimensional data is an order of magnitude slower.
            order = np.argsort(index, axis=None, kind="stable")
            hit, starts = np.unique(index.ravel()[order], return_index=True)
            at: tuple[Any, ...] = (slice(None),) * self.axis
            y[(*at, hit)] = np.add.reduceat(rows.take(order, axis=self.axis), starts, axis=self.axis)
        return y

    def backward(self, gy: Node, y: Node, x: Node, index: Node) -> Sequence[Node]:
        return Take(self.axis)(gy, index), zeros(index.shape, gy.dtype)

    def rop(self, rx: Node, rindex: Node, y: Node, x: Node, index: Node) -> Node:
        return self(rx, index)


@dataclass(frozen=True, eq=False)
class OneHot(Lookup):
    """y[..., k] = 1 where k = index[...], else 0"""

    depth: int = 0
    of_dtype: Dtype = FLOAT32
    symbol: ClassVar[str] = "one-hot"
    is_one_hot: ClassVar[bool] = True

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (index,) = inputs
        _require_index(self.name, index, self.depth, inputs)
        return (*index.shape, self.depth), self.of_dtype

    def index_size(self, position: int, *inputs: Node) -> int | None:
        return self.depth

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0 if inputs[0].shape else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return (axis if axis < inputs[0].ndim else None,)

    def load(self, *inputs: Node) -> str:
        return "one_hot"

    def forward(self, index: Array) -> Array:
        _check_index(self.name, index, self.depth)
        return (index[..., None] == np.arange(self.depth)).astype(self.of_dtype)

    def backward(self, gy: Node, y: Node, index: Node) -> Sequence[Node]:
        return (zeros(index.shape, gy.dtype),)

    def rop(self, rindex: Node, y: Node, index: Node) -> Node:
        return zeros(y.shape, self.of_dtype)


def is_by_columns(x: Node, index: Node, axis: int) -> bool:
    """True for columns of a matrix with the same index for each row, which loops can read in place."""
    return x.ndim == 2 and axis == 1 and index.ndim == 1


def to_front(x: Node, axis: int, count: int) -> Node:
    """Moves `count` axes, from `axis` on, before all others."""
    order = list(range(x.ndim))
    return transpose(x, (*order[axis : axis + count], *order[:axis], *order[axis + count :]))


def to_back(x: Node, axis: int, count: int) -> Node:
    """Moves the first `count` axes to `axis`."""
    order = list(range(x.ndim))
    return transpose(x, (*order[count : count + axis], *order[:count], *order[count + axis :]))


# -- the functions that users call -----------------------------------------------------------


def take(x: Any, index: Any, axis: int = 0) -> Node:
    """y = x[index] along an axis.

    x: node or array. index: integers of any shape; they must be in 0 ... size - 1, which is checked at run time. axis:
    the axis of x that is indexed, 0 by default; the axes of the index replace it.

    >>> gn.compile(gn.take([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [2, 0]))()[0].tolist()
    [[5.0, 6.0], [1.0, 2.0]]
    """
    node = as_node(x)
    return Take(normalize_axis(axis, node.ndim, "Take"))(node, index)


def scatter_add(x: Any, index: Any, size: int, axis: int = 0) -> Node:
    """y[j] = Σ x[i] over all i with index[i] = j, along an axis of `size`: the transpose of `take`.

    x: node or array. index: integers with one axis, as long as x along `axis`; they must be in 0 ... size - 1, which is
    checked at run time. size: length of the result along `axis`. axis: 0 by default.

    >>> gn.compile(gn.scatter_add([1.0, 10.0, 100.0], [0, 2, 0], size=3))()[0].tolist()
    [101.0, 0.0, 10.0]
    """
    node = as_node(x)
    return ScatterAdd(as_size(size, "scatter_add: size"), normalize_axis(axis, node.ndim, "ScatterAdd"))(
        node, index
    )


def take_along_axis(x: Any, indices: Any, axis: int) -> Node:
    """y[i, j, k] = x[i, indices[i, j, k], k] for axis = 1, and likewise for any axis, as in NumPy.

    x: node or array. indices: integers with as many axes as x, such as the result of argmax; all axes except `axis`
    broadcast against those of x. They must be in 0 ... size - 1, which is checked at run time. axis: the axis of x that
    is indexed. Derivatives are scattered back and added up along the axis.
    Raises ShapeError if the shapes do not fit, DtypeError if the indices are not integers.

    >>> gn.compile(gn.take_along_axis([[1.0, 2.0], [3.0, 4.0]], [[1], [0]], axis=1))()[0].tolist()
    [[2.0], [3.0]]
    """
    node, index = as_node(x), as_node(indices)
    inputs = (node, index)
    axis = normalize_axis(axis, node.ndim, "take_along_axis")
    _require_index("take_along_axis", index, node.shape[axis], inputs)
    if index.ndim != node.ndim:
        raise ShapeError(
            f"take_along_axis: the indices have {index.ndim} axes, but x has {node.ndim}; add axes of size 1 to the "
            "indices, e.g. gn.reshape(indices, ...)." + table_of_inputs(inputs)
        )
    (before, after), (index_before, index_after) = ((n.shape[:axis], n.shape[axis + 1 :]) for n in inputs)
    try:
        others = np.broadcast_shapes((*before, 1, *after), (*index_before, 1, *index_after))
    except ValueError:
        raise ShapeError(
            f"take_along_axis: apart from axis {axis}, the shapes do not broadcast: two sizes must be equal or one of "
            "them 1." + table_of_inputs(inputs)
        ) from None
    # Position of each number in the flat x; a lookup in 0, 1, ... first reports an index that is out of range.
    at = take(np.arange(node.shape[axis]), index) * math.prod(after)
    for i, size in enumerate(node.shape):
        if i != axis and size > 1:
            places = np.arange(size) * math.prod(node.shape[i + 1 :])
            at = at + reshape(constant(places), [size if j == i else 1 for j in range(node.ndim)])
    to = (*others[:axis], index.shape[axis], *others[axis + 1 :])
    return take(reshape(node, (node.size,)), broadcast_to(at, to))


def one_hot(index: Any, depth: int, dtype: Any = "float32") -> Node:
    """y[..., k] = 1 where k = index[...], else 0.

    index: integers of any shape, in 0 ... depth - 1. depth: number of classes, the size of the new last axis. dtype:
    NumPy dtype of the result or its name, float32 by default.

    >>> gn.compile(gn.one_hot([2, 0], depth=3))()[0].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return OneHot(as_size(depth, "one_hot: depth"), as_dtype(dtype))(index)


def _is_whole(entry: slice) -> bool:
    """True if a slice's start, stop and step are whole numbers or None; nodes raise their own error."""
    return all(
        end is None or (isinstance(end, (int, np.integer, Node)) and not isinstance(end, bool))
        for end in (entry.start, entry.stop, entry.step)
    )


def getitem(x: Node, key: Any) -> Node:
    """Returns x[key]: numbers, slices, None and `...` as in NumPy; one array or node of integers reads rows."""
    if isinstance(key, (Node, np.ndarray, list)):
        index = as_node(np.asarray(key, np.int64) if isinstance(key, list) and not key else key)
        if index.dtype.kind == "b":
            raise DtypeError(
                f"{x.describe()}[mask]: the result's shape would depend on the values, and shapes are "
                "fixed. Use gn.where(mask, x, 0)." + table_of_inputs([x, index])
            )
        return take(x, index)
    entries = key if isinstance(key, tuple) else (key,)
    for entry in entries:
        if isinstance(entry, bool) or not (
            entry is None
            or entry is Ellipsis
            or isinstance(entry, (int, np.integer))
            or (isinstance(entry, slice) and _is_whole(entry))
        ):
            raise DtypeError(
                f"{x.describe()}[...]: {shown(entry)} of type {type(entry).__name__} cannot index a "
                "node. Use whole numbers, slices of them, None, '...', or gn.take(x, index, axis) for arrays."
            )
    return basic_slice(x, entries)


OPERATORS["getitem"] = getitem
