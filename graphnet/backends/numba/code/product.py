"""Matrix products C = A B or C += A B: generated register-blocked kernels, and the packing of B.

B is stored in panels of a few vectors' width, each panel's rows one after another, so that the innermost loop
reads it in order; A's elements are broadcast. A tile of C (rows x vectors) stays in registers over all of k.
Source of the scheme: Goto & van de Geijn 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from graphnet.backends.numba.code.ir import Code, LLVMValue, bytes_of, vector_type

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
    are contiguous and do not fit the caches, so those of the next tile are prefetched. ahead: lines of the next panel
    that are prefetched in UNROLLED steps of k.
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
    ahead: int = 0

    @property
    def lanes(self) -> int:
        return self.vector_bytes // bytes_of(self.scalar)

    def text(self) -> str:
        return _ProductCode(self).module()


class _MatrixCode(Code):
    """Code on matrices of one type of numbers."""

    def __init__(self, kernel: ProductKernel | PackKernel) -> None:
        super().__init__(kernel.vector_bytes)
        self.scalar = kernel.scalar

    def at(self, base: LLVMValue, index: LLVMValue, stride: LLVMValue) -> LLVMValue:
        return self.offset(base, self.scalar, self.multiply(index, stride))


class _ProductCode(_MatrixCode):
    def __init__(self, kernel: ProductKernel) -> None:
        super().__init__(kernel)
        self.kernel = kernel
        a, b, c = (self.pointer_slot(i) for i in (2, 3, 4))
        self.K, self.a_m, self.a_k, self.b_k, b_panel, self.c_m, blocks, panels = (
            self.slot(i) for i in range(5, 13)
        )
        width = kernel.vectors * kernel.lanes
        self.per_line = LINE // bytes_of(kernel.scalar)

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
                later = None
                if kernel.ahead:  # each tile prefetches a piece of the next panel
                    piece = self.multiply(self.K, self.integer(self.per_line // UNROLLED * kernel.ahead))
                    later = self.at(self.offset(b_panel_j, kernel.scalar, b_panel), i, piece)
                self.tile(a_i, b_panel_j, self.at(c_panel_j, first, self.c_m), rows, columns, later)
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

    # Prefetching into the first-level cache gains half as much. Prefetching C, or more of A, costs up to 5 %,
    # and prefetching A in the innermost loop takes the place of loads.
    def ask_for(self, a: LLVMValue) -> None:
        """Prefetches a tile's rows of A, starting here; no effect past the end of A."""
        starts = [self.at(a, self.integer(i), self.a_m) for i in range(self.kernel.rows)]
        item = self.kernel.vector_bytes // self.kernel.lanes

        def line(k: LLVMValue, _: list[LLVMValue]) -> None:
            for start in starts:
                self.prefetch(self.offset(start, self.kernel.scalar, k), soon=False)

        self.loop(self.integer(0), self.K, LINE // item, [], line)

    def tile(
        self, a: LLVMValue, b: LLVMValue, c: LLVMValue, rows: int, columns: int, later: LLVMValue | None
    ) -> None:
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
            if later is not None:
                here = self.at(later, k, self.integer(self.per_line // UNROLLED * self.kernel.ahead))
                for n in range(self.kernel.ahead):
                    self.prefetch(self.offset(here, scalar, self.integer(n * self.per_line)), soon=False)
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
    stride of B along n. `unit`: the axis along which B is contiguous ("n", "k" or "").
    """

    scalar: str
    vector_bytes: int
    width: int
    tail_columns: int
    unit: str

    def text(self) -> str:
        return _PackCode(self).module()


class _PackCode(_MatrixCode):
    def __init__(self, kernel: PackKernel) -> None:
        super().__init__(kernel)
        self.kernel = kernel
        self.lanes = kernel.vector_bytes // bytes_of(kernel.scalar)
        self.vector = vector_type(kernel.scalar, self.lanes)
        self.b, self.p = self.pointer_slot(2), self.pointer_slot(3)
        self.K, self.b_k, self.p_k, self.panels, self.p_panel, self.b_n = (self.slot(i) for i in range(4, 10))
        if kernel.unit == "n":
            self.loop(self.integer(0), self.K, 1, [], lambda k, _: self.row(k))
            return
        self.loop(self.integer(0), self.panels, 1, [], lambda j, _: self.panel(j, kernel.width))
        if kernel.tail_columns:
            self.panel(self.panels, kernel.tail_columns)

    # -- contiguous rows ---------------------------------------------------------------------

    def row(self, k: LLVMValue) -> None:
        source, target = self.at(self.b, k, self.b_k), self.at(self.p, k, self.p_k)
        ahead = self.at(self.b, self.add(k, self.integer(AHEAD)), self.b_k)

        def piece(j: LLVMValue, columns: int) -> None:
            first = self.multiply(j, self.integer(self.kernel.width))
            near = self.offset(ahead, self.kernel.scalar, first)
            for line in range(0, columns, LINE * self.lanes // self.vector_bytes):
                self.prefetch(self.offset(near, self.kernel.scalar, self.integer(line)), soon=True)
            self.copy_row(
                self.offset(source, self.kernel.scalar, first), self.at(target, j, self.p_panel), columns
            )

        self.loop(self.integer(0), self.panels, 1, [], lambda j, _: piece(j, self.kernel.width))
        if self.kernel.tail_columns:
            piece(self.panels, self.kernel.tail_columns)

    def copy_row(self, source: LLVMValue, target: LLVMValue, columns: int) -> None:
        for start in range(0, columns, self.lanes):
            n = min(self.lanes, columns - start)
            mask = self.first_lanes(self.lanes, self.integer(n)) if n < self.lanes else None
            where = self.integer(start)
            vector = self.load(self.vector, self.offset(source, self.kernel.scalar, where), mask)
            self.store(vector, self.offset(target, self.kernel.scalar, where), mask)

    # -- other rows --------------------------------------------------------------------------

    def panel(self, j: LLVMValue, columns: int) -> None:
        source = self.at(self.b, self.multiply(j, self.integer(self.kernel.width)), self.b_n)
        target, zero = self.at(self.p, j, self.p_panel), self.integer(0)
        first = zero
        if self.kernel.unit == "k" and self.lanes > 1:
            first = self.binary("and", self.K, self.integer(-self.lanes))
            # Whole cache lines are written at a time.
            step = max(self.lanes, LINE // bytes_of(self.kernel.scalar))
            whole = columns // step * step
            self.loop(
                zero, self.integer(whole), step, [], lambda n, _: self.columns(source, target, n, step, first)
            )
            self.columns(source, target, self.integer(whole), columns - whole, first)

        def column(n: LLVMValue) -> None:
            start, goal = self.at(source, n, self.b_n), self.offset(target, self.kernel.scalar, n)

            def one(k: LLVMValue) -> None:
                value = self.load(self.kernel.scalar, self.at(start, k, self.b_k))
                self.store(value, self.at(goal, k, self.p_k))

            self.loop(first, self.K, 1, [], lambda k, _: one(k))

        self.loop(zero, self.integer(columns), 1, [], lambda n, _: column(n))

    def columns(
        self, source: LLVMValue, target: LLVMValue, n: LLVMValue, count: int, rows: LLVMValue
    ) -> None:
        """Transposes `count` contiguous columns from n on, in registers, for the first rows."""
        starts = [self.at(source, self.add(n, self.integer(i)), self.b_n) for i in range(count)]

        def tiles(k: LLVMValue) -> None:
            for first in range(0, count, self.lanes):
                some = starts[first : first + self.lanes]
                read = [self.load(self.vector, self.offset(start, self.kernel.scalar, k)) for start in some]
                read += [self.constant(self.vector, 0)] * (self.lanes - len(some))
                mask = (
                    self.first_lanes(self.lanes, self.integer(len(some))) if len(some) < self.lanes else None
                )
                place = self.add(n, self.integer(first))
                for i, row in enumerate(self.transposed(read)):
                    goal = self.at(target, self.add(k, self.integer(i)), self.p_k)
                    self.store(row, self.offset(goal, self.kernel.scalar, place), mask)

        if count:
            self.loop(self.integer(0), rows, self.lanes, [], lambda k, _: tiles(k))

    def transposed(self, rows: list[LLVMValue]) -> list[LLVMValue]:
        """A square of vectors, transposed by exchanging blocks of 1, 2, 4, ... lanes."""
        lanes, distance = range(self.lanes), 1
        while distance < self.lanes:
            for i in lanes:
                if not i & distance:
                    pair = rows[i], rows[i + distance]
                    upper = [l if not l & distance else self.lanes + l - distance for l in lanes]
                    lower = [l + distance if not l & distance else self.lanes + l for l in lanes]
                    rows[i], rows[i + distance] = self.picked(pair, upper), self.picked(pair, lower)
            distance *= 2
        return rows
