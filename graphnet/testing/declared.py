"""Checks of the properties that an op declares (see Op) against its forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphnet.call.function import compile
from graphnet.errors import GraphnetError
from graphnet.graph.dtypes import is_float
from graphnet.graph.node import Array, Key, KeyEntry, Node
from graphnet.ops.leaf import fill
from graphnet.ops.shape import Slice, slice_along
from graphnet.plan.views import Buffer
from graphnet.testing.laws import LawError


def check_declared(y: Node, leaves: Sequence[Node], arrays: Sequence[Array]) -> None:
    """Raises LawError if a property of y's op is wrong: `expanded`, `rows`, `row_offset`, `aligned_axes`, `sliced`,
    `view`, `zero_if`, and the fields for its kind.

    y: computed from the leaves, whose values are `arrays`.
    """
    values = compile([*y.inputs, y], leaves, backend="numpy", passes=())(*arrays)
    check = _Declared(y, leaves, arrays, values[:-1], values[-1])
    check.expanded()
    check.rows()
    check.row_offset()
    check.aligned_axes()
    check.sliced()
    check.view()
    check.linear()
    check.stops_gradient()
    check.fields()


def depends_on_other_rows(y: Node, inputs: Sequence[Array], value: Array, offset: int) -> bool:
    """True if row i of y changes when all rows of its inputs become row i + offset."""
    for i in range(len(value)):
        alike = [np.broadcast_to(x[i + offset], x.shape) if 0 <= i + offset < len(x) else x for x in inputs]
        if not _same(np.asarray(y.op.forward(*alike))[i], value[i]):
            return True
    return False


def only_moves(inputs: Sequence[Array], value: Array) -> bool:
    """True if every element of the value is an element of an input, cast to the value's dtype."""
    there = np.concatenate([np.ravel(x).astype(value.dtype) for x in inputs])
    return bool(np.isin(value, there).all())


def _same(found: Array, expected: Array) -> bool:
    return found.shape == expected.shape and bool(np.allclose(found, expected, 1e-12, 1e-12, equal_nan=True))


class _Declared:
    def __init__(
        self, y: Node, leaves: Sequence[Node], arrays: Sequence[Array], inputs: Sequence[Array], value: Array
    ) -> None:
        self.y, self.op, self.leaves, self.arrays = y, y.op, leaves, arrays
        self.inputs, self.value = inputs, value

    def require(self, holds: bool, what: str, remedy: str) -> None:
        if not holds:
            raise LawError(f"{self.op.name}: not true for {self.y.describe()}: {what}. {remedy}")

    def _require_value(self, found: Node, expected: Array, what: str, remedy: str) -> None:
        fits = found.shape == expected.shape and found.dtype == self.y.dtype
        self.require(fits, f"{what} has shape {list(found.shape)} and dtype {found.dtype}", remedy)
        (value,) = compile([found], self.leaves, backend="numpy", passes=())(*self.arrays)
        self.require(_same(value, expected), f"{what} is equal to the result of forward", remedy)

    def expanded(self) -> None:
        found = self.op.expanded(self.y, *self.y.inputs) if self.y.size else None
        if found is not None:
            self._require_value(
                found, self.value, "`expanded`", "Compute the same value with other ops, or return None."
            )

    def rows(self) -> None:
        count = self.y.shape[0] if self.y.shape else 0
        remedy = "Return None from `row_offset` if rows depend on others; define `rows` if the op moves rows."

        def of(x: Node, some: range) -> Node:
            there = x.shape and 0 <= some.start <= some.stop <= x.shape[0]
            self.require(bool(there), f"`rows` reads {some} of {x.describe()}", remedy)
            return slice_along(x, 0, (some.start, some.stop, 1))

        for some in {range(count), range(1), range(count - 1, count), range(1, count)} if count else ():
            try:
                found = self.op.rows(some, of, self.y, *self.y.inputs)
            except GraphnetError as error:
                raise LawError(f"{self.op.name}: `rows` of {some}: {error} {remedy}") from error
            if found is not None:
                self._require_value(found, self.value[some.start : some.stop], f"`rows` of {some}", remedy)

    def row_offset(self) -> None:
        if not self.y.shape or not self.y.inputs or any(not x.shape for x in self.y.inputs):
            return
        offset = self.op.row_offset(self.y, *self.y.inputs)
        if offset is not None:
            self.require(
                not depends_on_other_rows(self.y, self.inputs, self.value, offset),
                f"by `row_offset`, row i reads only row i + {offset} of each input",
                "Return None.",
            )

    def aligned_axes(self) -> None:
        """Checks that place i of y is unchanged if each input is reduced to its place i."""
        remedy = "Return None for an input of which other places are also read."
        for axis, size in enumerate(self.y.shape) if self.y.inputs else ():
            found = self.op.aligned_axes(axis, self.y, *self.y.inputs)
            if found is None:
                continue
            what = f"`aligned_axes` of axis {axis} is {list(found)}"
            self.require(len(found) == len(self.inputs), what, "Return one entry for each input.")
            for own, x in zip(found, self.inputs, strict=True):
                fits = own is None or (0 <= own < x.ndim and x.shape[own] == size)
                self.require(fits, what, "The axis of an input must be as long as that of y.")
            for i in range(size):
                alike = [
                    x if own is None else np.broadcast_to(x.take([i], axis=own), x.shape)
                    for own, x in zip(found, self.inputs, strict=True)
                ]
                there = np.asarray(self.op.forward(*alike)).take(i, axis=axis)
                self.require(_same(there, self.value.take(i, axis=axis)), what, remedy)

    def sliced(self) -> None:
        for key in _keys(self.y):
            found = self.op.sliced(key, self.y, *self.y.inputs)
            if found is not None:
                self._require_value(
                    found, Slice(key).forward(self.value), f"`sliced` by {key}", "Return None otherwise."
                )

    def view(self) -> None:
        if not self.op.is_view:
            return
        x = self.y.inputs[0]
        found = self.op.view(Buffer(x.size, x.dtype).whole(x.shape))
        if found is not None and self.y.size:
            numbers = np.arange(x.size)
            strides = [stride * numbers.itemsize for stride in found.strides]
            seen = as_strided(numbers[found.offset :], found.shape, strides)
            expected = self.op.forward(numbers.reshape(x.shape), *self.inputs[1:])
            self.require(
                _same(seen, np.asarray(expected)),
                f"by `view`, its elements are at {found.offset} + {list(found.strides)} in its input's memory",
                "Define no `view` if elements have to move.",
            )

    def linear(self) -> None:
        """Checks f(0) = 0 and f(a + b) = f(a) + f(b), in the inputs that `zero_if` names."""
        count, kind = len(self.inputs), self.op.zero_if
        together = {
            "all": [range(count)], "any": [range(i, i + 1) for i in range(count)], "first": [range(1)],
            "rest": [range(1, count)],
        }  # fmt: skip
        generator = np.random.default_rng(0)
        for some in together.get(kind, []):

            def forward(of: Sequence[Any], some: range = some) -> Array:
                with np.errstate(all="ignore"):
                    return np.asarray(
                        self.op.forward(*[of[i] if i in some else x for i, x in enumerate(self.inputs)])
                    )

            nothing = forward([np.zeros_like(x) for x in self.inputs])
            remedy = "Its value for zeros is not 0: remove `zero_if`."
            self.require(
                kind in ("first", "rest") or not nothing.any(), f'it declares `zero_if = "{kind}"`', remedy
            )
            if all(x.dtype == np.float64 for x in (self.value, *(self.inputs[i] for i in some))):
                others = [generator.standard_normal(x.shape) for x in self.inputs]
                both = forward([x + b for x, b in zip(self.inputs, others, strict=True)])
                apart = self.value + forward(others)
                close = np.allclose(both, apart, 1e-9, 1e-9, equal_nan=True)
                self.require(
                    close,
                    f'it declares `zero_if = "{kind}"`',
                    "f(a + b) is not f(a) + f(b): remove `zero_if`.",
                )

    def stops_gradient(self) -> None:
        if self.op.stops_gradient and is_float(self.y.dtype):
            y, inputs = self.y, self.y.inputs
            g = fill(1, y.shape, y.dtype)
            found = [*self.op.backward(g, y, *inputs)]
            tangents = [fill(1, x.shape, x.dtype) for x in inputs]
            found.append(self.op.rop(*tangents, y, *inputs))
            self.require(
                all(node.op.is_zeros for node in found),
                "it declares `stops_gradient = True`",
                "Return zeros from `backward` and `rop`.",
            )

    def fields(self) -> None:
        op, inputs, value = self.op, self.inputs, self.value
        shapes = {x.shape for x in self.y.inputs}
        if op.everywhere is not None:
            self.require(
                bool((value == op.everywhere).all()),
                f"it declares `everywhere = {op.everywhere}`",
                "Return None.",
            )
        if not inputs:
            return
        said: dict[str, Callable[[], bool]] = {
            "commutes": lambda: len(shapes) > 1 or _same(np.asarray(op.forward(*inputs[::-1])), value),
            "moves": lambda: only_moves(inputs, value),
            "is_elementwise": lambda: shapes == {value.shape} and self._is_elementwise(),
            "is_product": lambda: _same(np.matmul(*inputs), value),
            "is_one_hot": lambda: _same(inputs[0][..., None] == np.arange(value.shape[-1]), value),
            "joins_along": lambda: _same(np.concatenate(inputs, op.joins_along or 0), value),
        }
        for name, holds in said.items():
            says = getattr(op, name)
            if says is False or says is None:
                continue
            try:
                found = holds()
            except (IndexError, TypeError, ValueError):  # by NumPy, for shapes that do not fit
                found = False
            self.require(found, f"it declares `{name} = {says}`", "Remove this declaration.")

    def _is_elementwise(self) -> bool:
        """True if constant inputs, with the values of one place, give the value of that place everywhere."""
        for at in np.ndindex(self.value.shape):
            alike = [np.full_like(x, x[at]) for x in self.inputs]
            with np.errstate(all="ignore"):
                if not _same(np.asarray(self.op.forward(*alike)), np.full_like(self.value, self.value[at])):
                    return False
        return True


def _keys(y: Node) -> Iterator[Key]:
    """Yields keys with the first or last element of an axis, or a part of it; other axes whole."""
    whole: list[KeyEntry] = [(0, size, 1) for size in y.shape]
    for axis, size in enumerate(y.shape):
        choices: list[KeyEntry] = [0, size - 1, (0, size, 1), (0, 1, 1), (size - 1, size, 1), (1, size, 1)]
        for chosen in choices if size else ():
            yield (*whole[:axis], chosen, *whole[axis + 1 :])
