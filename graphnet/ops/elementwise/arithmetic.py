"""Sums, products, quotients, powers and remainders."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import DtypeError, ShapeError
from graphnet.graph.dtypes import BOOL, FLOAT64, is_float
from graphnet.graph.node import OPERATORS, Array, Node, Op, shared
from graphnet.ops.broadcast import CHUNK
from graphnet.ops.elementwise.base import Elementwise, _is_number
from graphnet.ops.elementwise.casting import cast
from graphnet.ops.elementwise.choices import where
from graphnet.ops.elementwise.comparisons import equal, greater, greater_equal, logical_and, logical_not
from graphnet.ops.elementwise.functions import absolute, log, round
from graphnet.ops.leaf import constant, fill, stop_gradient
from graphnet.settings import shown


class Add(Elementwise):
    """y = Σ_i x_i"""

    commutes = True
    symbol = "+"
    kernel = "x + y"
    arity = 0  # any number
    zero_if = "all"

    def __call__(self, *inputs: Any, name: str | None = None) -> Node:
        if not inputs:
            raise ShapeError("Add needs at least one input")
        node = Op.__call__(self, *inputs, name=name)
        # An absent derivative adds nothing; it only contributes to the shape and the dtype.
        kept = [x for x in node.inputs if not x.op.is_zeros]
        if len(kept) == len(node.inputs):
            return node
        return kept[0] if len(kept) == 1 else Op.__call__(self, *kept, name=name)

    def forward(self, *arrays: Array) -> Array:
        if len(arrays) == 1:
            return arrays[0]
        if len(arrays) > CHUNK:  # chunk by chunk, as `summed`
            some = -(-len(arrays) // CHUNK)
            arrays = tuple([self.forward(*arrays[i : i + some]) for i in range(0, len(arrays), some)])
        y = arrays[0] + arrays[1]
        for x in arrays[2:]:
            y += x
        return y

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return [gy] * len(inputs)

    def rop(self, *rs_y_inputs: Node) -> Node:
        return add(*rs_y_inputs[: len(rs_y_inputs) // 2])


class Subtract(Elementwise):
    """z = x - y"""

    symbol = "−"
    kernel = "x - y"
    domain = "number"
    arity = 2
    zero_if = "all"

    def __call__(self, *inputs: Any, name: str | None = None) -> Node:
        node = Op.__call__(self, *inputs, name=name)
        a, b = node.inputs or (node, node)
        return a if b.op.is_zeros else -b if a.op.is_zeros else node

    def forward(self, x: Array, y: Array) -> Array:
        return np.subtract(x, y)

    def backward(self, gz: Node, z: Node, x: Node, y: Node) -> Sequence[Node]:
        return gz, -gz

    def rop(self, rx: Node, ry: Node, z: Node, x: Node, y: Node) -> Node:
        return rx - ry


class Multiply(Elementwise):
    """z = x · y"""

    commutes = True
    symbol = "×"
    kernel = "x * y"
    arity = 2
    zero_if = "any"

    def forward(self, x: Array, y: Array) -> Array:
        return np.multiply(x, y)

    def partials(self, z: Node, x: Node, y: Node) -> Sequence[Node]:
        return y, x


class Divide(Elementwise):
    """z = x / y"""

    symbol = "/"
    kernel = "x / y"
    arity = 2
    zero_if = "first"
    domain = "float"

    def forward(self, x: Array, y: Array) -> Array:
        return np.divide(x, y)

    def backward(self, gz: Node, z: Node, x: Node, y: Node) -> Sequence[Node]:
        gx = gz / y
        # gx may overflow where y is tiny, and 0 · ∞ is NaN; both forms have the same derivatives.
        return gx, -where(equal(z, 0), gz * z / y, gx * z)

    def rop(self, rx: Node, ry: Node, z: Node, x: Node, y: Node) -> Node:
        return (rx - z * ry) / y


class Negative(Elementwise):
    """y = -x"""

    symbol = "−"
    kernel = "-x"
    domain = "number"
    zero_if = "all"

    def forward(self, x: Array) -> Array:
        return np.negative(x)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (-gy,)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return -rx


@dataclass(frozen=True, eq=False)
class Power(Elementwise):
    """y = x ** n, n a fixed number; x ** 0.5 is √x"""

    exponent: float = 2.0
    domain: ClassVar[str] = "common"

    def cast_together(self, nodes: list[Node]) -> list[Node]:
        return [_base(x, self.exponent) for x in nodes]

    @property
    def symbol(self) -> str:  # type: ignore[override]
        return f"^{self.exponent:g}"

    @property
    def kernel(self) -> str:  # type: ignore[override]
        return f"x ** {self.exponent!r}"

    def forward(self, x: Array) -> Array:
        return (
            np.sqrt(x)
            if self.exponent == 0.5 and is_float(x.dtype)
            else np.power(x, x.dtype.type(self.exponent))
        )

    def partials(self, y: Node, x: Node) -> Sequence[Node]:
        n = self.exponent
        return (2 * x if n == 2 else n * power(x, n - 1),)


def _base(x: Node, exponent: float) -> Node:
    if not is_float(x.dtype) and (isinstance(exponent, float) or exponent < 0):
        return cast(x, FLOAT64)
    return cast(x, "int64") if x.dtype == BOOL else x


class PowerOf(Elementwise):
    """z = x ** y, x > 0 where y varies"""

    symbol = "x^y"
    kernel = "x ** y"
    arity = 2
    domain = "float"

    def forward(self, x: Array, y: Array) -> Array:
        return np.power(x, y)

    def partials(self, z: Node, x: Node, y: Node) -> Sequence[Node]:
        # 0 · ∞ is meant to be 0 in two places: 0 · x^-1 where y = 0 (x^-1 of a tiny x is infinite, too), and 0^y log 0
        # where y >= 0. So at x = 0 the second partial does not depend on x, and the first must not on y, or the Hessian
        # would not be symmetric.
        tiny = logical_not(greater(absolute(x), 1 / np.finfo(x.dtype).max))
        base = where(logical_and(equal(y, 0), tiny), 1, x)
        exponent = where(equal(x, 0), stop_gradient(y), y)
        flat = logical_and(equal(x, 0), greater_equal(y, 0))
        return exponent * base ** (exponent - 1), z * log(where(flat, 1, x))


class Mod(Elementwise):
    """z = x - n y, n whole, with 0 ≤ z < y or y < z ≤ 0: the rest, with the sign of the divisor"""

    symbol = "mod"
    kernel = "mod(x, y)"
    arity = 2
    domain = "number"

    def forward(self, x: Array, y: Array) -> Array:
        return np.mod(x, y)

    def partials(self, z: Node, x: Node, y: Node) -> Sequence[Node]:
        # Not floor(x / y), which is one too many where the quotient rounds up to a whole number: 1 / 0.1 is 10.
        return fill(1, z.shape, z.dtype), round((z - x) / y)


def add(*inputs: Any) -> Node:
    """y = Σ_i x_i, broadcast together: `x1 + x2 + ...`.

    inputs: one or more nodes, arrays or numbers.

    >>> gn.compile(gn.add([1.0, 2.0], [0.5, 0.5], 10.0))()[0].tolist()
    [11.5, 12.5]
    """
    return shared(Add)(*inputs)


def subtract(x: Any, y: Any) -> Node:
    """z = x - y, broadcast together.

    x, y: nodes, arrays or numbers.

    >>> gn.compile(gn.subtract([3.0, 5.0], 1.0))()[0].tolist()
    [2.0, 4.0]
    """
    return shared(Subtract)(x, y)


def multiply(x: Any, y: Any) -> Node:
    """z = x · y, element by element, broadcast together.

    x, y: nodes, arrays or numbers.

    >>> gn.compile(gn.multiply([3.0, 5.0], 2.0))()[0].tolist()
    [6.0, 10.0]
    """
    return shared(Multiply)(x, y)


def divide(x: Any, y: Any) -> Node:
    """z = x / y, broadcast together; integers become float64.

    x, y: nodes, arrays or numbers.

    >>> gn.compile(gn.divide([3, 5], 2))()[0].tolist()
    [1.5, 2.5]
    """
    return shared(Divide)(x, y)


def negative(x: Any) -> Node:
    """y = -x.

    x: node, array or number.

    >>> gn.compile(gn.negative([1.0, -2.0]))()[0].tolist()
    [-1.0, 2.0]
    """
    return shared(Negative)(x)


def power(x: Any, exponent: Any) -> Node:
    """y = x ** n, broadcast together.

    x: node, array or number. exponent: n. A number allows negative x, and keeps x's dtype (integer x becomes float64 if
    the number is negative or a float). With a node or an array, integers become float64, and x must be positive for
    gradients to exist.
    Raises DtypeError for a number that an integer x's dtype cannot hold, or above 2^53, and for an
    int that float64 cannot hold.

    >>> gn.compile(gn.power([1.0, 2.0, 3.0], 2))()[0].tolist()
    [1.0, 4.0, 9.0]
    """
    if not isinstance(x, Node) and not _is_number(x) and _is_number(exponent):
        x = constant(x)
    if isinstance(x, Node) and _is_number(exponent) and not isinstance(exponent, bool):
        exponent = exponent.item() if isinstance(exponent, np.generic) else exponent
        x = _base(x, exponent)
        if exponent == 1:
            return x
        if exponent == 0:
            return fill(1, x.shape, x.dtype)
        # Kernels compute with exponents of float64.
        largest = sys.float_info.max if is_float(x.dtype) else min(np.iinfo(x.dtype).max, 2**53)
        if isinstance(exponent, int) and abs(exponent) > largest:
            raise DtypeError(
                f"power: the exponent {shown(exponent)} does not fit {x.dtype} (at most {largest:g}), the dtype of "
                f"{x.describe()} (made at {x.origin}); use a smaller one, or cast the base to a wider dtype."
            )
        return Power(exponent)(x)
    return shared(PowerOf)(x, exponent)


def mod(x: Any, y: Any) -> Node:
    """z = x mod y = x - ⌊x / y⌋ y, broadcast together; `x % y`. z has the sign of y, as in NumPy and Python.

    x, y: nodes, arrays or numbers. The result is exact, also for large quotients. For y = 0 it is NaN, or 0 for
    integers. The derivatives are 1 and -⌊x / y⌋.

    >>> gn.compile(gn.mod([5.0, -5.0], 3.0))()[0].tolist()
    [2.0, 1.0]
    """
    return shared(Mod)(x, y)


OPERATORS.update(
    add=add, subtract=subtract, multiply=multiply, divide=divide, mod=mod, power=power,
    negative=negative,
)  # fmt: skip
