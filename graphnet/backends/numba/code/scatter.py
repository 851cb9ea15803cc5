"""Scatter: rows added up by index, in order, so that the result is the same at every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphnet.backends.numba.code.ir import Code, LLVMValue, llvm_type, vector_type
from graphnet.graph.node import Dtype

#: Rows that a scatter of columns adds up side by side: one after the other, each sum would wait for the last.
ABREAST = 4
#: Number of rows by which rows are prefetched: they are short, and the hardware does not predict the next one.
AHEAD = 4


def _checked_index(
    code: Code, dtype: Dtype, index: LLVMValue, at: LLVMValue, size: LLVMValue, flag: LLVMValue
) -> LLVMValue:
    held = llvm_type(dtype)
    return code.checked_index(code.load(held, code.offset(index, held, at)), dtype, size, flag)


@dataclass(frozen=True)
class ScatterKernel:
    """y = 0; y[index[i]] += x[i].

    Record: error flag, x, index, y (addresses), rows of x, columns, rows of y, then the strides of x's rows,
    of the index and of y's rows; and, if `apart`, the address of a table of the core's own, of whole vectors in
    each row, in which it adds up. Cores that write to halves of one small y write to one cache line all the time.
    """

    dtype: Dtype
    index_dtype: Dtype
    vector_bytes: int
    apart: bool = False

    def text(self) -> str:
        return _ScatterCode(self).module()


class _ScatterCode(Code):
    def __init__(self, kernel: ScatterKernel) -> None:
        super().__init__(kernel.vector_bytes)
        self.kernel, self.scalar = kernel, llvm_type(kernel.dtype)
        self.lanes = kernel.vector_bytes // kernel.dtype.itemsize
        self.flag, self.x, self.index, self.y = (self.pointer_slot(i) for i in range(2, 6))
        rows, columns, size, self.x_row, self.index_step, self.y_row = (self.slot(i) for i in range(6, 12))
        self.size, self.zero = size, self.integer(0)
        self.vector = vector_type(self.scalar, self.lanes)
        self.whole = self.binary("and", columns, self.integer(-self.lanes))
        self.rest = self.first_lanes(self.lanes, self.subtract(columns, self.whole))
        self.some = self.compare("slt", self.whole, columns)
        #: Table to which rows are added.
        self.table, self.table_row = self.y, self.y_row
        if kernel.apart:
            self.table = self.pointer_slot(12)
            above = self.add(columns, self.integer(self.lanes - 1))
            self.table_row = self.binary("and", above, self.integer(-self.lanes))
        self.loop(self.zero, size, 1, [], self._clear)
        self.loop(self.zero, rows, 1, [], self._add)
        if kernel.apart:
            self.loop(self.zero, size, 1, [], self._hand_over)

    def _row_at(self, base: LLVMValue, row: LLVMValue, stride: LLVMValue) -> LLVMValue:
        return self.offset(base, self.scalar, self.multiply(row, stride))

    def _by_vectors(self, one: Callable[[LLVMValue, LLVMValue | None], None]) -> list[LLVMValue]:
        """one(j, mask) for each vector of a row; the last may be a part of one."""

        def inside(j: LLVMValue, mask: LLVMValue | None) -> list[LLVMValue]:
            one(j, mask)
            return []

        self.loop(self.zero, self.whole, self.lanes, [], lambda j, _: inside(j, None))
        self.when(self.some, lambda: inside(self.whole, self.rest))
        return []

    def _in_table(self, mask: LLVMValue | None) -> LLVMValue | None:
        """Mask for the table; None for a core's own table, which has whole vectors."""
        return None if self.kernel.apart else mask

    def _clear(self, i: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
        row = self._row_at(self.table, i, self.table_row)
        none = self.constant(self.vector, 0.0)
        return self._by_vectors(
            lambda j, mask: self.store(none, self.offset(row, self.scalar, j), self._in_table(mask))
        )

    def _add(self, i: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
        at = self.multiply(i, self.index_step)
        target = _checked_index(self, self.kernel.index_dtype, self.index, at, self.size, self.flag)
        source = self._row_at(self.x, i, self.x_row)
        goal = self._row_at(self.table, target, self.table_row)
        ahead = self._row_at(self.x, self.add(i, self.integer(AHEAD)), self.x_row)

        def one(j: LLVMValue, mask: LLVMValue | None) -> None:
            self.prefetch(self.offset(ahead, self.scalar, j), soon=True)
            place = self.offset(goal, self.scalar, j)
            more = self.load(self.vector, self.offset(source, self.scalar, j), mask)
            held = self.load(self.vector, place, self._in_table(mask))
            self.store(self.add(held, more), place, self._in_table(mask))

        return self._by_vectors(one)

    def _hand_over(self, i: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
        row, goal = self._row_at(self.table, i, self.table_row), self._row_at(self.y, i, self.y_row)

        def one(j: LLVMValue, mask: LLVMValue | None) -> None:
            held = self.load(self.vector, self.offset(row, self.scalar, j))
            self.store(held, self.offset(goal, self.scalar, j), mask)

        return self._by_vectors(one)


@dataclass(frozen=True)
class ColumnScatterKernel:
    """y = 0; y[:, index[j]] += x[:, j].

    Record: error flag, x, index, y (addresses), rows, columns of x, columns of y, then the strides of x's rows and
    columns, of the index, and of y's rows and columns.
    """

    dtype: Dtype
    index_dtype: Dtype
    vector_bytes: int

    def text(self) -> str:
        code = Code(self.vector_bytes)
        scalar = llvm_type(self.dtype)
        flag, x, index, y = (code.pointer_slot(i) for i in range(2, 6))
        rows, columns, size, x_row, x_column, index_step, y_row, y_column = (
            code.slot(i) for i in range(6, 14)
        )
        zero = code.integer(0)

        def at(base: LLVMValue, row: LLVMValue, stride: LLVMValue) -> LLVMValue:
            return code.offset(base, scalar, code.multiply(row, stride))

        def add_up(first: LLVMValue, count: int) -> list[LLVMValue]:
            numbers = [code.add(first, code.integer(k)) for k in range(count)]
            sources = [at(x, i, x_row) for i in numbers]
            goals = [at(y, i, y_row) for i in numbers]

            def clear(j: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
                for goal in goals:
                    code.store(code.constant(scalar, 0.0), at(goal, j, y_column))
                return []

            def add(j: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
                target = _checked_index(
                    code, self.index_dtype, index, code.multiply(j, index_step), size, flag
                )
                for source, goal in zip(sources, goals, strict=True):
                    place = at(goal, target, y_column)
                    code.store(
                        code.add(code.load(scalar, place), code.load(scalar, at(source, j, x_column))), place
                    )
                return []

            code.loop(zero, size, 1, [], clear)
            code.loop(zero, columns, 1, [], add)
            return []

        whole = code.binary("and", rows, code.integer(-ABREAST))
        code.loop(zero, whole, ABREAST, [], lambda i, _: add_up(i, ABREAST))
        code.loop(whole, rows, 1, [], lambda i, _: add_up(i, 1))
        return code.module()
