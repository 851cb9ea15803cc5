"""Kernels: Python code that Numba compiles for a GPU, or runs in its simulator.

A kernel's code is a file in the cache folder, named by its content, with Numba's compiled code next to it. Numba uses
the file only for the code's age; the code in memory is executed. Numba's files are pickles, which can run any code when
they are read: they are sealed, and files that do not match their seal are removed first.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import pickle
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numba import cuda, types

from graphnet.backends.cache import Cache, bounded, make_way, open_cache
from graphnet.backends.cuda.device import SIMULATED
from graphnet.backends.cuda.expressions import OF_LIBDEVICE
from graphnet.system.files import write_whole

LIBDEVICE = ", ".join(f"{name}, {name}f" for name in OF_LIBDEVICE.values())
NAMES = "int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64"
ON_GPU = f"""from math import cos, exp, inf, log, log1p, nan, sin, sqrt, tanh

from numba import cuda, types
from numba.cuda.libdevice import {LIBDEVICE}
from numpy import {NAMES}
from numpy import uint64 as slot
"""
IN_SIMULATOR = f"""from math import inf, nan

from numba import cuda, types
from graphnet.backends.cuda.simulated import {LIBDEVICE}
from graphnet.backends.cuda.simulated import {NAMES}
from graphnet.backends.cuda.simulated import cos, exp, log, log1p, quiet, sin, slot, sqrt, tanh
"""


def function_of(text: str, simulated: bool = False) -> Callable[..., None]:
    """The kernel as a Python function."""
    if simulated:
        head, body = text.split("\n", 1)
        code = f"{IN_SIMULATOR}\n\n{head}\n    quiet()\n{body}"
    else:
        code = _code_of(text)
    return _executed(code, "<kernel>")


def _code_of(text: str) -> str:
    return f'"""A kernel of graphnet."""\n\n{ON_GPU}\n\n{text}'


def _executed(code: str, path: str) -> Callable[..., None]:
    module = ModuleType(Path(path).stem)
    exec(compile(code, path, "exec"), module.__dict__)
    function: Callable[..., None] = module.__dict__["kernel"]
    return function


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


@lru_cache(maxsize=1024)  # programs hold references to theirs
def _compiled(text: str, arguments: tuple[str, ...]) -> Any:
    if SIMULATED:
        return cuda.jit(function_of(text, simulated=True))
    dispatcher = _dispatcher(_code_of(text), signature_of(arguments))
    # Numba would do this at the first launch, and fail if two threads launch first at the same time.
    for kernel in dispatcher.overloads.values():
        kernel.bind()
    return dispatcher


def _dispatcher(code: str, signature: Any) -> Any:
    kept = _Kept.of(code)
    if kept is not None:
        # A folder that is not writable, a full disk: Numba's cache is optional.
        with contextlib.suppress(OSError, EOFError, RuntimeError, pickle.PickleError):
            kept.remove_unsealed()
            dispatcher = cuda.jit(signature, cache=True)(_executed(code, str(kept.path)))
            kept.seal()
            return dispatcher
    return cuda.jit(signature)(_executed(code, "<kernel>"))


class _Kept:
    def __init__(self, cache: Cache, folder: Path, path: Path) -> None:
        self.cache, self.folder, self.path = cache, folder, path
        self._name = f"cuda/{path.stem}.seal"

    @classmethod
    def of(cls, code: str) -> _Kept | None:
        """None without a cache, or if Numba's own cache folder is set, which cannot be checked here."""
        settings: Any = importlib.import_module("numba.cuda.core.config")
        cache = None if settings.CACHE_DIR else open_cache()
        folder = cache.within("cuda/__pycache__") if cache else None
        if cache is None or folder is None:
            return None
        content = code.encode()
        path = folder.parent / f"kernel_{hashlib.sha256(content).hexdigest()[:32]}.py"
        try:
            # For Numba, a file with another time stamp is another kernel, so it is written once.
            if not path.is_file() or bounded(path)[0] != content:
                write_whole(path, content, durable=False, mode=0o600, tidy=False)
        except OSError:
            return None
        return cls(cache, folder, path)

    def remove_unsealed(self) -> None:
        """Removes Numba's files that do not match their seal: a torn or damaged file is recreated."""
        files = self._files()
        digest = _digest(files)
        if files and (not digest or self.cache.read(self._name) != digest):
            for file in files:
                make_way(file)
                file.unlink(missing_ok=True)

    def seal(self) -> None:
        files = self._files()
        digest = _digest(files)
        if files and digest and self.cache.read(self._name) != digest:
            self.cache.write(self._name, digest)
            self.cache.wrote(self._name, sum(file.stat().st_size for file in files))

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.path.stem}.*.nb[ci]"))


def _digest(files: list[Path]) -> bytes:
    """Digest of names and contents; empty if a file is not Numba's."""
    digest = hashlib.sha256()
    for file in files:
        content, _ = bounded(file)
        if content is None:
            return b""
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.digest()


def ptx_of(text: str, arguments: tuple[str, ...], capability: tuple[int, int]) -> str:
    """PTX of the kernel for this compute capability; needs no GPU."""
    ptx, _ = cuda.compile_ptx(function_of(text), signature_of(arguments), cc=capability)
    return str(ptx)
