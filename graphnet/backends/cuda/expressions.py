"""Scalar expressions (see graphnet.graph.expression) as Python code that Numba compiles for a GPU."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import numpy as np

from graphnet.backends.cuda.source import Source, Value
from graphnet.graph.dtypes import BOOL, limits, of_nan
from graphnet.graph.expression import fixed_number, parse_expression
from graphnet.graph.node import Dtype
from graphnet.plan.instructions import Step

__all__ = ["convert", "evaluate"]

SYMBOLS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def evaluate(source: Source, step: Step, inputs: Sequence[Value]) -> Value:
    """The step's value from its inputs' values."""
    return convert(
        source, _Expression(source, inputs, step.dtype).visit(parse_expression(step.kernel)), step.dtype
    )


def convert(source: Source, x: Value, dtype: Dtype) -> Value:
    """x as another dtype, as `dtypes.converted`."""
    if x.dtype == dtype:
        return x
    if dtype == BOOL:
        return source.assign(f"{x} != {x.dtype.name}(0)", BOOL)
    if x.dtype.kind == "f" and dtype.kind in "iu":
        name, info, none = dtype.name, np.iinfo(dtype), of_nan(dtype)
        low, high = (f"{x.dtype.name}({limit!r})" for limit in limits(dtype))
        outside = (
            f"{name}({info.max}) if {x} >= {high} else {name}({info.min}) if {x} <= {low} else {name}({none})"
        )
        return source.assign(f"{name}({x}) if {low} < {x} and {x} < {high} else {outside}", dtype)
    return source.assign(str(x), dtype)


class _Expression:
    """Writes a parsed expression, one operation a line; numbers take the dtype of what stands beside them."""

    def __init__(self, source: Source, inputs: Sequence[Value], target: Dtype) -> None:
        self.source = source
        self.variables = dict(zip("xyz", inputs, strict=False))
        #: The dtype of numbers: that of the inputs, or what is wanted where there are none.
        dtypes = [v.dtype for v in inputs if v.dtype != BOOL]
        self.dtype = dtypes[0] if dtypes else target

    def visit(self, tree: ast.expr) -> Value:
        method: Callable[..., Value] = getattr(self, type(tree).__name__)
        return method(tree)

    def number(self, value: float) -> Value:
        if self.dtype == BOOL:
            return Value(str(bool(value)), BOOL)
        return Value(f"{self.dtype.name}({value!r})", self.dtype)

    def Constant(self, tree: ast.Constant) -> Value:
        assert isinstance(tree.value, (int, float))
        return self.number(tree.value)

    def Name(self, tree: ast.Name) -> Value:
        return self.number(float(tree.id)) if tree.id in ("inf", "nan") else self.variables[tree.id]

    def arithmetic(self, tree: ast.expr) -> Value:
        """The value as a number: booleans become 0 and 1."""
        value = self.visit(tree)
        return convert(self.source, value, self.dtype) if value.dtype == BOOL else value

    def truth(self, tree: ast.expr) -> Value:
        return convert(self.source, self.visit(tree), BOOL)

    def BinOp(self, tree: ast.BinOp) -> Value:
        if isinstance(tree.op, ast.Pow):
            return self.power(tree)
        a, b = self.visit(tree.left), self.visit(tree.right)
        if a.dtype == b.dtype == self.dtype == BOOL:
            return self.source.assign(f"{a} {'or' if isinstance(tree.op, ast.Add) else 'and'} {b}", BOOL)
        a, b = (convert(self.source, v, self.dtype) if v.dtype == BOOL else v for v in (a, b))
        return self.source.assign(f"{a} {SYMBOLS[type(tree.op)]} {b}", a.dtype)

    def power(self, tree: ast.BinOp) -> Value:
        base, source = self.arithmetic(tree.left), self.source
        exponent = fixed_number(tree.right)
        if exponent is None:
            return source.assign(f"{base} ** {self.arithmetic(tree.right)}", base.dtype)
        if exponent == 0.5:
            return source.assign(f"sqrt({base})", base.dtype)
        if exponent == int(exponent) and 0 < abs(exponent) <= 8:
            result = base
            for bit in bin(int(abs(exponent)))[3:]:
                result = source.assign(f"{result} * {result}", base.dtype)
                if bit == "1":
                    result = source.assign(f"{result} * {base}", base.dtype)
            return result if exponent > 0 else source.assign(f"{self.number(1)} / {result}", base.dtype)
        return source.assign(f"{base} ** {self.number(exponent)}", base.dtype)

    def UnaryOp(self, tree: ast.UnaryOp) -> Value:
        if isinstance(tree.op, ast.Not):
            return self.source.assign(f"not {self.truth(tree.operand)}", BOOL)
        x = self.arithmetic(tree.operand)
        return x if isinstance(tree.op, ast.UAdd) else self.source.assign(f"-{x}", x.dtype)

    def Compare(self, tree: ast.Compare) -> Value:
        a, b = self.visit(tree.left), self.visit(tree.comparators[0])
        if a.dtype != b.dtype:
            a, b = (convert(self.source, v, self.dtype) for v in (a, b))
        return self.source.assign(f"{a} {SYMBOLS[type(tree.ops[0])]} {b}", BOOL)

    def IfExp(self, tree: ast.IfExp) -> Value:
        condition, a, b = self.truth(tree.test), self.visit(tree.body), self.visit(tree.orelse)
        if a.dtype != b.dtype:
            a, b = (convert(self.source, v, self.dtype) for v in (a, b))
        return self.source.assign(f"{a} if {condition} else {b}", a.dtype)

    def BoolOp(self, tree: ast.BoolOp) -> Value:
        word = " and " if isinstance(tree.op, ast.And) else " or "
        return self.source.assign(word.join(str(self.truth(v)) for v in tree.values), BOOL)

    def Call(self, tree: ast.Call) -> Value:
        assert isinstance(tree.func, ast.Name)
        inputs = [self.arithmetic(a) for a in tree.args]
        name, x, assign = tree.func.id, inputs[0], self.source.assign
        if name in ("max", "min"):
            return assign(f"{x} if {x} {'>' if name == 'max' else '<'} {inputs[1]} else {inputs[1]}", x.dtype)
        if name == "sigmoid":
            one = self.number(1)
            power = assign(f"exp({assign(f'-{x}', x.dtype)})", x.dtype)
            return assign(f"{one} / {assign(f'{one} + {power}', x.dtype)}", x.dtype)
        return assign(f"{name}({x})", x.dtype)
