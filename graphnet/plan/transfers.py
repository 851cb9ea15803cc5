"""Transfers between two memories, contiguous in both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from graphnet.plan.instructions import Host, Instruction
from graphnet.plan.lowering import Lowered
from graphnet.plan.updates import copied
from graphnet.plan.views import Buffer, View


def in_one_piece(lowered: Lowered) -> Lowered:
    """Lowered program for a back end with its own memory: transferred values, and values that Python reads or makes,
    are contiguous. An instruction copies other values.
    """
    views = dict(lowered.views)
    before: list[Instruction] = []
    again: list[Instruction] = []  # those that vary
    for node in (*lowered.graph.inputs, *lowered.copied_leaves):
        view = views.get(node)
        if view is not None and not view.is_contiguous:
            whole = views[node] = _whole(view)
            if view.size:
                varies = lowered.fixed and node.op.varying
                (again if varies else before).append(copied(node, whole, view))
    instructions = [*before, *_staged(lowered.instructions[: lowered.fixed])]
    fixed = len(instructions) if lowered.fixed else 0
    instructions += [*again, *_staged(lowered.instructions[lowered.fixed :])]
    results = []
    for node, view in zip(lowered.graph.outputs, lowered.results, strict=True):
        found = view if view.is_contiguous else _whole(view)
        if found is not view and view.size:
            instructions.append(copied(node, view, found))
        results.append(found)
    return replace(lowered, instructions=instructions, views=views, results=results, fixed=fixed, unfed=0)


def _whole(view: View) -> View:
    return Buffer(view.size, view.dtype).whole(view.shape)


def _staged(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """Copies values before Python reads them and after Python makes them."""
    for instruction in instructions:
        if not isinstance(instruction, Host):
            yield instruction
            continue
        sources = []
        for view in instruction.sources:
            sources.append(view if view.is_contiguous else _whole(view))
            if sources[-1] is not view and view.size:
                yield copied(instruction.node, view, sources[-1])
        view = instruction.target
        target = view if view.is_contiguous else _whole(view)
        yield Host(instruction.nodes, instruction.node, sources, target)
        if target is not view and view.size:
            yield copied(instruction.node, target, view)
