"""Chunks: reductions of a long vector by chunks, so that cores have rows to divide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphnet.graph.dtypes import FLOAT64
from graphnet.graph.node import Dtype
from graphnet.passes.fuse import LONG
from graphnet.plan.instructions import Instruction, Load, Loop, LoopReduction
from graphnet.plan.views import Buffer, View

#: Elements of a chunk. How a vector is divided depends on its length alone, so results do not depend on the number of
#: cores.
CHUNK = 1 << 13


def in_chunks(loop: Loop) -> Sequence[Instruction]:
    """The loop itself; if it reduces a long vector: loops over its chunks and the remainder, and one over their
    results."""
    if len(loop.shape) != 1 or not loop.reductions or loop.shape[0] < LONG:
        return [loop]
    if loop.looks_up:
        return [loop]
    size = loop.shape[0]
    count = size // CHUNK
    end = count * CHUNK
    more = end < size
    parts = [Buffer(count + more, _kept(r)).whole((count + more,)) for r in loop.reductions]
    found = [_part(loop, (0, end), (count, CHUNK), [part.row_range(0, count) for part in parts])]
    if more:
        one = [part.sliced([count]) for part in parts]
        found.append(_part(loop, (end, size), (size - end,), one))
    last = Loop(
        loop.nodes, parts[0].shape, [Load("plain", part, None, part.dtype) for part in parts], [], [], (0,),
        [LoopReduction(r.how, i, r.view) for i, r in enumerate(loop.reductions)],
    )  # fmt: skip
    return [*found, last]


def _kept(reduction: LoopReduction) -> Dtype:
    """Dtype of the partial results of chunks: sums of floats are kept in double precision, since they may cancel."""
    dtype = reduction.view.dtype
    return FLOAT64 if reduction.how == "sum" and dtype.kind == "f" else dtype


def _part(loop: Loop, range_: tuple[int, int], shape: tuple[int, ...], targets: Sequence[View]) -> Loop:
    def seen(view: View) -> View:
        (step,) = view.strides
        strides = (step,) if len(shape) == 1 else (step * shape[1], step)
        return replace(view, offset=view.offset + range_[0] * step, shape=shape, strides=strides)

    return Loop(
        loop.nodes, shape,
        [load._replace(data=None if load.data is None else seen(load.data)) for load in loop.loads], loop.steps,
        [(number, seen(view)) for number, view in loop.stores], (len(shape) - 1,),
        [r._replace(view=target) for r, target in zip(loop.reductions, targets, strict=True)],
    )  # fmt: skip
