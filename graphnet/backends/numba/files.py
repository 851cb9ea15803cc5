"""A program of tapes as what a file can hold, and back: with the machine code of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphnet.backends import contents
from graphnet.backends.cache import open_cache
from graphnet.backends.compiled.files import restored_schedule
from graphnet.backends.numba.machine import Kernel, symbol_of, this_machine
from graphnet.backends.numba.reach import arena_end
from graphnet.backends.numba.records import RecordForm, form_of, restored_form
from graphnet.backends.numba.schedule import TapeSchedule
from graphnet.backends.numba.tape import Tape
from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array

__all__ = ["schedule_of", "stored_work"]

#: The arrays of a tape, and what they hold.
TAPE = ("words", "heads", "kernels", "ends")
WORD = np.dtype(np.int64)


def stored_work(schedule: TapeSchedule) -> tuple[dict[str, Any], dict[str, Array]]:
    """JSON and arrays. The arena is as large as what its records use."""
    machine = this_machine()
    arrays: dict[str, Array] = {}
    for i, section in enumerate(schedule.sections):
        for k, tape in enumerate(section.work):
            arrays |= {f"{part}.{i}.{k}": getattr(tape, part) for part in TAPE}
    texts = schedule.kernels
    keys, forms = machine.keys(texts), [form_of(text) for text in texts]
    kept = open_cache()
    kernels = []
    for i, (key, text, form) in enumerate(zip(keys, texts, forms, strict=True)):
        code = machine.machine_code(key, text, kept)
        arrays[f"kernel.{i}"] = np.frombuffer(code, np.uint8)
        kernels.append([_seal(symbol_of(key), form, code), symbol_of(key), form])
    header = {
        "parts": schedule.parts,
        "tapes": [len(section.work) for section in schedule.sections],
        "machine": machine.processor_key,
        "kernels": kernels,
        "arena_bytes": arena_end(schedule, forms),
    }
    return header, arrays


def schedule_of(
    header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
) -> tuple[TapeSchedule, list[Kernel]]:
    """The schedule that was stored, with its kernels; source: see Backend.restore.

    BackendError for what was compiled for another machine or version of LLVM, for what is none, and where anything
    reaches beyond its memory.
    """
    machine = this_machine()
    made_for = contents.text(contents.entry(header, "machine"), "its machine")
    if made_for != machine.processor_key:
        raise BackendError(
            "this stored function was compiled for another processor or version of LLVM "
            f"({' '.join(made_for.split()[1:2])}, here {machine.processor}); compile and save it again here."
        )
    parts = contents.whole(contents.entry(header, "parts"), "the number of its parts", 64, 1)
    counts = contents.listed(contents.entry(header, "tapes"), "its tapes")
    if any(contents.whole(count, "the number of tapes", parts) != parts for count in counts):
        contents.refuse("a section has not a tape for each part")
    works = [
        [
            Tape(**{part: contents.array(arrays, f"{part}.{i}.{k}", WORD) for part in TAPE}, owners=[])
            for k in range(parts)
        ]
        for i in range(len(counts))
    ]
    if any(len({len(tape.ends) for tape in tapes}) > 1 for tapes in works):
        contents.refuse("its parts have not the same supersteps")
    common = restored_schedule(header, arrays, works, apart=False, source=source)
    schedule = TapeSchedule(**vars(common), parts=parts, kernels=[], borrowed=[], written=[])
    forms, kernels = _stored_kernels(header, arrays)
    if arena_end(schedule, forms) != schedule.arena_bytes:
        contents.refuse("its arena is of another size than what it uses")
    loaded = machine.load(list(kernels), lambda key: kernels[key][0], lambda key: kernels[key][1])
    return schedule, loaded


def _seal(symbol: str, form: RecordForm, code: bytes) -> str:
    """The code is not looked into, so its form is sealed with it. By their seals kernels of files are known:
    what a file calls by the name of another kernel is never taken for that."""
    return contents.seal([symbol.encode(), form.line().encode(), code])


def _stored_kernels(
    header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> tuple[list[RecordForm], dict[str, tuple[str, bytes]]]:
    """The forms of their records; seal -> (symbol, code)."""
    forms: list[RecordForm] = []
    kernels: dict[str, tuple[str, bytes]] = {}
    for i, stored in enumerate(contents.listed(contents.entry(header, "kernels"), "its kernels")):
        seal, symbol, form = contents.listed(stored, "a kernel", 3)
        forms.append(restored_form(form))
        code = contents.array(arrays, f"kernel.{i}", np.dtype(np.uint8)).tobytes()
        name = contents.code(symbol, f"the name of its kernel {i}")
        if _seal(name, forms[-1], code) != seal or seal in kernels:
            contents.refuse(f"the code of its kernel {i} is not what was sealed")
        kernels[seal] = name, code
    return forms, kernels
