"""Process of a run: a command on its own cores, which ends when its sweep is killed.

python -m graphnet_rnn.apps.sweep.child [CORE ...] -- train TEXT ...
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys

from graphnet.system.streams import prepare_streams

__all__: list[str] = []

#: Option of Linux's prctl: signal this process when its parent dies.
PDEATHSIG = 1


def main() -> None:
    place = sys.argv.index("--")
    cores, command = {int(core) for core in sys.argv[1:place]}, sys.argv[place + 1 :]
    if sys.platform == "linux":
        import ctypes

        parent = os.getppid()
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent has already died
            sys.exit(1)
    if cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cores)
    sys.argv = ["graphnet-rnn", *command]
    runpy.run_module("graphnet_rnn", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    prepare_streams()
    main()
