"""Scalar expressions (see graphnet.graph.expression) as code: one walk over the tree, an emitter for each target."""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from graphnet.errors import BackendError
from graphnet.graph.dtypes import BOOL, FLOAT64
from graphnet.graph.expression import VARIABLES, fixed_number, parse_expression
from graphnet.graph.node import Dtype
from graphnet.plan.instructions import Step

V = TypeVar("V")

SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
#: Powers up to this one are products; those of integers always are, or a library's pow would round them.
MULTIPLIED = 8
#: Functions that are defined for integers.
OF_INTEGERS = ("abs", "max", "min", "mod")


class Emitter(ABC, Generic[V]):
    """Writes one operation at a time. V: type of the target's values; dtype: that of the operands."""

    @abstractmethod
    def number(self, value: float, dtype: Dtype) -> V: ...

    @abstractmethod
    def convert(self, x: V, of: Dtype, to: Dtype) -> V:
        """x as another dtype, as `dtypes.converted`."""

    @abstractmethod
    def arithmetic(self, symbol: str, a: V, b: V, dtype: Dtype) -> V:
        """a + b, a - b, a * b or a / b"""

    @abstractmethod
    def compare(self, symbol: str, a: V, b: V, dtype: Dtype) -> V:
        """A boolean: a < b, and so on, as Python writes it."""

    @abstractmethod
    def logical(self, word: str, values: Sequence[V]) -> V:
        """Booleans, "and" or "or" between them."""

    @abstractmethod
    def inverse(self, x: V) -> V:
        """not x"""

    @abstractmethod
    def negative(self, x: V, dtype: Dtype) -> V:
        """-x"""

    @abstractmethod
    def select(self, condition: V, a: V, b: V, dtype: Dtype) -> V:
        """a if condition else b"""

    @abstractmethod
    def call(self, name: str, arguments: Sequence[V], dtype: Dtype) -> V:
        """One of `expression.FUNCTIONS`, or pow(x, y)."""


def evaluate(emitter: Emitter[V], step: Step, inputs: Sequence[V], dtypes: Sequence[Dtype]) -> V:
    """The step's value, as its dtype, from its inputs' values; dtypes: the inputs'."""
    typed = list(map(_Typed, inputs, dtypes))
    walk = _Walk(emitter, typed, step.dtype, step.kernel)
    return walk.converted(walk.visit(parse_expression(step.kernel)), step.dtype).value


class _Typed(NamedTuple, Generic[V]):
    value: V
    dtype: Dtype


class _Walk(Generic[V]):
    """Visits a parsed expression; numbers take the dtype of the other operand."""

    def __init__(self, emitter: Emitter[V], inputs: Sequence[_Typed[V]], target: Dtype, kernel: str) -> None:
        self.emitter, self.kernel = emitter, kernel
        self.variables = dict(zip(VARIABLES, inputs, strict=False))
        #: The dtype of numbers: that of the inputs, or `target` without inputs.
        self.dtype = next((x.dtype for x in inputs if x.dtype != BOOL), target)

    def visit(self, tree: ast.expr) -> _Typed[V]:
        method: Callable[[ast.expr], _Typed[V]] = getattr(self, type(tree).__name__)
        return method(tree)

    def number(self, value: float) -> _Typed[V]:
        if not float(value).is_integer():
            self.require_floats(f"has the number {value:g}", self.dtype)
        return _Typed(self.emitter.number(value, self.dtype), self.dtype)

    def require_floats(self, problem: str, dtype: Dtype) -> None:
        if dtype.kind in "iu":
            raise BackendError(
                f"the kernel {self.kernel!r} {problem}, but computes with {dtype}; cast its inputs to floats, or set "
                'domain = "float" in the op'
            )

    def Constant(self, tree: ast.Constant) -> _Typed[V]:
        assert isinstance(tree.value, (int, float))
        return self.number(tree.value)

    def Name(self, tree: ast.Name) -> _Typed[V]:
        return self.number(float(tree.id)) if tree.id in ("inf", "nan") else self.variables[tree.id]

    def converted(self, x: _Typed[V], dtype: Dtype) -> _Typed[V]:
        return x if x.dtype == dtype else _Typed(self.emitter.convert(*x, dtype), dtype)

    def as_number(self, x: _Typed[V]) -> _Typed[V]:
        return self.converted(x, self.dtype) if x.dtype == BOOL else x

    def truth(self, tree: ast.expr) -> V:
        return self.converted(self.visit(tree), BOOL).value

    def alike(self, a: _Typed[V], b: _Typed[V]) -> tuple[_Typed[V], _Typed[V]]:
        if a.dtype == b.dtype:
            return a, b
        return self.converted(a, self.dtype), self.converted(b, self.dtype)

    def arithmetic(self, symbol: str, a: _Typed[V], b: _Typed[V]) -> _Typed[V]:
        if symbol == "/":
            self.require_floats("divides", a.dtype)
        return _Typed(self.emitter.arithmetic(symbol, a.value, b.value, a.dtype), a.dtype)

    def BinOp(self, tree: ast.BinOp) -> _Typed[V]:
        if isinstance(tree.op, ast.Pow):
            return self.power(tree)
        a, b = self.visit(tree.left), self.visit(tree.right)
        if a.dtype == b.dtype == self.dtype == BOOL:
            word = "or" if isinstance(tree.op, ast.Add) else "and"
            return _Typed(self.emitter.logical(word, (a.value, b.value)), BOOL)
        return self.arithmetic(SYMBOLS[type(tree.op)], self.as_number(a), self.as_number(b))

    def power(self, tree: ast.BinOp) -> _Typed[V]:
        base = self.as_number(self.visit(tree.left))
        exponent = fixed_number(tree.right)
        if exponent is None:
            return self.called("pow", base, self.as_number(self.visit(tree.right)))
        if exponent == 0.5:
            return self.called("sqrt", base)
        if exponent == 0:
            return self.number(1)
        if exponent == int(exponent) and (0 < abs(exponent) <= MULTIPLIED or base.dtype.kind != "f"):
            result = base
            for bit in bin(int(abs(exponent)))[3:]:
                result = self.arithmetic("*", result, result)
                if bit == "1":
                    result = self.arithmetic("*", result, base)
            return result if exponent > 0 else self.arithmetic("/", self.number(1), result)
        return self.called("pow", base, self.number(exponent))

    def UnaryOp(self, tree: ast.UnaryOp) -> _Typed[V]:
        if isinstance(tree.op, ast.Not):
            return _Typed(self.emitter.inverse(self.truth(tree.operand)), BOOL)
        x = self.as_number(self.visit(tree.operand))
        return x if isinstance(tree.op, ast.UAdd) else _Typed(self.emitter.negative(*x), x.dtype)

    def Compare(self, tree: ast.Compare) -> _Typed[V]:
        a, b = self.alike(self.visit(tree.left), self.visit(tree.comparators[0]))
        return _Typed(self.emitter.compare(SYMBOLS[type(tree.ops[0])], a.value, b.value, a.dtype), BOOL)

    def IfExp(self, tree: ast.IfExp) -> _Typed[V]:
        condition = self.truth(tree.test)
        a, b = self.alike(self.visit(tree.body), self.visit(tree.orelse))
        return _Typed(self.emitter.select(condition, a.value, b.value, a.dtype), a.dtype)

    def BoolOp(self, tree: ast.BoolOp) -> _Typed[V]:
        word = "and" if isinstance(tree.op, ast.And) else "or"
        return _Typed(self.emitter.logical(word, [self.truth(v) for v in tree.values]), BOOL)

    def Call(self, tree: ast.Call) -> _Typed[V]:
        assert isinstance(tree.func, ast.Name)
        return self.called(tree.func.id, *(self.as_number(self.visit(a)) for a in tree.args))

    def called(self, name: str, *arguments: _Typed[V]) -> _Typed[V]:
        dtype = arguments[0].dtype
        if name not in OF_INTEGERS:
            self.require_floats(f"calls {name}", dtype)
        return _Typed(self.emitter.call(name, [a.value for a in arguments], dtype), dtype)


class Fold(NamedTuple):
    """how: "sum", "max" or "min", of numbers of this dtype."""

    how: str
    dtype: Dtype

    @property
    def kept(self) -> Dtype:
        """Dtype of totals: sums of floats are held in double precision."""
        return FLOAT64 if self.how == "sum" and self.dtype.kind == "f" else self.dtype

    @property
    def is_rounded(self) -> bool:
        """True if the accumulator is no more precise than the terms."""
        return self.how == "sum" and self.dtype == FLOAT64

    @property
    def identity(self) -> float:
        if self.how == "sum":
            return 0
        if self.dtype == BOOL:
            return self.how == "min"
        if self.dtype.kind == "f":
            return -math.inf if self.how == "max" else math.inf
        info = np.iinfo(self.dtype)
        return info.min if self.how == "max" else info.max

    def combined(self, emitter: Emitter[V], total: V, x: V, dtype: Dtype) -> V:
        """Both are of this dtype. NaN stays."""
        if dtype == BOOL:
            return emitter.logical("and" if self.how == "min" else "or", (total, x))
        if self.how == "sum":
            return emitter.arithmetic("+", total, x, dtype)
        better = emitter.compare(">" if self.how == "max" else "<", x, total, dtype)
        if dtype.kind == "f":
            better = emitter.logical("or", (better, emitter.compare("!=", x, x, dtype)))
        return emitter.select(better, x, total, dtype)


@cache
def exp_coefficients(single: bool, times: int) -> tuple[float, ...]:
    """(exp(times · r) - 1) / r on |times · r| <= ½ ln 2: the polynomial that is exact at the Chebyshev points."""
    count = 5 if single else 11
    half = math.log(2) / 2
    points = [half * math.cos(math.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    xs = [Fraction(x) for x in points]
    polynomial = through(xs, [sum((x**k / math.factorial(k + 1) for k in range(30)), Fraction()) for x in xs])
    return tuple(float(c) * times ** (k + 1) for k, c in enumerate(polynomial))


def through(xs: Sequence[Fraction], values: Sequence[Fraction]) -> list[Fraction]:
    """The polynomial with these values there: Newton's divided differences, in exact fractions, then multiplied out."""
    count, table = len(xs), list(values)
    for order in range(1, count):
        for i in range(count - 1, order - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (xs[i] - xs[i - order])
    polynomial = [Fraction(0)]
    for i in range(count - 1, -1, -1):
        shifted = [Fraction(0), *polynomial]
        lowered = [*(-xs[i] * c for c in polynomial), Fraction(0)]
        polynomial = [a + b for a, b in zip(shifted, lowered, strict=True)]
        polynomial[0] += table[i]
    return polynomial[:count]
