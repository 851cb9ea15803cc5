"""Scalar expressions as LLVM code, on vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

from graphnet.backends.compiled import expressions
from graphnet.backends.compiled.expressions import Emitter
from graphnet.backends.numba.code import mathematics
from graphnet.backends.numba.code.ir import Code, LLVMValue, element, lanes_of, llvm_type, vector_type
from graphnet.graph.dtypes import of_nan
from graphnet.graph.node import Dtype
from graphnet.plan.instructions import Step

FLOATS = ("float", "double")
CONDITIONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def evaluate(
    code: Code, step: Step, inputs: Sequence[LLVMValue], dtypes: Sequence[Dtype], lanes: int
) -> LLVMValue:
    """The step's value from its inputs' values, of these dtypes."""
    return expressions.evaluate(LLVMEmitter(code, lanes), step, inputs, dtypes)


def convert(
    code: Code, x: LLVMValue, scalar: str, of_unsigned: bool = False, to_unsigned: bool = False
) -> LLVMValue:
    """x as another type, as `dtypes.converted`. of_unsigned, to_unsigned: LLVM's integers do not show it."""
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


class LLVMEmitter(Emitter[LLVMValue]):
    """Writes LLVM code on vectors of `lanes` numbers."""

    def __init__(self, code: Code, lanes: int) -> None:
        self.code, self.lanes = code, lanes

    def number(self, value: float, dtype: Dtype) -> LLVMValue:
        return self.code.constant(vector_type(llvm_type(dtype), self.lanes), value)

    def convert(self, x: LLVMValue, of: Dtype, to: Dtype) -> LLVMValue:
        return convert(self.code, x, llvm_type(to), of.kind == "u", to.kind == "u")

    def arithmetic(self, symbol: str, a: LLVMValue, b: LLVMValue, dtype: Dtype) -> LLVMValue:
        code = self.code
        match symbol:
            case "+":
                return code.add(a, b)
            case "-":
                return code.subtract(a, b)
            case "*":
                return code.multiply(a, b)
        return code.binary("fdiv", a, b)

    def compare(self, symbol: str, a: LLVMValue, b: LLVMValue, dtype: Dtype) -> LLVMValue:
        name = CONDITIONS[symbol]
        if dtype.kind == "f":
            return self.code.compare("une" if name == "ne" else f"o{name}", a, b)
        signed = name if name in ("eq", "ne") else ("s" if dtype.kind == "i" else "u") + name
        return self.code.compare(signed, a, b)

    def logical(self, word: str, values: Sequence[LLVMValue]) -> LLVMValue:
        return reduce(partial(self.code.binary, word), values)

    def inverse(self, x: LLVMValue) -> LLVMValue:
        return self.code.binary("xor", x, self.code.constant(x.type, True))

    def negative(self, x: LLVMValue, dtype: Dtype) -> LLVMValue:
        if dtype.kind == "f":
            return self.code.value(x.type, f"fneg {x}")
        return self.code.subtract(self.code.constant(x.type, 0), x)

    def select(self, condition: LLVMValue, a: LLVMValue, b: LLVMValue, dtype: Dtype) -> LLVMValue:
        return self.code.select(condition, a, b)

    def call(self, name: str, arguments: Sequence[LLVMValue], dtype: Dtype) -> LLVMValue:
        own = mathematics.OF_UNSIGNED if dtype.kind == "u" else {}
        function = own.get(name) or mathematics.FUNCTIONS[name]
        return function(self.code, *arguments)
