"""What `gn.compile(backend="cuda")` calls."""

from __future__ import annotations

from graphnet.backends.base import Backend, Program
from graphnet.backends.cuda.device import SIMULATED, this_device
from graphnet.backends.cuda.program import CudaProgram
from graphnet.backends.cuda.schedule import make_schedule
from graphnet.backends.cuda.target import GPU, ONE_THREAD
from graphnet.graph import Graph

__all__ = ["CudaBackend"]


class CudaBackend(Backend):
    """One GPU does all; `threads` says nothing to it."""

    name = "cuda"

    def build(self, graph: Graph, source: Graph, threads: int | None, check: bool) -> Program:
        device = this_device()
        schedule = make_schedule(graph, ONE_THREAD if SIMULATED else GPU, library=False, check=check)
        return CudaProgram(schedule, source, check, device, None)
