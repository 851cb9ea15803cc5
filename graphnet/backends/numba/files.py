"""A program of tapes as what a file can hold, and back: with the machine code of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphnet.backends.cache import open_cache
from graphnet.backends.compiled.files import restored_schedule
from graphnet.backends.numba.machine import Kernel, this_machine
from graphnet.backends.numba.schedule import TapeSchedule
from graphnet.backends.numba.tape import Tape
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array

__all__ = ["schedule_of", "stored_work"]

#: The arrays of a tape.
TAPE = ("words", "heads", "kernels", "ends")


def stored_work(schedule: TapeSchedule) -> tuple[dict[str, Any], dict[str, Array]]:
    """JSON and arrays."""
    machine = this_machine()
    arrays: dict[str, Array] = {}
    for i, section in enumerate(schedule.sections):
        for k, tape in enumerate(section.work):
            arrays |= {f"{part}.{i}.{k}": getattr(tape, part) for part in TAPE}
    keys, kept = machine.keys(schedule.kernels), open_cache()
    for i, (key, text) in enumerate(zip(keys, schedule.kernels, strict=True)):
        arrays[f"kernel.{i}"] = np.frombuffer(machine.machine_code(key, text, kept), np.uint8)
    header = {
        "parts": schedule.parts,
        "sections": len(schedule.sections),
        "machine": machine.processor_key,
        "kernels": keys,
    }
    return header, arrays


def schedule_of(
    header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
) -> tuple[TapeSchedule, list[Kernel]]:
    """The schedule that was stored, with its kernels; source: see Backend.restore.

    BackendError for what was compiled for another machine or version of LLVM.
    """
    machine, made_for, parts = this_machine(), header["machine"], header["parts"]
    if made_for != machine.processor_key:
        raise BackendError(
            "this stored function was compiled for another processor or version of LLVM "
            f"({' '.join(made_for.split()[1:2])}, here {machine.processor}); compile and save it again here."
        )
    works = [
        [Tape(**{part: arrays[f"{part}.{i}.{k}"] for part in TAPE}, owners=[]) for k in range(parts)]
        for i in range(header["sections"])
    ]
    common = restored_schedule(header, arrays, works, source)
    codes = {key: arrays[f"kernel.{i}"].tobytes() for i, key in enumerate(header["kernels"])}
    kernels = machine.load(list(codes), codes.__getitem__)
    return TapeSchedule(**vars(common), parts=parts, kernels=[], borrowed=[], written=[]), kernels
