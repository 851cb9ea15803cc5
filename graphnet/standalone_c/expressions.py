"""Scalar expressions as C."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphnet.backends.compiled.expressions import Emitter
from graphnet.graph.dtypes import BOOL, FLOAT32
from graphnet.graph.node import Dtype
from graphnet.standalone_c.language import c_type, literal, short, unsigned
from graphnet.standalone_c.mathematics import LIBRARY, conversion, definition, needs


class Helpers:
    """Functions that the text calls, in the order in which they are first needed: name -> text."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def function(self, name: str, dtype: Dtype) -> str:
        """Name of the C function for this dtype."""
        for other in needs(name):
            self.function(other, dtype)
        called = f"{name}_{short(dtype)}"
        if called not in self.texts:
            self.texts[called] = definition(name, dtype)
        return called

    def conversion(self, of: Dtype, to: Dtype) -> str:
        name, text = conversion(of, to)
        self.texts.setdefault(name, text)
        return name


class CEmitter(Emitter[str]):
    """Writes C. lines: receives definitions of values that are read twice."""

    def __init__(self, helpers: Helpers, lines: list[str]) -> None:
        self.helpers, self.lines = helpers, lines
        self._names = 0

    def number(self, value: float, dtype: Dtype) -> str:
        text = literal(value, dtype)
        return f"({text})" if text.startswith("-") else text

    def named(self, x: str, dtype: Dtype) -> str:
        """The value, as a name."""
        if re.fullmatch(r"\w+", x):
            return x
        self._names += 1
        self.lines.append(f"const {c_type(dtype)} t{self._names} = {x};")
        return f"t{self._names}"

    def convert(self, x: str, of: Dtype, to: Dtype) -> str:
        if to == BOOL:
            return f"({x} != {literal(0, of)})"
        if of.kind == "f" and to.kind in "iu":
            return f"{self.helpers.conversion(of, to)}({x})"
        return f"({c_type(to)}){x}"

    def arithmetic(self, symbol: str, a: str, b: str, dtype: Dtype) -> str:
        if a == b:
            a = b = self.named(a, dtype)
        if dtype.kind == "f":
            return f"({a} {symbol} {b})"
        wrapped = unsigned(dtype)
        return f"({c_type(dtype)})(({wrapped}){a} {symbol} ({wrapped}){b})"

    def compare(self, symbol: str, a: str, b: str, dtype: Dtype) -> str:
        if a == b and dtype.kind != "f":  # compilers warn of comparisons that are always true
            return "true" if "=" in symbol and symbol != "!=" else "false"
        return f"({a} {symbol} {b})"

    def logical(self, word: str, values: Sequence[str]) -> str:
        return "(" + (" && " if word == "and" else " || ").join(values) + ")"

    def inverse(self, x: str) -> str:
        return f"(!{x})"

    def negative(self, x: str, dtype: Dtype) -> str:
        if dtype.kind == "f":
            return f"(-{x})"
        return f"({c_type(dtype)})(0u - ({unsigned(dtype)}){x})"

    def select(self, condition: str, a: str, b: str, dtype: Dtype) -> str:
        return f"({condition} ? {a} : {b})"

    def call(self, name: str, arguments: Sequence[str], dtype: Dtype) -> str:
        given = ", ".join(arguments)
        if dtype.kind == "f" and name in LIBRARY:
            return f"{LIBRARY[name]}{'f' if dtype == FLOAT32 else ''}({given})"
        if name in ("ceil", "floor", "round") or (name == "abs" and dtype.kind == "u"):
            return arguments[0]  # whole numbers are whole
        return f"{self.helpers.function(name, dtype)}({given})"
