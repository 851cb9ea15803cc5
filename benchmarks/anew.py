"""Functions that are compiled anew, whatever programs are on disk: as peers are, where they do without caches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from graphnet.call import kept

__all__ = ["compiled_anew"]


@contextlib.contextmanager
def compiled_anew() -> Iterator[None]:
    """Within it no program is looked for on disk, and none is kept; kernels are."""
    worth, kept.WORTH_KEEPING = kept.WORTH_KEEPING, sys.maxsize
    try:
        yield
    finally:
        kept.WORTH_KEEPING = worth
