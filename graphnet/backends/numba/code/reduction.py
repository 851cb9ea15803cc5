"""Loops with reductions: sums, maxima and minima over the last axes of fused expressions.

Vectors run along the innermost axis. If it is one of those that are reduced ("rows" are), lanes are combined at the
end of each row, of a few rows at once; if not, each lane is one column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from graphnet.backends.compiled.expressions import Fold
from graphnet.backends.numba.code.expressions import LLVMEmitter, convert
from graphnet.backends.numba.code.ir import LLVMValue, element, lanes_of, llvm_type, vector_type
from graphnet.backends.numba.code.operands import LoopForm, OperandCode, Row, RowAddress
from graphnet.graph.node import Dtype

#: Vectors side by side in a reduction over columns; a power of two.
COLUMNS = 4
#: Rows side by side in a reduction over rows, whose lanes are combined in common; a power of two. Of expressions
#: with more steps than LONG it is one.
ROWS, LONG = 4, 24
#: Number of terms that are added in their own precision. Their sums are added more exactly: of float32 by columns in
#: double precision (converting each term would cost more than adding it), of float64 with the rounding errors.
CHUNK = 16


class _Fold(NamedTuple):
    """A reduction: how it combines the value of this number, and where its results go, of which dtype."""

    how: str
    number: int
    move: str
    dtype: Dtype
    result: Dtype
    base: LLVMValue
    strides: int

    @property
    def scalar(self) -> str:
        return llvm_type(self.dtype)

    @property
    def rule(self) -> Fold:
        return Fold(self.how, self.dtype)

    @property
    def kept(self) -> str:
        return llvm_type(self.rule.kept)

    def is_apart(self, long: bool, by_rows: bool) -> bool:
        """True if each chunk of terms has its own sum: rows of float32 are converted at once."""
        if self.how != "sum":
            return False
        return long if self.scalar == "double" else self.scalar == "float" and not by_rows


#: Totals: for each reduction those of all rows (or columns), adjacent. In a loop, the rounding errors of each long sum
#: of float64 follow, in the same order.
_Totals = list[LLVMValue]


class ReductionCode(OperandCode):
    def __init__(self, kernel: LoopForm) -> None:
        super().__init__(kernel)
        self.folds = [
            _Fold(
                r.how, r.number, r.move, self.kernel.dtype_of(r.number), r.dtype, self._pointer(), r.strides
            )
            for r in kernel.reductions
        ]
        self.kept_axes = kernel.axes - kernel.reduced
        self.apart = [f for f in self.folds if f.is_apart(kernel.long, kernel.vector_axis_reduced)]
        self._kept(0, [])

    def _kept(self, axis: int, indices: list[LLVMValue]) -> None:
        by_rows = self.kernel.vector_axis_reduced
        if axis == self.kept_axes - (0 if by_rows else 1):
            if by_rows:
                self._reduce_rows([indices])
            else:
                self._reduce_columns(indices)
            return

        def body(i: LLVMValue, _: _Totals) -> None:
            self._kept(axis + 1, [*indices, i])

        start = self.integer(0)
        if by_rows and axis == self.kept_axes - 1:
            start = self._side_by_side(indices)
        self.loop(start, self.sizes[axis], 1, [], body)

    def _side_by_side(self, indices: list[LLVMValue]) -> LLVMValue:
        """Reduces rows, a few at a time; returns the first remaining row."""
        # Long rows that are also written are more streams than the hardware prefetches (float64, in
        # conjugate gradients: 24 arrays at the same time take 22 ms instead of 14 ms).
        alone = len(self.kernel.steps) > LONG or (self.kernel.long and self.kernel.stores)
        count = 1 if alone else min(ROWS, self.lanes)
        if count == 1:
            return self.integer(0)
        whole = self.binary("and", self.sizes[self.kept_axes - 1], self.integer(-count))

        def some(i: LLVMValue, _: _Totals) -> None:
            self._reduce_rows([[*indices, self.add(i, self.integer(r))] for r in range(count)])

        self.loop(self.integer(0), whole, count, [], some)
        return whole

    # -- totals -------------------------------------------------------------------------------------

    def _identity(self, fold: _Fold, scalar: str) -> LLVMValue:
        return self.constant(vector_type(scalar, self.lanes), fold.rule.identity)

    def _identities(self, count: int) -> _Totals:
        folds = self._each(count)
        return [self._identity(fold, fold.kept) for fold in (*folds, *self._rounded(folds))]

    def _each(self, count: int) -> list[_Fold]:
        return [fold for fold in self.folds for _ in range(count)]

    def _rounded(self, folds: Sequence[_Fold]) -> list[_Fold]:
        return [fold for fold in folds if fold in self.apart and fold.scalar == "double"]

    def _in_chunks(
        self,
        start: LLVMValue,
        stop: LLVMValue,
        step: int,
        totals: _Totals,
        body: Callable[[LLVMValue, _Totals], _Totals],
    ) -> _Totals:
        """The loop, with a separate sum for each CHUNK of terms. body: maps totals without rounding errors to the
        same."""
        if not self.apart:
            return self.loop(start, stop, step, totals, body)

        def some(i: LLVMValue, carried: _Totals) -> _Totals:
            end = self.add(i, self.integer(CHUNK * step))
            end = self.select(self.compare("slt", end, stop), end, stop)
            return self._absorbed(carried, lambda apart: self.loop(i, end, step, apart, body))

        return self.loop(start, stop, CHUNK * step, totals, some)

    def _absorbed(self, carried: _Totals, more: Callable[[_Totals], _Totals]) -> _Totals:
        """The totals after `more`, which restarts the sums and continues the other reductions."""
        folds = self._folds_of(carried)
        totals, lost = carried[: len(folds)], iter(carried[len(folds) :])
        begun = [
            self._identity(fold, fold.scalar) if fold in self.apart else total
            for fold, total in zip(folds, totals, strict=True)
        ]
        after, lost_after = [], []
        for fold, total, x in zip(folds, totals, more(begun), strict=True):
            if fold not in self.apart:
                after.append(x)
                continue
            after.append(self._combined(fold, total, x))
            if fold.scalar == "double":
                lost_after.append(self.add(next(lost), self._rounding(total, x, after[-1])))
        return [*after, *lost_after]

    def _rounding(self, a: LLVMValue, b: LLVMValue, total: LLVMValue) -> LLVMValue:
        """a + b - total, exactly, where total is a + b rounded. Source: Knuth 1969, 4.2.2."""
        of_b = self.subtract(total, a)
        of_a = self.subtract(total, of_b)
        return self.add(self.subtract(a, of_a), self.subtract(b, of_b))

    def _folds_of(self, totals: _Totals) -> list[_Fold]:
        return self._each(len(totals) // (len(self.folds) + len(self._rounded(self.folds))))

    def _whole(self, totals: _Totals) -> _Totals:
        """The totals corrected by their rounding errors, except infinite ones."""
        folds = self._folds_of(totals)
        lost = iter(totals[len(folds) :])
        rounded = self._rounded(folds)
        found = []
        for fold, total in zip(folds, totals, strict=False):
            if fold in rounded:
                rest = next(lost)
                total = self.select(self.compare("ord", rest, rest), self.add(total, rest), total)
            found.append(total)
        return found

    def _combined(self, fold: _Fold, total: LLVMValue, x: LLVMValue) -> LLVMValue:
        """x is of the total's type, or of one that it is converted from."""
        scalar = element(total.type)
        emitter = LLVMEmitter(self, lanes_of(total.type))
        dtype = fold.rule.kept if scalar == fold.kept else fold.dtype
        return fold.rule.combined(emitter, total, convert(self, x, scalar), dtype)

    def _combined_where(
        self, fold: _Fold, total: LLVMValue, x: LLVMValue, mask: LLVMValue | None
    ) -> LLVMValue:
        result = self._combined(fold, total, x)
        return result if mask is None else self.select(mask, result, total)

    def _across(self, fold: _Fold, totals: _Totals) -> LLVMValue:
        """All lanes of each total combined, the results side by side. Always in one order, however many totals there
        are: the lower half of a total's lanes with the upper, and so on."""
        each = lanes_of(totals[0].type)  # lanes of a vector for one total
        while each > 1:
            each //= 2
            if len(totals) > 1:
                totals = [
                    self._halves(fold, [a, b], each) for a, b in zip(totals[::2], totals[1::2], strict=True)
                ]
            else:
                totals = [self._halves(fold, totals, each)]
        (result,) = totals
        return result

    def _halves(self, fold: _Fold, vectors: _Totals, half: int) -> LLVMValue:
        lanes = lanes_of(vectors[0].type) * len(vectors)
        lower = [i + k for i in range(0, lanes, 2 * half) for k in range(half)]
        low, high = (self.picked(vectors, [i + more for i in lower]) for more in (0, half))
        return self._combined(fold, low, high)

    # -- rows ---------------------------------------------------------------------------------------

    def _reduce_rows(self, kept: list[list[LLVMValue]]) -> None:
        totals = iter(self._row_totals(kept))
        for fold in self.folds:
            total = self._across(fold, [next(totals) for _ in kept])
            strides = self.strides[fold.strides]
            place = RowAddress(
                fold.base, self._begin(strides, kept[0]), fold.move, strides[self.kept_axes - 1]
            )
            self._store(convert(self, total, llvm_type(fold.result)), place, self.integer(0), None)

    def _row_totals(self, kept: list[list[LLVMValue]]) -> _Totals:
        kernel, lanes, zero = self.kernel, self.lanes, self.integer(0)
        folds = self._each(len(kept))
        short = self._short_mask()

        def rows(more: list[LLVMValue]) -> list[Row]:
            return [self._row([*at, *more]) for at in kept]

        def found(rows: list[Row], j: LLVMValue, mask: LLVMValue | None) -> list[LLVMValue]:
            values = [self._at(row, j, mask) for row in rows]
            return [of_row[fold.number] for fold in self.folds for of_row in values]

        def step(rows: list[Row], j: LLVMValue, mask: LLVMValue | None, carried: _Totals) -> _Totals:
            pairs = zip(folds, carried, found(rows, j, mask), strict=True)
            return [self._combined_where(fold, total, x, mask) for fold, total, x in pairs]

        def one(rows: list[Row], j: LLVMValue, mask: LLVMValue | None, carried: _Totals) -> _Totals:
            return self._absorbed(carried, lambda apart: step(rows, j, mask, apart))

        def along(rows: list[Row], totals: _Totals) -> _Totals:
            if kernel.short:
                return one(rows, zero, short, totals)
            size = self.sizes[-1]
            whole = self.binary("and", size, self.integer(-lanes))
            totals = self._in_chunks(zero, whole, lanes, totals, lambda j, c: step(rows, j, None, c))
            if lanes == 1:
                return totals
            rest = self.first_lanes(lanes, self.subtract(size, whole))
            return self.loop(whole, size, lanes, totals, lambda j, c: one(rows, j, rest, c))

        def over(axis: int, more: list[LLVMValue], totals: _Totals) -> _Totals:
            if axis == kernel.axes - 1:
                return along(rows(more), totals)
            return self.loop(zero, self.sizes[axis], 1, totals, lambda i, c: over(axis + 1, [*more, i], c))

        if kernel.short and kernel.reduced == 1:  # there is only one vector
            values = found(rows([]), zero, short)
            if short is None:
                return values
            return [
                self.select(short, x, self._identity(fold, element(x.type)))
                for fold, x in zip(folds, values, strict=True)
            ]
        return self._whole(over(self.kept_axes, [], self._identities(len(kept))))

    # -- columns ------------------------------------------------------------------------------------

    def _reduce_columns(self, indices: list[LLVMValue]) -> None:
        """Axes: kept ..., reduced ..., and the last kept one, which runs over vectors, innermost."""
        kernel, kept = self.kernel, self.kept_axes
        places = [
            RowAddress(fold.base, self._begin(strides, indices), fold.move, strides[kept - 1])
            for fold in self.folds
            for strides in (self.strides[fold.strides],)
        ]

        def block(columns: list[LLVMValue], mask: LLVMValue | None) -> None:
            def over(axis: int, at: list[LLVMValue], totals: list[LLVMValue]) -> list[LLVMValue]:
                if axis == kernel.axes - 1:
                    begins = self._row(at)
                    values = [self._at(begins, j, mask) for j in columns]
                    found = [v[fold.number] for fold in self.folds for v in values]
                    folds = self._each(len(columns))
                    return [self._combined(*each) for each in zip(folds, totals, found, strict=True)]

                def row(i: LLVMValue, carried: list[LLVMValue]) -> list[LLVMValue]:
                    return over(axis + 1, [*at, i], carried)

                if axis == kernel.axes - 2:
                    return self._in_chunks(self.integer(0), self.sizes[axis], 1, totals, row)
                return self.loop(self.integer(0), self.sizes[axis], 1, totals, row)

            totals = iter(self._whole(over(kept - 1, indices, self._identities(len(columns)))))
            for fold, place in zip(self.folds, places, strict=True):
                for j in columns:
                    self._store(convert(self, next(totals), llvm_type(fold.result)), place, j, mask)

        # Several vectors at a time, so that whole cache lines are read one after another.
        lanes = self.lanes
        wide = lanes * COLUMNS
        whole = self.binary("and", self.sizes[-1], self.integer(-wide))
        offsets = [self.integer(k * lanes) for k in range(COLUMNS)]

        def side_by_side(j: LLVMValue, _: list[LLVMValue]) -> None:
            block([self.add(j, o) for o in offsets], None)

        self.loop(self.integer(0), whole, wide, [], side_by_side)
        aligned = self.binary("and", self.sizes[-1], self.integer(-lanes))
        self.loop(whole, aligned, lanes, [], lambda j, _: block([j], None))
        if lanes > 1:
            rest = self.subtract(self.sizes[-1], aligned)
            some = self.compare("sgt", rest, self.integer(0))
            self.when(some, lambda: block([aligned], self.first_lanes(lanes, rest)))
