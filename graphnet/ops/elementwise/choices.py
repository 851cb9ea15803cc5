"""Maximum, minimum and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet.errors import DtypeError, table_of_inputs
from graphnet.graph.dtypes import BOOL
from graphnet.graph.node import Array, Dtype, Node, Shape, shared
from graphnet.ops.elementwise.base import Elementwise, no_condition
from graphnet.ops.elementwise.casting import cast
from graphnet.ops.leaf import as_node, zeros


class Maximum(Elementwise):
    """z = max(x, y); where x = y each gets half of the derivative"""

    commutes = True
    symbol = "max"
    kernel = "x if x >= y or x != x else y"
    arity = 2
    takes_flags = True

    def forward(self, x: Array, y: Array) -> Array:
        return np.maximum(x, y)

    def partials(self, z: Node, x: Node, y: Node) -> Sequence[Node]:
        return _shares(x, y)


class Minimum(Elementwise):
    """z = min(x, y); where x = y each gets half of the derivative"""

    commutes = True
    symbol = "min"
    kernel = "x if x <= y or x != x else y"
    arity = 2
    takes_flags = True

    def forward(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)

    def partials(self, z: Node, x: Node, y: Node) -> Sequence[Node]:
        return _shares(y, x)


def _shares(a: Node, b: Node) -> tuple[Node, Node]:
    """1 where a > b, 0 where a < b, ½ where equal; and the reverse."""
    a_share = 0.5 * (cast(a > b, a.dtype) + cast(a >= b, a.dtype))
    return a_share, 1 - a_share


class Where(Elementwise):
    """z = x where c, y elsewhere"""

    symbol = "where"
    kernel = "y if x else z"
    arity = 3
    domain = "any"
    takes_flags = True
    zero_if = "rest"

    def cast_together(self, nodes: list[Node]) -> list[Node]:
        condition, *choices = nodes
        if condition.dtype != BOOL:
            raise DtypeError(
                f"Where: the condition is {condition.dtype}, not bool. Compare first, e.g. "
                "gn.where(x > 0, a, b)." + table_of_inputs(nodes)
            )
        return [condition, *Elementwise.cast_together(self, choices)]

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[1].shape, inputs[1].dtype

    def forward(self, c: Array, x: Array, y: Array) -> Array:
        return np.where(c, x, y)

    def backward(self, gz: Node, z: Node, c: Node, x: Node, y: Node) -> Sequence[Node]:
        return zeros(c.shape, gz.dtype), where(c, gz, 0), where(c, 0, gz)

    def rop(self, rc: Node, rx: Node, ry: Node, z: Node, c: Node, x: Node, y: Node) -> Node:
        return where(c, rx, ry)


def maximum(x: Any, y: Any) -> Node:
    """z = max(x, y), broadcast together; where x = y each gets half of the derivative.

    x, y: nodes, arrays or numbers. A NaN in either gives NaN.

    >>> gn.compile(gn.maximum([1.0, 5.0], [3.0, 2.0]))()[0].tolist()
    [3.0, 5.0]
    """
    return shared(Maximum)(x, y)


def minimum(x: Any, y: Any) -> Node:
    """z = min(x, y), broadcast together; where x = y each gets half of the derivative.

    x, y: nodes, arrays or numbers. A NaN in either gives NaN.

    >>> gn.compile(gn.minimum([1.0, 5.0], [3.0, 2.0]))()[0].tolist()
    [1.0, 2.0]
    """
    return shared(Minimum)(x, y)


def clip(x: Any, low: float, high: float) -> Node:
    """y = min(max(x, low), high).

    x: node, array or number. low, high: bounds, numbers or nodes that broadcast with x.

    >>> gn.compile(gn.clip([-3.0, 0.5, 3.0], -1, 1))()[0].tolist()
    [-1.0, 0.5, 1.0]
    """
    return minimum(maximum(x, low), high)


def where(condition: Any, x: Any, y: Any) -> Node:
    """z = x where the condition is true, y elsewhere; all three broadcast together.

    condition: boolean node or array, such as `x > 0`. x, y: nodes, arrays or numbers.
    Raises ValueAccessError for Python's True or False, such as the result of `a == b` for two nodes; DtypeError for a
    condition that is not boolean.

    >>> x = gn.constant([-2.0, 3.0])
    >>> gn.compile(gn.where(x > 0, x, 0.1 * x))()[0].tolist()
    [-0.2, 3.0]
    """
    if isinstance(condition, int):
        raise no_condition("where", condition)
    return shared(Where)(as_node(condition) if isinstance(condition, np.bool_) else condition, x, y)
