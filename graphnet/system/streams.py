"""Standard streams that never raise on output: no character and no closed stream ends a program.

For programs, at their start. Characters that the encoding of standard output cannot represent
(PYTHONIOENCODING=latin-1, a redirected stream on Windows) are written as escapes, φ as \\u03c6, so nothing is lost. The
encoding itself is not changed, so that a text in UTF-8 is exact to the byte.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from typing import IO

ESCAPE = "graphnet.escape"
#: By which codecs, since the streams were prepared.
_escaped: set[str] = set()


def prepare_streams() -> None:
    """Lets standard output and error take any character, and puts nothing (os.devnull) where a stream is closed."""
    # In this order: a new file gets the lowest free descriptor. A file of ours with one of these three would become
    # the standard output of child processes.
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, _nothing(number, mode))
    for stream, handler in ((sys.stdout, ESCAPE), (sys.stderr, "backslashreplace")):
        # A handler that the user chose, `replace` or `ignore`, is kept.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors=handler)
    _escaped.clear()


def what_was_escaped() -> str:
    """A sentence if standard output could not hold all that was written to it since `prepare_streams`; else empty."""
    encoding = str(getattr(sys.stdout, "encoding", ""))
    if not _escaped or encoding.lower().startswith("utf"):  # which can encode all text
        return ""
    return (
        f"standard output is {encoding}, which does not have some of the characters: they were "
        "written as \\x.., \\u.... (to keep them, set PYTHONIOENCODING=utf-8)"
    )


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError):
        _escaped.add(error.encoding)
    return codecs.lookup_error("backslashreplace")(error)


codecs.register_error(ESCAPE, _escape)


def _nothing(number: int, mode: str) -> IO[str]:
    with contextlib.suppress(OSError):
        os.fstat(number)
        return open(os.devnull, mode, encoding="utf-8")  # the descriptor may now be another file
    descriptor = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
    return open(descriptor, mode, encoding="utf-8", closefd=False)
