"""A schedule as what a file can hold, and back: all but the work of its sections, which each back end tells itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from graphnet.backends import contents
from graphnet.backends.compiled.locations import ARENA, HEADER, Location
from graphnet.backends.compiled.schedule import Schedule, Section
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops import all_ops
from graphnet.ops.elementwise import Elementwise
from graphnet.ops.leaf import Constant, Parameter
from graphnet.ops.rowwise import Rowwise
from graphnet.plan.order import Memory

__all__ = ["leaves_by_key", "require_storable", "restored_schedule", "stored_schedule"]

W = TypeVar("W")


def require_storable(schedule: Schedule[Any], check: bool) -> None:
    """BackendError where Python has to run something, or errors need the graph."""
    for section in schedule.sections:
        if section.host is not None:
            raise _runs_in_python(section.host.node)
    if check:
        raise BackendError("a function compiled with check=True cannot be stored: errors need its graph")


def _runs_in_python(node: Node) -> BackendError:
    if type(node.op) in all_ops():
        remedy = "It has none where all passes run: compile with passes=gn.passes.DEFAULT."
    elif isinstance(node.op, Elementwise):
        remedy = "Give the op a `kernel`."
    elif isinstance(node.op, Rowwise):
        remedy = 'Its kernel is native code on the back end "numba" alone: compile with that.'
    else:
        remedy = (
            "Give the op `expanded`, which writes its value with graphnet's own ops, or a `kernel` of rows "
            "(gn.Rowwise), or leave it out."
        )
    return BackendError(
        f"this function cannot be stored: {node.describe()} (made at {node.origin}) runs the Python rule of "
        f"{node.op.name}, which no file can hold. {remedy}"
    )


def stored_schedule(schedule: Schedule[Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """JSON and arrays, which `restored_schedule` reads."""
    leaves = leaves_by_key(schedule)
    header = {
        "memory": [schedule.memory.leaves, schedule.memory.peak],
        "arena_bytes": schedule.arena_bytes,
        "fixed": schedule.fixed,
        "copied_inputs": [
            None if location is None else location.stored() for location in schedule.copied_inputs
        ],
        "varying": schedule.varying,
        "leaves": len(schedule.leaves),
        "copied_leaves": [location.stored() for _, location in schedule.copied_leaves],
        "results": [location.stored() for location in schedule.results],
        "parameters": _parameters(leaves),
    }
    return header, {key: np.ascontiguousarray(node.value) for key, node in leaves.items()}


def leaves_by_key(schedule: Schedule[Any]) -> dict[str, Node]:
    """Key in a file, "leaf.0" or "copied.0" -> the leaf."""
    found = {f"leaf.{i}": node for i, node in enumerate(schedule.leaves)}
    return found | {f"copied.{i}": node for i, (node, _) in enumerate(schedule.copied_leaves)}


def _parameters(leaves: Mapping[str, Node]) -> dict[str, str]:
    """name -> key of the parameters among them.

    Names that are taken get a number: b, b_2, b_3; those without one are called by their keys.
    """
    found: dict[str, str] = {}
    for key, node in leaves.items():
        if node.op.is_parameter:
            name, number = node.name or key, 1
            while name in found:
                number += 1
                name = f"{node.name or key}_{number}"
            found[name] = key
    return found


def _own_leaves(header: Mapping[str, Any], source: Graph) -> dict[str, Node]:
    """Key -> the leaf of the graph."""
    own = contents.entry(header, "own")
    if not isinstance(own, dict):
        contents.refuse("its own leaves are no names")
    most = len(source.order) - 1
    return {key: source.order[contents.whole(i, "the number of a leaf", most)] for key, i in own.items()}


def restored_schedule(
    header: Mapping[str, Any],
    arrays: Mapping[str, Array],
    works: Sequence[W],
    apart: bool,
    source: Graph | None = None,
) -> Schedule[W]:
    """The schedule that was stored, with the work of each section. Its leaves are the arrays, so what is written into
    these holds from then on. apart: leaves have no piece of memory of their own. source: a graph whose own leaves stand
    for arrays that were not stored, as the header says by their numbers in its order.

    BackendError for what is none: no array lies outside of its memory.
    """
    given = {} if source is None else _own_leaves(header, source)
    arrays = {**arrays, **{key: node.value for key, node in given.items()}}
    trainable = set(contents.parameters(header, arrays).values())

    def leaf(key: str) -> Node:
        if key in given:
            return given[key]
        return (Parameter if key in trainable else Constant)(contents.array(arrays, key))()

    count = contents.whole(contents.entry(header, "leaves"), "the number of its leaves", len(arrays))
    leaves = [leaf(f"leaf.{i}") for i in range(count)]
    arena = contents.whole(contents.entry(header, "arena_bytes"), "the size of its arena", least=HEADER)
    sizes = [0, arena, *(node.nbytes for node in leaves if not apart)]

    def locations(name: str, sizes: Sequence[int]) -> list[Location | None]:
        stored = contents.listed(contents.entry(header, name), f"its list {name!r}")
        return [None if each is None else Location.restored(each, sizes) for each in stored]

    def all_of(name: str, sizes: Sequence[int]) -> list[Location]:
        found = [location for location in locations(name, sizes) if location is not None]
        if len(found) != len(header[name]):
            contents.refuse(f"its list {name!r} lacks a place")
        return found

    own = sizes[: ARENA + 1]
    inputs, copied = locations("copied_inputs", own), []
    for i, location in enumerate(all_of("copied_leaves", own)):
        node = leaf(f"copied.{i}")
        if (node.shape, node.dtype) != (location.shape, location.dtype):
            contents.refuse("an array does not fit its place")
        copied.append((node, location))
    varying = [
        contents.truth(stored, "whether an input varies")
        for stored in contents.listed(contents.entry(header, "varying"), "what varies")
    ]
    contents.require_fit(inputs, varying, header)
    kept, peak = (
        contents.whole(size, "its memory")
        for size in contents.listed(contents.entry(header, "memory"), "its memory", 2)
    )
    return Schedule(
        memory=Memory(kept, peak),
        arena_bytes=arena,
        sections=[Section(work, None) for work in works],
        fixed=contents.whole(contents.entry(header, "fixed"), "what does not vary", len(works)),
        copied_inputs=inputs,
        varying=varying,
        leaves=leaves,
        copied_leaves=copied,
        results=all_of("results", sizes),
    )
