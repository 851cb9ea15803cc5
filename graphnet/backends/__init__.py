"""Back ends: each turns a plan into something that runs. Loaded by name, when first asked for."""

from __future__ import annotations

import importlib

from graphnet.backends.base import Backend
from graphnet.errors import BackendError

__all__ = ["AVAILABLE", "Backend", "load_backend", "usable_backends"]

#: name -> (module, class)
AVAILABLE: dict[str, tuple[str, str]] = {
    "numpy": ("graphnet.backends.numpy", "NumpyBackend"),
    "numba": ("graphnet.backends.numba.backend", "NumbaBackend"),
    "cuda": ("graphnet.backends.cuda.backend", "CudaBackend"),
}


def load_backend(name: str) -> Backend:
    """The back end of this name; BackendError names those that there are."""
    if name not in AVAILABLE:
        raise BackendError(
            f"there is no back end {name!r} in this version; available: {', '.join(sorted(AVAILABLE))}."
        )
    module, attribute = AVAILABLE[name]
    backend = getattr(importlib.import_module(module), attribute)()
    assert isinstance(backend, Backend)
    return backend


def usable_backends() -> list[str]:
    """The names of the back ends that can run here."""
    return [name for name in AVAILABLE if not load_backend(name).missing()]
