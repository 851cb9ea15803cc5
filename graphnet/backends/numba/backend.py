"""The back end named after Numba, whose LLVM (llvmlite) compiles its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from graphnet.backends.base import Backend, Program
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.program import NumbaProgram
from graphnet.backends.numba.schedule import make_image
from graphnet.graph import Graph
from graphnet.node import Array, Node

__all__ = ["NumbaBackend"]


class NumbaBackend(Backend):
    name = "numba"
    has = frozenset({"loops", "caches"})

    def build(self, graph: Graph, source: Graph, threads: int | None, check: bool) -> Program:
        machine = this_machine()
        image = make_image(graph, machine, threads, check)
        return NumbaProgram(
            image, source, check, machine.kernels(image.kernels), [node.value for node in image.leaves],
            [partial(_value, node) for node in image.brought_from],
        )  # fmt: skip

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Program:
        return NumbaProgram.restored(header, arrays)


def _value(node: Node) -> Array:
    return node.value
