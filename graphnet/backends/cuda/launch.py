"""Launches: kernels with their arguments, and how many threads run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphnet.backends.cuda.division import ThreadDivision
from graphnet.backends.cuda.source import KernelSource, Offset
from graphnet.graph.node import Node
from graphnet.plan.views import Buffer, View

__all__ = ["Launch", "LaunchLayout", "power_of_two"]


class Launch(NamedTuple):
    """A kernel's text; the dtypes as which it sees the arena; its other arguments (a view stands for where it begins in
    the arena, counted in its elements); blocks, threads of a block, and the nodes that it works for."""

    text: str
    arrays: tuple[str, ...]
    arguments: tuple[int | View, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    nodes: tuple[Node, ...]

    @property
    def buffers(self) -> list[Buffer]:
        return [argument.buffer for argument in self.arguments if isinstance(argument, View)]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the kernel's arguments, see kernels.signature_of."""
        return (*(f"{name}*" for name in self.arrays), *["i8"] * len(self.arguments))


class LaunchLayout(NamedTuple):
    """What launches that differ in their views alone share."""

    text: str
    arrays: tuple[str, ...]
    arguments: tuple[int | Offset, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @classmethod
    def of(
        cls, source: KernelSource, grid: Sequence[int], block: tuple[int, int, int], division: ThreadDivision
    ) -> LaunchLayout:
        limited = [max(1, min(wanted, most)) for wanted, most in zip(grid, division.most, strict=True)]
        x, y, z = limited
        return cls(
            source.text(), tuple(sorted(source.arrays)), tuple(source.numbers.values()), (x, y, z), block
        )

    def launch(self, nodes: tuple[Node, ...], views: Sequence[View]) -> Launch:
        arguments = tuple(views[a.view] if isinstance(a, Offset) else a for a in self.arguments)
        return Launch(self.text, self.arrays, arguments, self.grid, self.block, nodes)


def power_of_two(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, number - 1).bit_length()
