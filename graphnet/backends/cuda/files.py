"""A program of launches as what a file can hold, and back. Kernels are kept as their code, which Numba compiles where
they run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from graphnet.backends import contents
from graphnet.backends.compiled.files import restored_schedule
from graphnet.backends.cuda.launch import Launch
from graphnet.backends.cuda.schedule import LaunchSchedule, LibraryProduct, StridedBatch, Upload
from graphnet.backends.cuda.source import array_name
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array

__all__ = ["schedule_of", "stored_work"]


def stored_work(schedule: LaunchSchedule) -> tuple[dict[str, Any], dict[str, Array]]:
    """JSON and arrays."""
    texts: dict[str, int] = {}
    places = {
        node: upload.byte + node.value.ctypes.data - upload.nodes[0].value.ctypes.data
        for upload in schedule.uploads
        for node in upload.nodes
    }
    runs = [[_run(run, texts) for run in section.work] for section in schedule.sections]
    header = {
        "runs": runs,
        "texts": list(texts),
        "seal": _seal(list(texts), runs, schedule.arena_bytes),
        "bytes": [places[node] for node in schedule.leaves],
        "flagged": schedule.flagged,
    }
    return header, {}


def schedule_of(
    header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
) -> LaunchSchedule:
    """The schedule that was stored. BackendError for what is none.

    What kernels do with their arguments is not known, so these are sealed with them.
    """
    texts, runs = _listed(header, "texts"), _listed(header, "runs")
    arena = contents.whole(contents.entry(header, "arena_bytes"), "the size of its arena")
    if _seal(texts, runs, arena) != contents.entry(header, "seal"):
        contents.refuse("what it launches is not what was sealed")
    works = [[_run_of(run, texts, arena) for run in contents.listed(work, "a section")] for work in runs]
    common = restored_schedule(header, arrays, works, apart=True, source=source)
    if arena != common.memory:
        contents.refuse("its arena is of another size than its memory")
    uploads = []
    for node, stored in zip(common.leaves, _listed(header, "bytes", len(common.leaves)), strict=True):
        byte = contents.whole(stored, "a place", arena)
        if byte + node.nbytes > arena:
            contents.refuse("a leaf lies outside of its memory")
        uploads.append(Upload((node,), byte, not node.op.is_parameter))
    flagged = contents.truth(contents.entry(header, "flagged"), "whether it may fail")
    return LaunchSchedule(**vars(common), uploads=uploads, flagged=flagged)


def _listed(header: Mapping[str, Any], name: str, length: int | None = None) -> list[Any]:
    return contents.listed(contents.entry(header, name), f"its list {name!r}", length)


def _seal(texts: list[str], runs: list[list[Any]], arena: int) -> str:
    """Of the code that is executed, and of what it is given."""
    return contents.seal([json.dumps([texts, runs, arena]).encode()])


def _run(run: Launch | LibraryProduct, texts: dict[str, int]) -> list[Any]:
    if isinstance(run, LibraryProduct):
        return [run.dtype.str, *([*map(list, part[1:]), part.start] for part in (run.a, run.b, run.c))]
    return [texts.setdefault(run.text, len(texts)), run.arrays, run.arguments, run.grid, run.block]


def _run_of(stored: Any, texts: Sequence[str], arena: int) -> Launch | LibraryProduct:
    found = contents.listed(stored, "a launch")
    if found and isinstance(found[0], str):
        kind, *parts = contents.listed(found, "a product", 4)
        dtype = contents.dtype(kind, "a product")
        a, b, c = (_batch_of(part, arena // dtype.itemsize) for part in parts)
        count, rows, columns = c.shape
        if dtype.kind != "f" or a.shape[:2] != (count, rows) or b.shape != (count, a.shape[2], columns):
            contents.refuse("the operands of a product do not fit each other")
        return LibraryProduct(a, b, c, dtype, ())
    number, names, arguments, grid, block = contents.listed(found, "a launch", 5)
    kinds = [array_name(dtype) for dtype in contents.DTYPES.values()]
    if not all(name in kinds for name in contents.listed(names, "the arrays of a launch")):
        contents.refuse("a launch sees the arena as no arrays")
    x, y, z = (
        contents.whole(n, "the blocks of a launch", (1 << 31) - 1, 1)
        for n in contents.listed(grid, "a grid", 3)
    )
    across, down, deep = (
        contents.whole(n, "the threads of a block", 1024, 1) for n in contents.listed(block, "a block", 3)
    )
    if across * down * deep > 1024 or max(y, z) > 65535:
        contents.refuse("a launch is larger than a GPU can have it")
    return Launch(
        contents.code(texts[contents.whole(number, "the number of a kernel", len(texts) - 1)], "a kernel", 1 << 24),
        tuple(names),
        tuple(
            contents.whole(argument, "an argument of a launch", least=-contents.MOST)
            for argument in contents.listed(arguments, "the arguments of a launch")
        ),
        (x, y, z), (across, down, deep), (),
    )  # fmt: skip


def _batch_of(stored: Any, most: int) -> StridedBatch:
    """most: so many elements has the arena."""
    sizes, strides, start = contents.listed(stored, "an operand of a product", 3)
    shape = contents.shape(contents.listed(sizes, "an operand", 3), "an operand of a product")
    steps = tuple(contents.whole(s, "a stride", most) for s in contents.listed(strides, "strides", 3))
    first = contents.whole(start, "the place of an operand", most)
    if math.prod(shape) and first + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) >= most:
        contents.refuse("an operand lies outside of its memory")
    return StridedBatch(first, shape, steps)
