"""Elementwise ops. Each gives one scalar expression, its NumPy meaning and its partial derivatives.

`kernel` is mathematics, not code for one machine: every compiled back end is made from it. The base
class derives `backward = gy · ∂y/∂x` and `rop = Σ rx · ∂y/∂x` from `partials`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.errors import DifferentiationError, DtypeError, ShapeError, ValueAccessError, table_of_inputs
from graphnet.graph.dtypes import BOOL, FLOAT64, as_dtype, common_dtype, converted, is_float
from graphnet.graph.node import OPERATORS, Array, Dtype, Node, Op, Shape, shared
from graphnet.ops.broadcast import CHUNK, broadcast_to
from graphnet.ops.leaf import as_node, fill, filled, stop_gradient, zeros

__all__ = [
    "Absolute", "Add", "Cast", "Ceil", "Cos", "Divide", "Elementwise", "Equal", "Erf", "Exp", "Floor", "Greater",
    "GreaterEqual", "Less", "LessEqual", "Log", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mod",
    "Multiply", "Negative", "Power", "PowerOf", "ReLU", "Round", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt",
    "Subtract", "Tanh", "Where",
    "absolute", "add", "cast", "ceil", "clip", "cos", "divide", "equal", "erf", "exp", "floor", "greater",
    "greater_equal", "less", "less_equal", "log", "logical_and", "logical_not", "logical_or", "maximum", "minimum",
    "mod", "multiply", "negative", "power", "relu", "round", "sigmoid", "sign", "sin", "softplus", "sqrt", "subtract",
    "tanh", "where",
]  # fmt: skip


class Elementwise(Op):
    """y = f(x_1, ..., x_n), element by element"""

    #: One scalar expression in x (one input), or x, y, z (two or three).
    kernel: ClassVar[str] = ""
    arity: ClassVar[int] = 1
    #: What a dtype must be before the op: "common", "number" (no booleans), "float" (integers become
    #: float64) or "any".
    domain: ClassVar[str] = "common"
    #: Whether a True or False of Python's may be meant beside nodes.
    takes_flags: ClassVar[bool] = False

    # -- given by each op --------------------------------------------------------------------

    def partials(self, *args: Any, **kwargs: Any) -> Sequence[Node]:
        """partials(y, *inputs): ∂y/∂x for each input."""
        raise NotImplementedError

    # -- derived from them -------------------------------------------------------------------

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return [axis] * len(inputs)

    def backward(self, *args: Any, **kwargs: Any) -> Sequence[Node]:
        gy, y, *inputs = args
        return [gy * partial for partial in self._checked_partials(y, inputs)]

    def rop(self, *args: Any, **kwargs: Any) -> Node:
        n = (len(args) - 1) // 2
        tangents, y, inputs = args[:n], args[n], args[n + 1 :]
        return add(*(r * p for r, p in zip(tangents, self._checked_partials(y, inputs), strict=True)))

    def _checked_partials(self, y: Node, inputs: Sequence[Node]) -> Sequence[Node]:
        partials = self.partials(y, *inputs)
        if not isinstance(partials, (list, tuple)) or len(partials) != len(inputs):
            given = len(partials) if isinstance(partials, (list, tuple)) else f"a {type(partials).__name__}"
            raise DifferentiationError(
                f"{self.name}.partials gave {given}, at {y.describe()} (made at {y.origin}); return a list or tuple "
                f"of {len(inputs)} node(s), one ∂y/∂x for each input."
            )
        return partials

    # -- one place for broadcasts and casts --------------------------------------------------

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        if len(inputs) != self.arity and self.arity:
            raise ShapeError(
                f"{self.name} takes {self.arity} input(s), not {len(inputs)}; a class of ops says how many by `arity`"
            )
        if not self.takes_flags:
            for x in inputs:
                if type(x) is bool:
                    raise _no_condition(self.name, x)
        nodes = [x if isinstance(x, Node) or _is_number(x) else as_node(x) for x in inputs]
        return broadcast_together(self.name, nodes, self.cast_together)

    def cast_together(self, nodes: list[Node]) -> list[Node]:
        dtype = common_dtype(self.name, nodes)
        if self.domain == "number" and dtype == BOOL:
            raise DtypeError(
                f"{self.name}: booleans have no such arithmetic; cast them first, e.g. gn.cast(x, 'float32')."
                + table_of_inputs(nodes)
            )
        if self.domain == "float" and not is_float(dtype):
            dtype = FLOAT64
        return [node if node.dtype == dtype else cast(node, dtype) for node in nodes]

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, inputs[0].dtype


def _no_condition(what: str, value: int) -> ValueAccessError:
    """The error for a truth value of Python's, where one of each element is needed."""
    return ValueAccessError(
        f"{what} is given Python's {value}. `a == b` asks whether two nodes are the same one: write gn.equal(a, b). "
        "For a flag that Python knows: x if flag else y."
    )


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, np.number, np.bool_))


def _number_dtype(number: Any, beside: Sequence[Node]) -> Dtype:
    """A number takes the dtype of the nodes beside it, unless they cannot hold it."""
    known = np.result_type(*(node.dtype for node in beside))
    if isinstance(number, (bool, np.bool_)) or is_float(known):
        return known
    is_whole = isinstance(number, (int, np.integer))
    if known.kind in "iu" and is_whole and np.iinfo(known).min <= number <= np.iinfo(known).max:
        return known
    return np.dtype("int64") if is_whole else FLOAT64


def broadcast_together(op_name: str, inputs: Sequence[Any], cast_together: Any = None) -> tuple[Node, ...]:
    """The inputs as nodes of one shape; numbers become Fill nodes. ShapeError if they do not fit."""
    nodes = [x for x in inputs if isinstance(x, Node)]
    shape = nodes[0].shape if nodes else ()
    for node in nodes:
        if node.shape != shape:
            try:
                shape = np.broadcast_shapes(*(n.shape for n in nodes))
            except ValueError:
                raise ShapeError(
                    f"{op_name}: shapes {' and '.join(str(list(n.shape)) for n in nodes)} do not "
                    "broadcast: aligned from the right, two sizes must be equal or one of them 1."
                    + table_of_inputs(nodes)
                ) from None
            break
    if len(nodes) < len(inputs):
        whole = [
            x
            if isinstance(x, Node)
            else (filled(op_name, x, shape, _number_dtype(x, nodes)) if nodes else as_node(x))
            for x in inputs
        ]
    else:
        whole = list(nodes)
    if cast_together is not None:
        whole = cast_together(whole)
    return tuple([n if n.shape == shape else broadcast_to(n, shape) for n in whole])


# -- arithmetic ------------------------------------------------------------------------------


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
        # An absent derivative adds nothing; it only had its say in the shape and the dtype.
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
        # gx may be too large for a number where y is tiny, and 0 · ∞ is no 0; both forms have the same derivatives.
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
    """x of a dtype that its power has, too."""
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


# -- functions of one variable ---------------------------------------------------------------


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

    # Not a partial 1 / x: that of a tiny x is too large for a number, where what it is multiplied by is tiny, too.

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
        # NumPy has none; a number at a time, Python's is right to the last digit or so.
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


# -- choices ---------------------------------------------------------------------------------


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


# -- comparisons: no derivative passes ---------------------------------------------------------


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
    """y = a truth of truths: of numbers, 0 is false and all else true"""

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


# -- the functions that users call -----------------------------------------------------------


def add(*inputs: Any) -> Node:
    """y = Σ_i x_i, broadcast together."""
    return shared(Add)(*inputs)


def subtract(x: Any, y: Any) -> Node:
    """z = x - y, broadcast together."""
    return shared(Subtract)(x, y)


def multiply(x: Any, y: Any) -> Node:
    """z = x · y, broadcast together."""
    return shared(Multiply)(x, y)


def divide(x: Any, y: Any) -> Node:
    """z = x / y, broadcast together; integers become float64."""
    return shared(Divide)(x, y)


def negative(x: Any) -> Node:
    """y = -x."""
    return shared(Negative)(x)


def power(x: Any, exponent: Any) -> Node:
    """y = x ** n. A number n keeps x's dtype and any sign of x; a node n needs x > 0 to have gradients."""
    if isinstance(x, Node) and _is_number(exponent) and not isinstance(exponent, bool):
        exponent = exponent.item() if isinstance(exponent, np.generic) else exponent
        x = _base(x, exponent)
        if exponent == 1:
            return x
        if exponent == 0:
            return fill(1, x.shape, x.dtype)
        if not is_float(x.dtype) and exponent > np.iinfo(x.dtype).max:
            raise DtypeError(
                f"power: the exponent {exponent} is no {x.dtype}, as the base {x.describe()} (made at {x.origin}) is; "
                "cast the base first, e.g. gn.cast(x, 'int64')."
            )
        return Power(exponent)(x)
    return shared(PowerOf)(x, exponent)


def mod(x: Any, y: Any) -> Node:
    """z = x mod y = x - ⌊x / y⌋ y, broadcast together; `x % y`. It has the sign of y, as in NumPy and Python.

    Exact, also where the quotient is large. By y = 0 it is NaN, of integers 0. The derivatives are 1 and -⌊x / y⌋.
    """
    return shared(Mod)(x, y)


def tanh(x: Any) -> Node:
    """y = tanh(x)."""
    return shared(Tanh)(x)


def sigmoid(x: Any) -> Node:
    """y = σ(x) = 1 / (1 + exp(-x)), accurate for every x."""
    return shared(Sigmoid)(x)


def exp(x: Any) -> Node:
    """y = exp(x)."""
    return shared(Exp)(x)


def log(x: Any) -> Node:
    """y = log(x), in nats."""
    return shared(Log)(x)


def relu(x: Any) -> Node:
    """y = max(x, 0)."""
    return shared(ReLU)(x)


def softplus(x: Any) -> Node:
    """y = log(1 + exp(x)), accurate for every x."""
    return shared(Softplus)(x)


def sqrt(x: Any) -> Node:
    """y = √x."""
    return shared(Sqrt)(x)


def sin(x: Any) -> Node:
    """y = sin(x)."""
    return shared(Sin)(x)


def cos(x: Any) -> Node:
    """y = cos(x)."""
    return shared(Cos)(x)


def erf(x: Any) -> Node:
    """y = erf(x) = 2/√π ∫₀ˣ exp(-t²) dt."""
    return shared(Erf)(x)


def floor(x: Any) -> Node:
    """y = ⌊x⌋, the largest whole number ≤ x, of x's dtype; integers and booleans as they are. No derivative passes."""
    return _to_whole(shared(Floor), x)


def ceil(x: Any) -> Node:
    """y = ⌈x⌉, the smallest whole number ≥ x, of x's dtype; integers and booleans as they are. No derivative passes."""
    return _to_whole(shared(Ceil), x)


def round(x: Any) -> Node:
    """y = the whole number nearest to x, of x's dtype: of 0.5 and 1.5, 0 and 2, as in NumPy. No derivative passes."""
    return _to_whole(shared(Round), x)


def _to_whole(op: Op, x: Any) -> Node:
    node = as_node(x)
    return op(node) if is_float(node.dtype) else node


def absolute(x: Any) -> Node:
    """y = |x|."""
    return shared(Absolute)(x)


def sign(x: Any) -> Node:
    """y = sign(x)."""
    return shared(Sign)(x)


def maximum(x: Any, y: Any) -> Node:
    """z = max(x, y), broadcast together."""
    return shared(Maximum)(x, y)


def minimum(x: Any, y: Any) -> Node:
    """z = min(x, y), broadcast together."""
    return shared(Minimum)(x, y)


def clip(x: Any, low: float, high: float) -> Node:
    """y = min(max(x, low), high)."""
    return minimum(maximum(x, low), high)


def where(condition: Any, x: Any, y: Any) -> Node:
    """z = x where the boolean condition holds, y elsewhere; all three broadcast together.

    Raises ValueAccessError for a True or False of Python's, which is what `a == b` says of nodes.
    """
    if isinstance(condition, int):
        raise _no_condition("where", condition)
    return shared(Where)(as_node(condition) if isinstance(condition, np.bool_) else condition, x, y)


def less(x: Any, y: Any) -> Node:
    """z = x < y, booleans."""
    return shared(Less)(x, y)


def less_equal(x: Any, y: Any) -> Node:
    """z = x ≤ y, booleans."""
    return shared(LessEqual)(x, y)


def greater(x: Any, y: Any) -> Node:
    """z = x > y, booleans."""
    return shared(Greater)(x, y)


def greater_equal(x: Any, y: Any) -> Node:
    """z = x ≥ y, booleans."""
    return shared(GreaterEqual)(x, y)


def equal(x: Any, y: Any) -> Node:
    """z = (x is equal to y), booleans. (`==` on nodes asks whether they are the same node.)"""
    return shared(Equal)(x, y)


def logical_and(x: Any, y: Any) -> Node:
    """z = x and y, booleans; `x & y` where both are."""
    return shared(LogicalAnd)(x, y)


def logical_or(x: Any, y: Any) -> Node:
    """z = x or y, booleans; `x | y` where both are."""
    return shared(LogicalOr)(x, y)


def logical_not(x: Any) -> Node:
    """y = not x, booleans; `~x` where x is."""
    return shared(LogicalNot)(x)


def _of_booleans(sign: str, instead: Callable[..., Node]) -> Callable[..., Node]:
    """What an operator of booleans does: & | ~ would work on the bits of integers, which no op here does."""

    def applied(*operands: Any) -> Node:
        for operand in operands:
            node = as_node(operand)
            if node.dtype != BOOL:
                raise DtypeError(
                    f"{sign} is for booleans, but {node.describe()} (made at {node.origin}) is {node.dtype}; compare "
                    f"it, (x > 0), or write gn.{instead.__name__}(...), for which 0 is false and all else true."
                )
        return instead(*operands)

    return applied


def cast(x: Any, dtype: Any) -> Node:
    """y = x as another dtype; x itself if it has that dtype already."""
    if type(x) is bool:
        raise _no_condition("cast", x)
    node, to = as_node(x), as_dtype(dtype)
    return node if node.dtype == to else Cast(to)(node)


OPERATORS.update(
    add=add, subtract=subtract, multiply=multiply, divide=divide, mod=mod, power=power,
    negative=negative,
    absolute=absolute, less=less, less_equal=less_equal, greater=greater, greater_equal=greater_equal,
    both=_of_booleans("&", logical_and), either=_of_booleans("|", logical_or), invert=_of_booleans("~", logical_not),
)  # fmt: skip
