"""Python's cyclic garbage collector, paused while many nodes are made.

Nodes form no cycles, but each collection walks all that are alive: with hundreds of thousands of nodes it
would cost more than the work itself, and make it grow faster than linearly.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cyclic collection inside. Nested or concurrent use is safe: whoever found it on turns it on."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
