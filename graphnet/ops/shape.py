"""Ops that move elements without arithmetic: reshape, transpose, slices, joins."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from graphnet.errors import DtypeError, ShapeError, table_of_inputs
from graphnet.graph.node import OPERATORS, Array, Dtype, Key, KeyEntry, Node, Op, RowsOf, S, Shape, shared
from graphnet.ops.leaf import as_node, as_shape, fill, filled
from graphnet.settings import listed, shown


def normalize_axis(axis: Any, ndim: int, what: str) -> int:
    """Returns the axis counted from the front; raises ShapeError if it does not exist."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) or not -ndim <= axis < ndim:
        raise ShapeError(f"{what}: axis {axis!r} does not exist in an array of {ndim} axes")
    return int(axis) % ndim


def normalize_axes(axes: Any, ndim: int, what: str) -> tuple[int, ...]:
    """Returns the axes counted from the front and sorted; None means all."""
    if axes is None:
        return tuple(range(ndim))
    several = axes if isinstance(axes, Sequence) else (axes,)
    result = tuple(sorted(normalize_axis(axis, ndim, what) for axis in several))
    if len(set(result)) < len(result):
        raise ShapeError(f"{what}: axes {axes!r} contain an axis twice")
    return result


@dataclass(frozen=True, eq=False)
class Reshape(Op):
    """y = x, its elements in the same (row-major) order in another shape"""

    to: Shape = ()
    symbol: ClassVar[str] = "reshape"
    moves: ClassVar[bool] = True
    zero_if: ClassVar[str] = "all"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        if math.prod(self.to) != x.size:
            raise ShapeError(
                f"Reshape: {x.size} elements do not fit shape {list(self.to)} "
                f"({math.prod(self.to)} elements)." + table_of_inputs(inputs)
            )
        return self.to, x.dtype

    def view(self, x: S) -> S | None:
        return x.reshaped(self.to)

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        (x,) = inputs
        return 0 if x.shape and y.shape and x.shape[0] == y.shape[0] else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        """Returns the axis of the same size with as many elements before it; none for split or merged axes."""
        (x,) = inputs
        before = math.prod(y.shape[:axis])
        own = [i for i, n in enumerate(x.shape) if n == y.shape[axis] and math.prod(x.shape[:i]) == before]
        return own[:1] if own and y.size else None

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        found = of(inputs[0], some) if self.row_offset(y, *inputs) == 0 else None
        return None if found is None else reshape(found, (len(some), *y.shape[1:]))

    def forward(self, x: Array) -> Array:
        return x.reshape(self.to)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (reshape(gy, x.shape),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return reshape(rx, self.to)


@dataclass(frozen=True, eq=False)
class Transpose(Op):
    """y[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]"""

    axes: tuple[int, ...] = ()
    symbol: ClassVar[str] = "T"
    moves: ClassVar[bool] = True
    zero_if: ClassVar[str] = "all"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        if sorted(self.axes) != list(range(x.ndim)):
            raise ShapeError(
                f"Transpose: axes {self.axes} do not permute the {x.ndim} axes of its input."
                + table_of_inputs(inputs)
            )
        return tuple(x.shape[axis] for axis in self.axes), x.dtype

    def view(self, x: S) -> S | None:
        return x.transposed(self.axes)

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0 if self.axes[:1] == (0,) else None

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return (self.axes[axis],)

    def forward(self, x: Array) -> Array:
        return x.transpose(self.axes)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        inverse = tuple(sorted(range(len(self.axes)), key=self.axes.__getitem__))
        return (shared(Transpose, inverse)(gy),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


def _numpy_key(key: Key) -> tuple[int | slice, ...]:
    # A downward slice that reaches the front needs stop=None, since -1 would mean the last element.
    return tuple(k if isinstance(k, int) else slice(k[0], None if k[1] < 0 else k[1], k[2]) for k in key)


def is_whole(key: Key, shape: Shape) -> bool:
    """True for the key that takes everything."""
    return all(k == (0, size, 1) for k, size in zip(key, shape, strict=True))


def _key_shape(key: Key) -> Shape:
    return tuple(len(range(*k)) for k in key if not isinstance(k, int))


def _slice_or_whole(x: Node, key: Key) -> Node:
    return x if is_whole(key, x.shape) else Slice(key)(x)


def joined_entry(entries: Sequence[KeyEntry]) -> tuple[int, int, int] | None:
    """Returns the range of an axis that consecutive entries cover, all of them indices or none; else None."""
    spans = [(k, k + 1, 1) if isinstance(k, int) else k for k in entries]
    alike = len({isinstance(k, int) for k in entries}) == 1
    follow = all(a[1] == b[0] for a, b in pairwise(spans)) and all(k[2] == 1 for k in spans)
    return (spans[0][0], spans[-1][1], 1) if alike and follow else None


def _first_row(key: Key) -> int | None:
    """Returns the first row that a key takes; None if its rows are not consecutive."""
    first = key[0] if key else 0
    return None if isinstance(first, int) or first[2] != 1 else first[0]


@dataclass(frozen=True, eq=False)
class Slice(Op):
    """y = x[key], key a fixed index or start:stop:step for each axis"""

    key: Key = ()
    symbol: ClassVar[str] = "[ ]"
    moves: ClassVar[bool] = True
    zero_if: ClassVar[str] = "all"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        if len(self.key) != x.ndim:
            raise ShapeError(f"Slice: {len(self.key)} keys for {x.ndim} axes." + table_of_inputs(inputs))
        return _key_shape(self.key), x.dtype

    def view(self, x: S) -> S | None:
        return x.sliced(self.key)

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return _first_row(self.key)

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        own = [i for i, k in enumerate(self.key) if not isinstance(k, int)][axis]
        return (own,) if self.key[own] == (0, inputs[0].shape[own], 1) else None

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        start = _first_row(self.key)
        found = None if start is None else of(inputs[0], range(start + some.start, start + some.stop))
        return None if found is None else _slice_or_whole(found, ((0, len(some), 1), *self.key[1:]))

    def forward(self, x: Array) -> Array:
        return x[_numpy_key(self.key)]

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (Pad(x.shape, self.key)(gy),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


@dataclass(frozen=True, eq=False)
class Pad(Op):
    """y = 0 with y[key] = x: the transpose of Slice"""

    to: Shape = ()
    key: Key = ()
    symbol: ClassVar[str] = "pad"
    zero_if: ClassVar[str] = "all"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        if _key_shape(self.key) != x.shape or len(self.key) != len(self.to):
            raise ShapeError(
                f"Pad: the input must have shape {list(_key_shape(self.key))}." + table_of_inputs(inputs)
            )
        return self.to, x.dtype

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        start = _first_row(self.key)
        return None if start is None else -start

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        if self.key[axis] != (0, self.to[axis], 1):
            return None
        return (sum(not isinstance(k, int) for k in self.key[:axis]),)

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        offset = self.row_offset(y, *inputs)
        if offset is None:
            return None
        (x,) = inputs
        first, last = max(0, some.start + offset), min(x.shape[0], some.stop + offset)
        to = (len(some), *y.shape[1:])
        if first >= last:
            return fill(0, to, y.dtype)
        found = of(x, range(first, last))
        start = first - some.start - offset
        key = ((start, start + last - first, 1), *self.key[1:])
        return None if found is None else Pad(to, key)(found)

    def forward(self, x: Array) -> Array:
        y = np.zeros(self.to, x.dtype)
        y[_numpy_key(self.key)] = x
        return y

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (Slice(self.key)(gy),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


@dataclass(frozen=True, eq=False)
class Join(Op):
    """Base of Concatenate and Stack: any number of inputs of one dtype, each of which fills a part of an axis.

    Slices of a join at these parts are the inputs themselves (`sliced`, `inputs_between`). Joining all parts of an
    array, or padding all parts with zeros and adding them, gives the array again (see `joined_entry`).
    """

    axis: int = 0
    zero_if: ClassVar[str] = "all"
    moves: ClassVar[bool] = True

    def places(self, inputs: Sequence[Node]) -> Sequence[KeyEntry]:
        """Returns the part of the axis that each input fills."""
        raise NotImplementedError

    def check_dtypes(self, inputs: Sequence[Node]) -> Dtype:
        if not inputs:
            raise ShapeError(f"{self.name}: nothing to join; give at least one node")
        dtype = inputs[0].dtype
        if any(node.dtype != dtype for node in inputs):
            raise DtypeError(
                f"{self.name}: the inputs have different dtypes, {sorted({str(n.dtype) for n in inputs})}; cast "
                "them to one dtype with gn.cast." + table_of_inputs(inputs)
            )
        return dtype

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0 if self.axis > 0 else None

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return [slice_along(gy, self.axis, place) for place in self.places(inputs)]

    def rop(self, *rs_y_inputs: Node) -> Node:
        return self(*rs_y_inputs[: len(rs_y_inputs) // 2])


@dataclass(frozen=True, eq=False)
class Concatenate(Join):
    """y = the inputs one after another along an axis"""

    symbol: ClassVar[str] = "concat"

    @property
    def joins_along(self) -> int | None:
        return self.axis

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return None if axis == self.axis else [axis] * len(inputs)

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        dtype = self.check_dtypes(inputs)
        shape = inputs[0].shape
        for position, node in enumerate(inputs, start=1):
            if not _equal_but(node.shape, shape, self.axis):
                raise ShapeError(
                    f"Concatenate: input {position} is {list(node.shape)}, but apart from axis "
                    f"{self.axis} it must have the shape of input 1, {list(shape)}." + table_of_inputs(inputs)
                )
        total = sum(node.shape[self.axis] for node in inputs)
        return (*shape[: self.axis], total, *shape[self.axis + 1 :]), dtype

    def places(self, inputs: Sequence[Node]) -> Sequence[KeyEntry]:
        ends = accumulate([x.shape[self.axis] for x in inputs], initial=0)
        return [(start, stop, 1) for start, stop in pairwise(ends)]

    def sliced(self, key: Key, y: Node, *inputs: Node) -> Node | None:
        """Returns the slice of the input that holds the whole key."""
        wanted = key[self.axis]
        first, last = (wanted, wanted) if isinstance(wanted, int) else (wanted[0], wanted[1] - 1)
        if last < first or (not isinstance(wanted, int) and wanted[2] != 1):
            return None
        edges = edges_of(y)
        i = bisect_right(edges, first) - 1
        if last >= edges[i + 1]:
            return None
        start = edges[i]
        inside = wanted - start if isinstance(wanted, int) else (first - start, last + 1 - start, 1)
        return _slice_or_whole(inputs[i], (*key[: self.axis], inside, *key[self.axis + 1 :]))

    def forward(self, *arrays: Array) -> Array:
        return np.concatenate(arrays, axis=self.axis)


def _equal_but(a: Shape, b: Shape, axis: int) -> bool:
    return len(a) == len(b) and a[:axis] == b[:axis] and a[axis + 1 :] == b[axis + 1 :]


@dataclass(frozen=True, eq=False)
class Stack(Join):
    """y = the inputs side by side along a new axis"""

    symbol: ClassVar[str] = "stack"

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return None if axis == self.axis else [axis - (axis > self.axis)] * len(inputs)

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        dtype = self.check_dtypes(inputs)
        shape = inputs[0].shape
        for position, node in enumerate(inputs, start=1):
            if node.shape != shape:
                raise ShapeError(
                    f"Stack: input {position} is {list(node.shape)}, but input 1 is {list(shape)}."
                    + table_of_inputs(inputs)
                )
        return (*shape[: self.axis], len(inputs), *shape[self.axis :]), dtype

    def places(self, inputs: Sequence[Node]) -> Sequence[KeyEntry]:
        return range(len(inputs))

    def sliced(self, key: Key, y: Node, *inputs: Node) -> Node | None:
        """Returns the slice of the input that the key selects."""
        chosen = key[self.axis]
        if not isinstance(chosen, int):
            return None
        return _slice_or_whole(inputs[chosen], (*key[: self.axis], *key[self.axis + 1 :]))

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        if self.axis == 0:
            return self(*inputs[some.start : some.stop])
        return super().rows(some, of, y, *inputs)

    def forward(self, *arrays: Array) -> Array:
        return np.stack(arrays, axis=self.axis)


#: Cache of edges_of, since a join of T inputs is sliced T times.
_edges: WeakKeyDictionary[Node, list[int]] = WeakKeyDictionary()


def edges_of(join: Node) -> list[int]:
    """Returns the start of each input of a join along its axis (see Op.joins_along), and the end of the last."""
    found = _edges.get(join)
    if found is None:
        axis = join.op.joins_along
        assert axis is not None
        found = _edges[join] = list(accumulate([x.shape[axis] for x in join.inputs], initial=0))
    return found


def inputs_between(join: Node, start: int, stop: int) -> tuple[Node, ...] | None:
    """Returns the inputs of a join that fill start ... stop - 1; None if that would split one."""
    edges = edges_of(join)
    first, last = (bisect_right(edges, edge) - 1 for edge in (start, stop))
    return join.inputs[first:last] if edges[first] == start and edges[last] == stop else None


# -- the functions that users call -----------------------------------------------------------


def slice_along(x: Node, axis: int, key: int | tuple[int, int, int]) -> Node:
    """Returns x with one axis indexed or sliced, the others whole."""
    whole: list[int | tuple[int, int, int]] = [(0, size, 1) for size in x.shape]
    whole[axis] = key
    return Slice(tuple(whole))(x)


def split(x: Node, like: Sequence[Node], axis: int) -> list[Node]:
    """Cuts x along an axis into parts as long as those of the nodes: inverse of a concatenation."""
    return [slice_along(x, axis, place) for place in Concatenate(axis).places(like)]


def reshape(x: Any, shape: Any) -> Node:
    """y = x in another shape, its elements in the same (row-major) order.

    x: node or array. shape: the new sizes, a tuple or one number; one of them may be -1 and is computed from the
    others.
    Raises ShapeError if the number of elements differs.

    >>> gn.reshape(gn.input((4, 6)), (2, -1)).shape
    (2, 12)
    """
    node = as_node(x)
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    wanted = list(shape) if isinstance(shape, Sequence) else [shape]
    if [size for size in wanted if isinstance(size, (int, np.integer))].count(-1) == 1:
        rest = math.prod(size for size in wanted if size != -1)
        if not rest or node.size % rest:
            raise ShapeError(
                f"Reshape: {node.size} elements do not divide into shape {wanted}." + table_of_inputs([node])
            )
        wanted[wanted.index(-1)] = node.size // rest
    to = as_shape(wanted)
    return node if to == node.shape else shared(Reshape, to)(node)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Node:
    """y = x with its axes permuted; reversed where `axes` is None.

    x: node or array. axes: for each axis of y, the axis of x; None (default) reverses them, as `x.T`.

    >>> gn.transpose(gn.input((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    node = as_node(x)
    order = (
        tuple(range(node.ndim))[::-1]
        if axes is None
        else tuple(
            normalize_axis(axis, node.ndim, "Transpose") for axis in listed("transpose: axes", axes, "axes")
        )
    )
    return node if order == tuple(range(node.ndim)) else shared(Transpose, order)(node)


def concatenate(nodes: Sequence[Any], axis: int = 0) -> Node:
    """y = the nodes one after another along an existing axis.

    nodes: list of nodes or arrays of one dtype, of equal shape except along the axis. axis: 0 by default.
    Raises ShapeError or DtypeError if they do not fit.

    >>> gn.concatenate([gn.input((2, 3)), gn.input((4, 3))]).shape
    (6, 3)
    """
    parts = [as_node(node) for node in listed("concatenate: nodes", nodes, "nodes")]
    if not parts:
        raise ShapeError("Concatenate: nothing to join; give at least one node")
    return Concatenate(normalize_axis(axis, parts[0].ndim, "Concatenate"))(*parts)


def stack(nodes: Sequence[Any], axis: int = 0) -> Node:
    """y = the nodes side by side along a new axis.

    nodes: list of nodes or arrays of one shape and dtype. axis: position of the new axis, 0 by default.
    Raises ShapeError or DtypeError if they do not fit.

    >>> gn.stack([gn.input((3,)), gn.input((3,))], axis=1).shape
    (3, 2)
    """
    parts = [as_node(node) for node in listed("stack: nodes", nodes, "nodes")]
    if not parts:
        raise ShapeError("Stack: nothing to join; give at least one node")
    return Stack(normalize_axis(axis, parts[0].ndim + 1, "Stack"))(*parts)


def pad(x: Any, widths: Any, value: float = 0) -> Node:
    """y = x with `value` before and after it along each axis.

    x: node or array. widths: number of elements to add, as in NumPy: one number, (before, after), or a pair for each
    axis: ((0, 1), (2, 0)). value: number to pad with, 0 by default.
    Raises ShapeError for widths that do not fit, DtypeError for a value that x's dtype cannot hold.

    >>> gn.compile(gn.pad([1.0, 2.0], (1, 2), value=9))()[0].tolist()
    [9.0, 1.0, 2.0, 9.0, 9.0]
    """
    node = as_node(x)
    before_after = _pad_widths(widths, node)
    key = tuple(
        (before, before + size, 1) for (before, _), size in zip(before_after, node.shape, strict=True)
    )
    around = filled("pad", value, (), node.dtype)
    if not value and not np.signbit(value):  # padding with 0 is one op, the transpose of a slice
        to = tuple(
            before + size + after for (before, after), size in zip(before_after, node.shape, strict=True)
        )
        return node if to == node.shape else Pad(to, key)(node)
    for axis, pair in enumerate(before_after):
        parts = [
            fill(value, (*node.shape[:axis], width, *node.shape[axis + 1 :]), around.dtype) for width in pair
        ]
        joined = [part for part in (parts[0], node, parts[1]) if part is node or part.shape[axis]]
        node = concatenate(joined, axis) if len(joined) > 1 else node
    return node


def _pad_widths(widths: Any, x: Node) -> list[tuple[int, int]]:
    try:
        given = np.asarray(widths)
        pairs = np.broadcast_to(given, (x.ndim, 2)).tolist()
    except ValueError:
        given, pairs = np.array([None]), []
    if given.dtype.kind not in "iu" or (given.size and given.min() < 0):
        raise ShapeError(
            f"pad: widths must be a whole number >= 0, a pair (before, after), or one for each of the {x.ndim} axes, "
            f"not {shown(widths, 80)}." + table_of_inputs([x])
        )
    return [(before, after) for before, after in pairs]


def basic_slice(x: Node, key: tuple[Any, ...]) -> Node:
    """Returns x[key] for whole numbers, slices, None and `...`, as in NumPy; ShapeError if out of range."""
    if sum(k is Ellipsis for k in key) > 1:
        raise ShapeError(f"{x.describe()}[...]: only one '...' can stand in an index")
    used = sum(k is not None and k is not Ellipsis for k in key)
    if used > x.ndim:
        raise ShapeError(
            f"{x.describe()} has {x.ndim} axes, but its index has {used}." + table_of_inputs([x])
        )
    missing = [slice(None)] * (x.ndim - used)
    at = key.index(Ellipsis) if Ellipsis in key else len(key)
    full = [*key[:at], *missing, *key[at + 1 :]]
    entries: list[int | tuple[int, int, int]] = []
    shape: list[int] = []  # with the new axes
    axis = 0
    for k in full:
        if k is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(k, slice):
            if k.step == 0:
                raise ShapeError(f"{x.describe()}: a slice's step cannot be 0")
            start, stop, step = k.indices(size)
            length = len(range(start, stop, step))
            entries.append((start, stop, step) if length else (0, 0, 1))
            shape.append(length)
        else:
            if not -size <= k < size:
                raise ShapeError(
                    f"index {k} is out of range for axis {axis} of size {size}." + table_of_inputs([x])
                )
            entries.append(int(k) % size)
        axis += 1
    whole = is_whole(tuple(entries), x.shape)
    return reshape(x if whole else Slice(tuple(entries))(x), shape)


OPERATORS["transpose"] = transpose
