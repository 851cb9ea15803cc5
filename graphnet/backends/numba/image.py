"""Image: all that a machine needs to run a program, as plain data: tapes, kernels, places.

Addresses in a tape are symbolic until it is put to work: a word of 2**44 or more names a piece of memory (1: the
arena, from 2 on: the leaves) and a byte in it. An image can therefore be kept in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphnet.backends.numba.jobs import Record
from graphnet.node import Array, Dtype, Node, Shape
from graphnet.plan.order import Memory
from graphnet.plan.views import View

__all__ = ["ARENA", "HEADER", "LESS", "RUN", "SHIFT", "Image", "Place", "Tape", "address", "make_tape"]

#: Bits of a symbolic address that count bytes; those above them name the piece of memory.
SHIFT = 44
ARENA = 1
#: Bytes at the start of the arena: the error flag and the barriers' count, each on a line of its own.
HEADER = 256
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
    def from_told(cls, told: Sequence[Any]) -> Place:
        piece, byte, shape, strides, dtype = told
        return cls(piece, byte, tuple(shape), tuple(strides), np.dtype(dtype))

    def array(self, memory: Array) -> Array:
        """The array in the bytes of its piece of memory."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, memory.data, self.byte, self.strides)


@dataclass
class Tape:
    """What one core does: words, the places of the kernels' addresses among them, and which kernel each is."""

    words: Array
    heads: Array
    kernels: Array

    def located(self, pieces: Array, kernels: Array) -> Array:
        """The words with real addresses."""
        words = self.words.copy()
        piece = words >> SHIFT
        symbolic = np.flatnonzero(piece > 0)
        words[symbolic] = pieces[piece[symbolic]] + (words[symbolic] & ((1 << SHIFT) - 1))
        words[self.heads] = kernels[self.kernels]
        return words


def make_tape(records: Sequence[Record], numbers: dict[str, int]) -> Tape:
    """numbers: text of a kernel -> its number; new kernels are added."""
    words: list[int] = []
    heads: list[int] = []
    kernels: list[int] = []
    for record in records:
        heads.append(len(words))
        kernels.append(numbers.setdefault(record.text, len(numbers)))
        words.append(0)
        words.append(2 + len(record.words))
        words.extend(record.words)
    return Tape(*(np.array(part, np.int64) for part in (words, heads, kernels)))


@dataclass
class Image:
    """segments: for each stretch of native code, a tape for each core; then, if any, the node whose own
    `forward` Python runs, with the places of its inputs and of its value.

    leaves: parameters and constants that are read where they are. brought: where other leaves are copied to
    first, from the arrays of `brought_from`.
    owners: for each segment and core, the nodes that each record works for (for profiles; not stored).
    fixed: how many segments, at the start, depend on no input that varies. varying: which of the inputs do.
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
                arrays |= {
                    f"words.{i}.{k}": tape.words,
                    f"heads.{i}.{k}": tape.heads,
                    f"kernels.{i}.{k}": tape.kernels,
                }
        return header, arrays

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Image:
        """The image that was stored; it has no nodes: their arrays are given to the program."""
        return cls(
            parts=header["parts"],
            arena_bytes=header["arena_bytes"],
            memory=Memory(*header["memory"]),
            kernels=[],
            segments=[
                (
                    [
                        Tape(*(arrays[f"{part}.{i}.{k}"] for part in ("words", "heads", "kernels")))
                        for k in range(count)
                    ],
                    None,
                )
                for i, count in enumerate(header["tapes"])
            ],
            leaves=[],
            given=[None if p is None else Place.from_told(p) for p in header["given"]],
            brought=[Place.from_told(p) for p in header["brought"]],
            brought_from=[],
            results=[Place.from_told(p) for p in header["results"]],
            owners=[],
            fixed=header["fixed"],
            varying=header["varying"],
        )
