"""Where draws come from: a generator of NumPy, which its user seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphnet_rnn.errors import UsageError

__all__ = ["require_generator"]


def require_generator(who: str, given: Any) -> np.random.Generator:
    """The generator; UsageError, naming `who` asks, for a seed or anything else."""
    if not isinstance(given, np.random.Generator):
        raise UsageError(
            f"{who}: generator must be one of NumPy, np.random.default_rng(seed), not {given!r:.60}"
        )
    return given
