"""Back ends: each turns a plan into something that runs. Loaded by name, when first asked for."""

from __future__ import annotations

import importlib
from typing import Any

from graphnet.backends.base import Backend
from graphnet.errors import BackendError

__all__ = ["AVAILABLE", "Backend", "backend_of", "load_backend", "place", "usable_backends"]

#: name -> (module, class)
AVAILABLE: dict[str, tuple[str, str]] = {
    "numpy": ("graphnet.backends.numpy", "NumpyBackend"),
    "numba": ("graphnet.backends.numba.backend", "NumbaBackend"),
    "cuda": ("graphnet.backends.cuda.backend", "CudaBackend"),
    "cuda-tf32": ("graphnet.backends.cuda.backend", "CudaTF32Backend"),
}


def load_backend(name: str) -> Backend:
    """The back end of this name; BackendError names those that there are."""
    if not isinstance(name, str) or name not in AVAILABLE:
        raise BackendError(
            f"there is no back end {name!r:.60} in this version; available: {', '.join(sorted(AVAILABLE))}."
        )
    module, attribute = AVAILABLE[name]
    backend = getattr(importlib.import_module(module), attribute)()
    assert isinstance(backend, Backend)
    return backend


def place(array: Any, backend: str = "cuda") -> Any:
    """A copy of the array where the back end computes: for "cuda" on the GPU, for all others on the host.

    A function that is given an array on the GPU leaves its results there, so nothing passes through the host. Such
    arrays are added, multiplied and summed where they are; np.asarray copies them to the host, and other libraries read
    them in place, by DLPack or `__cuda_array_interface__`.
    Raises BackendError where the back end cannot run here.
    """
    return load_backend(backend).place(array)


def backend_of(array: Any) -> str:
    """Which back end computes where the array lies: what its class names as `backend`; "numba" for NumPy's arrays.

    So what is to work on θ wherever it is asks nothing else: gn.compile(..., gn.backend_of(theta)).
    """
    return getattr(array, "backend", "numba")


def usable_backends() -> list[str]:
    """The names of the back ends that can run here."""
    return [name for name in AVAILABLE if not load_backend(name).missing()]
