"""Available memory, checked before a large allocation.

Without that a system with overcommitted memory grants everything, and ends the process when it is used.
"""

from __future__ import annotations

import os
from pathlib import Path

from graphnet.errors import NotEnoughMemoryError

#: Less than this is not worth asking the system for.
SMALL = 1 << 26


def require_memory(nbytes: int, what: str, remedy: str) -> None:
    """Raises NotEnoughMemoryError, naming `what` and `remedy`, if `nbytes` exceeds the available memory."""
    if nbytes < SMALL:
        return
    available = available_memory()
    if available is not None and nbytes > available:
        raise NotEnoughMemoryError(
            f"{what} would take {readable_bytes(nbytes)} of memory, and {readable_bytes(available)} are available; "
            f"{remedy}"
        )


def available_memory() -> int | None:
    """Bytes that this process can still take without swapping or being killed; None if unknown."""
    found = [n for n in (_of_the_machine(), _of_the_group(), _of_the_process()) if n is not None]
    return min(found, default=None)


def readable_bytes(count: float) -> str:
    """1536 -> '1.5 KiB'."""
    count = min(count, 1e40)  # the number may be too large for a float
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.3g} EiB"


def _of_the_machine() -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:  # total memory, where the free memory is unknown
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _of_the_group() -> int | None:
    """Memory left by a container's limit (cgroup v2, v1). Cached files count as free."""
    base = "/sys/fs/cgroup"
    for most, now, stat, cached in (
        (f"{base}/memory.max", f"{base}/memory.current", f"{base}/memory.stat", "inactive_file "),
        (
            f"{base}/memory/memory.limit_in_bytes",
            f"{base}/memory/memory.usage_in_bytes",
            f"{base}/memory/memory.stat",
            "total_inactive_file ",
        ),
    ):
        limit, used = "".join(_lines(most)).strip(), "".join(_lines(now)).strip()
        if limit.isdecimal() and used.isdecimal():
            files = sum(int(line.split()[1]) for line in _lines(stat) if line.startswith(cached))
            return max(0, int(limit) - int(used) + files)
    return None


def _of_the_process() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = "".join(_lines("/proc/self/statm")).split()
    if most == resource.RLIM_INFINITY or not pages:
        return None
    return max(0, most - int(pages[0]) * resource.getpagesize())


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
