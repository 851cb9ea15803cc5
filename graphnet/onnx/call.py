"""Call: a node that is being exported, with its inputs in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphnet.graph.node import Dtype, Node
from graphnet.onnx.sizes import Extent, Twins, broadcast_extents
from graphnet.onnx.writer import Writer

#: Runtimes lack arithmetic for these dtypes: it is done in int64, and results wrap as in NumPy.
WIDENED = frozenset(map(np.dtype, ("bool", "int8", "uint8", "int16", "uint16", "uint32")))


class Value(NamedTuple):
    """A value in ONNX. Its shape broadcasts to that of its node."""

    name: str
    shape: tuple[Extent, ...]


class Call:
    """A node that is being exported, and its inputs in ONNX."""

    def __init__(self, writer: Writer, twins: Twins, node: Node, inputs: Sequence[Value]) -> None:
        self.writer, self.twins, self.node, self.inputs = writer, twins, node, inputs
        self.shape = twins.shape(node)
        self.dtype = writer.dtype(node.dtype)

    def setting(self, name: str) -> Any:
        """Returns a setting of the op, with Size for numbers that depend on the number of cases."""
        return self.twins.setting(self.node, name)

    def input_shape(self, i: int = 0) -> tuple[Extent, ...]:
        return self.twins.shape(self.node.inputs[i])

    def input_dtype(self, i: int = 0) -> Dtype:
        return self.writer.dtype(self.node.inputs[i].dtype)

    # -- inputs --------------------------------------------------------------------------------

    def full(self, i: int = 0) -> str:
        """Returns input i in its whole shape."""
        value, shape = self.inputs[i], self.input_shape(i)
        if value.shape == shape:
            return value.name
        return self.writer.expand(value.name, shape, self.input_dtype(i))

    @property
    def names(self) -> list[str]:
        """All inputs, in shapes that broadcast."""
        return [value.name for value in self.inputs]

    @property
    def broadcast(self) -> tuple[Extent, ...]:
        """The common shape of all inputs."""
        return broadcast_extents([value.shape for value in self.inputs])

    # -- outputs ---------------------------------------------------------------------------------

    def say(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Adds an operator of ONNX; returns its output."""
        return self.writer.node(operator, inputs, **attributes)

    def number(self, number: float, dtype: Dtype | None = None) -> str:
        """Returns a scalar constant, by default of the node's dtype."""
        return self.writer.constant(np.array(number, self.dtype if dtype is None else dtype))

    def integers(self, *numbers: int) -> str:
        """Returns a constant int64 vector."""
        return self.writer.constant(np.array(numbers, np.int64))

    def cast(self, name: str, to: Dtype) -> str:
        return self.writer.cast(name, to)

    def wide(self, name: str, dtype: Dtype) -> str:
        """Casts a value of this dtype to one that runtimes compute with."""
        return self.cast(name, np.dtype("int64")) if dtype in WIDENED else name

    def narrow(self, name: str) -> str:
        """Casts a widened result back to the node's dtype."""
        return self.cast(name, self.dtype) if self.dtype in WIDENED else name
