"""Code: LLVM's intermediate representation, written line by line.

Values are in static single assignment from the start, loops are made by `loop`, which carries values around,
so that nothing is left for an optimizer to find but the choice of instructions and registers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from graphnet.graph.node import Dtype


class LLVMValue(NamedTuple):
    """A typed LLVM value: `%7` or a constant."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def llvm_type(dtype: Dtype) -> str:
    """float32 -> float, int64 -> i64, bool -> i1."""
    if dtype.kind == "f":
        return "float" if dtype.itemsize == 4 else "double"
    return "i1" if dtype.kind == "b" else f"i{8 * dtype.itemsize}"


def bytes_of(scalar: str) -> int:
    """Bytes of an element in memory."""
    return {"float": 4, "double": 8}.get(scalar) or max(1, int(scalar[1:]) // 8)


def vector_type(scalar: str, lanes: int) -> str:
    return f"<{lanes} x {scalar}>" if lanes > 1 else scalar


def constant_of(scalar: str, number: float | int | bool) -> str:
    """The number as LLVM writes it: floats by their bits, so that nothing is rounded twice."""
    if scalar == "float":
        number = float(np.float32(number))
    if scalar in ("float", "double"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    return str(int(number))


def element(type_: str) -> str:
    """<16 x float> -> float."""
    return type_.split(" x ")[1][:-1] if type_.startswith("<") else type_


def lanes_of(type_: str) -> int:
    return int(type_[1:].split(" x ", maxsplit=1)[0]) if type_.startswith("<") else 1


class Code:
    """The body of one function `void (ptr record)`; `text` is the whole module."""

    def __init__(self, vector_bytes: int, avx512: bool = False) -> None:
        self.vector_bytes, self.avx512 = vector_bytes, avx512
        self._lines: list[str] = []
        self._declared: dict[str, str] = {}
        self._count = 0
        self._block = "entry"

    # -- instructions ------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self._lines.append("  " + text)

    def value(self, type_: str, text: str) -> LLVMValue:
        """A new value of this type, made by the instruction in `text`."""
        name = f"%v{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {text}")
        return LLVMValue(type_, name)

    def constant(self, type_: str, number: float | int | bool) -> LLVMValue:
        """The number in every lane."""
        scalar = element(type_)
        text = constant_of(scalar, number)
        return LLVMValue(type_, f"splat ({scalar} {text})" if type_.startswith("<") else text)

    def binary(self, instruction: str, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        return self.value(a.type, f"{instruction} {a.type} {a.name}, {b.name}")

    def compare(self, condition: str, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        """condition: "olt", "oge", ... for floats; "slt", "eq", ... for integers."""
        kind = "fcmp" if element(a.type) in ("float", "double") else "icmp"
        type_ = vector_type("i1", lanes_of(a.type))
        return self.value(type_, f"{kind} {condition} {a.type} {a.name}, {b.name}")

    def select(self, condition: LLVMValue, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        return self.value(a.type, f"select {condition}, {a}, {b}")

    def convert(self, instruction: str, a: LLVMValue, scalar: str) -> LLVMValue:
        type_ = vector_type(scalar, lanes_of(a.type))
        return self.value(type_, f"{instruction} {a} to {type_}")

    def intrinsic(
        self, name: str, result: str, *arguments: LLVMValue, suffix: str | None = None
    ) -> LLVMValue:
        """A call of @llvm.<name>, declared with the arguments' types."""
        full = self._intrinsic_name(name, result if suffix is None else suffix)
        self._declare(full, result, arguments)
        return self.value(result, f"call {result} @{full}({', '.join(map(str, arguments))})")

    def call_void(self, name: str, *arguments: LLVMValue, suffix: str = "") -> None:
        full = self._intrinsic_name(name, suffix) if suffix else name
        self._declare(full, "void", arguments)
        self.line(f"call void @{full}({', '.join(map(str, arguments))})")

    def _intrinsic_name(self, name: str, type_: str) -> str:
        return f"llvm.{name}" + (f".{mangled(type_)}" if type_ else "")

    def _declare(self, full: str, result: str, arguments: Sequence[LLVMValue]) -> None:
        self._declared[full] = f"declare {result} @{full}({', '.join(a.type for a in arguments)})"

    # -- arithmetic on i64 and floats, as it reads best -----------------------------------------

    def integer(self, number: int) -> LLVMValue:
        return LLVMValue("i64", str(number))

    def add(self, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        return self.binary("add" if element(a.type).startswith("i") else "fadd", a, b)

    def subtract(self, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        return self.binary("sub" if element(a.type).startswith("i") else "fsub", a, b)

    def multiply(self, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        return self.binary("mul" if element(a.type).startswith("i") else "fmul", a, b)

    def fused(self, a: LLVMValue, b: LLVMValue, c: LLVMValue) -> LLVMValue:
        """a · b + c of floats, with one rounding."""
        return self.intrinsic("fma", a.type, a, b, c)

    def added_product(self, a: LLVMValue, b: LLVMValue, c: LLVMValue) -> LLVMValue:
        """a · b + c, with one rounding if the processor has this instruction; a library call for each would be slow."""
        if element(a.type).startswith("i"):
            return self.add(self.multiply(a, b), c)
        return self.intrinsic("fmuladd", a.type, a, b, c)

    def splat(self, scalar: LLVMValue, lanes: int) -> LLVMValue:
        if lanes == 1:
            return scalar
        type_ = vector_type(scalar.type, lanes)
        one = self.value(type_, f"insertelement {type_} poison, {scalar}, i64 0")
        mask = vector_type("i32", lanes)
        return self.value(type_, f"shufflevector {one}, {type_} poison, {mask} zeroinitializer")

    def picked(self, vectors: Sequence[LLVMValue], numbers: Sequence[int]) -> LLVMValue:
        """These lanes of one vector or of two, the second's numbered on."""
        (first, second), type_ = (
            (*vectors, LLVMValue(vectors[0].type, "poison"))[:2],
            element(vectors[0].type),
        )
        if len(numbers) == 1 and len(vectors) == 1:
            return self.value(type_, f"extractelement {first}, i64 {numbers[0]}")
        mask = ", ".join(f"i32 {i}" for i in numbers)
        type_ = vector_type(type_, len(numbers))
        return self.value(type_, f"shufflevector {first}, {second}, <{len(numbers)} x i32> <{mask}>")

    # -- memory --------------------------------------------------------------------------------

    def slot(self, index: int) -> LLVMValue:
        """Number `index` of the record that the kernel was called with."""
        at = self.value("ptr", f"getelementptr i64, ptr %record, i64 {index}")
        return self.value("i64", f"load i64, {at}")

    def pointer_slot(self, index: int) -> LLVMValue:
        at = self.value("ptr", f"getelementptr i64, ptr %record, i64 {index}")
        return self.value("ptr", f"load ptr, {at}")

    def offset(self, pointer: LLVMValue, scalar: str, index: LLVMValue) -> LLVMValue:
        """Address of element `index` of an array of scalars (booleans: bytes)."""
        held = "i8" if scalar == "i1" else scalar
        return self.value("ptr", f"getelementptr {held}, {pointer}, {index}")

    def load(self, type_: str, pointer: LLVMValue, mask: LLVMValue | None = None) -> LLVMValue:
        """A scalar, or consecutive elements; masked lanes are 0. Booleans are bytes in memory."""
        scalar, lanes = element(type_), lanes_of(type_)
        if scalar == "i1":
            held = self.load(vector_type("i8", lanes), pointer, mask)
            return self.compare("ne", held, self.constant(held.type, 0))
        if mask is None or lanes == 1:
            return self.value(type_, f"load {type_}, {pointer}, align {bytes_of(scalar)}")
        return self.intrinsic(
            "masked.load", type_, pointer, LLVMValue("i32", str(bytes_of(scalar))), mask,
            LLVMValue(type_, "zeroinitializer"), suffix=f"{type_}.ptr",
        )  # fmt: skip

    def store(self, value: LLVMValue, pointer: LLVMValue, mask: LLVMValue | None = None) -> None:
        scalar, lanes = element(value.type), lanes_of(value.type)
        if scalar == "i1":
            self.store(self.convert("zext", value, "i8"), pointer, mask)
        elif mask is None or lanes == 1:
            self.line(f"store {value}, {pointer}, align {bytes_of(scalar)}")
        else:
            alignment = LLVMValue("i32", str(bytes_of(scalar)))
            self.call_void("masked.store", value, pointer, alignment, mask, suffix=f"{value.type}.ptr")

    def checked_index(
        self, index: LLVMValue, dtype: Dtype, count: LLVMValue, flag: LLVMValue, mask: LLVMValue | None = None
    ) -> LLVMValue:
        """The index as i64. If it is not in 0 ... count - 1, it becomes 0 and the error flag is raised. mask: lanes to
        check."""
        if element(index.type) != "i64":
            index = self.convert("zext" if dtype.kind == "u" else "sext", index, "i64")
        lanes = lanes_of(index.type)
        inside = self.compare("ult", index, self.splat(count, lanes))
        outside = self.binary("xor", inside, self.constant(inside.type, True))
        if mask is not None:
            outside = self.binary("and", outside, mask)
        self.raise_where(outside, flag)
        return self.select(inside, index, self.constant(index.type, 0))

    def raise_where(self, wrong: LLVMValue, flag: LLVMValue) -> None:
        """Raises the flag where any lane is true."""
        if lanes_of(wrong.type) > 1:
            wrong = self.intrinsic("vector.reduce.or", "i1", wrong, suffix=wrong.type)
        self.when(wrong, lambda: self.line(f"store i64 1, {flag}"))

    def prefetch(self, pointer: LLVMValue, soon: bool) -> None:
        """Prefetches a cache line. soon: into the first cache. Any address is valid."""
        to_read, level, data = (LLVMValue("i32", n) for n in ("0", "3" if soon else "2", "1"))
        self.call_void("prefetch", pointer, to_read, level, data, suffix="ptr")

    def first_lanes(self, lanes: int, count: LLVMValue) -> LLVMValue:
        """The mask that is true in lanes 0 ... count - 1 (count: i64, at most lanes)."""
        few = self.convert("trunc", count, "i32")
        return self.compare("slt", self.lane_numbers("i32", lanes), self.splat(few, lanes))

    def lane_numbers(self, scalar: str, lanes: int) -> LLVMValue:
        numbers = ", ".join(f"{scalar} {i}" for i in range(lanes))
        return LLVMValue(vector_type(scalar, lanes), f"<{numbers}>" if lanes > 1 else "0")

    # -- control -------------------------------------------------------------------------------

    def loop(
        self,
        start: LLVMValue,
        stop: LLVMValue,
        step: int,
        carried: Sequence[LLVMValue],
        body: Callable[[LLVMValue, list[LLVMValue]], Sequence[LLVMValue] | None],
    ) -> list[LLVMValue]:
        """for i in range(start, stop, step): carried = body(i, carried). Runs no times if start >= stop.

        A body that carries nothing may return None.
        """
        number = self._count
        self._count += 1
        head, inside, after = f"head{number}", f"inside{number}", f"after{number}"
        before = self._block
        self.line(f"br label %{head}")
        self._open(head)
        at = len(self._lines)
        self._lines += [""] * (1 + len(carried))  # the phis: their second operands are known below
        index = LLVMValue("i64", f"%i{number}")
        phis = [LLVMValue(v.type, f"%c{number}.{k}") for k, v in enumerate(carried)]
        more = self.compare("slt", index, stop)
        self.line(f"br {more}, label %{inside}, label %{after}")
        self._open(inside)
        results = list(body(index, phis) or ())
        following = self.add(index, self.integer(step))
        last = self._block
        self.line(f"br label %{head}")
        for k, (phi, first, again) in enumerate(
            zip([index, *phis], [start, *carried], [following, *results], strict=True)
        ):
            self._lines[at + k] = (
                f"  {phi.name} = phi {phi.type} [ {first.name}, %{before} ], [ {again.name}, %{last} ]"
            )
        self._open(after)
        return phis

    def when(self, condition: LLVMValue, body: Callable[[], object]) -> None:
        """if condition: body()"""
        number = self._count
        self._count += 1
        self.line(f"br {condition}, label %then{number}, label %end{number}")
        self._open(f"then{number}")
        body()
        self.line(f"br label %end{number}")
        self._open(f"end{number}")

    def _open(self, block: str) -> None:
        self._lines.append(f"{block}:")
        self._block = block

    # -- the module ------------------------------------------------------------------------------

    def module(self) -> str:
        """The text of a module that holds this one function, named @kernel."""
        bits = 8 * self.vector_bytes
        return "\n".join(
            [
                *sorted(self._declared.values()),
                "define void @kernel(ptr noalias %record) #0 {",
                "entry:",
                *self._lines,
                "  ret void",
                "}",
                f'attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" '
                f'"min-legal-vector-width"="{bits}" }}',
            ]
        )


_SHORT = {"float": "f32", "double": "f64", "ptr": "p0"}


def mangled(type_: str) -> str:
    """<16 x float>.ptr -> v16f32.p0, as intrinsics are named."""
    return ".".join(_mangled_one(part) for part in type_.split("."))


def _mangled_one(type_: str) -> str:
    scalar = element(type_)
    short = _SHORT.get(scalar, scalar)
    return f"v{lanes_of(type_)}{short}" if type_.startswith("<") else short
