"""A schedule as what a file can hold, and back. Kernels are kept as their code, which Numba compiles where they run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.backends import contents
from graphnet.backends.base import runs_in_python, stored_parameters
from graphnet.backends.cuda.launch import Launch
from graphnet.backends.cuda.schedule import LibraryProduct, Part, Place, Schedule, Stretch, Upload
from graphnet.backends.cuda.source import array_name
from graphnet.graph.node import Array, Node
from graphnet.ops.leaf import Constant, Parameter
from graphnet.plan.order import Memory

__all__ = ["schedule_of", "told"]


def told(schedule: Schedule) -> tuple[dict[str, Any], dict[str, Array]]:
    """JSON and arrays. BackendError where Python has to run something."""
    for stretch in schedule.stretches:
        if stretch.host is not None:
            raise runs_in_python(stretch.host[0])
    texts: dict[str, int] = {}
    leaves = [
        (node, upload.byte + node.value.ctypes.data - upload.nodes[0].value.ctypes.data)
        for upload in schedule.uploads
        for node in upload.nodes
    ]
    runs = [[_run(run, texts) for run in stretch.runs] for stretch in schedule.stretches]
    header = {
        "arena_bytes": schedule.arena_bytes,
        "memory": [schedule.memory.leaves, schedule.memory.peak],
        "runs": runs,
        "texts": list(texts),
        "seal": _seal(list(texts), runs, schedule.arena_bytes),
        "fixed": schedule.fixed,
        "given": [None if place is None else _place(place) for place in schedule.given],
        "varying": schedule.varying,
        "bytes": [byte for _, byte in leaves],
        "brought": [_place(place) for _, place in schedule.brought],
        "results": [_place(place) for place in schedule.results],
        "flagged": schedule.flagged,
        "parameters": stored_parameters([node for node, _ in leaves], [node for node, _ in schedule.brought]),
    }
    arrays = {f"leaf.{i}": node.value for i, (node, _) in enumerate(leaves)}
    arrays |= {
        f"brought.{i}": np.ascontiguousarray(node.value) for i, (node, _) in enumerate(schedule.brought)
    }
    return header, arrays


def schedule_of(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Schedule:
    """The schedule that was stored; its leaves are the arrays, so what is written into these holds from then on.

    BackendError for what is none. What kernels do with their arguments is not known, so these are sealed with them.
    """
    trainable = set(contents.parameters(header, arrays).values())
    leaves, peak = (contents.whole(size, "its memory") for size in _listed(header, "memory", 2))
    arena = contents.whole(contents.entry(header, "arena_bytes"), "the size of its arena")
    if arena != leaves + peak:
        contents.refuse("its arena is of another size than its memory")
    texts, runs = _listed(header, "texts"), _listed(header, "runs")
    if _seal(texts, runs, arena) != contents.entry(header, "seal"):
        contents.refuse("what it launches is not what was sealed")

    def leaf(key: str) -> Node:
        return (Parameter if key in trainable else Constant)(contents.array(arrays, key))()

    def place(told: Any) -> Place:
        byte, sizes, dtype = contents.listed(told, "the place of an array", 3)
        found = Place(
            contents.whole(byte, "a place", arena),
            contents.shape(sizes, "an array"),
            contents.dtype(dtype, "an array"),
        )
        if (
            found.byte + math.prod(found.shape) * found.dtype.itemsize > arena
            or found.byte % found.dtype.itemsize
        ):
            contents.refuse("an array lies outside of its memory")
        return found

    uploads = []
    for i, told in enumerate(_listed(header, "bytes")):
        byte, node = contents.whole(told, "a place", arena), leaf(f"leaf.{i}")
        if byte + node.value.nbytes > arena:
            contents.refuse("a leaf lies outside of its memory")
        uploads.append(Upload((node,), byte, f"leaf.{i}" not in trainable))
    brought = [(leaf(f"brought.{i}"), place(told)) for i, told in enumerate(_listed(header, "brought"))]
    if any((node.shape, node.dtype) != (to.shape, to.dtype) for node, to in brought):
        contents.refuse("an array does not fit its place")
    stretches = [
        Stretch([_run_of(run, texts, arena) for run in contents.listed(stretch, "a stretch")], None)
        for stretch in runs
    ]
    given = [None if told is None else place(told) for told in _listed(header, "given")]
    varying = [contents.truth(told, "whether an input varies") for told in _listed(header, "varying")]
    contents.require_fit(given, varying, header)
    return Schedule(
        arena_bytes=arena,
        memory=Memory(leaves, peak),
        stretches=stretches,
        fixed=contents.whole(contents.entry(header, "fixed"), "what does not vary", len(stretches)),
        given=given,
        varying=varying,
        uploads=uploads,
        brought=brought,
        results=[place(told) for told in _listed(header, "results")],
        flagged=contents.truth(contents.entry(header, "flagged"), "whether it may fail"),
    )


def _listed(header: Mapping[str, Any], name: str, length: int | None = None) -> list[Any]:
    return contents.listed(contents.entry(header, name), f"its list {name!r}", length)


def _seal(texts: list[str], runs: list[list[Any]], arena: int) -> str:
    """Of the code that is executed, and of what it is given."""
    return contents.seal([json.dumps([texts, runs, arena]).encode()])


def _place(place: Place) -> list[Any]:
    return [place.byte, list(place.shape), place.dtype.str]


def _run(run: Launch | LibraryProduct, texts: dict[str, int]) -> list[Any]:
    if isinstance(run, LibraryProduct):
        return [run.dtype.str, *([*map(list, part[1:]), part.start] for part in (run.a, run.b, run.c))]
    return [texts.setdefault(run.text, len(texts)), run.arrays, run.arguments, run.grid, run.block]


def _run_of(told: Any, texts: Sequence[str], arena: int) -> Launch | LibraryProduct:
    found = contents.listed(told, "a launch")
    if found and isinstance(found[0], str):
        kind, *parts = contents.listed(found, "a product", 4)
        dtype = contents.dtype(kind, "a product")
        a, b, c = (_part_of(part, arena // dtype.itemsize) for part in parts)
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


def _part_of(told: Any, most: int) -> Part:
    """most: so many elements has the arena."""
    sizes, strides, start = contents.listed(told, "an operand of a product", 3)
    shape = contents.shape(contents.listed(sizes, "an operand", 3), "an operand of a product")
    steps = tuple(contents.whole(s, "a stride", most) for s in contents.listed(strides, "strides", 3))
    first = contents.whole(start, "the place of an operand", most)
    if math.prod(shape) and first + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) >= most:
        contents.refuse("an operand lies outside of its memory")
    return Part(first, shape, steps)
