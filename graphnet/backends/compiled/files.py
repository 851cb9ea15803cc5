"""Schedules to files and back, except for the work of sections, which each back end stores itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from graphnet.backends.compiled.locations import Location
from graphnet.backends.compiled.schedule import ProgramSchedule, Section
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops import all_ops
from graphnet.ops.elementwise import Elementwise
from graphnet.ops.leaf import Constant, Parameter
from graphnet.ops.rowwise import Rowwise
from graphnet.plan.order import RunMemory

W = TypeVar("W")


def require_storable(schedule: ProgramSchedule[Any], check: bool) -> None:
    """BackendError where Python has to run something, or errors need the graph."""
    for section in schedule.sections:
        if section.host is not None:
            raise _runs_in_python(section.host.node)
    if check:
        raise BackendError(
            "a function compiled with check=True cannot be stored; compile it with check=False"
        )


def _runs_in_python(node: Node) -> BackendError:
    if type(node.op) in all_ops():
        remedy = "Compile with passes=gn.passes.DEFAULT, which replaces this op."
    elif isinstance(node.op, Elementwise):
        remedy = "Define `kernel` on the op."
    elif isinstance(node.op, Rowwise):
        remedy = "Compile with backend='numba', the only back end that compiles its kernel."
    else:
        remedy = (
            "Define `expanded` on the op, which computes the value with graphnet's own ops, or a `kernel` of rows "
            "(gn.Rowwise), or leave the node out."
        )
    return BackendError(
        f"this function cannot be stored: {node.describe()} (made at {node.origin}) runs the Python rule of "
        f"{node.op.name}, which cannot be written to a file. {remedy}"
    )


def stored_schedule(schedule: ProgramSchedule[Any]) -> tuple[dict[str, Any], dict[str, Array]]:
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


def leaves_by_key(schedule: ProgramSchedule[Any]) -> dict[str, Node]:
    """Key in a file, "leaf.0" or "copied.0" -> the leaf."""
    found = {f"leaf.{i}": node for i, node in enumerate(schedule.leaves)}
    return found | {f"copied.{i}": node for i, (node, _) in enumerate(schedule.copied_leaves)}


def _parameters(leaves: Mapping[str, Node]) -> dict[str, str]:
    """name -> key of the parameters; duplicate names get a number (b_2), unnamed parameters are named by their keys."""
    found: dict[str, str] = {}
    for key, node in leaves.items():
        if node.op.is_parameter:
            name, number = node.name or key, 1
            while name in found:
                number += 1
                name = f"{node.name or key}_{number}"
            found[name] = key
    return found


def restored_schedule(
    header: Mapping[str, Any], arrays: Mapping[str, Array], works: Sequence[W], source: Graph | None = None
) -> ProgramSchedule[W]:
    """The stored schedule, with the work of each section. Its leaves share memory with `arrays`, so later changes to
    these take effect. source: a graph whose leaves replace arrays that were not stored; the header has their numbers
    in the order of the graph.
    """
    own = {} if source is None else {key: source.order[i] for key, i in header["own"].items()}
    trainable = set(header["parameters"].values())

    def leaf(key: str) -> Node:
        if key in own:
            return own[key]
        return (Parameter if key in trainable else Constant)(arrays[key])()

    def locations(name: str) -> list[Location]:
        return [Location.restored(stored) for stored in header[name]]

    return ProgramSchedule(
        memory=RunMemory(*header["memory"]),
        arena_bytes=header["arena_bytes"],
        sections=[Section(work, None) for work in works],
        fixed=header["fixed"],
        copied_inputs=[stored and Location.restored(stored) for stored in header["copied_inputs"]],
        varying=header["varying"],
        leaves=[leaf(f"leaf.{i}") for i in range(header["leaves"])],
        copied_leaves=[(leaf(f"copied.{i}"), at) for i, at in enumerate(locations("copied_leaves"))],
        results=locations("results"),
    )
