"""Operands of loops: how a vector of values is loaded, computed and stored at one place of the loops.

Fixed in the code: the expression, the number of axes, and the step of each operand along the innermost one.
Sizes, strides and addresses are in the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphnet.backends.numba.code.expressions import FLOATS, convert, evaluate
from graphnet.backends.numba.code.ir import Code, LLVMValue, element, lanes_of, llvm_type, vector_type
from graphnet.graph.node import Dtype
from graphnet.plan.instructions import Step


@dataclass(frozen=True)
class LoadForm:
    """Form of a load: kind as in plan.Load, scalar type, and step along the innermost axis: "vector" (1), "same" (0)
    or "strided". index_move: step of the index of a column lookup.

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


class Stored(NamedTuple):
    """The value of this number is stored; its move and the number of its strides."""

    number: int
    move: str
    strides: int


class Reduced(NamedTuple):
    """The value of this number is combined; how, and of the results the dtype, the move along the last axis that is
    kept, and the number of their strides, which are those for the axes that are kept."""

    how: str
    number: int
    dtype: Dtype
    move: str
    strides: int


@dataclass(frozen=True)
class LoopForm:
    """Nested loops over `axes` axes, of which the last `reduced` are combined.

    Record: error flag; sizes (one for each axis); `strides` groups of one stride for each axis; then for each load:
    address, and for lookups and one_hot without a twin: index address, and number of rows (columns); then the address
    of each store, and of each reduction. Operands with equal strides share a group: the start of a row is computed
    once for all of them, which is half of the work if rows are short.
    vector_axis_reduced: the innermost axis, which runs over vectors, is one of those that are reduced.
    short: size of the innermost axis, if it fits one vector and no column is reduced; else 0. Such a row needs no loop.
    long: sums of float64 have more terms in a lane than are added without compensation.
    """

    vector_bytes: int
    axes: int
    strides: int
    loads: tuple[LoadForm, ...]
    steps: tuple[Step, ...]
    stores: tuple[Stored, ...]
    reductions: tuple[Reduced, ...] = ()
    reduced: int = 0
    vector_axis_reduced: bool = False
    short: int = 0
    long: bool = False
    check: bool = False
    avx512: bool = False

    @property
    def lanes(self) -> int:
        """Number of lanes of a vector; the widest number decides."""
        return lanes_for(self.vector_bytes, [o.dtype for o in self.loads] + [s.dtype for s in self.steps])

    def dtype_of(self, value: int) -> Dtype:
        return (
            self.loads[value].dtype if value < len(self.loads) else self.steps[value - len(self.loads)].dtype
        )


def lanes_for(vector_bytes: int, dtypes: Sequence[Dtype]) -> int:
    """Number of lanes of the widest of these floats in a vector; without floats, of the widest integers."""
    floats = [d.itemsize for d in dtypes if d.kind == "f"]
    widest = max(floats or [d.itemsize for d in dtypes] or [8])
    return max(1, vector_bytes // widest)


class Row(NamedTuple):
    """Shared values of the vectors of a row, in elements: its start for each of the kernel's strides (None: the
    address itself); for each row lookup and one-hot code, the index and the start of the row.
    """

    begins: list[LLVMValue | None]
    lookups: dict[int, tuple[LLVMValue, LLVMValue | None]]


class RowAddress(NamedTuple):
    """Address of a row of an operand: base and offset, step along the innermost axis, and stride there."""

    address: LLVMValue
    begin: LLVMValue | None
    move: str
    stride: LLVMValue


class OperandCode(Code):
    """Code with the record's words loaded, and the work at one place of the loops: `_at`."""

    def __init__(self, kernel: LoopForm) -> None:
        super().__init__(kernel.vector_bytes, kernel.avx512)
        self.kernel, self.lanes = kernel, kernel.lanes
        self.flag = self.pointer_slot(2)
        self.at_slot = 3
        axes = kernel.axes
        self.sizes = self._slots(axes)
        self.strides = [self._slots(axes) for _ in range(kernel.strides)]
        self.bases: list[LLVMValue] = []
        # By load: the index's address, and the number of rows (or columns).
        self.indexed: dict[int, tuple[LLVMValue, LLVMValue]] = {}
        for k, operand in enumerate(kernel.loads):
            self.bases.append(self._pointer())
            if operand.kind != "plain" and operand.twin < 0:
                self.indexed[k] = self._pointer(), self._slots(1)[0]
        self.targets = [self._pointer() for _ in kernel.stores]

    def _slots(self, count: int) -> list[LLVMValue]:
        found = [self.slot(self.at_slot + i) for i in range(count)]
        self.at_slot += count
        return found

    def _pointer(self) -> LLVMValue:
        self.at_slot += 1
        return self.pointer_slot(self.at_slot - 1)

    def _short_mask(self) -> LLVMValue | None:
        short = self.kernel.short
        return self.first_lanes(self.lanes, self.integer(short)) if 0 < short < self.lanes else None

    def _at(self, row: Row, j: LLVMValue, mask: LLVMValue | None) -> list[LLVMValue]:
        values = self._values(row, j, mask, self.lanes)
        for (number, move, strides), target in zip(self.kernel.stores, self.targets, strict=True):
            place = RowAddress(target, row.begins[strides], move, self.strides[strides][-1])
            self._store(values[number], place, j, mask)
        return values

    def _begin(self, strides: Sequence[LLVMValue], indices: Sequence[LLVMValue]) -> LLVMValue | None:
        total: LLVMValue | None = None
        for i, stride in zip(indices, strides, strict=False):
            more = self.multiply(i, stride)
            total = more if total is None else self.add(total, more)
        return total

    def _row(self, indices: Sequence[LLVMValue]) -> Row:
        row = Row([self._begin(strides, indices) for strides in self.strides], {})
        for k, operand in enumerate(self.kernel.loads):
            if operand.kind in ("rows", "one_hot"):
                index = (
                    row.lookups[operand.twin][0] if operand.twin >= 0 else self._looked_up(k, operand, row)
                )
                table = self.strides[operand.strides][0]
                row.lookups[k] = index, self.multiply(index, table) if operand.kind == "rows" else None
        return row

    def _looked_up(self, k: int, operand: LoadForm, row: Row) -> LLVMValue:
        assert operand.index_dtype is not None
        base, count = self.indexed[k]
        scalar = llvm_type(operand.index_dtype)
        index = self.load(scalar, self._from(base, scalar, row.begins[operand.index_strides]))
        return self.checked_index(index, operand.index_dtype, count, self.flag)

    def _from(self, address: LLVMValue, scalar: str, *steps: LLVMValue | None) -> LLVMValue:
        total: LLVMValue | None = None
        for step in steps:
            if step is not None:
                total = step if total is None else self.add(total, step)
        return address if total is None else self.offset(address, scalar, total)

    def _values(self, row: Row, j: LLVMValue, mask: LLVMValue | None, lanes: int) -> list[LLVMValue]:
        values: list[LLVMValue] = []
        for k, operand in enumerate(self.kernel.loads):
            index, begin = row.lookups.get(k, (None, row.begins[operand.strides]))
            if operand.kind == "one_hot":
                assert index is not None
                # Converting symbols from int64 to 32 bits before this comparison is not faster.
                hit = self.compare("eq", self._columns(j, lanes), self.splat(index, lanes))
                values.append(convert(self, hit, llvm_type(operand.dtype)))
            elif operand.kind == "columns":
                values.append(self._columns_at(k, begin, j, mask, lanes))
            else:
                place = RowAddress(self.bases[k], begin, operand.move, self.strides[operand.strides][-1])
                values.append(self._load(operand.dtype, place, j, mask, lanes))
        for step in self.kernel.steps:
            dtypes = [self.kernel.dtype_of(s) for s in step.sources]
            values.append(evaluate(self, step, [values[s] for s in step.sources], dtypes, lanes))
        if self.kernel.check:
            self._check(values, mask)
        return values

    def _check(self, values: Sequence[LLVMValue], mask: LLVMValue | None) -> None:
        """Raises the flag if a value is not finite: v - v is then NaN."""
        bad: LLVMValue | None = None
        for value in values:
            if element(value.type) in FLOATS:
                difference = self.subtract(value, value)
                this = self.compare("uno", difference, difference)
                bad = this if bad is None else self.binary("or", bad, this)
        if bad is None:
            return
        if mask is not None:
            bad = self.binary("and", bad, mask)
        self.raise_where(bad, self.flag)

    def _columns(self, j: LLVMValue, lanes: int) -> LLVMValue:
        if lanes == 1:
            return j
        return self.add(self.splat(j, lanes), self.lane_numbers("i64", lanes))

    def _load(
        self, dtype: Dtype, place: RowAddress, j: LLVMValue, mask: LLVMValue | None, lanes: int
    ) -> LLVMValue:
        scalar = llvm_type(dtype)
        if place.move == "same":
            return self.splat(self.load(scalar, self._from(place.address, scalar, place.begin)), lanes)
        if place.move == "vector" or lanes == 1:
            return self.load(vector_type(scalar, lanes), self._element(scalar, place, j), mask)
        steps = self.multiply(self._columns(j, lanes), self.splat(place.stride, lanes))
        return self._gathered_at(scalar, self._from(place.address, scalar, place.begin), steps, mask, lanes)

    def _element(self, scalar: str, place: RowAddress, j: LLVMValue) -> LLVMValue:
        step = j if place.move == "vector" else self.multiply(j, place.stride)
        return self._from(place.address, scalar, place.begin, step)

    def _columns_at(
        self, k: int, begin: LLVMValue | None, j: LLVMValue, mask: LLVMValue | None, lanes: int
    ) -> LLVMValue:
        """data[at[j]] of a row, for the columns that a vector of indices names."""
        operand = self.kernel.loads[k]
        base, count = self.indexed[k]
        assert operand.index_dtype is not None
        held = RowAddress(base, None, operand.index_move, self.strides[operand.index_strides][-1])
        index = self._load(operand.index_dtype, held, j, mask, lanes)
        index = self.checked_index(index, operand.index_dtype, count, self.flag, mask)
        scalar = llvm_type(operand.dtype)
        along = self.strides[operand.strides][-1]
        if lanes == 1:
            return self.load(scalar, self._from(self.bases[k], scalar, begin, self.multiply(index, along)))
        start = self._from(self.bases[k], scalar, begin)
        return self._gathered_at(scalar, start, self.multiply(index, self.splat(along, lanes)), mask, lanes)

    def _gathered_at(
        self, scalar: str, start: LLVMValue, steps: LLVMValue, mask: LLVMValue | None, lanes: int
    ) -> LLVMValue:
        if scalar == "i1":
            held = self._gathered_at("i8", start, steps, mask, lanes)
            return self.compare("ne", held, self.constant(held.type, 0))
        type_, pointers = vector_type(scalar, lanes), vector_type("ptr", lanes)
        every = mask or self.constant(vector_type("i1", lanes), True)
        addresses = self.value(pointers, f"getelementptr {scalar}, {start}, {steps}")
        return self.intrinsic(
            "masked.gather", type_, addresses, LLVMValue("i32", "1"), every, LLVMValue(type_, "zeroinitializer"),
            suffix=f"{type_}.{pointers}",
        )  # fmt: skip

    def _store(self, value: LLVMValue, place: RowAddress, j: LLVMValue, mask: LLVMValue | None) -> None:
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
            LLVMValue("i32", "1"),
            every,
            suffix=f"{value.type}.{addresses.type}",
        )
