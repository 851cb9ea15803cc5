"""Kernels: Python code that Numba compiles for a GPU, or runs in its simulator.

A kernel is a file of its own in the cache folder, named by its content, beside which Numba keeps what it compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pickle
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numba import cuda, types

from graphnet.backends.cache import cache_folder
from graphnet.backends.cuda.device import SIMULATED

__all__ = ["compiled", "function_of", "ptx_of", "signature_of"]

NAMES = "int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64"
ON_GPU = f"""from math import cos, exp, inf, log, log1p, nan, sin, sqrt, tanh

from numba import cuda, types
from numpy import {NAMES}
from numpy import uint64 as slot
"""
IN_SIMULATOR = f"""from math import inf, nan

from numba import cuda, types
from graphnet.backends.cuda.simulated import {NAMES}
from graphnet.backends.cuda.simulated import cos, exp, log, log1p, quiet, sin, slot, sqrt, tanh
"""


def function_of(text: str, simulated: bool = False) -> Callable[..., None]:
    """The kernel as a Python function, from a file where possible: what Numba keeps of it lies beside that."""
    if simulated:
        head, body = text.split("\n", 1)
        scope: dict[str, Any] = {}
        exec(compile(f"{IN_SIMULATOR}\n\n{head}\n    quiet()\n{body}", "<kernel>", "exec"), scope)
        function: Callable[..., None] = scope["kernel"]
    else:
        function = _module(f'"""A kernel of graphnet."""\n\n{ON_GPU}\n\n{text}').kernel
    return function


def _module(code: str) -> ModuleType:
    name = "kernel_" + hashlib.sha256(code.encode()).hexdigest()[:32]
    path = cache_folder() / "cuda" / f"{name}.py"
    if not path.exists() and not _written(path, code):
        module = ModuleType(name)
        exec(compile(code, "<kernel>", "exec"), module.__dict__)
        return module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _written(path: Path, code: str) -> bool:
    """Writes the file whole, once: Numba takes a file of another age for another kernel."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(code)
        if path.exists():
            os.unlink(temporary)
        else:
            os.replace(temporary, path)
    except OSError:
        return False
    return True


def signature_of(arguments: tuple[str, ...]) -> Any:
    """void(...) of arguments like "f4*", an array of float32, or "i8", a number."""
    return types.void(*map(_type_of, arguments))


def _type_of(argument: str) -> Any:
    dtype = np.dtype(argument.rstrip("*"))
    number = getattr(types, "boolean" if dtype.kind == "b" else dtype.name)
    return types.Array(number, 1, "C") if argument.endswith("*") else number


#: One thread at a time makes kernels and brings them to the GPU.
_making = threading.Lock()


def compiled(text: str, arguments: tuple[str, ...]) -> Any:
    """The kernel, ready to be launched: kernel[blocks, threads, stream](...). For arguments see signature_of."""
    with _making:
        return _compiled(text, arguments)


@cache
def _compiled(text: str, arguments: tuple[str, ...]) -> Any:
    if SIMULATED:
        return cuda.jit(function_of(text, simulated=True))
    dispatcher = _dispatcher(function_of(text), signature_of(arguments))
    # Numba would do this at the first launch; where two threads launch first at once, it fails in one of them.
    for kernel in dispatcher.overloads.values():
        kernel.bind()
    return dispatcher


def _dispatcher(function: Callable[..., None], signature: Any) -> Any:
    if not function.__code__.co_filename.startswith("<"):
        # A folder that cannot be written to, a full disk, a torn file: what Numba keeps is a convenience.
        with contextlib.suppress(OSError, EOFError, RuntimeError, pickle.UnpicklingError):
            return cuda.jit(signature, cache=True)(function)
    return cuda.jit(signature)(function)


def ptx_of(text: str, arguments: tuple[str, ...], capability: tuple[int, int]) -> str:
    """The kernel in the language of GPUs of this compute capability; needs none at hand."""
    ptx, _ = cuda.compile_ptx(function_of(text), signature_of(arguments), cc=capability)
    return str(ptx)
