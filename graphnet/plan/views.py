"""View: the place of a value in a buffer. Buffer: a piece of memory that views share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from graphnet.graph.node import Dtype, KeyEntry, Node, Shape


def contiguous_strides(shape: Shape) -> tuple[int, ...]:
    """Strides, in elements, of an array in row-major order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class Buffer:
    """Contiguous elements of one dtype. leaf: node that owns the array; None if it is allocated for a run."""

    __slots__ = ("dtype", "leaf", "offset", "size")

    def __init__(self, size: int, dtype: Dtype, leaf: Node | None = None) -> None:
        self.size, self.dtype, self.leaf = size, dtype, leaf
        #: Bytes from the start of the arena; set when memory is given out.
        self.offset = -1

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def whole(self, shape: Shape) -> View:
        return View(self, 0, shape, contiguous_strides(shape))


@dataclass(frozen=True, slots=True)
class View:
    """Element (i, j, ...) is buffer[offset + i strides[0] + j strides[1] + ...]."""

    buffer: Buffer
    offset: int
    shape: Shape
    strides: tuple[int, ...]

    @property
    def dtype(self) -> Dtype:
        return self.buffer.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def row_extent(self) -> tuple[int, int]:
        """(first, end): the elements of row 0 are within buffer[first : end], which may contain others."""
        first = last = self.offset
        for size, stride in zip(self.shape[1:], self.strides[1:], strict=True):
            if stride < 0:
                first += (size - 1) * stride
            else:
                last += (size - 1) * stride
        return first, last + 1

    @property
    def is_contiguous(self) -> bool:
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1:
                if stride != step:
                    return False
                step *= size
        return True

    @property
    def fills_buffer(self) -> bool:
        return self.offset == 0 and self.size == self.buffer.size and self.is_contiguous

    def sliced(self, key: Sequence[KeyEntry]) -> View:
        """The view of x[key], key as in graphnet.graph.node.Key."""
        offset, shape, strides = self.offset, [], []
        for k, stride in zip(key, self.strides, strict=True):
            if isinstance(k, int):
                offset += k * stride
            else:
                length = len(range(*k))
                if length:
                    offset += k[0] * stride
                shape.append(length)
                strides.append(k[2] * stride)
        return View(self.buffer, offset, tuple(shape), tuple(strides))

    def transposed(self, axes: Sequence[int]) -> View:
        return View(
            self.buffer,
            self.offset,
            tuple(self.shape[a] for a in axes),
            tuple(self.strides[a] for a in axes),
        )

    def broadcast(self, to: Shape) -> View:
        new = len(to) - len(self.shape)
        strides = [
            0 if size == 1 and wanted != 1 else stride
            for size, wanted, stride in zip(self.shape, to[new:], self.strides, strict=True)
        ]
        return View(self.buffer, self.offset, to, (*[0] * new, *strides))

    def reshaped(self, to: Shape) -> View | None:
        """View of the same elements in another shape, or None if strides cannot express it."""
        if self.is_contiguous or self.size == 0:
            return View(self.buffer, self.offset, to, contiguous_strides(to))
        # Runs of axes that are nested, as in one piece of memory; each must be covered by whole
        # axes of the new shape.
        runs: list[tuple[int, int]] = []  # (elements, innermost stride)
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if runs and runs[-1][1] == size * stride:
                runs[-1] = (runs[-1][0] * size, stride)
            else:
                runs.append((size, stride))
        strides: list[int] = []
        remaining = iter(runs)
        left, step = 1, 0
        for size in to:
            if size == 1:
                strides.append(0)
                continue
            if left == 1:
                left, step = next(remaining, (1, 0))
            if left % size:
                return None
            left //= size
            strides.append(left * step)
        return View(self.buffer, self.offset, to, tuple(strides)) if left == 1 else None

    def row_range(self, start: int, stop: int) -> View:
        """Rows start ... stop - 1 along the first axis."""
        return View(
            self.buffer, self.offset + start * self.strides[0], (stop - start, *self.shape[1:]), self.strides
        )
