"""Messages on the terminal, and one-sentence errors."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from graphnet.errors import GraphnetError
from graphnet.system.text import on_one_line, shown_on

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Maximum length of a line in a message.
LONGEST_LINE = 800
#: Options whose smaller values need less memory.
SIZES = ("units", "layers", "batch", "time", "length", "lanes", "test", "gradient_batches", "dynamic_time")


def brief(message: str) -> str:
    """Message with long lines shortened in the middle.

    Control characters from files or arguments are escaped, as terminals would execute some.
    """
    half = LONGEST_LINE // 2
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"
        for line in map(on_one_line, message.expandtabs().split("\n"))
    )


def command_line() -> str:
    """`graphnet-rnn`, or the command that run.py was called by, so that hints can be pasted."""
    return os.environ.get("GRAPHNET_COMMAND", "graphnet-rnn")


def print_sample(text: str) -> None:
    """Prints a sample, set off from other output."""
    print("\n".join(f"    | {line}" for line in shown_on(sys.stdout, text).splitlines()))


def save_chart(figure: Figure, out: str) -> None:
    """Writes a chart and prints its path."""
    figure.savefig(out, dpi=150)
    print(f"wrote {out} (drawn by matplotlib)")


def fitting(words: Sequence[str], width: int, width_of: Callable[[str], int] = len) -> str:
    """First words that fit into a line of this width."""
    kept = list(words)
    while len(kept) > 1 and width_of("  ".join(kept)) > width:
        kept.pop()
    return "  ".join(kept)


def in_words(error: BaseException, options: argparse.Namespace) -> str:
    """Sentence for an error."""
    if isinstance(error, GraphnetError):
        return str(error).removeprefix(f"{options.command}: ")  # the program's name contains it
    from graphnet_rnn.apps.cli.specs import error_text, own_line

    if isinstance(error, MemoryError):
        smaller = " or ".join("--" + name.replace("_", "-") for name in SIZES if hasattr(options, name))
        return f"there is not enough memory; try a smaller {smaller or 'input'} ({error_text(error)})"
    if isinstance(error, OSError):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        what = f"{'standard output' if _takes_no_more() else 'something'} could not be written"
        return ": ".join([*(names or [what]), error.strerror or str(error)])
    own = own_line(error)
    if own:  # in a module of the user's cell
        return f"{error_text(error)}{own}; --debug shows the traceback"
    frames = traceback.extract_tb(error.__traceback__)
    line = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return (
        f"unexpected {error_text(error)}{line}; --debug shows the traceback. If no code of your own is part of it, "
        "please report it"
    )


def _takes_no_more() -> bool:
    """True if standard output fails; for errors without a file name."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # buffered output cannot be written
        return True
    return getattr(sys.stdout, "write_through", False)  # PYTHONUNBUFFERED: nothing is buffered


def give_up_output() -> None:
    """Closes a failed standard output, so that Python does not report it at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):  # not a file, or closed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
