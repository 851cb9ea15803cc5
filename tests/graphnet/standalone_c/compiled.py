"""Helpers: functions compiled as C together and called from Python."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import graphnet as gn

COMPILER = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1")
TOLERANCE = {"float32": 2e-5, "float64": 1e-10}


@dataclass
class Exported:
    """A function with its name in C and arrays to test it."""

    name: str
    outputs: list
    inputs: list
    arrays: list

    @cached_property
    def function(self) -> gn.Function:
        return gn.compile(self.outputs, self.inputs)

    def run(self, loaded: ctypes.CDLL):
        """Returns the C function's return value and the results."""
        results = [np.full(y.shape, 77).astype(y.dtype) for y in self.outputs]
        given = [np.array(a, x.dtype, order="C") for a, x in zip(self.arrays, self.inputs, strict=True)]
        arena = ctypes.create_string_buffer(int(self.function.memory) * 3 + (1 << 20))
        aligned = (ctypes.addressof(arena) + 63) // 64 * 64
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*given, *results)]
        return getattr(loaded, f"{self.name}_run")(*pointers, ctypes.c_void_p(aligned)), results


def library(functions, folder: Path, flags=()) -> ctypes.CDLL:
    """Compiles the C files of all functions with one call into one shared library."""
    assert COMPILER is not None
    for f in functions:
        f.function.save(folder / f"{f.name}.c")
    made = folder / "all.so"
    files = [*(str(folder / f"{f.name}.c") for f in functions), "-o", str(made)]
    command = [*COMPILER.split(), *FLAGS, *flags, "-fPIC", "-shared", *files, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(made))


def require_same(f: Exported, loaded: ctypes.CDLL) -> None:
    """Fails if the results of C and of the NumPy back end differ."""
    status, results = f.run(loaded)
    assert status == 0, f.name
    expected = gn.compile(f.outputs, f.inputs, backend="numpy", passes=())(*f.arrays)
    for found, wanted in zip(results, expected, strict=True):
        off = TOLERANCE.get(found.dtype.name, 0)
        np.testing.assert_allclose(found, wanted, rtol=off, atol=off, err_msg=f.name)
