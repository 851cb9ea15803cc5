"""The back end named after Numba, whose LLVM (llvmlite) compiles its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from graphnet.backends.base import Backend, Program
from graphnet.backends.numba.image import Image
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.program import NumbaProgram
from graphnet.backends.numba.schedule import make_image
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node

__all__ = ["NumbaBackend"]

#: Numbers of cores that are rehearsed: rows of a power of two fall on them evenly, unevenly, and one by one.
REHEARSED = (1, 2, 3, 8)


class NumbaBackend(Backend):
    name = "numba"
    has = frozenset({"loops", "caches"})

    def build(
        self,
        graph: Graph,
        source: Graph,
        threads: int | None,
        check: bool,
        updated: Sequence[int] | None = None,
    ) -> Program:
        image = make_image(graph, this_machine(), threads, check, updated=None if check else updated)
        return _program(image, source, check)

    def rehearse(
        self, graph: Graph, source: Graph, arrays: Sequence[Array], check: bool = False
    ) -> Iterator[tuple[str, list[Array]]]:
        for parts in REHEARSED:
            program = _program(make_image(graph, this_machine(), parts, check, finely=True), source, check)
            for name, order in (("first", range(parts)), ("last", range(parts)[::-1])):
                for again, outputs in program.run_alone(arrays, order):
                    yield f"{parts} cores, the {name} one first{again}", outputs

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Program:
        return NumbaProgram.restored(header, arrays)


def _program(image: Image, source: Graph, check: bool) -> NumbaProgram:
    return NumbaProgram(
        image, source, check, this_machine().kernels(image.kernels), [node.value for node in image.leaves],
        [partial(_value, node) for node in image.brought_from],
    )  # fmt: skip


def _value(node: Node) -> Array:
    return node.value
