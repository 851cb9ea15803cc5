"""Arena: the memory of a program on the host."""

from __future__ import annotations

import mmap

import numpy as np

from graphnet.backends.compiled.locations import HEADER
from graphnet.errors import NotEnoughMemoryError
from graphnet.graph.node import Array
from graphnet.plan.arena import ALIGNMENT
from graphnet.system.memory import readable_bytes, require_memory

__all__ = ["Arena", "require_arena"]

#: What takes an arena, and what to do where there is no memory for it.
RUN = "a run of this function"
LESS = "a smaller batch or fewer time steps take less, and so does gn.compile(..., memory='sqrt'), or --memory sqrt"


def require_arena(nbytes: int) -> None:
    """NotEnoughMemoryError where there is less memory."""
    require_memory(nbytes, RUN, LESS)


class Arena:
    """Zeroed memory that starts on a cache line, on huge pages where the system has them.

    Raises NotEnoughMemoryError where there is less.
    """

    def __init__(self, nbytes: int) -> None:
        require_arena(nbytes)
        self._raw = _fresh(nbytes + PAGE) if nbytes >= PAGE else np.zeros(nbytes + ALIGNMENT, np.uint8)
        step = PAGE if nbytes >= PAGE else ALIGNMENT
        start = -self._raw.ctypes.data % step
        self.bytes = self._raw[start : start + nbytes]
        self.address = self.bytes.ctypes.data
        self.header = self.bytes[:HEADER].view(np.int64)


#: Bytes of a huge page.
PAGE = 1 << 21


def _fresh(nbytes: int) -> Array:
    """Zeroed memory that nobody has touched: what an allocator hands out again lies on small pages for good."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # another system: ordinary pages do
        return np.zeros(nbytes, np.uint8)
    # Private, so that a forked child works on a copy of its own.
    try:
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):  # the system grants less than it says is there
        raise NotEnoughMemoryError(
            f"the system refuses the {readable_bytes(nbytes)} of memory that {RUN} takes; {LESS}"
        ) from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
