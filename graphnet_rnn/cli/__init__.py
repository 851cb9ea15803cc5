"""The command line: graphnet-rnn demo | train | sample | complete | write | evaluate | predict | timelag |
debag | draw | check | cells | export | tasks | control | sweep.

One file for each command: it adds its arguments to a parser, and runs. Exit codes: 0 well, 1 a failure, 2 a
usage error, 130 interrupted (Ctrl-C, SIGTERM, SIGHUP). A failure is one clear sentence on standard error; --debug
shows the traceback.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from graphnet.system.streams import prepare_streams, what_was_escaped
from graphnet.version import __version__
from graphnet_rnn.cli import (
    cells,
    check,
    complete,
    control,
    debag,
    demo,
    draw,
    evaluate,
    export,
    predict,
    sample,
    sweep,
    tasks,
    timelag,
    train,
    write,
)
from graphnet_rnn.cli.failures import give_up_output, in_words
from graphnet_rnn.cli.parser import Parser, brief
from graphnet_rnn.errors import UsageError
from graphnet_rnn.parallel.mpi import is_spoken_for, rank_and_size
from graphnet_rnn.starting import started
from graphnet_rnn.training.interruption import ends_like_ctrl_c

__all__ = ["main"]

COMMANDS = {
    "demo": demo,
    "train": train,
    "sample": sample,
    "complete": complete,
    "write": write,
    "evaluate": evaluate,
    "predict": predict,
    "timelag": timelag,
    "debag": debag,
    "draw": draw,
    "check": check,
    "cells": cells,
    "export": export,
    "tasks": tasks,
    "control": control,
    "sweep": sweep,
}
#: What options hold that may be empty, or a space.
TEXTS = ("TEXT", "CHAR", "NAME.")


def make_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog="graphnet-rnn",
        description="Recurrent networks declared by equations: train, sample, evaluate, draw and check them.",
        epilog="example:\n  graphnet-rnn train book.txt --units 256 --out runs/book\n"
        "each command has its own --help",
    )
    parser.add_argument("--version", action="version", version=f"graphnet-rnn {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, module in COMMANDS.items():
        first_line = (module.__doc__ or "").strip().partition("\n")[0]  # python -OO has none
        sub = commands.add_parser(
            name,
            help=first_line,
            description=first_line,
            epilog=module.EXAMPLE,
        )
        module.add_arguments(sub)
        sub.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    return parser


def _read(given: Sequence[str]) -> argparse.Namespace:
    parser = make_parser()
    options, strange = parser.parse_known_args(given)
    if strange:
        (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        commands.choices[options.command].error(f"unrecognized arguments: {' '.join(strange)}")
    return options


def _written(command: str, arguments: Sequence[str]) -> frozenset[str]:
    """The names of the options that were written, if only with what is their default.

    Raises UsageError for what no option can mean: an empty word, a number that is none.
    """
    parser = Parser(add_help=False)
    COMMANDS[command].add_arguments(parser)
    parser.add_argument("--debug", action="store_true")
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    written = vars(parser.parse_args(arguments[arguments.index(command) + 1 :]))
    for action in parser._actions:
        name = action.option_strings[0] if action.option_strings else action.dest
        given = written.get(action.dest)
        for value in given if isinstance(given, list) else [given]:
            if isinstance(value, str) and not value.strip() and action.metavar not in TEXTS:
                raise UsageError(f"{name} is empty; say what it is, or leave it out")
            if isinstance(value, str) and "\0" in value:
                raise UsageError(f"{name} {value!r} has a character 0 in it, which no name has")
            if isinstance(value, float) and math.isnan(value):
                raise UsageError(f"{name} must be a number, not nan")
    return frozenset(written)


def _require_current_folder() -> None:
    """UsageError where it was removed: every file that is named would be missing, also one that is written."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current folder has been removed; change to one that is there") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    prepare_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = argparse.Namespace(command=None, debug=False)

    def say(message: object) -> None:
        if is_spoken_for():
            return
        name = "graphnet-rnn" if options.command is None else f"graphnet-rnn {options.command}"
        print(f"{name}: {brief(str(message))}", file=sys.stderr)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not rank_and_size()[0]:  # of the processes of `mpiexec` the first says what all would
            say(message)

    try:
        started()
        options = _read(given)
        _require_current_folder()
        options.written = _written(options.command, given)
        with ends_like_ctrl_c(), warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            code = int(COMMANDS[options.command].run(options) or 0)
        sys.stdout.flush()
    except KeyboardInterrupt:
        if not rank_and_size()[0]:
            print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        give_up_output()
        return 1
    except BaseException as error:
        read = options.command is not None
        if options.debug or (not read and isinstance(error, SystemExit)):  # --help, or what cannot be read
            raise
        say(in_words(error, options))
        give_up_output()
        return 2 if isinstance(error, UsageError) else 1
    if what_was_escaped():
        say(what_was_escaped())
    return code
