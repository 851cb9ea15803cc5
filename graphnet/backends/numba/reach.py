"""Reach: which bytes the tapes of a stored function touch, worked out before anything runs.

The code of a kernel is not looked into: it is what its seal says, with the form of its records. All else that a record
tells its kernel, addresses, sizes and strides, is held against the memory that there is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphnet.backends.contents import refuse
from graphnet.backends.numba.image import ARENA, HEADER, SHIFT, Image, Place, Tape
from graphnet.backends.numba.records import FLAG, Number, RecordForm, Touched
from graphnet.node import Array

__all__ = ["arena_end"]

#: Nothing but addresses is as large.
LARGE = 1 << SHIFT
#: An axis may be longer than memory has bytes, where it is read again and again; but not longer than this.
LONG = 1 << 24


def arena_end(image: Image, forms: Sequence[RecordForm], leaves: Sequence[Array]) -> int:
    """The end of the arena's last byte that is used. BackendError where anything lies outside of it, or of a leaf."""
    sizes = np.array([0, image.arena_bytes, *(leaf.nbytes for leaf in leaves)], np.int64)
    places = [place for place in (*image.given, *image.brought, *image.results) if place is not None]
    ends = [HEADER, *(_end_of(place, sizes) for place in places)]
    for tapes, _ in image.segments:
        for tape in tapes:
            _require_whole(tape, forms)
            for number in np.unique(tape.kernels):
                starts = tape.heads[tape.kernels == number]
                form = forms[int(number)]
                ends.append(_end(tape.words[starts[:, None] + np.arange(form.words)], form, sizes))
    return max(ends)


def _end_of(place: Place, sizes: Array) -> int:
    """The end of an array in the arena; 0 if it lies elsewhere, or takes none."""
    if 0 in place.shape:
        return 0
    steps = [(size - 1) * stride for size, stride in zip(place.shape, place.strides, strict=True)]
    first = place.byte + sum(min(step, 0) for step in steps)
    end = place.byte + sum(max(step, 0) for step in steps) + place.dtype.itemsize
    if not (HEADER if place.piece == ARENA else 0) <= first < end <= sizes[place.piece]:
        refuse("an array lies outside of its memory")
    return end if place.piece == ARENA else 0


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
    return max((_end_of_operand(records, operand, sizes) for operand in form.operands), default=0)


def _end_of_operand(records: Array, operand: Touched, sizes: Array) -> int:
    piece, byte = records[:, operand.base] >> SHIFT, records[:, operand.base] & (LARGE - 1)
    if ((piece < ARENA) | (piece >= len(sizes))).any() or (operand.writes and (piece != ARENA).any()):
        refuse("an operand lies in no memory of its kind")
    most = max(LONG, int(sizes.sum()))
    below, above = np.zeros(len(records)), np.zeros(len(records))
    used = np.ones(len(records), bool)
    for count, step in operand.axes:
        size = _value(count, records)
        if ((size < 0) | (size > most)).any():
            refuse("an axis is longer than memory")
        used &= size > 0
        far = (size - 1) * _value(step, records)
        below += np.minimum(far, 0)
        above += np.maximum(far, 0)
    # Sums that are not exact in float64 are far outside.
    first, end = byte + below * operand.item, byte + (above + 1) * operand.item
    inside = (
        (first >= np.where(piece == ARENA, HEADER, 0)) & (end <= sizes[piece]) & (byte % operand.item == 0)
    )
    if not (inside | ~used).all():
        refuse("an operand reaches outside of its memory")
    return int(end[used & (piece == ARENA)].max(initial=0))


def _value(number: Number, records: Array) -> Array:
    found = np.full(len(records), float(number.plus))
    if number.word >= 0:
        found += number.times * records[:, number.word].astype(np.float64)
    return found if number.multiple == 1 else np.ceil(found / number.multiple) * number.multiple
