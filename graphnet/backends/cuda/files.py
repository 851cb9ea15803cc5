"""A schedule as what a file can hold, and back. Kernels are kept as their code, which Numba compiles where they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.backends.base import runs_in_python, stored_parameters
from graphnet.backends.cuda.launch import Launch
from graphnet.backends.cuda.schedule import LibraryProduct, Part, Place, Schedule, Stretch, Upload
from graphnet.node import Array, Node
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
    header = {
        "arena_bytes": schedule.arena_bytes,
        "memory": [schedule.memory.leaves, schedule.memory.peak],
        "runs": [[_run(run, texts) for run in stretch.runs] for stretch in schedule.stretches],
        "texts": list(texts),
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
    """The schedule that was stored; its leaves are the arrays, so what is written into these holds from then on."""
    trainable = set(header["parameters"].values())

    def leaf(key: str) -> Node:
        return (Parameter(arrays[key]) if key in trainable else Constant(arrays[key]))()

    uploads = [
        Upload((leaf(f"leaf.{i}"),), byte, f"leaf.{i}" not in trainable)
        for i, byte in enumerate(header["bytes"])
    ]
    return Schedule(
        arena_bytes=header["arena_bytes"],
        memory=Memory(*header["memory"]),
        stretches=[Stretch([_run_of(run, header["texts"]) for run in runs], None) for runs in header["runs"]],
        fixed=header["fixed"],
        given=[None if place is None else _place_of(place) for place in header["given"]],
        varying=header["varying"],
        uploads=uploads,
        brought=[(leaf(f"brought.{i}"), _place_of(place)) for i, place in enumerate(header["brought"])],
        results=[_place_of(place) for place in header["results"]],
        flagged=header["flagged"],
    )


def _place(place: Place) -> list[Any]:
    return [place.byte, list(place.shape), place.dtype.str]


def _place_of(told: Sequence[Any]) -> Place:
    byte, shape, dtype = told
    return Place(byte, tuple(shape), np.dtype(dtype))


def _run(run: Launch | LibraryProduct, texts: dict[str, int]) -> list[Any]:
    if isinstance(run, LibraryProduct):
        return [run.dtype.str, *([*map(list, part[1:]), part.start] for part in (run.a, run.b, run.c))]
    return [texts.setdefault(run.text, len(texts)), run.arrays, run.arguments, run.grid, run.block]


def _run_of(told: Sequence[Any], texts: Sequence[str]) -> Launch | LibraryProduct:
    if isinstance(told[0], str):
        a, b, c = (Part(start, tuple(shape), tuple(strides)) for shape, strides, start in told[1:])
        return LibraryProduct(a, b, c, np.dtype(told[0]), ())
    number, names, arguments, (x, y, z), (across, down, deep) = told
    return Launch(texts[number], tuple(names), tuple(arguments), (x, y, z), (across, down, deep), ())
