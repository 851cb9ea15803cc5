"""Scatters as kernels, without atomics: each result adds up its own terms, in the order of the index."""

from __future__ import annotations

import numpy as np

from graphnet.backends.cuda.launch import Launch, LaunchLayout, ThreadDivision, power_of_two
from graphnet.backends.cuda.loops import Moved, stepping
from graphnet.backends.cuda.source import INDEX, KernelSource, Offset
from graphnet.graph.dtypes import FLOAT64
from graphnet.plan.instructions import Scatter
from graphnet.plan.views import Buffer, View

LINK = np.dtype("int32")


#: An index, and of how many rows it speaks -> its chains.
Chains = dict[tuple[View, int], tuple[View, View]]


def scatter_launches(scatter: Scatter, division: ThreadDivision, chains: Chains) -> list[Launch]:
    """First the index becomes chains: for each chunk of it and each row of y, the first place that names the row; and
    for each place the next one in its chunk that names the same. Then each number of y follows its row's chains.

    chains: existing chains of constant indices; new ones are added.
    """
    x, y = scatter.x, scatter.y
    if scatter.by_columns:
        x, y = x.transposed((1, 0)), y.transposed((1, 0))
    (rows, columns), places = y.shape, scatter.index.size
    launches = []
    if (scatter.index, rows) not in chains:
        chunks = max(1, min(division.lanes, places // (division.least // 8 or 1)))
        first = Buffer(chunks * rows, LINK).whole((chunks, rows))
        following = Buffer(max(places, 1), LINK).whole((places,))
        chains[scatter.index, rows] = first, following
        launches.append(_chains(scatter, first, following, division))
    first, following = chains[scatter.index, rows]
    return [*launches, _following(scatter, x, y, first, following, division, columns)]


def _chunk(source: KernelSource, name: str, places: str, chunks: int) -> None:
    source.line(f"begin = {places} * {name} // {chunks}")
    source.line(f"end = {places} * ({name} + 1) // {chunks}")


def _chains(scatter: Scatter, first: View, following: View, division: ThreadDivision) -> Launch:
    """A thread for each row of each chunk finds its first place; then one for each place finds its next."""
    source = KernelSource()
    chunks, rows = first.shape
    index = scatter.index
    places = source.number("places", index.size)
    source.number("rows", rows)
    at = Moved(source, "at", Offset(0), index.strides or (0,))
    source.number("first", Offset(1))
    source.number("following", Offset(2))
    work = chunks * rows + index.size
    start = "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
    with stepping(source, "e", start, source.number("work", work), "cuda.blockDim.x * cuda.gridDim.x"):
        with source.block(f"if e < {chunks} * rows"):
            source.line("s = e // rows")
            source.line("wanted = e % rows")
            _chunk(source, "s", places, chunks)
            _search(source, at, scatter)
            source.line(f"{source.element(LINK, 'first + e')} = {LINK.name}(i)")
        with source.block("else"):
            source.line(f"p = e - {chunks} * rows")
            # The chunk of place p, and its first and last place.
            source.line(f"s = ((p + 1) * {chunks} - 1) // {places}")
            _chunk(source, "s", places, chunks)
            source.line(f"wanted = {INDEX.name}({source.element(index.dtype, at.at(['p']))})")
            with source.block("if wanted < 0 or wanted >= rows"):
                source.raise_flag()
            source.line("begin = p + 1")
            _search(source, at, scatter)
            source.line(f"{source.element(LINK, 'following + p')} = {LINK.name}(i)")
    grid = (-(-work // division.threads), 1, 1)
    return LaunchLayout.of(source, grid, (division.threads, 1, 1), division).launch(
        scatter.nodes, [index, first, following]
    )


def _search(source: KernelSource, at: Moved, scatter: Scatter) -> None:
    """i: the first place from begin to end - 1 whose index is `wanted`; end if there is none."""
    source.line("i = begin")
    with source.block(
        f"while i < end and {INDEX.name}({source.element(scatter.index.dtype, at.at(['i']))}) != wanted"
    ):
        source.line("i += 1")


def _following(
    scatter: Scatter, x: View, y: View, first: View, following: View, division: ThreadDivision, columns: int
) -> Launch:
    """Threads along x: columns; along y: the chunks, each with its own sum; then these sums are added in order."""
    source = KernelSource()
    chunks, rows = first.shape
    dtype = y.dtype
    kept = FLOAT64 if dtype.kind == "f" else INDEX  # whole numbers wrap, with a sign or without
    source.number("rows", rows)
    source.number("columns", columns)
    places = source.number("places", scatter.index.size)
    source.number("first", Offset(0))
    source.number("following", Offset(1))
    load = Moved(source, "a", Offset(2), x.strides)
    to = Moved(source, "to", Offset(3), y.strides)
    lanes = min(division.lanes, power_of_two(columns))
    helpers = max(1, division.threads // lanes)
    helpers = min(helpers, power_of_two(chunks))
    if helpers > 1:
        source.shared("shared", str(lanes * helpers), kept)
    source.line("tx = cuda.threadIdx.x")
    source.line("ty = cuda.threadIdx.y")
    with (
        stepping(source, "row", "cuda.blockIdx.y", "rows", "cuda.gridDim.y"),
        stepping(source, "head", f"cuda.blockIdx.x * {lanes}", "columns", f"cuda.gridDim.x * {lanes}"),
    ):
        source.line("column = head + tx")
        source.line(f"sum = {kept.name}(0)")
        with source.block("if column < columns"), stepping(source, "s", "ty", str(chunks), str(helpers)):
            _chunk(source, "s", places, chunks)
            source.line(f"i = {INDEX.name}({source.element(LINK, 'first + s * rows + row')})")
            with source.block("while i < end"):
                term = source.element(dtype, load.at(["i", "column"]))
                source.line(f"sum = {kept.name}(sum + {kept.name}({term}))")
                source.line(f"i = {INDEX.name}({source.element(LINK, 'following + i')})")
        if helpers > 1:
            source.line(f"shared[ty * {lanes} + tx] = sum")
            source.line("cuda.syncthreads()")
        with source.block("if column < columns" + (" and ty == 0" if helpers > 1 else "")):
            if helpers > 1:
                with source.block(f"for h in range(1, {helpers})"):
                    source.line(f"sum += shared[h * {lanes} + tx]")
            source.line(f"{source.element(dtype, to.at(['row', 'column']))} = {dtype.name}(sum)")
        if helpers > 1:
            source.line("cuda.syncthreads()")
    grid = (-(-columns // lanes), rows, 1)
    return LaunchLayout.of(source, grid, (lanes, helpers, 1), division).launch(
        scatter.nodes, [first, following, x, y]
    )
