"""Comparisons and logical operations; their derivatives are zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphnet.errors import DtypeError
from graphnet.graph.dtypes import BOOL
from graphnet.graph.node import OPERATORS, Array, Dtype, Node, Shape, shared
from graphnet.ops.elementwise.base import Elementwise
from graphnet.ops.leaf import as_node, zeros


class Comparison(Elementwise):
    """y = x_1 ? x_2, a boolean"""

    arity = 2
    takes_flags = True

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, BOOL

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return [zeros(x.shape, x.dtype) for x in inputs]

    def rop(self, *rs_y_inputs: Node) -> Node:
        return zeros(rs_y_inputs[0].shape, rs_y_inputs[0].dtype)


class Less(Comparison):
    """z = x < y"""

    symbol = "<"
    kernel = "x < y"

    def forward(self, x: Array, y: Array) -> Array:
        return np.less(x, y)


class LessEqual(Comparison):
    """z = x ≤ y"""

    symbol = "≤"
    kernel = "x <= y"

    def forward(self, x: Array, y: Array) -> Array:
        return np.less_equal(x, y)


class Greater(Comparison):
    """z = x > y"""

    symbol = ">"
    kernel = "x > y"

    def forward(self, x: Array, y: Array) -> Array:
        return np.greater(x, y)


class GreaterEqual(Comparison):
    """z = x ≥ y"""

    symbol = "≥"
    kernel = "x >= y"

    def forward(self, x: Array, y: Array) -> Array:
        return np.greater_equal(x, y)


class Equal(Comparison):
    """z = (x is equal to y)"""

    commutes = True
    symbol = "="
    kernel = "x == y"

    def forward(self, x: Array, y: Array) -> Array:
        return np.equal(x, y)


class Logical(Comparison):
    """y = a logical function of x_1, ..., x_n; for numbers, 0 is false and all others are true"""

    takes_flags = False
    commutes = True

    def cast_together(self, nodes: list[Node]) -> list[Node]:
        return nodes


class LogicalAnd(Logical):
    """z = x and y"""

    symbol = "∧"
    kernel = "x and y"

    def forward(self, x: Array, y: Array) -> Array:
        return np.logical_and(x, y)


class LogicalOr(Logical):
    """z = x or y"""

    symbol = "∨"
    kernel = "x or y"

    def forward(self, x: Array, y: Array) -> Array:
        return np.logical_or(x, y)


class LogicalNot(Logical):
    """y = not x"""

    symbol = "¬"
    kernel = "not x"
    arity = 1

    def forward(self, x: Array) -> Array:
        return np.logical_not(x)


def less(x: Any, y: Any) -> Node:
    """z = x < y, booleans.

    x, y: nodes, arrays or numbers, broadcast together.

    >>> gn.compile(gn.less([1.0, 2.0, 3.0], 2.0))()[0].tolist()
    [True, False, False]
    """
    return shared(Less)(x, y)


def less_equal(x: Any, y: Any) -> Node:
    """z = x ≤ y, booleans.

    x, y: nodes, arrays or numbers, broadcast together.

    >>> gn.compile(gn.less_equal([1.0, 2.0, 3.0], 2.0))()[0].tolist()
    [True, True, False]
    """
    return shared(LessEqual)(x, y)


def greater(x: Any, y: Any) -> Node:
    """z = x > y, booleans.

    x, y: nodes, arrays or numbers, broadcast together.

    >>> gn.compile(gn.greater([1.0, 2.0, 3.0], 2.0))()[0].tolist()
    [False, False, True]
    """
    return shared(Greater)(x, y)


def greater_equal(x: Any, y: Any) -> Node:
    """z = x ≥ y, booleans.

    x, y: nodes, arrays or numbers, broadcast together.

    >>> gn.compile(gn.greater_equal([1.0, 2.0, 3.0], 2.0))()[0].tolist()
    [False, True, True]
    """
    return shared(GreaterEqual)(x, y)


def equal(x: Any, y: Any) -> Node:
    """z = (x is equal to y), booleans. (`==` on nodes is True only for one and the same node.)

    x, y: nodes, arrays or numbers, broadcast together.

    >>> gn.compile(gn.equal([1.0, 2.0, 3.0], 2.0))()[0].tolist()
    [False, True, False]
    """
    return shared(Equal)(x, y)


def logical_and(x: Any, y: Any) -> Node:
    """z = x and y, booleans; `x & y` for boolean nodes.

    x, y: nodes or arrays, broadcast together; for numbers, 0 is false and all others are true.

    >>> gn.compile(gn.logical_and([True, True], [True, False]))()[0].tolist()
    [True, False]
    """
    return shared(LogicalAnd)(x, y)


def logical_or(x: Any, y: Any) -> Node:
    """z = x or y, booleans; `x | y` for boolean nodes.

    x, y: nodes or arrays, broadcast together; for numbers, 0 is false and all others are true.

    >>> gn.compile(gn.logical_or([True, False], [False, False]))()[0].tolist()
    [True, False]
    """
    return shared(LogicalOr)(x, y)


def logical_not(x: Any) -> Node:
    """y = not x, booleans; `~x` for a boolean node.

    x: node or array; for numbers, 0 is false and all others are true.

    >>> gn.compile(gn.logical_not([True, False]))()[0].tolist()
    [False, True]
    """
    return shared(LogicalNot)(x)


def _of_booleans(sign: str, instead: Callable[..., Node]) -> Callable[..., Node]:
    """Returns an operator & | ~ for booleans only, since NumPy's works bitwise on integers."""

    def applied(*operands: Any) -> Node:
        for operand in operands:
            node = as_node(operand)
            if node.dtype != BOOL:
                raise DtypeError(
                    f"{sign} takes booleans, but {node.describe()} (made at {node.origin}) is {node.dtype}; compare "
                    f"it first, (x > 0), or write gn.{instead.__name__}(...), where 0 is false and all else true."
                )
        return instead(*operands)

    return applied


OPERATORS.update(
    less=less, less_equal=less_equal, greater=greater, greater_equal=greater_equal,
    both=_of_booleans("&", logical_and), either=_of_booleans("|", logical_or), invert=_of_booleans("~", logical_not),
)  # fmt: skip
