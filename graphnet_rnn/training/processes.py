"""Consistency checks of data-parallel processes: settings, software versions, and weights."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.process import has_compiler
from graphnet.version import __version__
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.parallel.ranks import Ranks
from graphnet_rnn.training.problem import Problem
from graphnet_rnn.training.state import LISTED, as_stored, differences, digest_of

#: Packages that affect results.
PACKAGES = ("numpy", "numba", "llvmlite")


def made_by(problem: Problem) -> dict[str, Any]:
    """Returns software versions and processor, as JSON; equal values give bit-identical numbers.

    A digest stands for the processor's hundreds of features, by which BLAS selects its kernels.
    """
    from importlib import metadata

    config = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    processor, features = platform.machine(), ",".join(config["SIMD Extensions"].get("found", []))
    if has_compiler():
        import llvmlite.binding as llvm

        from graphnet.backends.numba.machine import this_machine

        processor, features = this_machine().processor, llvm.get_host_cpu_features().flatten()
    return {
        "graphnet": __version__,
        "Python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES if name == "numpy" or has_compiler()},
        "processor": processor,
        "processor features": hashlib.sha256(features.encode()).hexdigest()[:16],
        "BLAS": f"{blas.get('name')} {blas.get('version')} {os.environ.get('OPENBLAS_CORETYPE', '')}".strip(),
        "backend": getattr(problem, "backend", ""),
    }


def require_same_run(ranks: Ranks, problem: Problem, run: Mapping[str, Any], theta: Array) -> None:
    """Raises UsageError unless all processes have the same description `run`."""
    own = as_stored({**made_by(problem), **run, "weights": digest_of(np.asarray(theta))})
    found_by_rank = ranks.gather(own)
    for rank, other in enumerate(found_by_rank):
        found = list(differences(found_by_rank[0], other))
        if found:
            raise UsageError(
                f"process {rank} differs from process 0: {'; '.join(found[:LISTED])} (first of process 0, then of "
                f"process {rank}); start all processes with the same command"
            )


def require_same_weights(ranks: Ranks, theta: Array, step: int) -> None:
    """Raises TrainingError if the processes have different weights."""
    if ranks.size == 1:
        return
    found_by_rank = ranks.gather(digest_of(np.asarray(theta)))
    others = [str(rank) for rank, digest in enumerate(found_by_rank) if digest != found_by_rank[0]]
    if others:
        raise TrainingError(
            f"processes {', '.join(others)} have other weights than process 0 after step {step}; use processors of "
            "one kind, and the same versions of all packages"
        )
