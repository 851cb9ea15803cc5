"""BroadcastTo and Sum: each is the other's transpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import ShapeError, table_of_inputs
from graphnet.node import Array, Dtype, Node, Op, Shape, shared
from graphnet.ops.leaf import as_node, as_shape
from graphnet.ops.shape import reshape

__all__ = ["BroadcastTo", "Sum", "broadcast_to"]


@dataclass(frozen=True, eq=False)
class BroadcastTo(Op):
    """y = x repeated along new leading axes and along axes of size 1"""

    to: Shape = ()
    symbol: ClassVar[str] = "▷"
    is_view: ClassVar[bool] = True
    zero_if: ClassVar[str] = "all"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        offset = len(self.to) - x.ndim
        if offset < 0 or any(
            size not in (1, wanted) for size, wanted in zip(x.shape, self.to[offset:], strict=True)
        ):
            raise ShapeError(
                f"BroadcastTo: {list(x.shape)} does not broadcast to {list(self.to)}."
                + table_of_inputs(inputs)
            )
        return self.to, x.dtype

    def forward(self, x: Array) -> Array:
        return np.broadcast_to(x, self.to)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        shape = x.shape
        offset = len(self.to) - len(shape)
        axes = (*range(offset), *(i + offset for i, n in enumerate(shape) if n != self.to[i + offset]))
        return (reshape(shared(Sum, axes)(gy) if axes else gy, shape),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


@dataclass(frozen=True, eq=False)
class Sum(Op):
    """y = Σ x over some axes, which disappear"""

    axes: tuple[int, ...] = ()
    symbol: ClassVar[str] = "Σ"
    zero_if: ClassVar[str] = "all"

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        (x,) = inputs
        return tuple(n for i, n in enumerate(x.shape) if i not in self.axes), x.dtype

    def forward(self, x: Array) -> Array:
        return x.sum(axis=self.axes, dtype=x.dtype)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        shape = x.shape
        kept = tuple(1 if i in self.axes else n for i, n in enumerate(shape))
        return (broadcast_to(reshape(gy, kept), shape),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


def broadcast_to(x: Any, shape: Any) -> Node:
    """y = x repeated to `shape`, aligned from the right as in NumPy."""
    node, to = as_node(x), as_shape(shape)
    return node if node.shape == to else shared(BroadcastTo, to)(node)
