"""Rank and size from the environment variables of `mpiexec`, without mpi4py."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

#: Environment variables of MPICH, Open MPI and derivatives: rank, and number of ranks.
VARIABLES = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))


def rank_and_size() -> tuple[int, int]:
    """Returns the number of this process and their total; (0, 1) without mpiexec."""
    for rank, size in VARIABLES:
        with contextlib.suppress(KeyError, ValueError):
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def alone(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without mpiexec's variables, for a process outside the job."""
    ours = {name for pair in VARIABLES for name in pair}
    return {name: value for name, value in environment.items() if name not in ours}
