"""How work is divided among the threads of a GPU."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GPU", "ONE_THREAD", "ThreadDivision", "Tile"]


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
    """threads: of a block. lanes: neighbours that read memory together. blocks: as many keep the whole GPU at work.

    least: a sum is divided among several blocks only into parts of at least so many terms. tiles: of products, the
    largest first. most: so many blocks of a loop along x, y and z; each goes on where the last one ends.
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
#: What suits the simulator, in which a thread is a thread of Python.
ONE_THREAD = ThreadDivision(
    threads=1, lanes=1, blocks=2, least=64, tiles=(Tile(1, 1, 4, 8, 4),), most=(1, 1, 65535)
)  # fmt: skip
