"""`python -m graphnet_rnn`, and the command `graphnet-rnn`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Ctrl-C ends it with exit code 130, also during imports."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _end)

    def imported() -> None:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    from graphnet_rnn.apps.cli import main as run

    return run(arguments, imported)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Exits at once, since a module could mistake an exception for a failed import."""
    with contextlib.suppress(OSError):
        os.write(2, b"\ninterrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
