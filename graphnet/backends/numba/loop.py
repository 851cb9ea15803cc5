"""Loops: fused elementwise expressions and reductions as native kernels, made from `plan.Loop`.

The innermost axis runs over vectors, with a masked rest; axes outside it are plain loops. What is fixed in
the code: the expression, how many axes there are, and how each operand moves along the innermost one. Sizes,
strides and addresses are in the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphnet.backends.numba.expressions import FLOATS, convert, evaluate
from graphnet.backends.numba.ir import Code, Value, element, lanes_of, llvm_type, vector_type
from graphnet.node import Dtype
from graphnet.plan.instructions import Step

__all__ = [
    "LoopKernel",
    "Operand",
]

#: Vectors side by side in a reduction over rows; a power of two.
COLUMNS = 4
#: How many rows of float32 are added up as such before their sum goes on in double precision.
SINGLES = 16


# -- loops -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operand:
    """How an operand is read: kind as in plan.Load, scalar type, and its move along the innermost axis:
    "vector" (step 1), "same" (step 0) or "strided". index_move: of the index of a lookup of columns.

    strides, index_strides: by their numbers among those of the kernel. twin: the number of an earlier load whose index
    of rows is this one's; -1 if there is none.
    """

    kind: str
    dtype: Dtype
    move: str
    strides: int
    index_dtype: Dtype | None = None
    index_move: str = ""
    index_strides: int = 0
    twin: int = -1


@dataclass(frozen=True)
class LoopKernel:
    """Nested loops over `axes` axes, of which the last `reduced` are combined.

    Record: error flag; sizes (one for each axis); `strides` times so many strides; then for each load: address, and
    for lookups and one_hot without a twin: index address, and how many rows (columns) there are; then the address of
    each store, and of each reduction. Operands with equal strides name the same ones: where a row begins is worked out
    once for all of them, which is half of the work where rows are short.
    stores: (number of the value, move, number of the strides). reductions: the same after how they combine; their
    strides are those for the axes that are kept.
    vector_axis_reduced: the innermost axis, which runs over vectors, is one of those that are reduced.
    """

    vector_bytes: int
    axes: int
    strides: int
    loads: tuple[Operand, ...]
    steps: tuple[Step, ...]
    stores: tuple[tuple[int, str, int], ...]
    reductions: tuple[tuple[str, int, str, int], ...] = ()
    reduced: int = 0
    vector_axis_reduced: bool = False
    check: bool = False
    avx512: bool = False

    def text(self) -> str:
        return _LoopCode(self).module()


class _Row(NamedTuple):
    """What the vectors of a row have in common, in elements: where it begins, for each of the kernel's strides (None:
    at the address itself); for each lookup of rows, and one-hot code, the index and where the looked up row begins."""

    begins: list[Value | None]
    lookups: dict[int, tuple[Value, Value | None]]


class _Place(NamedTuple):
    """Where a row of an operand lies: its address and, from there, where it begins; how it moves along the innermost
    axis, and its stride there."""

    address: Value
    begin: Value | None
    move: str
    stride: Value


class _Fold(NamedTuple):
    """A reduction: how it combines the value of this number, and where its results go."""

    how: str
    number: int
    move: str
    dtype: Dtype
    base: Value
    strides: int

    @property
    def scalar(self) -> str:
        return llvm_type(self.dtype)

    @property
    def kept(self) -> str:
        """In what type the total is held."""
        return "double" if self.how == "sum" and self.dtype.kind == "f" else self.scalar


class _LoopCode(Code):
    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel.vector_bytes, kernel.avx512)
        self.kernel = kernel
        values = [o.dtype for o in kernel.loads] + [s.dtype for s in kernel.steps]
        floats = [d.itemsize for d in values if d.kind == "f"]
        widest = max(floats or [d.itemsize for d in values] or [8])
        self.lanes = max(1, kernel.vector_bytes // widest)
        self.flag = self.pointer_slot(2)
        self.at_slot = 3
        axes = kernel.axes
        self.sizes = self._slots(axes)
        self.strides = [self._slots(axes) for _ in range(kernel.strides)]
        self.bases: list[Value] = []
        # By load: the index's address, and how many rows (or columns) there are.
        self.indexed: dict[int, tuple[Value, Value]] = {}
        for k, operand in enumerate(kernel.loads):
            self.bases.append(self._pointer())
            if operand.kind != "plain" and operand.twin < 0:
                self.indexed[k] = self._pointer(), self._slots(1)[0]
        self.targets = [self._pointer() for _ in kernel.stores]
        if kernel.reductions:
            self._reduce()
        else:
            self._nest(0, [])

    def _slots(self, count: int) -> list[Value]:
        found = [self.slot(self.at_slot + i) for i in range(count)]
        self.at_slot += count
        return found

    def _pointer(self) -> Value:
        self.at_slot += 1
        return self.pointer_slot(self.at_slot - 1)

    # -- without a reduction --------------------------------------------------------------------------

    def _nest(self, axis: int, indices: list[Value]) -> None:
        if axis < self.kernel.axes - 1:

            def body(i: Value, _: list[Value]) -> list[Value]:
                self._nest(axis + 1, [*indices, i])
                return []

            self.loop(self.integer(0), self.sizes[axis], 1, [], body)
            return
        row = self._row(indices)
        self._over_vectors(self.sizes[-1], lambda j, mask: self._at(row, j, mask))

    def _over_vectors(self, size: Value, body: Callable[[Value, Value | None], object]) -> None:
        lanes = self.lanes

        def vector(j: Value, _: list[Value]) -> None:
            body(j, None)

        if lanes == 1:
            self.loop(self.integer(0), size, 1, [], vector)
            return
        whole = self.binary("and", size, self.integer(-lanes))
        self.loop(self.integer(0), whole, lanes, [], vector)
        rest = self.subtract(size, whole)
        some = self.compare("sgt", rest, self.integer(0))
        self.when(some, lambda: body(whole, self.first_lanes(lanes, rest)))

    def _at(self, row: _Row, j: Value, mask: Value | None) -> list[Value]:
        """Loads, computes and stores one vector; all its values."""
        values = self._values(row, j, mask, self.lanes)
        for (number, move, strides), target in zip(self.kernel.stores, self.targets, strict=True):
            place = _Place(target, row.begins[strides], move, self.strides[strides][-1])
            self._store(values[number], place, j, mask)
        return values

    # -- operands ---------------------------------------------------------------------------------------

    def _dtype(self, value: int) -> Dtype:
        loads = self.kernel.loads
        return loads[value].dtype if value < len(loads) else self.kernel.steps[value - len(loads)].dtype

    def _begin(self, strides: Sequence[Value], indices: Sequence[Value]) -> Value | None:
        """How far from its address an operand is at these outer indices, in elements."""
        total: Value | None = None
        for i, stride in zip(indices, strides, strict=False):
            more = self.multiply(i, stride)
            total = more if total is None else self.add(total, more)
        return total

    def _row(self, indices: Sequence[Value]) -> _Row:
        row = _Row([self._begin(strides, indices) for strides in self.strides], {})
        for k, operand in enumerate(self.kernel.loads):
            if operand.kind in ("rows", "one_hot"):
                index = (
                    row.lookups[operand.twin][0] if operand.twin >= 0 else self._looked_up(k, operand, row)
                )
                table = self.strides[operand.strides][0]
                row.lookups[k] = index, self.multiply(index, table) if operand.kind == "rows" else None
        return row

    def _looked_up(self, k: int, operand: Operand, row: _Row) -> Value:
        """The index of a row. One out of range raises the flag, and reads row 0: the caller will hear of it."""
        assert operand.index_dtype is not None
        base, count = self.indexed[k]
        scalar = llvm_type(operand.index_dtype)
        index = self.load(scalar, self._from(base, scalar, row.begins[operand.index_strides]))
        if scalar != "i64":
            index = self.convert("zext" if operand.index_dtype.kind == "u" else "sext", index, "i64")
        inside = self.compare("ult", index, count)
        outside = self.binary("xor", inside, Value("i1", "true"))
        self.when(outside, lambda: self.line(f"store i64 1, {self.flag}"))
        return self.select(inside, index, self.integer(0))

    def _from(self, address: Value, scalar: str, *steps: Value | None) -> Value:
        """The address so many elements further on."""
        total: Value | None = None
        for step in steps:
            if step is not None:
                total = step if total is None else self.add(total, step)
        return address if total is None else self.offset(address, scalar, total)

    def _values(self, row: _Row, j: Value, mask: Value | None, lanes: int) -> list[Value]:
        values: list[Value] = []
        for k, operand in enumerate(self.kernel.loads):
            index, begin = row.lookups.get(k, (None, row.begins[operand.strides]))
            if operand.kind == "one_hot":
                assert index is not None
                hit = self.compare("eq", self._columns(j, lanes), self.splat(index, lanes))
                values.append(convert(self, hit, llvm_type(operand.dtype)))
            elif operand.kind == "columns":
                values.append(self._columns_at(k, begin, j, mask, lanes))
            else:
                place = _Place(self.bases[k], begin, operand.move, self.strides[operand.strides][-1])
                values.append(self._load(operand.dtype, place, j, mask, lanes))
        for step in self.kernel.steps:
            values.append(evaluate(self, step, [values[s] for s in step.sources], lanes))
        if self.kernel.check:
            self._check(values, mask)
        return values

    def _check(self, values: Sequence[Value], mask: Value | None) -> None:
        """Raises the flag if a value is not finite: v - v is then NaN."""
        bad: Value | None = None
        for value in values:
            if element(value.type) in FLOATS:
                difference = self.subtract(value, value)
                this = self.compare("uno", difference, difference)
                bad = this if bad is None else self.binary("or", bad, this)
        if bad is None:
            return
        if mask is not None:
            bad = self.binary("and", bad, mask)
        found = (
            self.intrinsic("vector.reduce.or", "i1", bad, suffix=bad.type) if lanes_of(bad.type) > 1 else bad
        )
        self.when(found, lambda: self.line(f"store i64 1, {self.flag}"))

    def _columns(self, j: Value, lanes: int) -> Value:
        if lanes == 1:
            return j
        return self.add(Value(vector_type("i64", lanes), self.splat(j, lanes).name), self.lane_numbers(lanes))

    def _load(self, dtype: Dtype, place: _Place, j: Value, mask: Value | None, lanes: int) -> Value:
        scalar = llvm_type(dtype)
        if place.move == "same":
            return self.splat(self.load(scalar, self._from(place.address, scalar, place.begin)), lanes)
        if place.move == "vector" or lanes == 1:
            return self.load(vector_type(scalar, lanes), self._element(scalar, place, j), mask)
        steps = self.multiply(self._columns(j, lanes), self.splat(place.stride, lanes))
        return self._gathered_at(scalar, self._from(place.address, scalar, place.begin), steps, mask, lanes)

    def _element(self, scalar: str, place: _Place, j: Value) -> Value:
        """The address of element j of a row."""
        step = j if place.move == "vector" else self.multiply(j, place.stride)
        return self._from(place.address, scalar, place.begin, step)

    def _columns_at(self, k: int, begin: Value | None, j: Value, mask: Value | None, lanes: int) -> Value:
        """data[at[j]] of a row, for the columns that a vector of indices names."""
        operand = self.kernel.loads[k]
        base, count = self.indexed[k]
        assert operand.index_dtype is not None
        held = _Place(base, None, operand.index_move, self.strides[operand.index_strides][-1])
        index = self._load(operand.index_dtype, held, j, mask, lanes)
        if element(index.type) != "i64":
            signed = "zext" if operand.index_dtype.kind == "u" else "sext"
            index = self.convert(signed, index, "i64")
        inside = self.compare("ult", index, self.splat(count, lanes))
        outside = self.binary("xor", inside, self.constant(inside.type, True))
        if mask is not None:
            outside = self.binary("and", outside, mask)
        wrong = (
            self.intrinsic("vector.reduce.or", "i1", outside, suffix=outside.type) if lanes > 1 else outside
        )
        self.when(wrong, lambda: self.line(f"store i64 1, {self.flag}"))
        index = self.select(inside, index, self.constant(index.type, 0))
        scalar = llvm_type(operand.dtype)
        along = self.strides[operand.strides][-1]
        if lanes == 1:
            return self.load(scalar, self._from(self.bases[k], scalar, begin, self.multiply(index, along)))
        start = self._from(self.bases[k], scalar, begin)
        return self._gathered_at(scalar, start, self.multiply(index, self.splat(along, lanes)), mask, lanes)

    def _gathered_at(self, scalar: str, start: Value, steps: Value, mask: Value | None, lanes: int) -> Value:
        """The elements so many steps from the start."""
        if scalar == "i1":
            held = self._gathered_at("i8", start, steps, mask, lanes)
            return self.compare("ne", held, self.constant(held.type, 0))
        type_, pointers = vector_type(scalar, lanes), vector_type("ptr", lanes)
        every = mask or self.constant(vector_type("i1", lanes), True)
        addresses = self.value(pointers, f"getelementptr {scalar}, {start}, {steps}")
        return self.intrinsic(
            "masked.gather", type_, addresses, Value("i32", "1"), every, Value(type_, "zeroinitializer"),
            suffix=f"{type_}.{pointers}",
        )  # fmt: skip

    def _store(self, value: Value, place: _Place, j: Value, mask: Value | None) -> None:
        scalar, lanes = element(value.type), lanes_of(value.type)
        if place.move == "vector" or lanes == 1:
            self.store(value, self._element(scalar, place, j), mask)
            return
        if scalar == "i1":
            value = self.convert("zext", value, "i8")
        every = mask or self.constant(vector_type("i1", lanes), True)
        steps = self.multiply(self._columns(j, lanes), self.splat(place.stride, lanes))
        start = self._from(place.address, scalar, place.begin)
        held = "i8" if scalar == "i1" else scalar
        addresses = self.value(vector_type("ptr", lanes), f"getelementptr {held}, {start}, {steps}")
        self.call_void(
            "masked.scatter",
            value,
            addresses,
            Value("i32", "1"),
            every,
            suffix=f"{value.type}.{addresses.type}",
        )

    # -- with reductions --------------------------------------------------------------------------------

    def _reduce(self) -> None:
        kernel = self.kernel
        self.folds = []
        for how, number, move, strides in kernel.reductions:
            self.folds.append(_Fold(how, number, move, self._dtype(number), self._pointer(), strides))
        self._kept(0, [])

    def _kept(self, axis: int, indices: list[Value]) -> None:
        kernel = self.kernel
        kept = kernel.axes - kernel.reduced
        outer = kept if kernel.vector_axis_reduced else kept - 1
        if axis < outer:

            def body(i: Value, _: list[Value]) -> list[Value]:
                self._kept(axis + 1, [*indices, i])
                return []

            self.loop(self.integer(0), self.sizes[axis], 1, [], body)
        elif kernel.vector_axis_reduced:
            self._reduce_rows(indices)
        else:
            self._reduce_columns(indices)

    def _identity(self, fold: _Fold, scalar: str) -> Value:
        type_ = vector_type(scalar, self.lanes)
        if fold.how == "sum":
            return self.constant(type_, 0)
        if scalar in FLOATS:
            return self.constant(type_, -math.inf if fold.how == "max" else math.inf)
        if scalar == "i1":
            return self.constant(type_, fold.how == "min")
        bits = int(scalar[1:])
        return self.constant(type_, -(1 << (bits - 1)) if fold.how == "max" else (1 << (bits - 1)) - 1)

    def _identities(self, count: int = 1) -> list[Value]:
        """What the totals begin with, of `count` vectors for each reduction."""
        return [self._identity(fold, fold.kept) for fold in self.folds for _ in range(count)]

    def _combined(self, fold: _Fold, total: Value, x: Value) -> Value:
        """x is of the total's type, or of one that it is converted from."""
        scalar = element(total.type)
        if fold.how == "sum":
            return self.add(total, convert(self, x, scalar))
        if scalar in FLOATS:
            better = self.compare("ogt" if fold.how == "max" else "olt", x, total)
            return self.select(self.binary("or", better, self.compare("uno", x, x)), x, total)
        if scalar == "i1":
            return self.binary("or" if fold.how == "max" else "and", total, x)
        return self.select(self.compare("sgt" if fold.how == "max" else "slt", x, total), x, total)

    def _combined_where(self, fold: _Fold, total: Value, x: Value, mask: Value | None) -> Value:
        result = self._combined(fold, total, x)
        return result if mask is None else self.select(mask, result, total)

    def _across(self, fold: _Fold, total: Value) -> Value:
        """All lanes combined, always in one order: the upper half with the lower, and so on."""
        lanes = lanes_of(total.type)
        while lanes > 1:
            lanes //= 2
            low, high = (self.lanes_from(total, start, lanes) for start in (0, lanes))
            total = self._combined(fold, low, high)
        return total

    def _over_rows(
        self, count: Value, totals: list[Value], body: Callable[[Value, list[Value]], list[Value]]
    ) -> list[Value]:
        """The loop over reduced rows. Converting each number to double precision would cost more than adding it, so
        sums of float32 take a few rows at a time as they are."""
        zero = self.integer(0)
        folds = [fold for fold in self.folds for _ in range(len(totals) // len(self.folds))]
        singles = [fold.how == "sum" and fold.scalar == "float" for fold in folds]
        if not any(singles):
            return self.loop(zero, count, 1, totals, body)

        def some(i: Value, carried: list[Value]) -> list[Value]:
            end = self.add(i, self.integer(SINGLES))
            end = self.select(self.compare("slt", end, count), end, count)
            partial = [
                self._identity(fold, "float") if single else total
                for fold, single, total in zip(folds, singles, carried, strict=True)
            ]
            found = self.loop(i, end, 1, partial, body)
            return [
                self._combined(fold, total, x) if single else x
                for fold, single, total, x in zip(folds, singles, carried, found, strict=True)
            ]

        return self.loop(zero, count, SINGLES, totals, some)

    def _reduce_rows(self, indices: list[Value]) -> None:
        kernel = self.kernel
        kept = kernel.axes - kernel.reduced

        def over(axis: int, at: list[Value], totals: list[Value]) -> list[Value]:
            if axis < kernel.axes - 1:
                return self.loop(
                    self.integer(0), self.sizes[axis], 1, totals, lambda i, c: over(axis + 1, [*at, i], c)
                )
            row = self._row(at)
            lanes, size = self.lanes, self.sizes[-1]

            def step(j: Value, carried: list[Value], mask: Value | None) -> list[Value]:
                values = self._at(row, j, mask)
                return [
                    self._combined_where(fold, total, values[fold.number], mask)
                    for fold, total in zip(self.folds, carried, strict=True)
                ]

            whole = self.binary("and", size, self.integer(-lanes))
            totals = self.loop(self.integer(0), whole, lanes, totals, lambda j, c: step(j, c, None))
            rest = self.first_lanes(lanes, self.subtract(size, whole)) if lanes > 1 else None
            if rest is not None:
                totals = self.loop(whole, size, lanes, totals, lambda j, c: step(j, c, rest))
            return totals

        for fold, total in zip(self.folds, over(kept, indices, self._identities()), strict=True):
            begin = self._begin(self.strides[fold.strides], indices)
            self.store(
                convert(self, self._across(fold, total), fold.scalar),
                self._from(fold.base, fold.scalar, begin),
            )

    def _reduce_columns(self, indices: list[Value]) -> None:
        """Axes: kept ..., reduced ..., and the last kept one, which runs over vectors, innermost."""
        kernel = self.kernel
        kept = kernel.axes - kernel.reduced
        places = [
            _Place(fold.base, self._begin(strides, indices), fold.move, strides[kept - 1])
            for fold in self.folds
            for strides in (self.strides[fold.strides],)
        ]

        def block(columns: list[Value], mask: Value | None) -> None:
            def over(axis: int, at: list[Value], totals: list[Value]) -> list[Value]:
                if axis == kernel.axes - 1:
                    begins = self._row(at)
                    values = [self._at(begins, j, mask) for j in columns]
                    found = [v[fold.number] for fold in self.folds for v in values]
                    folds = [fold for fold in self.folds for _ in columns]
                    return [self._combined(*each) for each in zip(folds, totals, found, strict=True)]

                def row(i: Value, carried: list[Value]) -> list[Value]:
                    return over(axis + 1, [*at, i], carried)

                if axis == kernel.axes - 2:
                    return self._over_rows(self.sizes[axis], totals, row)
                return self.loop(self.integer(0), self.sizes[axis], 1, totals, row)

            totals = iter(over(kept - 1, indices, self._identities(len(columns))))
            for fold, place in zip(self.folds, places, strict=True):
                for j in columns:
                    self._store(convert(self, next(totals), fold.scalar), place, j, mask)

        # Several vectors at a time, so that whole cache lines are read one after another.
        lanes = self.lanes
        wide = lanes * COLUMNS
        whole = self.binary("and", self.sizes[-1], self.integer(-wide))
        offsets = [self.integer(k * lanes) for k in range(COLUMNS)]

        def side_by_side(j: Value, _: list[Value]) -> None:
            block([self.add(j, o) for o in offsets], None)

        self.loop(self.integer(0), whole, wide, [], side_by_side)
        aligned = self.binary("and", self.sizes[-1], self.integer(-lanes))
        self.loop(whole, aligned, lanes, [], lambda j, _: block([j], None))
        if lanes > 1:
            rest = self.subtract(self.sizes[-1], aligned)
            some = self.compare("sgt", rest, self.integer(0))
            self.when(some, lambda: block([aligned], self.first_lanes(lanes, rest)))
