"""Image: all that a machine needs to run a program, as plain data: tapes, kernels, places.

Addresses in a tape are symbolic until it is put to work: a word of 2**44 or more names a piece of memory (1: the
arena, from 2 on: the leaves) and a byte in it. An image can therefore be kept in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphnet.backends import contents
from graphnet.backends.numba.jobs import Record
from graphnet.graph.node import Array, Dtype, Node, Shape
from graphnet.plan.order import Memory
from graphnet.plan.views import View

__all__ = ["ARENA", "HEADER", "LESS", "RUN", "SHIFT", "Image", "Place", "Tape", "address", "make_tape"]

#: Bits of a symbolic address that count bytes; those above them name the piece of memory.
SHIFT = 44
ARENA = 1
#: The arrays of a tape, and what they hold.
TAPE = ("words", "heads", "kernels", "ends")
WORD = np.dtype(np.int64)
#: Bytes at the start of the arena, for the error flag.
HEADER = 64
#: What takes an arena, and what to do where there is no memory for it.
RUN = "a run of this function"
LESS = "a smaller batch or fewer time steps take less, and so does gn.compile(..., memory='sqrt'), or --memory sqrt"


def address(piece: int, byte: int) -> int:
    return (piece << SHIFT) + byte


@dataclass(frozen=True)
class Place:
    """Where an array lies: which piece of memory, and from which byte on; strides in bytes."""

    piece: int
    byte: int
    shape: Shape
    strides: tuple[int, ...]
    dtype: Dtype

    @classmethod
    def of(cls, view: View, piece: int) -> Place:
        item = view.dtype.itemsize
        byte = view.offset * item + (HEADER + view.buffer.offset if piece == ARENA else 0)
        return cls(piece, byte, view.shape, tuple(s * item for s in view.strides), view.dtype)

    def told(self) -> list[Any]:
        return [self.piece, self.byte, list(self.shape), list(self.strides), self.dtype.str]

    @classmethod
    def from_told(cls, told: Any, pieces: int) -> Place:
        """BackendError if it names none of so many pieces of memory, or is no place at all."""
        piece, byte, sizes, steps, dtype = contents.listed(told, "the place of an array", 5)
        shape = contents.shape(sizes, "an array")
        strides = tuple(
            contents.whole(step, "a stride", least=-contents.MOST)
            for step in contents.listed(steps, "the strides of an array", len(shape))
        )
        return cls(
            contents.whole(piece, "a piece of memory", pieces - 1, ARENA),
            contents.whole(byte, "the place of an array", least=-HEADER),
            shape, strides, contents.dtype(dtype, "an array"),
        )  # fmt: skip

    def array(self, memory: Array) -> Array:
        """The array in the bytes of its piece of memory."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, memory.data, self.byte, self.strides)


@dataclass
class Tape:
    """What one part of a program does: words, the places of the kernels' addresses among them, which kernel each is,
    and where supersteps end.
    """

    words: Array
    heads: Array
    kernels: Array
    ends: Array

    def of_piece(self, piece: int) -> Array:
        """Which words are addresses in this piece of memory."""
        return np.flatnonzero(self.words >> SHIFT == piece)

    def located(self, pieces: Array, kernels: Array) -> Array:
        """The words with real addresses."""
        words = self.words.copy()
        piece = words >> SHIFT
        symbolic = np.flatnonzero(piece > 0)
        words[symbolic] = pieces[piece[symbolic]] + (words[symbolic] & ((1 << SHIFT) - 1))
        words[self.heads] = kernels[self.kernels]
        return words


def make_tape(supersteps: Sequence[Sequence[Record]], numbers: dict[str, int]) -> Tape:
    """numbers: text of a kernel -> its number; new kernels are added."""
    words: list[int] = []
    heads: list[int] = []
    kernels: list[int] = []
    ends: list[int] = []
    for records in supersteps:
        for record in records:
            heads.append(len(words))
            kernels.append(numbers.setdefault(record.text, len(numbers)))
            words.append(0)
            words.append(2 + len(record.words))
            words.extend(record.words)
        ends.append(len(words))
    return Tape(*(np.array(numbers_, np.int64) for numbers_ in (words, heads, kernels, ends)))


@dataclass
class Image:
    """segments: for each stretch of native code, a tape for each part; then, if any, the node whose own
    `forward` Python runs, with the places of its inputs and of its value.

    leaves: parameters and constants that are read where they are. brought: where other leaves are copied to
    first, from the arrays of `brought_from`.
    owners: for each segment and part, the nodes that each record works for (for profiles; not stored).
    fixed: how many segments, at the start, depend on no input that varies. varying: which of the inputs do.
    lent: positions of the inputs that are read, and updated, where they lie, in the order of their pieces of memory,
    which come after the leaves'. written: the positions of those that are updated.
    """

    parts: int
    arena_bytes: int
    memory: Memory
    kernels: list[str]
    segments: list[tuple[list[Tape], tuple[Node, list[Place], Place] | None]]
    leaves: list[Node]
    given: list[Place | None]
    brought: list[Place]
    brought_from: list[Node]
    results: list[Place]
    owners: list[list[list[tuple[Node, ...]]]]
    fixed: int = 0
    varying: list[bool] = field(default_factory=list)
    lent: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The image as what JSON can hold, and arrays. Kernels, leaves and nodes are the caller's to keep."""
        header = {
            "parts": self.parts,
            "arena_bytes": self.arena_bytes,
            "memory": [self.memory.leaves, self.memory.peak],
            "tapes": [len(tapes) for tapes, _ in self.segments],
            "given": [None if p is None else p.told() for p in self.given],
            "brought": [p.told() for p in self.brought],
            "results": [p.told() for p in self.results],
            "fixed": self.fixed,
            "varying": self.varying,
        }
        arrays: dict[str, Array] = {}
        for i, (tapes, _) in enumerate(self.segments):
            for k, tape in enumerate(tapes):
                arrays |= {f"{part}.{i}.{k}": getattr(tape, part) for part in TAPE}
        return header, arrays

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, Array], leaves: int) -> Image:
        """The image that was stored; it has no nodes: their arrays are given to the program, so many of them as leaves.

        BackendError for what is none. Whether all of it lies within its memory, `reach` knows.
        """
        parts = contents.whole(contents.entry(header, "parts"), "the number of its parts", 64, 1)
        kept, peak = (
            contents.whole(size, "its memory")
            for size in contents.listed(contents.entry(header, "memory"), "its memory", 2)
        )
        counts = contents.listed(contents.entry(header, "tapes"), "its tapes")
        if any(contents.whole(count, "the number of tapes", parts) != parts for count in counts):
            contents.refuse("a stretch of it has not a tape for each part")

        def places(name: str, pieces: int = ARENA + 1) -> list[Place | None]:
            told = contents.listed(contents.entry(header, name), name)
            return [None if each is None else Place.from_told(each, pieces) for each in told]

        image = cls(
            parts=parts,
            arena_bytes=contents.whole(
                contents.entry(header, "arena_bytes"), "the size of its arena", least=HEADER
            ),
            memory=Memory(kept, peak),
            kernels=[],
            segments=[
                (
                    [
                        Tape(*(contents.array(arrays, f"{part}.{i}.{k}", WORD) for part in TAPE))
                        for k in range(parts)
                    ],
                    None,
                )
                for i in range(len(counts))
            ],
            leaves=[],
            given=places("given"),
            brought=[place for place in places("brought") if place is not None],
            brought_from=[],
            results=[place for place in places("results", ARENA + 1 + leaves) if place is not None],
            owners=[],
            fixed=contents.whole(contents.entry(header, "fixed"), "what does not vary", len(counts)),
            varying=[
                contents.truth(each, "whether an input varies")
                for each in contents.listed(contents.entry(header, "varying"), "what varies")
            ],
        )
        for tapes, _ in image.segments:
            if len({len(tape.ends) for tape in tapes}) > 1:
                contents.refuse("its parts have not the same supersteps")
        contents.require_fit(image.given, image.varying, header)
        return image
