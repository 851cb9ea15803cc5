"""The back end named after Numba, whose LLVM (llvmlite) compiles its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphnet.backends.base import Backend, Program
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.program import NumbaProgram, restored
from graphnet.backends.numba.schedule import TapeSchedule, make_schedule
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array
from graphnet.system.process import own_cores

#: Numbers of cores that are rehearsed: one, and a number that divides few sizes evenly.
REHEARSED = (1, 5)


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
        written = None if check else updated
        return _program(make_schedule(graph, this_machine(), threads, check, updated=written), source, check)

    def rehearse(
        self, graph: Graph, source: Graph, arrays: Sequence[Array], check: bool = False
    ) -> Iterator[tuple[str, list[Array]]]:
        for parts in REHEARSED:
            schedule = make_schedule(graph, this_machine(), parts, check, finely=True)
            program = _program(schedule, source, check)
            for name, order in (("first", range(parts)), ("last", range(parts)[::-1])):
                for again, outputs in program.run_alone(arrays, order):
                    yield f"{parts} cores, the {name} one first{again}", outputs

    def situation(self) -> str:
        return f"{this_machine().processor_key}, {len(own_cores())} cores"

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
    ) -> Program:
        return restored(header, arrays, source)


def _program(schedule: TapeSchedule, source: Graph, check: bool) -> NumbaProgram:
    return NumbaProgram(schedule, source, check, this_machine().kernels(schedule.kernels))
