"""Transfers: what passes between two memories lies in one piece in both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from graphnet.plan.instructions import Host, Instruction
from graphnet.plan.lowering import Lowered
from graphnet.plan.updates import copied
from graphnet.plan.views import Buffer, View

__all__ = ["in_one_piece"]


def in_one_piece(lowered: Lowered) -> Lowered:
    """The same for a back end whose memory is not the host's: what is brought there, what is fetched, and what Python
    reads and makes is contiguous. Where it lies between other values, an instruction copies it."""
    views = dict(lowered.views)
    before: list[Instruction] = []
    again: list[Instruction] = []  # what varies
    for node in (*lowered.graph.inputs, *lowered.brought):
        view = views.get(node)
        if view is not None and not view.is_contiguous:
            whole = views[node] = _whole(view)
            if view.size:
                varies = lowered.fixed and node.op.varying
                (again if varies else before).append(copied(node, whole, view))
    instructions = before
    fixed = 0
    for i, instruction in enumerate(lowered.instructions):
        if lowered.fixed and i == lowered.fixed:
            fixed = len(instructions)
            instructions += again
        instructions += _staged(instruction) if isinstance(instruction, Host) else [instruction]
    if not fixed:  # nothing comes after what does not vary
        instructions[:0] = again
    results = []
    for node, view in zip(lowered.graph.outputs, lowered.results, strict=True):
        found = view if view.is_contiguous else _whole(view)
        if found is not view and view.size:
            instructions.append(copied(node, view, found))
        results.append(found)
    return replace(lowered, instructions=instructions, views=views, results=results, fixed=fixed, static=0)


def _whole(view: View) -> View:
    return Buffer(view.size, view.dtype).whole(view.shape)


def _staged(host: Host) -> Iterator[Instruction]:
    """What Python reads is copied before, what it makes after."""
    sources = []
    for view in host.sources:
        sources.append(view if view.is_contiguous else _whole(view))
        if sources[-1] is not view and view.size:
            yield copied(host.node, view, sources[-1])
    target = host.target if host.target.is_contiguous else _whole(host.target)
    yield Host(host.nodes, host.node, sources, target)
    if target is not host.target and target.size:
        yield copied(host.node, target, host.target)
