"""Uses Numba's simulator if there is no GPU, which must be chosen before Numba is imported."""

from __future__ import annotations

import collections
import ctypes
import gc
import os
import signal
import sys

# Before NumPy is loaded: products of tests are small, and threads of a BLAS that wait for a core take many times what
# the product takes. What starts a program in a test hands this on; `compile(threads=...)` still sets its own number.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from graphnet.call import kept


def _gpus() -> int:
    """Number of GPUs that the NVIDIA driver finds."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


if not _gpus():
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

# With nohup or in the background, these signals are ignored, but tests send them to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Tests replace parts of passes and back ends: what they make of a graph must not be found by others, and what others
# made not by them. Tests of what is kept set this themselves.
kept.WORTH_KEEPING = sys.maxsize

# A full collection would visit many objects of the workers: a tenth of the time of the tests.
gc.freeze()
gc.set_threshold(200_000, 20, 20)

# No test needs fsync; tests of synced files replace it by their own.
os.fsync = lambda fd: None

# A simulated GPU is the same on every processor, and slow.
if os.environ.get("GRAPHNET_PROCESSOR") and os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    from graphnet.backends import usable_backends
    from graphnet.testing import laws

    laws.usable_backends = lambda: [name for name in usable_backends() if name != "cuda"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints each reason for skipped tests, with their number."""
    reasons = collections.Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped")
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")
