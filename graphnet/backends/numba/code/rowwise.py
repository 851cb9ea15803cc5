"""User-defined kernels: Numba's front end compiles the function of one row to LLVM code, which is called for each row.

Numba types the function and optimizes it. The result must run without Python: it may not allocate memory, take a lock
or use an object; otherwise an error is raised. After that, it is an ordinary kernel.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from graphnet.backends.numba.code.ir import Code, LLVMValue, llvm_type
from graphnet.backends.numba.machine import this_machine
from graphnet.graph.node import Dtype
from graphnet.ops.rowwise import refused

#: Status that Numba's functions return on success: with a value, with None.
_WELL = (0, -2)
#: Functions of the C library, which every process has: all that code may call that is not in it. (Numba brings others
#: in a library of its own, which is not there when a stored function is called.)
_LIBRARY = frozenset(
    f"{name}{suffix}"
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh",
        "erf", "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fma", "fmod", "hypot",
        "ldexp", "lgamma", "log", "log10", "log1p", "log2", "nextafter", "pow", "remainder", "rint", "round",
        "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", "memcpy", "memmove", "memset",
    )
    for suffix in ("", "f")
)  # fmt: skip
_FLAG, _ROWS, _FIRST = 2, 3, 4


class KernelParameter(NamedTuple):
    """kind: "output", "input", "scratch" or "setting". axes: how many it has, of one row."""

    kind: str
    dtype: Dtype
    axes: int

    @property
    def words(self) -> int:
        """Words of an array: address, row stride, row length (in elements), and sizes. Words of a setting: the upper
        and lower half of its bits, since large words are addresses.
        """
        return 2 if self.kind == "setting" else 3 + self.axes


def words_of(setting: float | int | bool) -> tuple[int, int]:
    """A setting in two words of a record."""
    (bits,) = struct.unpack("<Q", struct.pack("<d" if isinstance(setting, float) else "<q", setting))
    return bits >> 32, bits & 0xFFFFFFFF


@dataclass(frozen=True)
class RowwiseKernel:
    """name: of the op, for errors. content: see ops.kernel_content.

    Record: error flag, rows, then the words of each parameter.
    """

    name: str
    function: Callable[..., None]
    parameters: tuple[KernelParameter, ...]
    vector_bytes: int
    content: str | None

    def text(self) -> str:
        signature = [(p.kind, p.dtype.str, p.axes) for p in self.parameters]
        if self.content is None:  # it may become another one when it is compiled again
            own = self._own()
        else:
            made_of = ["own", version("numba"), sys.version, self.content, signature]
            own = this_machine().kept_text(repr(made_of), self._own)
        return f"{own}\n{_Caller(self).text()}"

    def _own(self) -> str:
        return _without_python(self.name, self.function, self._compiled())

    def _compiled(self) -> tuple[str, str]:
        from numba import from_dtype
        from numba.core import compiler, errors, registry
        from numba.core.types import Array, none

        types_of = []
        for kind, dtype, axes in self.parameters:
            number = from_dtype(dtype)
            types_of.append(
                number if kind == "setting" else Array(number, axes, "C", readonly=kind == "input")
            )
        flags: Any = compiler.Flags()
        flags.nrt = False  # no memory of its own
        flags.error_model = "numpy"
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        flags.boundscheck = True  # no kernel leaves its arrays
        typing, target = registry.cpu_target.typing_context, registry.cpu_target.target_context
        typing.refresh()
        target.refresh()
        try:
            found = compiler.compile_extra(typing, target, self.function, tuple(types_of), none, flags, {})
        except (errors.NumbaError, errors.UnsupportedBytecodeError) as error:
            raise refused(self.name, self.function, error) from None
        return found.library.get_llvm_str(), found.fndesc.llvm_func_name


def _without_python(name: str, function: Callable[..., None], compiled: tuple[str, str]) -> str:
    """The code, with @own as its only external symbol. BackendError if it calls a function that is not available."""
    text, entry = compiled
    lines = [
        line
        for line in text.splitlines()
        if not line.startswith(("; ModuleID", "source_filename", "target "))
    ]
    declared = [re.findall(r"@\"?([\w.$]+)", line)[0] for line in lines if line.startswith("declare")]
    foreign = [
        each
        for each in declared
        if each.startswith("llvm.powi") or not (each.startswith("llvm.") or each in _LIBRARY)
    ]
    if foreign:
        raise refused(name, function, f"It would call {', '.join(foreign)}")
    defined = re.compile(r"^(?:define .*?@|@)(\"[^\"]+\"|[\w.$]+)")
    names = {found[1]: None for line in lines if (found := defined.match(line))}
    inside = {each: "own" if each.strip('"') == entry else f"own.{i}" for i, each in enumerate(names)}
    words = "|".join(re.escape(each) for each in sorted(inside, key=len, reverse=True))
    body = re.sub(rf"@({words})(?![\w.$])", lambda found: f"@{inside[found[1]]}", "\n".join(lines))
    body = re.sub(r"^define (?:linkonce_odr |internal |hidden )*", "define internal ", body, flags=re.M)
    body = re.sub(
        r"^(@own[.\d]*) = (?:common|internal|linkonce_odr|weak_odr) ", r"\1 = internal ", body, flags=re.M
    )
    return body


class _Caller(Code):
    def __init__(self, kernel: RowwiseKernel) -> None:
        super().__init__(kernel.vector_bytes)
        self.line("%returned = alloca i64")
        self.line("%raised = alloca i64")
        self.flag = self.pointer_slot(_FLAG)
        at = _FIRST
        self.given: list[Callable[[LLVMValue], list[LLVMValue]]] = []
        for parameter in kernel.parameters:
            self.given.append((self._setting if parameter.kind == "setting" else self._array)(parameter, at))
            at += parameter.words
        self.loop(self.integer(0), self.slot(_ROWS), 1, [], self._row)

    def _array(self, parameter: KernelParameter, at: int) -> Callable[[LLVMValue], list[LLVMValue]]:
        base, step, elements = self.pointer_slot(at), self.slot(at + 1), self.slot(at + 2)
        sizes = [self.slot(at + 3 + axis) for axis in range(parameter.axes)]
        scalar = llvm_type(parameter.dtype)
        strides: list[LLVMValue] = []
        stride = self.integer(parameter.dtype.itemsize)
        for size in reversed(sizes):
            strides.insert(0, stride)
            stride = self.multiply(stride, size)
        nothing, item = LLVMValue("ptr", "null"), self.integer(parameter.dtype.itemsize)

        def given(row: LLVMValue) -> list[LLVMValue]:
            address = self.offset(base, scalar, self.multiply(row, step))
            return [nothing, nothing, elements, item, address, *sizes, *strides]

        return given

    def _setting(self, parameter: KernelParameter, at: int) -> Callable[[LLVMValue], list[LLVMValue]]:
        upper = self.binary("shl", self.slot(at), self.integer(32))
        held = self.binary("or", upper, self.slot(at + 1))
        if parameter.dtype.kind == "f":
            held = self.convert("bitcast", held, "double")
        return lambda row: [held]

    def _row(self, row: LLVMValue, _: list[LLVMValue]) -> None:
        given = [LLVMValue("ptr", "%returned"), LLVMValue("ptr", "%raised")]
        for each in self.given:
            given += each(row)
        status = self.value("i32", f"call i32 @own({', '.join(map(str, given))})")
        wrong = LLVMValue("i1", "true")
        for well in _WELL:
            differs = self.compare("ne", status, LLVMValue("i32", str(well)))
            wrong = self.binary("and", wrong, differs)
        self.raise_where(wrong, self.flag)

    def text(self) -> str:
        # Numba's code numbers its attributes from 0 on.
        return self.module().replace("#0", "#1000")
