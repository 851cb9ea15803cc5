"""The best that any library at hand reaches on square float32 products: of it, "% of peak" is a share."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SIZES = (512, 1024, 2048)


def _libraries() -> dict[str, Callable[[Any], Callable[[], Any]]]:
    """Name -> from a square array to a function that multiplies it by itself, into existing memory."""

    def numpy_way(a: Any) -> Callable[[], Any]:
        out = np.empty_like(a)
        return lambda: np.matmul(a, a, out=out)

    found: dict[str, Callable[[Any], Callable[[], Any]]] = {"numpy": numpy_way}
    if importlib.util.find_spec("scipy"):
        from scipy.linalg.blas import sgemm

        def scipy_way(a: Any) -> Callable[[], Any]:
            a, out = np.asfortranarray(a), np.empty_like(a, order="F")
            return lambda: sgemm(1.0, a, a, c=out, overwrite_c=1)

        found["scipy"] = scipy_way
    if importlib.util.find_spec("torch"):
        import torch

        def torch_way(a: Any) -> Callable[[], Any]:
            tensor = torch.tensor(a)
            out = torch.empty_like(tensor)
            return lambda: torch.mm(tensor, tensor, out=out)

        found["torch"] = torch_way
    return found


def measure(repeats: int = 5) -> dict[str, float]:
    """Library -> flops per second, the best of all sizes and repeats."""
    best: dict[str, float] = {}
    for size in SIZES:
        a = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
        for name, way in _libraries().items():
            multiply = way(a)
            multiply()
            for _ in range(repeats):
                start = time.perf_counter()
                multiply()
                seconds = time.perf_counter() - start
                best[name] = max(best.get(name, 0.0), 2 * size**3 / seconds)
    return best
