"""Whether the processes of a run do the same: its settings, what their numbers are made by, and their weights."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.version import __version__
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.parallel.ranks import Ranks
from graphnet_rnn.training.problem import Problem
from graphnet_rnn.training.state import LISTED, as_stored, differences, digest_of

__all__ = ["made_by", "require_same_run", "require_same_weights"]

#: Packages that compute, or compile what does.
PACKAGES = ("numpy", "numba", "llvmlite")


def made_by(problem: Problem) -> dict[str, Any]:
    """Versions of what computes, and for which processor: where they are equal, numbers have the same bits; JSON.

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


def require_same_run(ranks: Ranks, problem: Problem, run: Mapping[str, Any], theta: Array) -> None:
    """UsageError unless all processes are about to do the same, which `run` describes."""
    own = as_stored({**made_by(problem), **run, "weights": digest_of(np.asarray(theta))})
    found_by_rank = ranks.gather(own)
    for rank, other in enumerate(found_by_rank):
        found = list(differences(found_by_rank[0], other))
        if found:
            raise UsageError(
                f"process {rank} is not about to do what process 0 does: {'; '.join(found[:LISTED])} (first "
                f"of process 0, then of process {rank}); start all by one command"
            )


def require_same_weights(ranks: Ranks, theta: Array, step: int) -> None:
    """TrainingError where the processes have come to different weights."""
    if ranks.size == 1:
        return
    found_by_rank = ranks.gather(digest_of(np.asarray(theta)))
    others = [str(rank) for rank, digest in enumerate(found_by_rank) if digest != found_by_rank[0]]
    if others:
        raise TrainingError(
            f"processes {', '.join(others)} have come to other weights than process 0 by step {step}: processors of "
            "one kind, and the same versions of all packages, give the same numbers"
        )
