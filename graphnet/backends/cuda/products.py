"""Matrix products as kernels: tiles in shared memory, each thread a few numbers of the result in registers.

If cuBLAS is available (see blas), it computes most of them instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from graphnet.backends.cuda.launch import Launch, LaunchLayout, ThreadDivision, Tile
from graphnet.backends.cuda.loops import loop_launches
from graphnet.backends.cuda.source import INDEX, KernelSource, Offset, array_name
from graphnet.graph.node import Dtype, Node
from graphnet.plan.instructions import Load, Loop, LoopReduction, MatrixProduct, Step
from graphnet.plan.views import Buffer, View, contiguous_strides


class Products(NamedTuple):
    """c[i] = a[i] b[i] for every i; a, b and c have three axes."""

    nodes: tuple[Node, ...]
    a: View
    b: View
    c: View

    @property
    def buffers(self) -> list[Buffer]:
        return [view.buffer for view in (self.a, self.b, self.c)]

    def part(self, start: int, stop: int) -> Products:
        return Products(self.nodes, *(view.row_range(start, stop) for view in (self.a, self.b, self.c)))


def grouped(products: Sequence[MatrixProduct]) -> Products | None:
    """Products of one node with equal distances in memory, as one; None for other distances."""
    views = []
    for name in ("a", "b", "c"):
        own: list[View] = [getattr(product, name) for product in products]
        first = own[0]
        step = own[1].offset - first.offset if len(own) > 1 else 0
        for i, view in enumerate(own):
            same = (view.buffer, view.shape, view.strides) == (first.buffer, first.shape, first.strides)
            if not same or view.offset != first.offset + i * step:
                return None
        views.append(View(first.buffer, first.offset, (len(own), *first.shape), (step, *first.strides)))
    return Products(products[0].nodes, *views)


def orientation(shape: Sequence[int], strides: Sequence[int]) -> tuple[bool, int] | None:
    """Layout of a matrix for libraries: (by rows, leading dimension), or by columns; None if neither."""
    (rows, columns), (down, across) = shape, strides
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return True, max(down, columns, 1)
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return False, max(across, rows, 1)
    return None


def product_launches(products: Products, division: ThreadDivision) -> list[Launch]:
    """c = a b, by one launch; by two where few numbers are sums of many terms: parts of the sums first."""
    count, rows, columns = products.c.shape
    inner = products.a.shape[2]
    if rows == 1 or columns == 1:
        return _as_sums(products, division)
    if count > division.most[2]:
        half = count // 2
        return [
            launch
            for start, stop in ((0, half), (half, count))
            for launch in product_launches(products.part(start, stop), division)
        ]
    tile = _tile(products, division)
    blocks = count * -(-rows // tile.rows) * -(-columns // tile.columns)
    parts = max(1, min(division.blocks // blocks, inner // (2 * division.least), division.most[2] // count))
    if parts == 1:
        return [_launch(products, tile, products.c, inner)]
    scratch = Buffer(parts * products.c.size, products.c.dtype)
    shape = products.c.shape
    partial = scratch.whole((parts, *shape))
    chunk = -(-inner // parts)
    summed = Loop(
        products.nodes, partial.shape, [Load("plain", partial, None, scratch.dtype)], [], [],
        (0,), [LoopReduction("sum", 0, products.c)],
    )  # fmt: skip
    whole = View(scratch, 0, shape, contiguous_strides(shape))
    return [_launch(products, tile, whole, chunk), *loop_launches(summed, division, False)]


def _as_sums(products: Products, division: ThreadDivision) -> list[Launch]:
    """A vector times a matrix reads each number once, so a loop with sums computes it."""
    a, b, c = products.a, products.b, products.c
    (count, rows, columns), inner = c.shape, a.shape[2]
    shape = (count, rows, columns, inner)
    left = View(a.buffer, a.offset, shape, (a.strides[0], a.strides[1], 0, a.strides[2]))
    right = View(b.buffer, b.offset, shape, (b.strides[0], 0, b.strides[2], b.strides[1]))
    loads = [Load("plain", view, None, c.dtype) for view in (left, right)]
    step = Step("x * y", c.dtype, (0, 1))
    return loop_launches(
        Loop(products.nodes, shape, loads, [step], [], (3,), [LoopReduction("sum", 2, c)]), division, False
    )


def _tile(products: Products, division: ThreadDivision) -> Tile:
    count, rows, columns = products.c.shape
    for tile in tiles_for(products.c.dtype, division):
        if count * (rows // tile.rows) * (columns // tile.columns) >= division.blocks // 2:
            return tile
    return division.tiles[-1]


def tiles_for(dtype: Dtype, division: ThreadDivision) -> tuple[Tile, ...]:
    """The largest tile's numbers, in double precision, would not fit into a thread's registers."""
    return division.tiles[dtype.itemsize > 4 and len(division.tiles) > 2 :]


def _launch(products: Products, tile: Tile, c: View, chunk: int) -> Launch:
    """chunk: number of terms that each block sums; parts of a sum are one whole result apart."""
    a, b = products.a, products.b
    count, rows, columns = c.shape
    inner = a.shape[2]
    parts = max(1, -(-inner // max(chunk, 1)))
    text = tile_text(tile, c.dtype, a.strides[2] == 1, b.strides[2] == 1)
    grid = (-(-rows // tile.rows), -(-columns // tile.columns), count * parts)
    arguments: tuple[int | Offset, ...] = (
        rows, columns, inner, count, chunk, Offset(0), *a.strides, Offset(1), *b.strides, Offset(2), *c.strides, c.size
    )  # fmt: skip
    layout = LaunchLayout(text, (array_name(c.dtype),), arguments, grid, (tile.across, tile.down, 1))
    return layout.launch(products.nodes, [a, b, c])


@cache
def tile_text(tile: Tile, dtype: Dtype, a_flat: bool, b_flat: bool) -> str:
    """A kernel. flat: the last axis of an operand is contiguous, so adjacent threads read along it."""
    source = KernelSource()
    line = source.line
    memory, name = source.array(dtype), dtype.name
    rows, columns, depth = tile.rows, tile.columns, tile.depth
    for number in (
        "rows", "columns", "inner", "count", "chunk", "a", "a0", "a1", "a2", "b", "b0", "b1", "b2", "c", "c0", "c1",
        "c2", "apart",
    ):  # fmt: skip
        source.number(number, 0)
    threads = tile.down * tile.across
    # One more column than needed, so that threads that write a column use different memory banks.
    source.shared("left", f"({depth}, {rows + 1})", dtype)
    source.shared("right", f"({depth}, {columns + 1})", dtype)
    _tile_places(source, tile)
    for i in range(tile.height):
        for j in range(tile.width):
            line(f"s{i}_{j} = {name}(0)")
    of_a, of_b = ("row", "rows", "from_a", "a1", "a2"), ("column", "columns", "from_b", "b2", "b1")
    left = _Filling(source, "left", memory, threads, (rows, depth), of_a, a_flat)
    # The axes of the right operand are swapped.
    right = _Filling(source, "right", memory, threads, (columns, depth), of_b, not b_flat)
    line("k = begin")
    with source.block("while k < end"):
        left.fill(name)
        right.fill(name)
        if threads > 1:
            line("cuda.syncthreads()")
        _add_products(source, tile)
        if threads > 1:
            line("cuda.syncthreads()")
        line(f"k += {depth}")
    line("to = c + item * c0 + part * apart")
    for i in range(tile.height):
        line(f"i = row + ty + {i * tile.down}")
        for j in range(tile.width):
            line(f"j = column + tx + {j * tile.across}")
            with source.block("if i < rows and j < columns"):
                line(f"{source.element(dtype, 'to + i * c1 + j * c2')} = s{i}_{j}")
    return source.text()


def _tile_places(source: KernelSource, tile: Tile) -> None:
    line = source.line
    line("tx = cuda.threadIdx.x")
    line("ty = cuda.threadIdx.y")
    line(f"me = ty * {tile.across} + tx")
    line(f"item = {INDEX.name}(cuda.blockIdx.z) % count")
    line(f"part = {INDEX.name}(cuda.blockIdx.z) // count")
    line("begin = part * chunk")
    line("end = begin + chunk if begin + chunk < inner else inner")
    line(f"row = {INDEX.name}(cuda.blockIdx.x) * {tile.rows}")
    line(f"column = {INDEX.name}(cuda.blockIdx.y) * {tile.columns}")
    line("from_a = a + item * a0")
    line("from_b = b + item * b0")


def _add_products(source: KernelSource, tile: Tile) -> None:
    line = source.line
    with source.block(f"for d in range({tile.depth})"):
        for i in range(tile.height):
            line(f"x{i} = left[slot(d), slot(ty + {i * tile.down})]")
        for j in range(tile.width):
            line(f"y{j} = right[slot(d), slot(tx + {j * tile.across})]")
        for i in range(tile.height):
            for j in range(tile.width):
                line(f"s{i}_{j} += x{i} * y{j}")


class _Filling:
    """Reads tiles of an operand, one after another; 0 outside of the operand.

    shape: rows (or columns) of a tile, and its depth. along_depth: adjacent threads read along the depth. If all
    sizes are powers of two, a thread's numbers have fixed distances, so their places are computed once for all tiles.
    """

    def __init__(
        self, source: KernelSource, into: str, memory: str, threads: int, shape: tuple[int, int], names: Sequence[str],
        along_depth: bool,
    ) -> None:  # fmt: skip
        self.source, self.into, self.memory, self.threads, self.along_depth = (
            source,
            into,
            memory,
            threads,
            along_depth,
        )
        self.wide, self.depth = shape
        self.first, self.size, self.start, self.stride, self.deep = names
        fast = self.depth if along_depth else self.wide
        powers = all(n & (n - 1) == 0 for n in (fast, threads))
        self.regular = powers and fast <= threads and self.wide * self.depth % threads == 0
        if not self.regular:
            return
        line = source.line
        slow = f"me >> {fast.bit_length() - 1}"
        d, w = (f"me & {fast - 1}", slow) if along_depth else (slow, f"me & {fast - 1}")
        line(f"{into}_d = {INDEX.name}({d})")
        line(f"{into}_w = {INDEX.name}({w})")
        line(
            f"{into}_from = {self.start} + ({self.first} + {into}_w) * {self.stride} + (begin + {into}_d) * {self.deep}"
        )

    def fill(self, name: str) -> None:
        source, into = self.source, self.into
        if not self.regular:
            with source.block(f"for e in range(me, {self.wide * self.depth}, {self.threads})"):
                fast = self.depth if self.along_depth else self.wide
                names = ("d", "w") if self.along_depth else ("w", "d")
                source.line(f"{names[0]} = e % {fast}")
                source.line(f"{names[1]} = e // {fast}")
                where = f"{self.start} + ({self.first} + w) * {self.stride} + (k + d) * {self.deep}"
                self._one(name, "d", "w", where)
            return
        fast = self.depth if self.along_depth else self.wide
        for i in range(self.wide * self.depth // self.threads):
            further = i * (self.threads // fast)
            d, w = f"{into}_d", f"{into}_w"
            where = f"{into}_from"
            if self.along_depth:
                w, where = f"{w} + {further}", f"{where} + {further} * {self.stride}"
            else:
                d, where = f"{d} + {further}", f"{where} + {further} * {self.deep}"
            self._one(name, d, w, where)
        source.line(f"{into}_from += {self.depth} * {self.deep}")

    def _one(self, name: str, d: str, w: str, where: str) -> None:
        self.source.line(f"value = {name}(0)")
        with self.source.block(f"if {self.first} + {w} < {self.size} and k + {d} < end"):
            self.source.line(f"value = {self.memory}[slot({where})]")
        self.source.line(f"{self.into}[slot({d}), slot({w})] = value")
