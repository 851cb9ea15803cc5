"""Matrix products C = A B or C += A B: generated register-blocked kernels, and the packing of B.

B is stored in panels of a few vectors' width, each panel's rows one after another, so that the innermost loop
reads it in order; A's elements are broadcast. A tile of C (rows x vectors) stays in registers over all of k.
Source of the scheme: Goto & van de Geijn 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from graphnet.backends.numba.code.ir import Code, LLVMValue, bytes_of, vector_type

__all__ = ["PackKernel", "ProductKernel"]

#: How often the loop over k is unrolled.
UNROLLED = 4
#: Bytes of a cache line.
LINE = 64
#: Number of rows by which packing prefetches: rows are short, and the hardware does not predict the next one.
AHEAD = 8


class _Vector(NamedTuple):
    start: int
    lanes: int
    filled: int

    @property
    def is_partial(self) -> bool:
        return self.filled < self.lanes


def _vectors(columns: int, lanes: int) -> list[_Vector]:
    """The vectors of a row. The last is as narrow as possible, since narrow ones take half the time."""
    found = [_Vector(start, lanes, lanes) for start in range(0, columns - lanes + 1, lanes)]
    rest = columns % lanes
    if rest:
        found.append(_Vector(columns - rest, min(lanes, max(4, 1 << (rest - 1).bit_length())), rest))
    return found


@dataclass(frozen=True)
class ProductKernel:
    """C[m, n] (+)= Σ_k A[m, k] B[k, n], for blocks of `rows` rows and panels of `vectors` vectors.

    Record: A, B, C (addresses), K, strides (elements) of A along m and k, of B along k and from panel to
    panel, of C along m, then the number of whole row blocks and whole panels. `tail_rows` and
    `tail_columns` are the remainders; `unit` is the axis along which A is contiguous ("m", "k" or ""). far: rows of A
    are contiguous and do not fit the caches, so those of the next tile are prefetched.
    """

    scalar: str
    vector_bytes: int
    rows: int
    vectors: int
    tail_rows: int
    tail_columns: int
    unit: str
    accumulate: bool
    far: bool = False

    @property
    def lanes(self) -> int:
        return self.vector_bytes // bytes_of(self.scalar)

    def text(self) -> str:
        return _ProductCode(self).module()


class _ProductCode(Code):
    def __init__(self, kernel: ProductKernel) -> None:
        super().__init__(kernel.vector_bytes)
        self.kernel = kernel
        a, b, c = (self.pointer_slot(i) for i in (2, 3, 4))
        self.K, self.a_m, self.a_k, self.b_k, b_panel, self.c_m, blocks, panels = (
            self.slot(i) for i in range(5, 13)
        )
        width = kernel.vectors * kernel.lanes

        def panel(j: LLVMValue, columns: int) -> None:
            b_panel_j = self.at(b, j, b_panel)
            c_panel_j = self.offset(c, kernel.scalar, self.multiply(j, self.integer(width)))

            def block(i: LLVMValue, rows: int) -> list[LLVMValue]:
                first = self.multiply(i, self.integer(kernel.rows))
                a_i = self.at(a, first, self.a_m)
                if kernel.far:
                    # Later panels read these rows from the cache.
                    is_first = self.compare("eq", j, self.integer(0))
                    self.when(is_first, lambda: self.ask_for(self.at(a_i, self.integer(rows), self.a_m)))
                self.tile(a_i, b_panel_j, self.at(c_panel_j, first, self.c_m), rows, columns)
                return []

            self.loop(self.integer(0), blocks, 1, [], lambda i, _: block(i, kernel.rows))
            if kernel.tail_rows:
                block(blocks, kernel.tail_rows)

        def whole(j: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            panel(j, width)
            return []

        self.loop(self.integer(0), panels, 1, [], whole)
        if kernel.tail_columns:
            panel(panels, kernel.tail_columns)

    def at(self, base: LLVMValue, index: LLVMValue, stride: LLVMValue) -> LLVMValue:
        return self.offset(base, self.kernel.scalar, self.multiply(index, stride))

    # Prefetching into the first-level cache gains half as much. Prefetching C, or more of A, costs up to 5 %,
    # and prefetching in the innermost loop takes the place of loads.
    def ask_for(self, a: LLVMValue) -> None:
        """Prefetches a tile's rows of A, starting here; no effect past the end of A."""
        starts = [self.at(a, self.integer(i), self.a_m) for i in range(self.kernel.rows)]
        item = self.kernel.vector_bytes // self.kernel.lanes

        def line(k: LLVMValue, _: list[LLVMValue]) -> None:
            for start in starts:
                self.prefetch(self.offset(start, self.kernel.scalar, k), soon=False)

        self.loop(self.integer(0), self.K, LINE // item, [], line)

    def tile(self, a: LLVMValue, b: LLVMValue, c: LLVMValue, rows: int, columns: int) -> None:
        scalar, lanes, unit = self.kernel.scalar, self.kernel.lanes, self.kernel.unit
        vectors = _vectors(columns, lanes)
        starts = [a] if unit == "m" else [self.at(a, self.integer(i), self.a_m) for i in range(rows)]

        def of_row(row: LLVMValue) -> list[tuple[str, LLVMValue, LLVMValue | None]]:
            return [
                (
                    vector_type(scalar, vector.lanes),
                    self.offset(row, scalar, self.integer(vector.start)),
                    self.first_lanes(vector.lanes, self.integer(vector.filled))
                    if vector.is_partial
                    else None,
                )
                for vector in vectors
            ]

        def step(k: LLVMValue, sums: list[LLVMValue]) -> list[LLVMValue]:
            b_vectors = [self.load(*each) for each in of_row(self.at(b, k, self.b_k))]
            along = k if unit == "k" else self.multiply(k, self.a_k)
            result = []
            for i in range(rows):
                at = self.offset(starts[0 if unit == "m" else i], scalar, along)
                if unit == "m":
                    at = self.offset(at, scalar, self.integer(i))
                factor = self.load(scalar, at)
                factors = {n: self.splat(factor, n) for n in {vector.lanes for vector in vectors}}
                result += [
                    self.added_product(factors[vector.lanes], b_vectors[j], sums[i * len(vectors) + j])
                    for j, vector in enumerate(vectors)
                ]
            return result

        def steps(k: LLVMValue, sums: list[LLVMValue]) -> list[LLVMValue]:
            for u in range(UNROLLED):
                sums = step(self.add(k, self.integer(u)), sums)
            return sums

        sums = [
            self.constant(vector_type(scalar, vector.lanes), 0.0) for _ in range(rows) for vector in vectors
        ]
        whole = self.binary("and", self.K, self.integer(-UNROLLED))
        sums = self.loop(self.integer(0), whole, UNROLLED, sums, steps)
        totals = iter(self.loop(whole, self.K, 1, sums, step))
        for i in range(rows):
            for type_, at, mask in of_row(self.at(c, self.integer(i), self.c_m)):
                total = next(totals)
                if self.kernel.accumulate:
                    total = self.add(self.load(type_, at, mask), total)
                self.store(total, at, mask)


@dataclass(frozen=True)
class PackKernel:
    """Panels of B: P[j][k][l] = B[k, j · width + l], `width` columns to a panel.

    Record: B, P, K, stride of B along k, stride of P along k, whole panels, stride of P from panel to panel,
    stride of B along n. `contiguous`: B's rows are; else its columns.
    """

    scalar: str
    vector_bytes: int
    width: int
    tail_columns: int
    contiguous: bool

    def text(self) -> str:
        code = Code(self.vector_bytes)
        lanes = self.vector_bytes // bytes_of(self.scalar)
        b, p = code.pointer_slot(2), code.pointer_slot(3)
        K, b_k, p_k, panels, p_panel, b_n = (code.slot(i) for i in range(4, 10))
        zero = code.integer(0)

        def at(base: LLVMValue, index: LLVMValue, stride: LLVMValue) -> LLVMValue:
            return code.offset(base, self.scalar, code.multiply(index, stride))

        def panel(j: LLVMValue, columns: int) -> None:
            first = code.multiply(j, code.integer(self.width))
            source, target = at(b, first, b_n), at(p, j, p_panel)
            for n in range(columns):
                column = at(source, code.integer(n), b_n)
                goal = code.offset(target, self.scalar, code.integer(n))

                def one(
                    k: LLVMValue, _: list[LLVMValue], column: LLVMValue = column, goal: LLVMValue = goal
                ) -> None:
                    code.store(code.load(self.scalar, at(column, k, b_k)), at(goal, k, p_k))

                code.loop(zero, K, 1, [], one)

        def row(k: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
            source, target = at(b, k, b_k), at(p, k, p_k)
            ahead = at(b, code.add(k, code.integer(AHEAD)), b_k)

            def piece(j: LLVMValue, columns: int) -> list[LLVMValue]:
                first = code.multiply(j, code.integer(self.width))
                near = code.offset(ahead, self.scalar, first)
                for line in range(0, columns, LINE * lanes // self.vector_bytes):
                    at_line = code.offset(near, self.scalar, code.integer(line))
                    code.prefetch(at_line, soon=True)
                return copy_row(code.offset(source, self.scalar, first), at(target, j, p_panel), columns)

            code.loop(zero, panels, 1, [], lambda j, _: piece(j, self.width))
            if self.tail_columns:
                piece(panels, self.tail_columns)
            return []

        def copy_row(source: LLVMValue, target: LLVMValue, columns: int) -> list[LLVMValue]:
            for start in range(0, columns, lanes):
                n = min(lanes, columns - start)
                mask = code.first_lanes(lanes, code.integer(n)) if n < lanes else None
                where = code.integer(start)
                vector = code.load(
                    vector_type(self.scalar, lanes), code.offset(source, self.scalar, where), mask
                )
                code.store(vector, code.offset(target, self.scalar, where), mask)
            return []

        if self.contiguous:
            code.loop(zero, K, 1, [], row)
            return code.module()
        code.loop(zero, panels, 1, [], lambda j, _: panel(j, self.width))
        if self.tail_columns:
            panel(panels, self.tail_columns)
        return code.module()
