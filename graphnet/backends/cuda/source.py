"""Python code for a kernel, line by line, with names for values and their dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from graphnet.graph.node import Dtype

INDEX = np.dtype("int64")


class TypedName(NamedTuple):
    """A name (or a number) in the code, and its dtype."""

    text: str
    dtype: Dtype

    def __str__(self) -> str:
        return self.text


class Offset(NamedTuple):
    """An argument that is where a view begins: the number of the view among those that an instruction touches."""

    view: int


def array_name(dtype: Dtype) -> str:
    """Name of the arena when read as an array of one dtype."""
    return dtype.str[1:]


class KernelSource:
    """A function that is being written. Its arguments: the arena, once for each dtype, then whole numbers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arrays: set[str] = set()
        self.numbers: dict[str, int | Offset] = {}
        self._depth = 1
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines below `head:`."""
        self.line(f"{head}:")
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def assign(self, text: str, dtype: Dtype = INDEX) -> TypedName:
        """A new name for the value of the text, of this dtype: machine numbers do not widen as Python's do."""
        name = f"t{self._names}"
        self._names += 1
        # Comparisons return booleans.
        self.line(f"{name} = {text}" if dtype.kind == "b" else f"{name} = {dtype.name}({text})")
        return TypedName(name, dtype)

    def number(self, name: str, value: int | Offset) -> str:
        """An integer argument, and its value in this launch."""
        self.numbers[name] = value
        return name

    def array(self, dtype: Dtype) -> str:
        """The arena as numbers of this dtype."""
        name = array_name(dtype)
        self.arrays.add(name)
        return name

    def element(self, dtype: Dtype, at: str) -> str:
        """A number of the arena. (Numba would count a signed index from the end if it were negative: `at` is none.)"""
        return f"{self.array(dtype)}[slot({at})]"

    def load(self, dtype: Dtype, at: str) -> TypedName:
        return self.assign(self.element(dtype, at), dtype)

    def store(self, value: TypedName, at: str) -> None:
        self.line(f"{self.element(value.dtype, at)} = {value}")

    def raise_flag(self) -> None:
        """Raises the error flag, word 0 of the arena."""
        self.line(f"{self.array(INDEX)}[0] = 1")

    def shared(self, name: str, shape: str, dtype: Dtype) -> None:
        """An array that the threads of a block have in common."""
        self.line(
            f"{name} = cuda.shared.array({shape}, types.{'boolean' if dtype.kind == 'b' else dtype.name})"
        )

    def text(self, arguments: Sequence[str] | None = None) -> str:
        """The function, whole, of other arguments if any are given."""
        named = [*sorted(self.arrays), *self.numbers] if arguments is None else arguments
        return "\n".join([f"def kernel({', '.join(named)}):", *self.lines, ""])
