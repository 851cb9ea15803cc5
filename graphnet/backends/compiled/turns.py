"""Turns: a compiled function runs one call at a time, and none within another."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from types import FrameType
from typing import Any

from graphnet.errors import BackendError

_all: weakref.WeakSet[Turns] = weakref.WeakSet()


class Turns:
    """A lock for which other threads wait; the thread that has it gets an error instead.

        with program.turns.lock:
            program.turns.begin(program)
            ...
            program.turns.end()

    `end` may be left out if a call fails: the next call then only makes a more thorough check.
    """

    def __init__(self) -> None:
        self._fresh()
        _all.add(self)

    def _fresh(self) -> None:
        self.lock = threading.RLock()
        self._under_way = False

    def begin(self, program: Any) -> None:
        """BackendError if this call is inside another call of a method of the program."""
        if self._under_way:
            frame: FrameType | None = sys._getframe(1)
            assert frame is not None
            file, outside = frame.f_code.co_filename, False
            while frame is not None:
                own = frame.f_code.co_filename == file and frame.f_locals.get("self") is program
                if own and outside:
                    raise BackendError(
                        "this function was called while it runs in the same thread: by a signal handler, or "
                        "by an op of its own graph. Compile a second function for the inner call."
                    )
                outside = outside or not own
                frame = frame.f_back
        self._under_way = True

    def end(self) -> None:
        """The call that had begun is over."""
        self._under_way = False


def _after_fork() -> None:
    """Renews the locks in a forked child, which has no other thread to release them."""
    for turns in _all:
        turns._fresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
