"""Launches: kernels with their arguments, how many threads run them, and how work is divided among these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphnet.backends.cuda.source import KernelSource, Offset
from graphnet.graph.node import Node
from graphnet.plan.views import Buffer, View


@dataclass(frozen=True)
class Tile:
    """A block of threads (`down` × `across`), each of which computes `height` × `width` numbers of a product, `depth`
    of the sum at a time."""

    down: int
    across: int
    height: int
    width: int
    depth: int

    @property
    def rows(self) -> int:
        return self.down * self.height

    @property
    def columns(self) -> int:
        return self.across * self.width


@dataclass(frozen=True)
class ThreadDivision:
    """Division of work. threads: number in a block. lanes: neighboring threads that read memory together. blocks:
    number that keeps the whole GPU busy.

    least: minimum number of terms of each part if a sum is divided among blocks. tiles: of products, largest first.
    most: maximum number of blocks of a loop along x, y and z; blocks of larger loops repeat.
    """

    threads: int
    lanes: int
    blocks: int
    least: int
    tiles: tuple[Tile, ...]
    most: tuple[int, int, int] = (2**31 - 1, 65535, 65535)


#: Any GPU. How work is divided decides in which order sums are taken, so it is the same on all.
GPU = ThreadDivision(
    threads=256, lanes=32, blocks=256, least=256,
    tiles=(Tile(16, 16, 8, 8, 8), Tile(16, 16, 4, 4, 16), Tile(16, 16, 2, 2, 16)),
)  # fmt: skip
#: For the simulator, in which a thread is a thread of Python.
ONE_THREAD = ThreadDivision(
    threads=1, lanes=1, blocks=2, least=64, tiles=(Tile(1, 1, 4, 8, 4),), most=(1, 1, 65535)
)  # fmt: skip


class Launch(NamedTuple):
    """A kernel's text; the dtypes of its views of the arena; its other arguments (a view means its offset in the arena,
    in elements); blocks, threads of a block, and the nodes that it computes."""

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
        """Kinds of the kernel's arguments, see kernels.signature_of."""
        return (*(f"{name}*" for name in self.arrays), *["i8"] * len(self.arguments))


class LaunchLayout(NamedTuple):
    """Shared part of launches that differ in their views only."""

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
