"""Scatter: rows added up by index, in order, so that the result is the same at every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphnet.backends.numba.ir import Code, Value, llvm_type, vector_type
from graphnet.backends.numba.records import Number, RecordForm, Touched, constant, word
from graphnet.graph.node import Dtype

__all__ = ["ColumnScatterKernel", "ScatterKernel"]

#: Rows that a scatter of columns adds up side by side: one after the other, each sum would wait for the last.
ABREAST = 4
#: Rows are asked for so many rows before they are added: they are short, and the machine does not guess the next one.
AHEAD = 4


def _checked_index(code: Code, dtype: Dtype, index: Value, at: Value, size: Value, flag: Value) -> Value:
    """index[at] as i64; where it is no place of `size`, 0, and the flag is raised: the caller will hear of it."""
    held = llvm_type(dtype)
    target = code.load(held, code.offset(index, held, at))
    if held != "i64":
        target = code.convert("zext" if dtype.kind == "u" else "sext", target, "i64")
    inside = code.compare("ult", target, size)
    outside = code.binary("xor", inside, Value("i1", "true"))
    code.when(outside, lambda: code.line(f"store i64 1, {flag}"))
    return code.select(inside, target, code.integer(0))


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

    def record(self) -> RecordForm:
        item, lanes = self.dtype.itemsize, self.vector_bytes // self.dtype.itemsize
        rows, columns, size, one = word(6), word(7), word(8), constant(1)
        operands = [
            Touched(3, item, False, ((rows, word(9)), (columns, one))),
            Touched(4, self.index_dtype.itemsize, False, ((rows, word(10)),)),
            Touched(5, item, True, ((size, word(11)), (columns, one))),
        ]
        if self.apart:
            whole = Number(7, multiple=lanes)
            operands.append(Touched(12, item, True, ((size, whole), (whole, one))))
        return RecordForm(13 if self.apart else 12, True, tuple(operands))

    def text(self) -> str:
        code = Code(self.vector_bytes)
        scalar = llvm_type(self.dtype)
        lanes = self.vector_bytes // self.dtype.itemsize
        flag, x, index, y = (code.pointer_slot(i) for i in range(2, 6))
        rows, columns, size, x_row, index_step, y_row = (code.slot(i) for i in range(6, 12))
        zero = code.integer(0)
        type_ = vector_type(scalar, lanes)
        whole = code.binary("and", columns, code.integer(-lanes))
        rest = code.first_lanes(lanes, code.subtract(columns, whole))
        some = code.compare("slt", whole, columns)
        table, table_row = y, y_row
        if self.apart:
            table = code.pointer_slot(12)
            above = code.add(columns, code.integer(lanes - 1))
            table_row = code.binary("and", above, code.integer(-lanes))

        def at(base: Value, row: Value, stride: Value) -> Value:
            return code.offset(base, scalar, code.multiply(row, stride))

        def by_vectors(one: Callable[[Value, Value | None], None]) -> list[Value]:
            def inside(j: Value, mask: Value | None) -> list[Value]:
                one(j, mask)
                return []

            code.loop(zero, whole, lanes, [], lambda j, _: inside(j, None))
            code.when(some, lambda: inside(whole, rest))
            return []

        def in_table(mask: Value | None) -> Value | None:
            return None if self.apart else mask

        def clear(i: Value, _: list[Value]) -> list[Value]:
            row = at(table, i, table_row)
            none = code.constant(type_, 0.0)
            return by_vectors(lambda j, mask: code.store(none, code.offset(row, scalar, j), in_table(mask)))

        def add(i: Value, _: list[Value]) -> list[Value]:
            target = _checked_index(code, self.index_dtype, index, code.multiply(i, index_step), size, flag)
            source, goal = at(x, i, x_row), at(table, target, table_row)
            ahead = at(x, code.add(i, code.integer(AHEAD)), x_row)

            def one(j: Value, mask: Value | None) -> None:
                code.prefetch(code.offset(ahead, scalar, j), soon=True)
                place = code.offset(goal, scalar, j)
                more = code.load(type_, code.offset(source, scalar, j), mask)
                code.store(code.add(code.load(type_, place, in_table(mask)), more), place, in_table(mask))

            return by_vectors(one)

        def hand_over(i: Value, _: list[Value]) -> list[Value]:
            row, goal = at(table, i, table_row), at(y, i, y_row)
            return by_vectors(
                lambda j, mask: code.store(
                    code.load(type_, code.offset(row, scalar, j)), code.offset(goal, scalar, j), mask
                )
            )

        code.loop(zero, size, 1, [], clear)
        code.loop(zero, rows, 1, [], add)
        if self.apart:
            code.loop(zero, size, 1, [], hand_over)
        return code.module()


@dataclass(frozen=True)
class ColumnScatterKernel:
    """y = 0; y[:, index[j]] += x[:, j].

    Record: error flag, x, index, y (addresses), rows, columns of x, columns of y, then the strides of x's rows and
    columns, of the index, and of y's rows and columns.
    """

    dtype: Dtype
    index_dtype: Dtype
    vector_bytes: int

    def record(self) -> RecordForm:
        item, rows, columns, size = self.dtype.itemsize, word(6), word(7), word(8)
        return RecordForm(
            14, True,
            (
                Touched(3, item, False, ((rows, word(9)), (columns, word(10)))),
                Touched(4, self.index_dtype.itemsize, False, ((columns, word(11)),)),
                Touched(5, item, True, ((rows, word(12)), (size, word(13)))),
            ),
        )  # fmt: skip

    def text(self) -> str:
        code = Code(self.vector_bytes)
        scalar = llvm_type(self.dtype)
        flag, x, index, y = (code.pointer_slot(i) for i in range(2, 6))
        rows, columns, size, x_row, x_column, index_step, y_row, y_column = (
            code.slot(i) for i in range(6, 14)
        )
        zero = code.integer(0)

        def at(base: Value, row: Value, stride: Value) -> Value:
            return code.offset(base, scalar, code.multiply(row, stride))

        def add_up(first: Value, count: int) -> list[Value]:
            """Rows first ... first + count - 1."""
            numbers = [code.add(first, code.integer(k)) for k in range(count)]
            sources = [at(x, i, x_row) for i in numbers]
            goals = [at(y, i, y_row) for i in numbers]

            def clear(j: Value, _: list[Value]) -> list[Value]:
                for goal in goals:
                    code.store(code.constant(scalar, 0.0), at(goal, j, y_column))
                return []

            def add(j: Value, _: list[Value]) -> list[Value]:
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
