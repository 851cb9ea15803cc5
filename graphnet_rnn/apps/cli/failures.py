"""A failure in one sentence, whatever was raised."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
import traceback
from typing import TextIO

from graphnet.errors import GraphnetError
from graphnet.system.text import on_one_line

__all__ = ["give_up_output", "in_words"]

#: Options that say how much there is of something, which is less with a smaller number.
SIZES = ("units", "layers", "batch", "time", "length", "lanes", "test", "gradient_batches", "dynamic_time")
#: What is said of that to which nothing more can be written.
FULL = (errno.ENOSPC, errno.EFBIG, errno.EBADF, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))


def in_words(error: BaseException, options: argparse.Namespace) -> str:
    """The sentence that tells a failure to the person at the keyboard; a file's name in it is on one line."""
    sentence = _sentence(error, options)
    for given in vars(options).values():
        for name in given.split(os.sep) if isinstance(given, str) and "\n" in given else ():
            if "\n" in name:
                sentence = sentence.replace(name, on_one_line(name))
    return sentence


def _sentence(error: BaseException, options: argparse.Namespace) -> str:
    if isinstance(error, GraphnetError):
        return str(error).removeprefix(f"{options.command}: ")  # which is said already
    from graphnet_rnn.apps.cli.calls import error_text
    from graphnet_rnn.apps.cli.user_cells import own_line

    if isinstance(error, MemoryError):
        smaller = " or ".join("--" + name.replace("_", "-") for name in SIZES if hasattr(options, name))
        return f"there is not enough memory; try a smaller {smaller or 'input'} ({error_text(error)})"
    if isinstance(error, OSError):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        reason = error.strerror or error_text(error)
        if names:
            return ": ".join([*names, reason])
        if _takes_no_more(sys.stdout, error):
            return f"standard output could not be written: {reason}"
        return f"something could not be read or written: {reason}; --debug shows what"
    own = own_line(error)
    if own:  # of a cell's module, whose code is not ours
        return f"{error_text(error)}{own}; --debug shows how it came about"
    frames = traceback.extract_tb(error.__traceback__)
    line = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return (
        f"unexpected {error_text(error)}{line}; --debug shows how it came about. If no code of your own is part of it, "
        "please report it"
    )


def _takes_no_more(stream: TextIO, error: OSError) -> bool:
    """Whether it is the stream that this error, which names no file, came from."""
    try:
        stream.flush()
    except OSError:  # what was written is still held, and cannot be given on
        return True
    except ValueError:  # it is closed
        return False
    # PYTHONUNBUFFERED: nothing is held. Whatever else is written has a name.
    return getattr(stream, "write_through", False) and error.errno in FULL


def give_up_output() -> None:
    """Nothing more is written to a standard output that takes no more: Python would complain at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):  # no file, or closed by whoever used it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
