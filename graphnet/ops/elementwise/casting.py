"""Casts to another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from graphnet.graph.dtypes import FLOAT64, as_dtype, converted, is_float
from graphnet.graph.node import OPERATORS, Array, Dtype, Node, Shape
from graphnet.ops.elementwise.base import Elementwise, no_condition
from graphnet.ops.leaf import as_node, zeros


@dataclass(frozen=True, eq=False)
class Cast(Elementwise):
    """y = x, as another dtype"""

    to: Dtype = FLOAT64
    kernel: ClassVar[str] = "x"
    moves: ClassVar[bool] = True
    domain: ClassVar[str] = "any"
    zero_if: ClassVar[str] = "all"

    @property
    def symbol(self) -> str:  # type: ignore[override]
        return self.to.name

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, self.to

    def forward(self, x: Array) -> Array:
        return converted(x, self.to)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        if is_float(self.to) and is_float(x.dtype):
            return (cast(gy, x.dtype),)
        return (zeros(x.shape, x.dtype),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        if is_float(self.to) and is_float(x.dtype):
            return cast(rx, self.to)
        return zeros(y.shape, y.dtype)


def cast(x: Any, dtype: Any) -> Node:
    """y = x, converted to another dtype; x itself if it has that dtype already.

    x: node, array or number. dtype: NumPy dtype or its name. Floats are truncated to integers; values out of range
    become the nearest integer that the dtype can hold.

    >>> gn.compile(gn.cast([1.7, -2.2], "int64"))()[0].tolist()
    [1, -2]
    """
    if type(x) is bool:
        raise no_condition("cast", x)
    node, to = as_node(x), as_dtype(dtype)
    return node if node.dtype == to else Cast(to)(node)


OPERATORS.update(cast=cast)
