"""Functions of one variable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet.graph.dtypes import is_float
from graphnet.graph.node import OPERATORS, Array, Node, Op, shared
from graphnet.ops.elementwise.base import Elementwise
from graphnet.ops.elementwise.casting import cast
from graphnet.ops.leaf import as_node, zeros


class Tanh(Elementwise):
    """y = tanh(x)"""

    symbol = "tanh"
    kernel = "tanh(x)"
    domain = "float"

    def forward(self, x: Array) -> Array:
        return np.tanh(x)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (1 - y * y,)


class Sigmoid(Elementwise):
    """y = 1 / (1 + exp(-x))"""

    symbol = "σ"
    kernel = "sigmoid(x)"
    domain = "float"

    def forward(self, x: Array) -> Array:
        # With e = exp(-|x|), which cannot overflow: 1/(1+e) for x >= 0, else e/(1+e), precise near 0.
        # In place, since gates are a large share of a recurrent net's time.
        y = np.abs(x, out=np.empty_like(x))
        np.exp(np.negative(y, out=y), out=y)
        divisor = y + 1
        np.copyto(y, 1, where=x >= 0)
        return np.divide(y, divisor, out=y)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (y * (1 - y),)


class Exp(Elementwise):
    """y = exp(x)"""

    symbol = "exp"
    kernel = "exp(x)"
    domain = "float"

    def forward(self, x: Array) -> Array:
        return np.exp(x)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (y,)


class Log(Elementwise):
    """y = log(x), in nats"""

    symbol = "log"
    kernel = "log(x)"
    domain = "float"

    def forward(self, x: Array) -> Array:
        return np.log(x)

    # Not the partial 1 / x, which overflows for a tiny x even if its factor is tiny, too.

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (gy / x,)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return rx / x


class ReLU(Elementwise):
    """y = max(x, 0); the derivative at 0 is 0"""

    symbol = "relu"
    kernel = "x if x > 0 or x != x else 0"

    def forward(self, x: Array) -> Array:
        return np.maximum(x, x.dtype.type(0))

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (cast(x > 0, y.dtype),)


class Softplus(Elementwise):
    """y = log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))"""

    symbol = "softplus"
    kernel = "max(x, 0) + log1p(exp(-abs(x)))"
    domain = "float"

    def forward(self, x: Array) -> Array:
        return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (sigmoid(x),)


class Sqrt(Elementwise):
    """y = √x"""

    symbol = "√"
    kernel = "sqrt(x)"
    domain = "float"

    def forward(self, x: Array) -> Array:
        return np.sqrt(x)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (0.5 / y,)


class Sin(Elementwise):
    """y = sin(x)"""

    symbol = "sin"
    kernel = "sin(x)"
    domain = "float"

    def forward(self, x: Array) -> Array:
        return np.sin(x)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (cos(x),)


class Cos(Elementwise):
    """y = cos(x)"""

    symbol = "cos"
    kernel = "cos(x)"
    domain = "float"

    def forward(self, x: Array) -> Array:
        return np.cos(x)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (-sin(x),)


class Erf(Elementwise):
    """y = erf(x) = 2/√π ∫₀ˣ exp(-t²) dt"""

    symbol = "erf"
    kernel = "erf(x)"
    domain = "float"

    def forward(self, x: Array) -> Array:
        # NumPy has no erf; Python's is accurate to about the last digit.
        return np.fromiter(map(math.erf, x.ravel().tolist()), x.dtype, x.size).reshape(x.shape)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (2 / math.sqrt(math.pi) * exp(-x * x),)


class Absolute(Elementwise):
    """y = |x|; the derivative at 0 is 0"""

    symbol = "|x|"
    kernel = "abs(x)"

    def forward(self, x: Array) -> Array:
        return np.abs(x)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (sign(x),)


class Sign(Elementwise):
    """y = sign(x); its derivative is 0"""

    symbol = "sign"
    kernel = "(x > 0) - (x < 0) if x == x else x"
    domain = "number"

    def forward(self, x: Array) -> Array:
        return np.sign(x)

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (zeros(y.shape, y.dtype),)


class Staircase(Elementwise):
    """y = a whole number near x; its derivative is 0"""

    domain = "float"

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        return (zeros(y.shape, y.dtype),)


class Floor(Staircase):
    """y = ⌊x⌋, the largest whole number ≤ x; its derivative is 0"""

    symbol = "⌊x⌋"
    kernel = "floor(x)"

    def forward(self, x: Array) -> Array:
        return np.floor(x)


class Ceil(Staircase):
    """y = ⌈x⌉, the smallest whole number ≥ x; its derivative is 0"""

    symbol = "⌈x⌉"
    kernel = "ceil(x)"

    def forward(self, x: Array) -> Array:
        return np.ceil(x)


class Round(Staircase):
    """y = the whole number nearest to x, an even one where two are; its derivative is 0"""

    symbol = "round"
    kernel = "round(x)"

    def forward(self, x: Array) -> Array:
        return np.rint(x)


def tanh(x: Any) -> Node:
    """y = tanh(x).

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.tanh([0.0, 1.0]))()[0].round(3).tolist()
    [0.0, 0.762]
    """
    return shared(Tanh)(x)


def sigmoid(x: Any) -> Node:
    """y = σ(x) = 1 / (1 + exp(-x)), accurate for every x.

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.sigmoid([0.0, 2.0]))()[0].round(3).tolist()
    [0.5, 0.881]
    """
    return shared(Sigmoid)(x)


def exp(x: Any) -> Node:
    """y = exp(x).

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.exp([0.0, 1.0]))()[0].round(3).tolist()
    [1.0, 2.718]
    """
    return shared(Exp)(x)


def log(x: Any) -> Node:
    """y = log(x), in nats.

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.log([1.0, 10.0]))()[0].round(3).tolist()
    [0.0, 2.303]
    """
    return shared(Log)(x)


def relu(x: Any) -> Node:
    """y = max(x, 0); the derivative at 0 is 0.

    x: node, array or number.

    >>> gn.compile(gn.relu([-1.0, 2.0]))()[0].round(3).tolist()
    [0.0, 2.0]
    """
    return shared(ReLU)(x)


def softplus(x: Any) -> Node:
    """y = log(1 + exp(x)), accurate for every x.

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.softplus([0.0, 100.0]))()[0].round(3).tolist()
    [0.693, 100.0]
    """
    return shared(Softplus)(x)


def sqrt(x: Any) -> Node:
    """y = √x.

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.sqrt([4.0, 2.0]))()[0].round(3).tolist()
    [2.0, 1.414]
    """
    return shared(Sqrt)(x)


def sin(x: Any) -> Node:
    """y = sin(x), x in radians.

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.sin([0.0, np.pi / 2]))()[0].round(3).tolist()
    [0.0, 1.0]
    """
    return shared(Sin)(x)


def cos(x: Any) -> Node:
    """y = cos(x), x in radians.

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.cos([0.0, np.pi]))()[0].round(3).tolist()
    [1.0, -1.0]
    """
    return shared(Cos)(x)


def erf(x: Any) -> Node:
    """y = erf(x) = 2/√π ∫₀ˣ exp(-t²) dt.

    x: node, array or number; integers become float64.

    >>> gn.compile(gn.erf([0.0, 1.0]))()[0].round(3).tolist()
    [0.0, 0.843]
    """
    return shared(Erf)(x)


def floor(x: Any) -> Node:
    """y = ⌊x⌋, the largest whole number ≤ x.

    x: node, array or number. y has x's dtype; integers and booleans are returned unchanged. The derivative is 0.

    >>> gn.compile(gn.floor([0.5, 1.5, -0.2]))()[0].tolist()
    [0.0, 1.0, -1.0]
    """
    return _to_whole(shared(Floor), x)


def ceil(x: Any) -> Node:
    """y = ⌈x⌉, the smallest whole number ≥ x.

    x: node, array or number. y has x's dtype; integers and booleans are returned unchanged. The derivative is 0.

    >>> gn.compile(gn.ceil([0.5, 1.5, -0.2]))()[0].tolist()
    [1.0, 2.0, -0.0]
    """
    return _to_whole(shared(Ceil), x)


def round(x: Any) -> Node:
    """y = the whole number nearest to x; halves are rounded to even, as in NumPy.

    x: node, array or number. y has x's dtype; integers and booleans are returned unchanged. The derivative is 0.

    >>> gn.compile(gn.round([0.5, 1.5, -0.2]))()[0].tolist()
    [0.0, 2.0, -0.0]
    """
    return _to_whole(shared(Round), x)


def _to_whole(op: Op, x: Any) -> Node:
    node = as_node(x)
    return op(node) if is_float(node.dtype) else node


def absolute(x: Any) -> Node:
    """y = |x|; the derivative at 0 is 0. The same as `abs(x)`.

    x: node, array or number.

    >>> gn.compile(gn.absolute([-1.0, 2.0]))()[0].round(3).tolist()
    [1.0, 2.0]
    """
    return shared(Absolute)(x)


def sign(x: Any) -> Node:
    """y = sign(x): -1, 0 or 1. The derivative is 0.

    x: node, array or number; no booleans.

    >>> gn.compile(gn.sign([-3.0, 0.0, 2.0]))()[0].round(3).tolist()
    [-1.0, 0.0, 1.0]
    """
    return shared(Sign)(x)


OPERATORS.update(absolute=absolute)
