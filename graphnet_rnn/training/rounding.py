"""What numbers are made by: of equal versions and processors they have the same bits."""

from __future__ import annotations

import hashlib
import os
import platform
from typing import Any

import numpy as np

from graphnet.version import __version__
from graphnet_rnn.training.problem import Problem

__all__ = ["made_by"]

#: Packages that compute, or compile what does.
PACKAGES = ("numpy", "numba", "llvmlite")


def made_by(problem: Problem) -> dict[str, Any]:
    """Versions of what computes, and for which processor it computes; JSON, for processes that must agree.

    A processor's features are a digest: their names are hundreds. BLAS chooses its kernels by them, too, unless it is
    told which.
    """
    from importlib import metadata

    import llvmlite.binding as llvm

    from graphnet.backends.numba.machine import this_machine

    features = llvm.get_host_cpu_features().flatten()
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "graphnet": __version__,
        "Python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
        "processor": this_machine().processor,
        "processor features": hashlib.sha256(features.encode()).hexdigest()[:16],
        "BLAS": f"{blas.get('name')} {blas.get('version')} {os.environ.get('OPENBLAS_CORETYPE', '')}".strip(),
        "backend": getattr(problem, "backend", ""),
    }
