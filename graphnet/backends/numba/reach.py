"""Reach: which bytes the tapes of a stored function touch, worked out before anything runs.

The code of a kernel is not looked into: it is what its seal says, with the form of its records. All else that a record
tells its kernel, addresses, sizes and strides, is held against the memory that there is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphnet.backends.compiled.locations import ARENA, HEADER
from graphnet.backends.contents import refuse
from graphnet.backends.numba.records import FLAG, RecordForm, Touched
from graphnet.backends.numba.schedule import TapeSchedule
from graphnet.backends.numba.tape import SHIFT, Tape
from graphnet.graph.node import Array

__all__ = ["arena_end"]

#: Nothing but addresses is as large.
LARGE = 1 << SHIFT
#: An axis may be longer than memory has bytes, where it is read again and again; but not longer than this.
LONG = 1 << 24


def arena_end(schedule: TapeSchedule, forms: Sequence[RecordForm]) -> int:
    """The end of the arena's last byte that is used. BackendError where a record reaches outside of it or of a leaf."""
    sizes = np.array([0, schedule.arena_bytes, *(leaf.nbytes for leaf in schedule.leaves)], np.int64)
    copied = [location for _, location in schedule.copied_leaves]
    locations = [each for each in (*schedule.copied_inputs, *copied, *schedule.results) if each is not None]
    ends = [HEADER, *(each.end for each in locations if each.piece == ARENA)]
    tapes = [tape for section in schedule.sections for tape in section.work]
    for tape in tapes:
        _require_whole(tape, forms)
    for number, form in enumerate(forms):
        starts = [tape.heads[tape.kernels == number] for tape in tapes]
        records = [
            tape.words[at[:, None] + np.arange(form.words)]
            for tape, at in zip(tapes, starts, strict=True)
            if len(at)
        ]
        if records:
            ends.append(_end(np.concatenate(records), form, sizes))
    return max(ends)


def _require_whole(tape: Tape, forms: Sequence[RecordForm]) -> None:
    """Records follow each other, each as long as its kernel's are, from the first word to the last."""
    words, heads, kernels, ends = tape.words, tape.heads, tape.kernels, tape.ends
    if len(heads) != len(kernels) or ((kernels < 0) | (kernels >= len(forms))).any():
        refuse("a record has no kernel")
    lengths = np.array([form.words for form in forms], np.int64)[kernels]
    edges = np.concatenate([[0], np.cumsum(lengths)])
    if edges[-1] != len(words) or (heads != edges[:-1]).any() or (words[heads + 1] != lengths).any():
        refuse("a tape's records do not follow each other")
    if words[heads].any():
        refuse("a kernel has an address already")
    if not len(ends) or ends[-1] != len(words) or (np.diff(ends) < 0).any() or not np.isin(ends, edges).all():
        refuse("a superstep ends within a record")


def _end(records: Array, form: RecordForm, sizes: Array) -> int:
    """The end, in the arena, of what some records of one form touch."""
    addresses = {operand.base for operand in form.operands}
    if form.flagged:
        addresses.add(FLAG)
        if (records[:, FLAG] != ARENA << SHIFT).any():
            refuse("a kernel's error flag is elsewhere")
    numbers = [i for i in range(2, form.words) if i not in addresses]
    if ((records[:, numbers] >= LARGE) | (records[:, numbers] <= -LARGE)).any():
        refuse("a size or stride is larger than memory")
    if any((records[:, at] != value).any() for at, value in form.fixed):
        refuse("a stride is not the one that its kernel was made for")
    if not form.operands:
        return 0
    # Records that differ in addresses alone, as those of time steps do, are looked at together. (Word 1 is the length.)
    _, first, which, counts = np.unique(
        records[:, [1, *numbers]], axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    groups = np.split(np.argsort(which.reshape(-1), kind="stable"), np.cumsum(counts)[:-1])
    return max(
        _end_of_equal(records[group], records[at].tolist(), form.operands, sizes)
        for at, group in zip(first, groups, strict=True)
    )


def _end_of_equal(records: Array, words: Sequence[int], operands: Sequence[Touched], sizes: Array) -> int:
    """words: of one of the records, which have all but the addresses in common."""
    most = max(LONG, int(sizes.sum()))
    spans = [_span(operand, words, most) for operand in operands]
    used, writes = np.array([s is not None for s in spans]), np.array([o.writes for o in operands])
    below, above = np.array([span or (0, 0) for span in spans], np.int64).T
    bases = records[:, [operand.base for operand in operands]]
    piece, byte = bases >> SHIFT, bases & (LARGE - 1)
    if ((piece < ARENA) | (piece >= len(sizes)) | (writes & (piece != ARENA))).any():
        refuse("an operand lies in no memory of its kind")
    aligned = byte % np.array([operand.item for operand in operands]) == 0
    starts = byte + below >= np.where(piece == ARENA, HEADER, 0)
    if not ((aligned & starts & (byte + above <= sizes[piece])) | ~used).all():
        refuse("an operand reaches outside of its memory")
    return int((byte + above)[used & (piece == ARENA)].max(initial=0))


def _span(operand: Touched, words: Sequence[int], most: int) -> tuple[int, int] | None:
    """From which byte to which it reaches, counted from its address; None if it is empty."""
    below = above = 0
    empty = False
    for count, step in operand.axes:
        size = count.value(words)
        if not 0 <= size <= most:
            refuse("an axis is longer than memory")
        empty = empty or size == 0
        far = (size - 1) * step.value(words)
        below, above = below + min(far, 0), above + max(far, 0)
    if empty:
        return None
    if max(-below, above) >= LARGE:
        refuse("an operand reaches outside of its memory")
    return below * operand.item, (above + 1) * operand.item
