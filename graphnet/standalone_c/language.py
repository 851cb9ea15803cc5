"""C names of dtypes, numbers and identifiers, and comments that no text can end early."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable

import numpy as np

from graphnet.graph.dtypes import FLOAT32
from graphnet.graph.node import Array, Dtype, Node

#: Reserved words: C's keywords, and names that the generated source uses.
RESERVED = frozenset(
    """
    alignas alignof auto bool break case char const constexpr continue default do double else enum extern
    false float for goto if inline int long nullptr register restrict return short signed sizeof static struct
    switch thread_local true typedef typeof union unsigned void volatile while asm fortran main arena NULL NAN
    INFINITY and or not xor bitand bitor compl new delete class this template typename namespace using public
    private protected virtual friend operator try catch throw mutable export explicit linux unix near far
    memcpy ptrdiff_t size_t i386 math_errhandling
    """.split()  # noqa: SIM905
)


#: Names of generated functions and arrays, and of macros and types of the headers.
GENERATED = re.compile(
    r"(loop|product|scatter|w)_?\d+|.*_w\d+|[A-Z0-9_]+_(MAX|MIN|C)|.*_t|HUGE_VAL[FL]?|(FP|M|MATH)_[A-Z0-9_]+"
)


def c_type(dtype: Dtype) -> str:
    """float, double, bool, int64_t, ..."""
    return {"f4": "float", "f8": "double", "b1": "bool"}.get(dtype.str[1:], f"{dtype.name}_t")


def unsigned(dtype: Dtype) -> str:
    """The type in which integers of this dtype wrap: no narrower than int, or C would compute with a sign."""
    return "uint64_t" if dtype.itemsize == 8 else "uint32_t"


def short(dtype: Dtype) -> str:
    """f32, f64, i64, u8, b8: short name of a dtype, used in names of functions and memory."""
    return f"{dtype.kind}{8 * dtype.itemsize}"


def literal(value: float, dtype: Dtype) -> str:
    """The number, exactly."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f":
        if not math.isfinite(value):
            text = "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
            return text if dtype == FLOAT32 else f"(double){text}"
        if dtype == FLOAT32:
            single = np.float32(value)
            return f"{single!s}f" if np.isfinite(single) else literal(float(single), dtype)
        return repr(float(value))
    whole = int(value)
    if dtype.kind == "u":
        return f"UINT{8 * dtype.itemsize}_C({whole})"
    if whole == np.iinfo(dtype).min:
        return f"INT{8 * dtype.itemsize}_MIN"
    return f"INT64_C({whole})" if dtype.itemsize == 8 else str(whole)


def listed(array: Array, indent: str = "    ") -> str:
    """The array's elements as an initializer, without braces; a single 0 for an empty array."""
    flat = [literal(number, array.dtype) for number in array.reshape(-1).tolist()] or ["0"]
    lines, line = [], indent
    for text in flat:
        if len(line) + len(text) + 2 > 110 and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += f"{text}, "
    return "\n".join([*lines, line.rstrip()])


def comment(text: str) -> str:
    """/* text */, on one line, of characters that mean nothing to a compiler."""
    return f"/* {re.sub(r'[^A-Za-z0-9_ .,:;=+()<>@|#%&!~^-]', '_', plain(text))[:200]} */"


def plain(text: str) -> str:
    """With round brackets for square ones, which are read as well."""
    return text.replace("[", "(").replace("]", ")")


def identifier(text: str, otherwise: str) -> str:
    """A name of C's that is nearest to the text; the other one if nothing is left of it."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    if not found or not found.isascii():
        return otherwise
    found = f"n{found}" if found[0].isdigit() else found
    return f"{found}_" if found in RESERVED else found


def place(node: Node) -> str:
    """Name, shape, layer and time of a node, and its file (without folders) and line in the user's program."""
    parts = [node.describe()]
    for label in ("layer", "cell", "time"):
        found = node.scope.get(label)
        if found is not None:
            parts.append(f"t={found}" if label == "time" else str(found))
    file = os.path.basename(node.origin.file.replace("\\", "/"))
    return "  ".join([*parts, f"{file}:{node.origin.line}"])


class UniqueNames:
    """Names that are given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)

    def fresh(self, wanted: str, otherwise: str) -> str:
        """A valid, unused name near `wanted`; a number is added if it is taken, or could be a generated name."""
        base = found = identifier(wanted, otherwise)
        if GENERATED.fullmatch(base):
            base = found = f"{base}_"
        number = 1
        while found in self.taken:
            number += 1
            found = f"{base}_{number}"
        self.taken.add(found)
        return found
