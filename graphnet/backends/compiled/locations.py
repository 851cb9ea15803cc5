"""Locations: where arrays lie while a program runs, in numbers that a file can hold.

Memory is in pieces: piece ARENA is the program's own, those from ARENA + 1 on are leaves that are read where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphnet.backends import contents
from graphnet.graph.node import Array, Dtype, Shape
from graphnet.plan.arena import ALIGNMENT
from graphnet.plan.views import View

__all__ = ["ARENA", "HEADER", "Location"]

ARENA = 1
#: Bytes at the start of the arena: word 0 is the flag that says that something is wrong.
HEADER = ALIGNMENT


@dataclass(frozen=True)
class Location:
    """The piece of memory, and from which byte of it on; strides in bytes."""

    piece: int
    byte: int
    shape: Shape
    strides: tuple[int, ...]
    dtype: Dtype

    @classmethod
    def of(cls, view: View, piece: int) -> Location:
        item = view.dtype.itemsize
        start = view.buffer.offset if piece == ARENA else 0
        byte = start + view.offset * item if view.size else 0
        return cls(piece, byte, view.shape, tuple(s * item for s in view.strides), view.dtype)

    @classmethod
    def restored(cls, stored: Any, sizes: Sequence[int]) -> Location:
        """BackendError if it lies in none of the pieces of memory, which have so many bytes each."""
        piece, byte, shape, strides, dtype = contents.listed(stored, "the place of an array", 5)
        shape = contents.shape(shape, "an array")
        found = cls(
            contents.whole(piece, "a piece of memory", len(sizes) - 1, ARENA),
            contents.whole(byte, "the place of an array"),
            shape,
            tuple(
                contents.whole(step, "a stride", least=-contents.MOST)
                for step in contents.listed(strides, "the strides of an array", len(shape))
            ),
            contents.dtype(dtype, "an array"),
        )
        if found.end:
            first = found.byte + sum(min(step, 0) for step in found._reach)
            inside = (HEADER if found.piece == ARENA else 0) <= first < found.end <= sizes[found.piece]
            if not inside or first % found.dtype.itemsize:
                contents.refuse("an array lies outside of its memory")
        return found

    def stored(self) -> list[Any]:
        return [self.piece, self.byte, list(self.shape), list(self.strides), self.dtype.str]

    @property
    def nbytes(self) -> int:
        """Of its elements, which need not lie side by side."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def end(self) -> int:
        """The end of its last byte; 0 if it takes none."""
        return (
            self.byte + sum(max(step, 0) for step in self._reach) + self.dtype.itemsize if self.nbytes else 0
        )

    @property
    def _reach(self) -> list[int]:
        """How far from its first element its last one lies, along each axis."""
        return [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]

    def array(self, memory: Array) -> Array:
        """The array in the bytes of its piece of memory."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, memory.data, self.byte, self.strides)
