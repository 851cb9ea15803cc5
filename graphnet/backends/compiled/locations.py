"""Locations of arrays while a program runs, as numbers that can be stored.

Memory is in pieces: piece ARENA is the program's own, those from ARENA + 1 on are leaves that are read in place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphnet.graph.node import Array, Dtype, Shape
from graphnet.plan.arena import ALIGNMENT
from graphnet.plan.views import View

ARENA = 1
#: Bytes at the start of the arena: word 0 is the error flag.
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
    def restored(cls, stored: Any) -> Location:
        """Inverse of `stored`."""
        piece, byte, shape, strides, dtype = stored
        return cls(piece, byte, tuple(shape), tuple(strides), np.dtype(dtype))

    def stored(self) -> list[Any]:
        return [self.piece, self.byte, list(self.shape), list(self.strides), self.dtype.str]

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, which need not be contiguous."""
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self, memory: Array) -> Array:
        """The array in the bytes of its piece of memory."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, memory.data, self.byte, self.strides)
