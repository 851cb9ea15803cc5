"""Compiling without stored programs, as peers do that have no cache."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from graphnet.call import kept


@contextlib.contextmanager
def compiled_anew() -> Iterator[None]:
    """Disables the cache of programs inside the block; the cache of kernels stays on."""
    worth, kept.WORTH_KEEPING = kept.WORTH_KEEPING, sys.maxsize
    try:
        yield
    finally:
        kept.WORTH_KEEPING = worth
