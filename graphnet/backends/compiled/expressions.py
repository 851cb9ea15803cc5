"""Scalar expressions (see graphnet.graph.expression) as code: one walk over the tree, an emitter for each target."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from graphnet.graph.dtypes import BOOL
from graphnet.graph.expression import VARIABLES, fixed_number, parse_expression
from graphnet.graph.node import Dtype
from graphnet.plan.instructions import Step

__all__ = ["Emitter", "evaluate"]

V = TypeVar("V")

SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
#: Powers up to this one are products; those of integers always are, or a library's pow would round them.
MULTIPLIED = 8


class Emitter(ABC, Generic[V]):
    """Writes one operation at a time. V is what the target calls a value; dtype is that of the operands."""

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
    walk = _Walk(emitter, typed, step.dtype)
    return walk.converted(walk.visit(parse_expression(step.kernel)), step.dtype).value


class _Typed(NamedTuple, Generic[V]):
    value: V
    dtype: Dtype


class _Walk(Generic[V]):
    """Visits a parsed expression; numbers take the dtype of what stands beside them."""

    def __init__(self, emitter: Emitter[V], inputs: Sequence[_Typed[V]], target: Dtype) -> None:
        self.emitter = emitter
        self.variables = dict(zip(VARIABLES, inputs, strict=False))
        #: The dtype of numbers: that of the inputs, or what is wanted where there are none.
        self.dtype = next((x.dtype for x in inputs if x.dtype != BOOL), target)

    def visit(self, tree: ast.expr) -> _Typed[V]:
        method: Callable[[ast.expr], _Typed[V]] = getattr(self, type(tree).__name__)
        return method(tree)

    def number(self, value: float) -> _Typed[V]:
        return _Typed(self.emitter.number(value, self.dtype), self.dtype)

    def Constant(self, tree: ast.Constant) -> _Typed[V]:
        assert isinstance(tree.value, (int, float))
        return self.number(tree.value)

    def Name(self, tree: ast.Name) -> _Typed[V]:
        return self.number(float(tree.id)) if tree.id in ("inf", "nan") else self.variables[tree.id]

    def converted(self, x: _Typed[V], dtype: Dtype) -> _Typed[V]:
        return x if x.dtype == dtype else _Typed(self.emitter.convert(*x, dtype), dtype)

    def as_number(self, x: _Typed[V]) -> _Typed[V]:
        """Booleans become 0 and 1."""
        return self.converted(x, self.dtype) if x.dtype == BOOL else x

    def truth(self, tree: ast.expr) -> V:
        return self.converted(self.visit(tree), BOOL).value

    def alike(self, a: _Typed[V], b: _Typed[V]) -> tuple[_Typed[V], _Typed[V]]:
        if a.dtype == b.dtype:
            return a, b
        return self.converted(a, self.dtype), self.converted(b, self.dtype)

    def arithmetic(self, symbol: str, a: _Typed[V], b: _Typed[V]) -> _Typed[V]:
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
        return _Typed(self.emitter.call(name, [a.value for a in arguments], dtype), dtype)
