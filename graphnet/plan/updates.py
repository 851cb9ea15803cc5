"""Updates: new values of inputs are written in place, at once if the old values are no longer read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphnet.graph.node import Node
from graphnet.plan.instructions import Instruction, Load, Loop, LoopReduction, MatrixProduct
from graphnet.plan.views import Buffer, View


def can_fail(instructions: Sequence[Instruction]) -> bool:
    """True if a run may end without results, after an index out of range or an error in Python; such a run must not
    have written.
    """
    return not all(
        isinstance(i, MatrixProduct) or (isinstance(i, Loop) and not i.looks_up) for i in instructions
    )


def write_updates(
    instructions: list[Instruction], views: dict[Node, View], targets: Sequence[Node], values: Sequence[Node],
    results: Sequence[Node],
) -> list[View]:  # fmt: skip
    """Makes the instructions leave the values in the buffers of the targets; returns the views of the results.

    targets: inputs that are read in place. A value is computed in place if each instruction, from the first that
    writes it, reads only those old numbers that it replaces itself. Otherwise it is copied there at the end. Old values
    that are still needed (two inputs that swap values, a result from before the step) are saved first.
    """
    old = {views[target].buffer for target in targets}

    def safe(node: Node) -> View:
        return _saved(instructions, node, views[node]) if views[node].buffer in old else views[node]

    found = [safe(node) for node in results]
    new = [views[v] if views[v] == views[t] else safe(v) for t, v in zip(targets, values, strict=True)]
    for k, (target, value) in enumerate(zip(targets, values, strict=True)):
        place, view = views[target], new[k]
        if view == place or not view.size:
            continue
        if not _is_free(instructions, view, place):
            instructions.append(copied(value, view, place))
            continue
        _move(instructions, view.buffer, place.buffer)
        for seen in (found, new):
            seen[:] = [replace(v, buffer=place.buffer) if v.buffer is view.buffer else v for v in seen]
    # Results belong to the caller, and the input arrays may change later.
    are_inputs = [v.buffer.leaf is not None and v.buffer.leaf.op.is_input for v in found]
    return [
        _saved(instructions, n, v) if own else v for n, v, own in zip(results, found, are_inputs, strict=True)
    ]


def copied(node: Node, source: View, target: View) -> Loop:
    """A loop that copies a node's value; it has the target's own memory."""
    return Loop((node,), source.shape, [Load("plain", source, None, source.dtype)], [], [(0, target)])


def _saved(instructions: list[Instruction], node: Node, view: View) -> View:
    saved = Buffer(view.size, view.dtype).whole(view.shape)
    if view.size:
        instructions.append(copied(node, view, saved))
    return saved


def _is_free(instructions: Sequence[Instruction], view: View, place: View) -> bool:
    buffer = view.buffer
    if buffer.leaf is not None or not view.fills_buffer:
        return False
    writers = [i for i in instructions if any(access.view.buffer is buffer for access in i.writes)]
    if not writers or not all(isinstance(i, Loop) for i in writers):
        return False
    stored = [w for i in writers for _, w in i.stores if w.buffer is buffer]  # type: ignore[attr-defined]
    if sum(w.size for w in stored) != view.size:  # written twice, or by a reduction
        return False
    for later in instructions[instructions.index(writers[0]) :]:
        if any(access.view.buffer is place.buffer for access in later.writes):
            return False
        read = [access.view for access in later.reads if access.view.buffer is place.buffer]
        if not read:
            continue
        if later not in writers:
            return False
        own = [w for _, w in later.stores if w.buffer is buffer]  # type: ignore[attr-defined]
        # Each element that is read is replaced by the same instruction.
        if any((r.offset, r.shape, r.strides) != (w.offset, w.shape, w.strides) for r in read for w in own):
            return False
    return True


def _move(instructions: list[Instruction], buffer: Buffer, to: Buffer) -> None:
    def moved(view: View) -> View:
        return replace(view, buffer=to) if view.buffer is buffer else view

    for i, instruction in enumerate(instructions):
        if not any(a.view.buffer is buffer for a in (*instruction.reads, *instruction.writes)):
            continue
        if isinstance(instruction, MatrixProduct):
            instructions[i] = MatrixProduct(
                instruction.nodes, *map(moved, (instruction.a, instruction.b, instruction.c))
            )
            continue
        assert isinstance(instruction, Loop)
        instructions[i] = Loop(
            instruction.nodes,
            instruction.shape,
            [
                load._replace(data=None if load.data is None else moved(load.data))
                for load in instruction.loads
            ],
            instruction.steps,
            [(number, moved(view)) for number, view in instruction.stores],
            instruction.reduced,
            [LoopReduction(how, number, moved(view)) for how, number, view in instruction.reductions],
        )
