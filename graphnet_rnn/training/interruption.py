"""Signals (Ctrl-C, SIGTERM, and SIGHUP of a closing terminal) that stop a run after its current step."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

INTERRUPT = (signal.SIGINT,)
#: Windows has no SIGHUP.
HANGUP: int | None = getattr(signal, "SIGHUP", None)
END = (signal.SIGTERM,) if HANGUP is None else (signal.SIGTERM, signal.Signals(HANGUP))

Handler = Callable[[int, FrameType | None], None]


class Interruption:
    """Context in which Ctrl-C, SIGTERM and SIGHUP only set `requested`; a second Ctrl-C or SIGTERM ends at once.

    A second SIGHUP does not: a closing terminal may send two. Ignored signals stay ignored (`nohup`, background jobs of
    scripts). Has no effect outside the main thread.
    """

    def __init__(self) -> None:
        self.requested = False
        self._caught = contextlib.ExitStack()

    def __enter__(self) -> Interruption:
        self.requested = False
        self._caught.enter_context(_caught([*INTERRUPT, *END], self._handle))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._caught.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == HANGUP:
            _leave_dead_terminal()
        elif self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextlib.contextmanager
def ends_like_ctrl_c() -> Iterator[None]:
    """Context in which SIGTERM and SIGHUP raise KeyboardInterrupt, so that files are closed and locks released.

    A program's own handlers, and ignored signals, do not change.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if number == HANGUP:
            _leave_dead_terminal()
            signal.signal(number, signal.SIG_IGN)  # a second signal must not break off the checkpoint
        raise KeyboardInterrupt

    with _caught([number for number in END if signal.getsignal(number) is signal.SIG_DFL], handle):
        yield


@contextlib.contextmanager
def _caught(numbers: Iterable[int], handle: Handler) -> Iterator[None]:
    """Handles signals that are not ignored until the block ends; in the main thread only."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in numbers}
        before = {n: handler for n, handler in found.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_dead_terminal() -> None:
    """Redirects output of a closed terminal to nowhere: a print error must not prevent a checkpoint."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # a closed stream
            if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
