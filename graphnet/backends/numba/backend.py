"""The back end named after Numba, whose LLVM (llvmlite) compiles its kernels."""

from __future__ import annotations

from graphnet.backends.base import Backend, Program
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.program import NumbaProgram
from graphnet.backends.numba.schedule import make_image
from graphnet.graph import Graph

__all__ = ["NumbaBackend"]


class NumbaBackend(Backend):
    name = "numba"

    def build(self, graph: Graph, source: Graph, threads: int | None, check: bool) -> Program:
        return NumbaProgram(make_image(graph, this_machine(), threads, check), source, check)
