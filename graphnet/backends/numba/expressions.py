"""Scalar expressions as LLVM code: see graphnet.graph.expression."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence

import numpy as np

from graphnet.backends.numba import mathematics
from graphnet.backends.numba.ir import Code, Value, element, lanes_of, llvm_type, vector_type
from graphnet.graph.dtypes import of_nan
from graphnet.graph.expression import fixed_number, parse_expression
from graphnet.plan.instructions import Step

__all__ = ["FLOATS", "convert", "evaluate"]

FLOATS = ("float", "double")


def evaluate(code: Code, step: Step, inputs: Sequence[Value], lanes: int, unsigned: bool = False) -> Value:
    """The step's value from its inputs' values. unsigned: these are whole numbers without a sign."""
    expression = _Expression(code, inputs, llvm_type(step.dtype), lanes, unsigned)
    result = expression.visit(parse_expression(step.kernel))
    return convert(code, result, llvm_type(step.dtype), unsigned, step.dtype.kind == "u")


def convert(code: Code, x: Value, scalar: str, of_unsigned: bool = False, to_unsigned: bool = False) -> Value:
    """x as another type, as `dtypes.converted`. LLVM's integers have no sign: whether they are meant without one."""
    of = element(x.type)
    if of == scalar:
        return x
    if scalar == "i1":
        return code.compare("une" if of in FLOATS else "ne", x, code.constant(x.type, 0))
    if of == "i1":
        return code.convert("uitofp" if scalar in FLOATS else "zext", x, scalar)
    if of in FLOATS and scalar in FLOATS:
        return code.convert("fpext" if scalar == "double" else "fptrunc", x, scalar)
    if of in FLOATS:
        type_ = vector_type(scalar, lanes_of(x.type))
        name = "fptoui.sat" if to_unsigned else "fptosi.sat"
        nearest = code.intrinsic(name, type_, x, suffix=f"{type_}.{x.type}")
        none = code.constant(type_, of_nan(np.dtype(f"{'u' * to_unsigned}int{scalar[1:]}")))
        return code.select(code.compare("uno", x, x), none, nearest)
    if scalar in FLOATS:
        return code.convert("uitofp" if of_unsigned else "sitofp", x, scalar)
    if int(scalar[1:]) < int(of[1:]):
        return code.convert("trunc", x, scalar)
    return code.convert("zext" if of_unsigned else "sext", x, scalar)


class _Expression:
    """Turns a parsed expression into code; numbers take the type of what stands beside them."""

    def __init__(self, code: Code, inputs: Sequence[Value], target: str, lanes: int, unsigned: bool) -> None:
        self.code, self.lanes, self.unsigned = code, lanes, unsigned
        self.variables = dict(zip("xyz", inputs, strict=False))
        #: The type of numbers: that of the inputs, or what is wanted where there are none.
        types = [element(v.type) for v in inputs if element(v.type) != "i1"]
        self.scalar = types[0] if types else target

    def visit(self, tree: ast.expr) -> Value:
        method: Callable[..., Value] = getattr(self, type(tree).__name__)
        return method(tree)

    def number(self, value: float) -> Value:
        return self.code.constant(vector_type(self.scalar, self.lanes), value)

    def Constant(self, tree: ast.Constant) -> Value:
        assert isinstance(tree.value, (int, float))
        return self.number(tree.value)

    def Name(self, tree: ast.Name) -> Value:
        if tree.id in ("inf", "nan"):
            return self.number(math.inf if tree.id == "inf" else math.nan)
        return self.variables[tree.id]

    def arithmetic(self, tree: ast.expr) -> Value:
        """The value as a number: booleans become 0 and 1."""
        return convert(self.code, v, self.scalar) if element((v := self.visit(tree)).type) == "i1" else v

    def truth(self, tree: ast.expr) -> Value:
        return convert(self.code, self.visit(tree), "i1")

    def BinOp(self, tree: ast.BinOp) -> Value:
        if isinstance(tree.op, ast.Pow):
            return self.power(tree)
        a, b = self.visit(tree.left), self.visit(tree.right)
        if element(a.type) == element(b.type) == "i1" and self.scalar == "i1":
            return self.code.binary("or" if isinstance(tree.op, ast.Add) else "and", a, b)
        a, b = (convert(self.code, v, self.scalar) if element(v.type) == "i1" else v for v in (a, b))
        code = self.code
        if isinstance(tree.op, ast.Add):
            return code.add(a, b)
        if isinstance(tree.op, ast.Sub):
            return code.subtract(a, b)
        if isinstance(tree.op, ast.Mult):
            return code.multiply(a, b)
        return code.binary("fdiv", a, b)

    def power(self, tree: ast.BinOp) -> Value:
        base, code = self.arithmetic(tree.left), self.code
        exponent = fixed_number(tree.right)
        if exponent is None:
            return mathematics.FUNCTIONS["pow"](code, base, self.arithmetic(tree.right))
        if exponent == 0.5:
            return mathematics.square_root(code, base)
        # Integers are multiplied however often it takes: what a library's pow would lose, they keep.
        if exponent == int(exponent) and (0 < abs(exponent) <= 8 or element(base.type) not in FLOATS):
            result = base
            for bit in bin(int(abs(exponent)))[3:]:
                result = code.multiply(result, result)
                if bit == "1":
                    result = code.multiply(result, base)
            return result if exponent > 0 else code.binary("fdiv", self.number(1), result)
        return mathematics.FUNCTIONS["pow"](code, base, self.number(exponent))

    def UnaryOp(self, tree: ast.UnaryOp) -> Value:
        code = self.code
        if isinstance(tree.op, ast.Not):
            truth = self.truth(tree.operand)
            return code.binary("xor", truth, code.constant(truth.type, True))
        x = self.arithmetic(tree.operand)
        if isinstance(tree.op, ast.UAdd):
            return x
        if element(x.type) in FLOATS:
            return code.value(x.type, f"fneg {x}")
        return code.subtract(code.constant(x.type, 0), x)

    def Compare(self, tree: ast.Compare) -> Value:
        a, b = self.visit(tree.left), self.visit(tree.comparators[0])
        if element(a.type) != element(b.type):
            a, b = (convert(self.code, v, self.scalar) for v in (a, b))
        names = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
        name = names[type(tree.ops[0])]
        scalar = element(a.type)
        if scalar in FLOATS:
            return self.code.compare("une" if name == "ne" else f"o{name}", a, b)
        signed = name if name in ("eq", "ne") else ("u" if scalar == "i1" or self.unsigned else "s") + name
        return self.code.compare(signed, a, b)

    def IfExp(self, tree: ast.IfExp) -> Value:
        condition, a, b = self.truth(tree.test), self.visit(tree.body), self.visit(tree.orelse)
        if element(a.type) != element(b.type):
            a, b = (convert(self.code, v, self.scalar) for v in (a, b))
        return self.code.select(condition, a, b)

    def BoolOp(self, tree: ast.BoolOp) -> Value:
        values = [self.truth(v) for v in tree.values]
        result = values[0]
        for value in values[1:]:
            result = self.code.binary("and" if isinstance(tree.op, ast.And) else "or", result, value)
        return result

    def Call(self, tree: ast.Call) -> Value:
        assert isinstance(tree.func, ast.Name)
        own = mathematics.OF_UNSIGNED if self.unsigned else {}
        function = own.get(tree.func.id) or mathematics.FUNCTIONS[tree.func.id]
        return function(self.code, *(self.arithmetic(a) for a in tree.args))
