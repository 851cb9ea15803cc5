"""The cores that this process may use."""

from __future__ import annotations

import os

__all__ = ["own_cores"]


def own_cores() -> list[int]:
    """Their numbers; of systems that do not tell, all that there are."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
