"""Compiles all kernels of the programs for GPUs (`... assemble 7.5 9.0`); needs no GPU.

PTX comes from NVVM; nvJitLink assembles it, as a driver would. Prints how many kernels there were, and the registers
and the bytes of local memory (registers that were spilled) of each kind of product.
"""

from __future__ import annotations

import argparse
import re

import numpy as np
from cuda.bindings import nvjitlink
from numba.cuda import compiler

from graphnet.backends import Backend
from graphnet.backends.cuda.arrays import EXPRESSIONS, TESTS, sum_text, ufunc_text
from graphnet.backends.cuda.kernels import function_of, ptx_of, signature_of
from graphnet.backends.cuda.launch import GPU
from graphnet.backends.cuda.products import tile_text, tiles_for
from graphnet.backends.cuda.schedule import make_schedule
from graphnet.backends.cuda.source import array_name
from graphnet.graph.graph import Graph
from graphnet.passes import optimize
from tests.graphnet.backends.cuda.programs import PROGRAMS

#: Kernels whose code for float32 and float64 differs in more than the names of types.
TWICE = ("sum", "product", "added", "function")


def kernels() -> dict[tuple[str, tuple[str, ...]], str]:
    """(text of a kernel, kinds of its arguments) -> the program that it comes from."""
    found = {}
    for name, program in PROGRAMS.items():
        for dtype in ("float32", *(["float64"] if any(word in name for word in TWICE) else [])):
            nodes, inputs, _ = program.nodes(dtype)
            graph, _ = optimize(Graph(nodes, inputs), has=Backend.has)
            for runs, _ in make_schedule(graph, GPU, library=False, check=False).sections:
                found.update({(run.text, run.kinds): f"{name}, {dtype}" for run in runs})
    for dtype in map(np.dtype, ("float32", "float64")):
        for tile in tiles_for(dtype, GPU):
            text = tile_text(tile, dtype, True, True)
            arguments = text.split("(", 1)[1].split(")", 1)[0].count(",")
            kinds = (f"{array_name(dtype)}*", *["i8"] * arguments)
            found[text, kinds] = f"tiles of {tile.rows} x {tile.columns}, {dtype}"
    return found | of_arrays()


def of_arrays() -> dict[tuple[str, tuple[str, ...]], str]:
    """Kernels that add, multiply and sum arrays on the GPU."""
    found = {}
    for function, expression in EXPRESSIONS.items():
        dtype = np.dtype("float64" if function in (np.add, np.sqrt, np.greater) else "float32")
        name, result = array_name(dtype), "b1" if function in TESTS else array_name(dtype)
        kinds = (f"{result}*", f"{name}*", *([name] if "y" in expression else []))
        found[ufunc_text(expression, kinds, dtype), (*kinds, "i8")] = function.__name__
    for expression, total, name in (("x", "f8", "f4"), ("x * y", "f8", "f8"), ("x != 0", "i8", "f4")):
        kinds = (f"{total}*", *[f"{name}*"] * (2 if "y" in expression else 1))
        text = sum_text(expression, kinds, np.dtype(name), GPU.threads)
        found[text, (*kinds, "i8")] = f"sum of {expression}"
    return found


def assembled(ptx: str, architecture: str) -> str:
    """Log of the assembler: registers, stack and shared memory of the code."""
    handle = nvjitlink.create(2, [f"-arch={architecture}", "-verbose"])
    code = ptx.encode() + b"\0"
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, code, len(code), "kernel")
    nvjitlink.complete(handle)
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    nvjitlink.destroy(handle)
    return log.decode()


def ptx_for_each(text: str, kinds: tuple[str, ...], capabilities) -> list[str]:
    """PTX of one kernel for several kinds of GPUs. If Numba allows it, types are inferred only once."""
    compiled = getattr(compiler, "_compile_pyfunc_with_fixup", None)
    if compiled is None:
        return [ptx_of(text, kinds, capability) for capability in capabilities]
    how = {"device": False, "cc": capabilities[0], "abi": "numba"}
    library, _ = compiled(function_of(text), signature_of(kinds), **how)
    return [library.get_asm_str(cc=capability) for capability in capabilities]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.graphnet.backends.cuda.assemble")
    parser.add_argument("capabilities", nargs="+")
    chosen = parser.parse_args()
    capabilities = [tuple(map(int, capability.split("."))) for capability in chosen.capabilities]
    found = kernels()
    for kernel, name in found.items():
        for (major, minor), ptx in zip(capabilities, ptx_for_each(*kernel, capabilities), strict=True):
            assert f".target sm_{major}{minor}" in ptx, name
            log = assembled(ptx, f"sm_{major}{minor}")
            registers = re.search(r"used (\d+) registers", log)
            assert registers, f"{name}: {log}"
            spilled = re.search(r"(\d+) bytes lmem", log)
            if name.startswith("tiles"):
                spills = spilled[1] if spilled else 0
                print(f"{name}, {major}.{minor}: {registers[1]} registers, {spills} bytes spilled")
    print(f"{len(found)} kernels")


if __name__ == "__main__":
    main()
