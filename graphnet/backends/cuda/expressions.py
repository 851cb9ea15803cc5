"""Scalar expressions as Python code that Numba compiles for a GPU, one operation a line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphnet.backends.compiled import expressions
from graphnet.backends.compiled.expressions import Emitter
from graphnet.backends.cuda.source import KernelSource, TypedName
from graphnet.graph.dtypes import BOOL, FLOAT32, limits, of_nan
from graphnet.graph.node import Dtype
from graphnet.plan.instructions import Step

#: Functions that kernels call by their name in CUDA; float32 adds an f.
OF_LIBDEVICE = {
    "ceil": "ceil",
    "copysign": "copysign",
    "erf": "erf",
    "floor": "floor",
    "fmod": "fmod",
    "round": "rint",
}


def evaluate(source: KernelSource, step: Step, inputs: Sequence[TypedName]) -> TypedName:
    """The step's value from its inputs' values."""
    return expressions.evaluate(PythonEmitter(source), step, inputs, [x.dtype for x in inputs])


def convert(source: KernelSource, x: TypedName, dtype: Dtype) -> TypedName:
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


class PythonEmitter(Emitter[TypedName]):
    def __init__(self, source: KernelSource) -> None:
        self.assign, self.source = source.assign, source

    def number(self, value: float, dtype: Dtype) -> TypedName:
        return TypedName(str(bool(value)) if dtype == BOOL else f"{dtype.name}({value!r})", dtype)

    def convert(self, x: TypedName, of: Dtype, to: Dtype) -> TypedName:
        return convert(self.source, x, to)

    def arithmetic(self, symbol: str, a: TypedName, b: TypedName, dtype: Dtype) -> TypedName:
        return self.assign(f"{a} {symbol} {b}", dtype)

    def compare(self, symbol: str, a: TypedName, b: TypedName, dtype: Dtype) -> TypedName:
        return self.assign(f"{a} {symbol} {b}", BOOL)

    def logical(self, word: str, values: Sequence[TypedName]) -> TypedName:
        return self.assign(f" {word} ".join(map(str, values)), BOOL)

    def inverse(self, x: TypedName) -> TypedName:
        return self.assign(f"not {x}", BOOL)

    def negative(self, x: TypedName, dtype: Dtype) -> TypedName:
        return self.assign(f"-{x}", dtype)

    def select(self, condition: TypedName, a: TypedName, b: TypedName, dtype: Dtype) -> TypedName:
        return self.assign(f"{a} if {condition} else {b}", dtype)

    def call(self, name: str, arguments: Sequence[TypedName], dtype: Dtype) -> TypedName:
        assign, (x, *others) = self.assign, arguments
        if name == "pow":
            return assign(f"{x} ** {others[0]}", dtype)
        if name in ("max", "min"):
            return assign(f"{x} if {x} {'>' if name == 'max' else '<'} {others[0]} else {others[0]}", dtype)
        if name == "sigmoid":
            one = self.number(1, dtype)
            power = assign(f"exp({assign(f'-{x}', dtype)})", dtype)
            return assign(f"{one} / {assign(f'{one} + {power}', dtype)}", dtype)
        if name == "mod":
            return self.remainder(x, others[0], dtype)
        if name in OF_LIBDEVICE:
            return assign(self.of_libdevice(name, x), dtype)
        return assign(f"{name}({x})", dtype)

    def of_libdevice(self, name: str, *arguments: TypedName) -> str:
        """A call of a function that Python's `math` lacks, or whose result there is not a float."""
        single = "f" if arguments[0].dtype == FLOAT32 else ""
        return f"{OF_LIBDEVICE[name]}{single}({', '.join(map(str, arguments))})"

    def remainder(self, x: TypedName, y: TypedName, dtype: Dtype) -> TypedName:
        """x - n y with the sign of y, as NumPy's."""
        assign, zero, one = self.assign, self.number(0, dtype), self.number(1, dtype)
        if dtype.kind == "f":
            rest = assign(self.of_libdevice("fmod", x, y), dtype)
            none = assign(self.of_libdevice("copysign", zero, y), dtype)
            moved = assign(f"{rest} + {y}", dtype)
            moved = assign(f"{moved} if ({rest} < {zero}) != ({y} < {zero}) else {rest}", dtype)
            return assign(f"{none} if {rest} == {zero} else {moved}", dtype)
        # The remainder by 0 is 0 here, as by 1; and by -1, where the quotient may overflow.
        trap = f"{y} == {zero}" + (f" or {y} == {self.number(-1, dtype)}" if dtype.kind == "i" else "")
        divisor = assign(f"{one} if {trap} else {y}", dtype)
        return assign(f"{x} % {divisor}", dtype)
