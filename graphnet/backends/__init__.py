"""Back ends: each turns a graph into a program that runs. Loaded by name, on first use."""

from __future__ import annotations

import importlib
import sys
import warnings
from functools import cache
from typing import Any

from graphnet.backends.base import Backend
from graphnet.errors import BackendError
from graphnet.settings import shown
from graphnet.system.process import has_compiler

__all__ = ["AVAILABLE", "Backend", "backend_of", "load_backend", "place", "usable_backends"]

#: name -> (module, class)
AVAILABLE: dict[str, tuple[str, str]] = {
    "numpy": ("graphnet.backends.numpy", "NumpyBackend"),
    "numba": ("graphnet.backends.numba.backend", "NumbaBackend"),
    "cuda": ("graphnet.backends.cuda.backend", "CudaBackend"),
    "cuda-tf32": ("graphnet.backends.cuda.backend", "CudaTF32Backend"),
}


def load_backend(name: str) -> Backend:
    """The back end with this name; that of NumPy, with a warning, instead of Numba's where Numba is not installed.

    Raises BackendError, with the available names, for another name.
    """
    if not isinstance(name, str) or name not in AVAILABLE:
        raise BackendError(
            f"there is no back end {shown(name)} in this version; available: {', '.join(sorted(AVAILABLE))}."
        )
    if name == "numba" and not has_compiler():
        if sys.platform != "emscripten":  # Numba cannot be installed in a browser
            _warn_once()
        name = "numpy"
    module, attribute = AVAILABLE[name]
    backend = getattr(importlib.import_module(module), attribute)()
    assert isinstance(backend, Backend)
    return backend


@cache
def _warn_once() -> None:
    warnings.warn(
        "Numba is not installed, so NumPy computes instead: slower, with the same results. Install it with "
        "`pip install numba`",
        stacklevel=3,
    )


def place(array: Any, backend: str = "cuda") -> Any:
    """A copy of the array in the memory of a back end: on the GPU for "cuda", on the host for all others.

    A function whose arguments are on the GPU returns results on the GPU, without copies through the host. Arrays on
    the GPU support +, * and sums there. np.asarray copies an array to the host; other libraries read it in place, by
    DLPack or `__cuda_array_interface__`.
    array: NumPy array, or other array. backend: name of the back end; "cuda" by default.
    Raises BackendError if the back end cannot run on this machine.

    >>> gn.place(np.ones(2), "numba").tolist()
    [1.0, 1.0]
    """
    return load_backend(backend).place(array)


def backend_of(array: Any) -> str:
    """Name of the back end whose memory holds the array; "numba" for NumPy arrays.

    Compile with it to compute where θ is: gn.compile(..., backend=gn.backend_of(theta)).
    array: NumPy array, or array on a GPU.

    >>> gn.backend_of(np.ones(2))
    'numba'
    """
    return getattr(array, "backend", "numba")


def usable_backends() -> list[str]:
    """The names of the back ends that can run here."""
    installed = [name for name in AVAILABLE if name != "numba" or has_compiler()]
    return [name for name in installed if not load_backend(name).missing()]
