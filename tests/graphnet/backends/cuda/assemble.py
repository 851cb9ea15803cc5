"""Makes machine code for a GPU of one kind out of every kernel that the programs use; no GPU is needed.

    python -m tests.graphnet.backends.cuda.assemble 9.0

PTX comes from NVVM; nvJitLink assembles it, as a driver would. Prints how many kernels there were, and the registers
and the bytes of local memory (registers that were spilled) of each kind of product.
"""

from __future__ import annotations

import re
import sys

import numpy as np
from cuda.bindings import nvjitlink

from graphnet.backends.cuda.kernels import ptx_of
from graphnet.backends.cuda.launch import Launch
from graphnet.backends.cuda.products import tile_text, tiles_for
from graphnet.backends.cuda.schedule import make_schedule
from graphnet.backends.cuda.source import array_name
from graphnet.backends.cuda.target import GPU
from graphnet.graph import Graph
from graphnet.passes import optimize

from .programs import PROGRAMS

#: Kernels whose code depends on whether numbers are single or double, beyond the names of types.
TWICE = ("sum", "product", "added", "function")


def kernels() -> dict[tuple[str, tuple[str, ...]], str]:
    """(text, kinds of its arguments) -> the program that it comes from."""
    found = {}
    for name, program in PROGRAMS.items():
        for dtype in ("float32", *(["float64"] if any(word in name for word in TWICE) else [])):
            nodes, inputs, _ = program.nodes(dtype)
            graph, _ = optimize(Graph(nodes, inputs))
            for stretch in make_schedule(graph, GPU, library=False, check=False).stretches:
                for run in stretch.runs:
                    assert isinstance(run, Launch)
                    found[run.text, run.kinds] = f"{name}, {dtype}"
    for dtype in map(np.dtype, ("float32", "float64")):
        for tile in tiles_for(dtype, GPU):
            text = tile_text(tile, dtype, True, True)
            arguments = text.split("(", 1)[1].split(")", 1)[0].count(",")
            found[text, (f"{array_name(dtype)}*", *["i8"] * arguments)] = (
                f"tiles of {tile.rows} x {tile.columns}, {dtype}"
            )
    return found


def assembled(ptx: str, architecture: str) -> str:
    """What the assembler says of the code: registers, stack, shared memory."""
    handle = nvjitlink.create(2, [f"-arch={architecture}", "-verbose"])
    try:
        code = ptx.encode() + b"\0"
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, code, len(code), "kernel")
        nvjitlink.complete(handle)
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
        return log.decode()
    finally:
        nvjitlink.destroy(handle)


def main() -> None:
    major, minor = map(int, sys.argv[1].split("."))
    every = kernels()
    for kernel, name in every.items():
        ptx = ptx_of(*kernel, (major, minor))
        assert f".target sm_{major}{minor}" in ptx, name
        log = assembled(ptx, f"sm_{major}{minor}")
        registers = re.search(r"used (\d+) registers", log)
        assert registers, f"{name}: {log}"
        spilled = re.search(r"(\d+) bytes lmem", log)
        if name.startswith("tiles"):
            print(f"{name}: {registers[1]} registers, {spilled[1] if spilled else 0} bytes spilled")
    print(f"{len(every)} kernels")


if __name__ == "__main__":
    main()
