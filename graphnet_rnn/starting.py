"""Ctrl-C while the command line is being imported ends it as a later one does: quietly, with exit code 130.

Imported before all else of this package: `python -m graphnet_rnn` imports the package, and with it NumPy and the
engine, before it runs any line of the program. Whoever imports graphnet_rnn for another program keeps its own Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

__all__ = ["started"]

SCRIPT, MODULE = "graphnet-rnn", "graphnet_rnn"


def _begin() -> None:
    """Ctrl-C ends the process at once from here on, until `started`, if the command line is what it was started for."""
    if _is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def started() -> None:
    """Ctrl-C raises KeyboardInterrupt again, as Python has it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command_line() -> bool:
    words = list(sys.argv[:1])
    if words == ["-m"]:  # what Python writes there until it has found the module
        word = sys.orig_argv[len(sys.orig_argv) - len(sys.argv)]  # the last before the program's arguments
        return re.fullmatch(rf"(-\w*m)?{MODULE}", word) is not None
    return bool(words) and Path(words[0]).stem == SCRIPT


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Nothing has been begun, so nothing is lost; an exception could be taken by a module for a failed import."""
    with contextlib.suppress(OSError):
        os.write(2, b"\ninterrupted\n")
    os._exit(130)


_begin()
