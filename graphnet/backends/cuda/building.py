"""From a graph to a program on the GPU that is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphnet import passes
from graphnet.backends.base import Backend
from graphnet.backends.cuda.blas import cublas
from graphnet.backends.cuda.device import SIMULATED, Device, this_device
from graphnet.backends.cuda.files import schedule_of
from graphnet.backends.cuda.launch import GPU, ONE_THREAD
from graphnet.backends.cuda.program import CudaProgram
from graphnet.backends.cuda.schedule import LaunchSchedule, LibraryProduct, make_schedule
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array
from graphnet.system.memory import readable_bytes


def build(graph: Graph, source: Graph, check: bool, tf32: bool = False) -> CudaProgram:
    """Builds a program. BackendError, with the memory needed and recomputation's saving, if the GPU has too little."""
    device = this_device()
    multiply = cublas(tf32)

    def scheduled(graph: Graph) -> LaunchSchedule:
        return make_schedule(graph, ONE_THREAD if SIMULATED else GPU, multiply is not None, check)

    schedule = scheduled(graph)
    _require_memory(schedule, device, source, scheduled)
    return CudaProgram(schedule, source, check, device, multiply)


def restored(
    header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None, tf32: bool = False
) -> CudaProgram:
    """The program that was stored. BackendError where cuBLAS, by which it multiplies, is not installed."""
    schedule, multiply = schedule_of(header, arrays, source), cublas(tf32)
    if multiply is None and any(isinstance(r, LibraryProduct) for work, _ in schedule.sections for r in work):
        raise BackendError(
            "this stored function needs cuBLAS, which is not installed. Install it (pip install "
            "'graphnet-rnn[cublas]'), or compile and save the function again on this machine."
        )
    device = this_device()
    needed, free = schedule.arena_bytes, device.free_memory()
    if needed > free:
        raise BackendError(
            f"this stored function needs {readable_bytes(needed)} of memory, but {readable_bytes(free)} are "
            f"free on the {device.name}"
        )
    return CudaProgram(schedule, source, False, device, multiply)


def _require_memory(
    schedule: LaunchSchedule, device: Device, source: Graph, scheduled: Callable[[Graph], LaunchSchedule]
) -> None:
    free = device.free_memory()
    if schedule.arena_bytes <= free:
        return
    graph, _ = passes.optimize(source, (*passes.recomputing(), *passes.DEFAULT), Backend.has)
    recomputed = scheduled(graph).arena_bytes
    needed, left, less = map(readable_bytes, (schedule.arena_bytes, free, recomputed))
    raise BackendError(
        f"the function needs {needed} of memory, but {left} are free on the {device.name}. Compile with memory='sqrt' "
        f"(needs {less}), or use a smaller batch."
    )
