"""Programs of launches to files and back. Kernels are stored as source, which Numba compiles when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.backends.compiled.files import restored_schedule
from graphnet.backends.cuda.launch import Launch
from graphnet.backends.cuda.schedule import LaunchSchedule, LibraryProduct, StridedBatch, Upload
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array


def stored_work(schedule: LaunchSchedule) -> tuple[dict[str, Any], dict[str, Array]]:
    """JSON and arrays."""
    texts: dict[str, int] = {}
    places = {
        node: upload.byte + node.value.ctypes.data - upload.nodes[0].value.ctypes.data
        for upload in schedule.uploads
        for node in upload.nodes
    }
    runs = [[_stored_run(run, texts) for run in section.work] for section in schedule.sections]
    header = {
        "runs": runs,
        "texts": list(texts),
        "bytes": [places[node] for node in schedule.leaves],
        "flagged": schedule.flagged,
    }
    return header, {}


def schedule_of(
    header: Mapping[str, Any], arrays: Mapping[str, Array], source: Graph | None = None
) -> LaunchSchedule:
    """The stored schedule; source: see Backend.restore."""
    texts = header["texts"]
    works = [[_restored_run(run, texts) for run in work] for work in header["runs"]]
    common = restored_schedule(header, arrays, works, source)
    places = zip(common.leaves, header["bytes"], strict=True)
    uploads = [Upload((node,), byte, not node.op.is_parameter) for node, byte in places]
    return LaunchSchedule(**vars(common), uploads=uploads, flagged=header["flagged"])


def _stored_run(run: Launch | LibraryProduct, texts: dict[str, int]) -> list[Any]:
    if isinstance(run, LibraryProduct):
        return [run.dtype.str, run.a, run.b, run.c]
    return [texts.setdefault(run.text, len(texts)), run.arrays, run.arguments, run.grid, run.block]


def _restored_run(stored: list[Any], texts: Sequence[str]) -> Launch | LibraryProduct:
    if isinstance(stored[0], str):
        dtype, *operands = stored
        a, b, c = (StridedBatch(first, tuple(shape), tuple(steps)) for first, shape, steps in operands)
        return LibraryProduct(a, b, c, np.dtype(dtype), ())
    number, names, arguments, (x, y, z), (across, down, deep) = stored
    return Launch(texts[number], tuple(names), tuple(arguments), (x, y, z), (across, down, deep), ())
