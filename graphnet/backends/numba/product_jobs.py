"""Products as jobs: how a right operand is brought into panels, and by whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphnet.backends.numba.code.ir import llvm_type
from graphnet.backends.numba.code.product import LINE, UNROLLED, PackKernel, ProductKernel
from graphnet.backends.numba.jobs import (
    CoreDivision,
    InstructionJob,
    Record,
    RecordContext,
    part_of,
    share_of,
    text_of,
)
from graphnet.graph.node import Node
from graphnet.plan.instructions import Access, MatrixProduct
from graphnet.plan.views import View

#: Rows of B that are multiplied at a time when the product is the only one of its B: with some columns, and as many
#: of A, they stay in the second cache. Twice as many for large products.
BLOCK_K = 256
#: Columns of a block of B that are packed at a time, if B is large: they stay in the second cache.
GROUP = 256
#: Minimum size of a result for which the B of a single product is packed. In place, its long rows are in as many pages
#: of memory, and, if their length is a power of two, in the same few sets of the caches.
LARGE_ROWS, LARGE_COLUMNS = 192, 512
#: A left operand whose rows are not contiguous is packed for at least so many columns of a core, up to this size.
PACK_A, LARGEST_A = 1024, 1 << 22
#: Left operands of more bytes are not found in the second cache.
FAR = 1 << 20


#: Minimum size of a right operand whose columns cores share if there are too few rows to share: reading it takes a core
#: ten times as long as waiting for another core.
SHARED = 1 << 18
#: Minimum size of one whose columns they share instead of rows: then a core does not read the part of the others.
OWN_COLUMNS = 1 << 20
#: Right operands in panels that are larger come from memory: the next panel is prefetched.
PREFETCHED = 1 << 22
#: Maximum bytes of a part of a panel, which stays in the second cache for all rows of A.
PANEL = 600_000


def panel_width(columns: int, lanes: int, registers: int, rows: int) -> int:
    """Number of vectors in a panel of B that divides the columns best. Few rows get wide panels: their time is that of
    reading B, which is fastest in long pieces, with as many sums at a time as there are registers.
    """
    vectors = -(-columns // lanes)
    most = registers // (2 * rows)
    if most > 3:
        return -(-vectors // -(-vectors // most))
    if registers >= 32:
        return 3 if vectors % 3 == 0 else min(2, vectors) if vectors % 2 == 0 or vectors < 3 else 3
    return min(2, vectors)


def rows_of_tile(rows: int, registers: int) -> int:
    """At most 8 (6) rows, all tiles nearly equal."""
    most = 8 if registers >= 32 else 6
    tiles = -(-rows // most)
    return -(-rows // tiles)


class LeftOperand(NamedTuple):
    """A left operand: its address, length of a row, and strides along rows and within a row, in numbers."""

    at: int
    inner: int
    strides: tuple[int, ...]

    @classmethod
    def of(cls, context: RecordContext, view: View) -> LeftOperand:
        return cls(context.address(view), view.shape[1], view.strides)

    @property
    def unit(self) -> str:
        """Axis along which numbers are contiguous."""
        return "k" if self.strides[1] == 1 else "m" if self.strides[0] == 1 else ""


class _ProductJob(InstructionJob):
    def __init__(self, product: MatrixProduct, division: CoreDivision, follows: bool = False) -> None:
        super().__init__(division, product.nodes, product.reads, product.writes)
        self.product = product
        self.scalar = llvm_type(product.c.dtype)
        rows, columns = product.c.shape
        work = rows * columns * product.a.shape[1] / 100
        self.divide(rows, columns, follows or work >= division.least)

    @property
    def prefetches(self) -> bool:
        """True if the kernel prefetches the next panel of B."""
        return False

    def divide(self, rows: int, columns: int, large: bool) -> None:
        if large and rows >= 2 * self.division.parts:
            self.split, self.count, self.tiles = "rows", rows, self.division.tiles(rows)

    def lanes(self, context: RecordContext) -> int:
        return context.vector_bytes // self.product.c.dtype.itemsize

    def multiply(
        self,
        context: RecordContext,
        a: LeftOperand,
        c: View,
        b: int,
        b_k: int,
        b_panel: int,
        width: int,
        accumulate: bool,
    ) -> Record:
        rows, columns = c.shape
        lanes = self.lanes(context)
        tile = rows_of_tile(rows, context.registers)
        lines = width // lanes * UNROLLED * context.vector_bytes // LINE
        kernel = ProductKernel(
            self.scalar,
            context.vector_bytes,
            tile,
            width // lanes,
            rows % tile,
            columns % width,
            a.unit,
            accumulate,
            a.unit == "k" and self.product.a.size * self.product.a.dtype.itemsize > FAR,
            ahead=-(-lines // -(-rows // tile)) if self.prefetches else 0,
        )
        words = (
            a.at, b, context.address(c), a.inner, *a.strides, b_k, b_panel,
            c.strides[0], rows // tile, columns // width,
        )  # fmt: skip
        return Record(text_of(kernel), words)


def pack_record(context: RecordContext, b: View, panels: int, width: int, rows: int = 0) -> Record:
    """Packs all of b at the address `panels`. rows: length of a panel (that of b if 0)."""
    inner, columns = b.shape
    unit = "n" if b.strides[1] == 1 else "k" if b.strides[0] == 1 else ""
    kernel = PackKernel(llvm_type(b.dtype), context.vector_bytes, width, columns % width, unit)
    words = (
        context.address(b),
        panels,
        inner,
        b.strides[0],
        width,
        columns // width,
        (rows or inner) * width,
        b.strides[1],
    )
    return Record(text_of(kernel), words)


class OperandBlock(NamedTuple):
    """A part of a right operand: its view, and its place in the whole."""

    source: View
    row: int
    column: int


class Packed(NamedTuple):
    """A right operand in panels. blocks: its parts, each at the edge of a panel."""

    source: View
    view: View
    width: int
    node: Node
    blocks: tuple[OperandBlock, ...]


class PackJob(InstructionJob):
    """Brings a right operand into panels, for all products that use it."""

    def __init__(self, packed: Packed, reads: Sequence[Access], division: CoreDivision) -> None:
        anywhere = [read._replace(by_rows=False) for read in reads]
        super().__init__(division, (packed.node,), anywhere, [Access(packed.view, False)])
        self.packed = packed
        columns = packed.source.shape[1]
        self.split, self.count = (
            ("columns", columns) if columns >= packed.width * division.parts > packed.width else ("", 1)
        )

    def records(self, context: RecordContext, share: int) -> list[Record]:
        packed, width = self.packed, self.packed.width
        rows = packed.source.shape[0]
        base, item = context.address(packed.view), packed.source.dtype.itemsize
        found = []
        for source, row, column in packed.blocks:
            panels = -(-source.shape[1] // width)
            start, stop = share_of(panels, share, self.shares) if self.split else (0, 0 if share else panels)
            if start < stop:
                columns = part_of(source, 1, start * width, min(stop * width, source.shape[1]))
                at = base + ((column + start * width) * rows + row * width) * item
                found.append(pack_record(context, columns, at, width, rows))
        return found


class PackedProductJob(_ProductJob):
    """A product whose right operand is already in panels. Cores share its rows, or large panels."""

    def __init__(
        self, product: MatrixProduct, packed: Packed, division: CoreDivision, follows: bool = False
    ) -> None:
        super().__init__(product, division, follows)
        self.packed = packed
        self.reads = [product.reads[0], Access(packed.view, False)]
        panels = -(-product.c.shape[1] // packed.width)
        by_rows = self.split == "rows"
        if by_rows and (product.a.size > 4 * product.b.size or panels < 4 * division.parts):
            return  # each core would read all of a large A, or panels would divide unevenly
        least = OWN_COLUMNS if by_rows else SHARED
        if product.b.size >= least and panels >= division.parts > 1:
            self.split, self.count = "columns", panels

    @property
    def prefetches(self) -> bool:
        return self.product.b.size > PREFETCHED

    def records(self, context: RecordContext, share: int) -> list[Record]:
        a, c = self.product.a, self.product.c
        width, panels = self.packed.width, context.address(self.packed.view)
        if self.split:
            start, stop = (
                self.rows_of(share) if self.split == "rows" else share_of(self.count, share, self.shares)
            )
            if start == stop:
                return []
            if self.split == "rows":
                a, c = a.row_range(start, stop), c.row_range(start, stop)
            else:
                c = part_of(c, 1, start * width, min(stop * width, c.shape[1]))
                panels += start * a.shape[1] * width * c.dtype.itemsize
        elif share:
            return []
        inner, item = a.shape[1], c.dtype.itemsize
        blocks = max(1, -(-inner * width * item // PANEL))
        found = []
        for i in range(blocks):
            start, stop = share_of(inner, i, blocks)
            left, right = LeftOperand.of(context, part_of(a, 1, start, stop)), panels + start * width * item
            found.append(self.multiply(context, left, c, right, width, inner * width, width, i > 0))
        return found


class BlockedProductJob(_ProductJob):
    """The only product with its right operand, block by block. A small operand's rows are read in place: packing them
    into panels for so few reads does not pay. Columns, and large operands, are packed."""

    def divide(self, rows: int, columns: int, large: bool) -> None:
        parts = self.division.parts
        if not large or parts == 1:
            return
        if columns >= 2 * self.division.columns * parts:
            self.split, self.count = "columns", columns
        elif rows >= parts:
            self.split, self.count = "rows", rows

    def _share(self, share: int, lanes: int) -> tuple[View, View, View] | None:
        a, b, c = self.product.a, self.product.b, self.product.c
        if self.split == "columns":
            unit = 2 * lanes
            units = -(-self.count // unit)
            start, stop = (min(n * unit, self.count) for n in share_of(units, share, self.shares))
            b, c = part_of(b, 1, start, stop), part_of(c, 1, start, stop)
        elif self.split:
            start, stop = self.rows_of(share)
            a, c = a.row_range(start, stop), c.row_range(start, stop)
        elif share:
            return None
        return (a, b, c) if c.size else None

    @property
    def is_large(self) -> bool:
        """True if reading B in place, with long rows, takes longer than packing it."""
        rows, columns = self.product.c.shape
        return rows >= LARGE_ROWS and columns >= LARGE_COLUMNS

    @property
    def _blocks(self) -> int:
        """Number of parts of k. Each part but the first reads C again, which is far away if it is large."""
        return max(1, round(self.product.a.shape[1] / (2 * BLOCK_K if self.is_large else BLOCK_K)))

    def _sizes(self, vector_bytes: int) -> tuple[int, int]:
        """Maximum sizes of packed parts of A and B; 0 for an operand that is read in place."""
        rows, columns = self.product.c.shape
        inner = -(-self.product.a.shape[1] // self._blocks)
        lanes = vector_bytes // self.product.c.dtype.itemsize
        a, b = self.product.a, self.product.b
        # Each core packs the rows of A that it reads: this pays for many columns.
        parts = self.division.parts if self.split == "columns" else 1
        packs_a = self.is_large and a.strides[1] != 1 and columns >= PACK_A * parts
        left = -(-rows * inner // 64) * 64 if packs_a and rows * inner < LARGEST_A else 0
        if self.is_large:
            return left, inner * (GROUP + 8 * lanes)
        if b.strides[1] == 1:
            return left, 0
        columns = -(-columns // (4 * lanes)) * 4 * lanes + 4 * lanes
        if self.split == "columns":
            columns = columns // self.division.parts + 8 * lanes
        if columns > 24 * lanes:  # and so there may be many panels, whose last vectors are not full
            columns += 16 * lanes
        return left, inner * columns

    def scratch(self, vector_bytes: int) -> int:
        return sum(self._sizes(vector_bytes)) * self.product.c.dtype.itemsize

    def records(self, context: RecordContext, share: int) -> list[Record]:
        lanes = self.lanes(context)
        own = self._share(share, lanes)
        if own is None:
            return []
        a, b, c = own
        width = panel_width(c.shape[1], lanes, context.registers, c.shape[0]) * lanes
        blocks = self._blocks
        group = max(1, GROUP // width) * width if self.is_large else c.shape[1]
        scratch = context.scratch + share * context.scratch_stride
        for_a, for_b = self._sizes(context.vector_bytes)
        found: list[Record] = []
        for i in range(blocks):
            start, stop = share_of(a.shape[1], i, blocks)
            left, block = part_of(a, 1, start, stop), b.row_range(start, stop)
            operand = LeftOperand.of(context, left)
            if for_a:
                found.append(pack_record(context, left, scratch, stop - start))
                operand = LeftOperand(scratch, stop - start, (stop - start, 1))
            for first in range(0, c.shape[1], group):
                last = min(first + group, c.shape[1])
                right, target = part_of(block, 1, first, last), part_of(c, 1, first, last)
                at, along_k, panel = context.address(right), b.strides[0], width
                if for_b:
                    at, along_k, panel = scratch + for_a * c.dtype.itemsize, width, (stop - start) * width
                    found.append(pack_record(context, right, at, width))
                found.append(self.multiply(context, operand, target, at, along_k, panel, width, i > 0))
        return found
