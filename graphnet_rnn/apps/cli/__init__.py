"""The command line, graphnet-rnn.

One file for each command, here or where an entry point says (graphnet_rnn.installed): it adds its arguments to a
parser, and runs. Exit codes: 0 well, 1 a failure, 2 a usage error, 130 interrupted (Ctrl-C, SIGTERM, SIGHUP). A failure
is one clear sentence on standard error; --debug shows the traceback.
"""

from __future__ import annotations

import argparse
import ast
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from graphnet.system.streams import prepare_streams, what_was_escaped
from graphnet.version import __version__
from graphnet_rnn.apps.cli.answers import brief, give_up_output, in_words
from graphnet_rnn.apps.cli.options import Parser
from graphnet_rnn.errors import UsageError
from graphnet_rnn.installed import installed, names_of
from graphnet_rnn.parallel.launcher import rank_and_size
from graphnet_rnn.training.interruption import ends_like_ctrl_c

__all__ = ["main"]

#: The module of this package that runs it -> what it does. Experiments and other packages add theirs.
OWN_COMMANDS = {
    "demo": "Draw, train and check a small network, in about a minute.",
    "train": "Train a network on a text (by default on the source code of Python's own library), "
    "or on other sequences.",
    "sample": "Write text with a trained model.",
    "complete": "Go on with a text under a condition: a given ending, a regular expression, a length.",
    "write": "Write with a model, which suggests what comes next, in the terminal or in a browser.",
    "evaluate": "Measure a trained model on a text: bits per character and accuracy; show how it "
    "reads it. Or on other sequences.",
    "predict": "Predict: what a trained model makes of sequences, as a file of arrays or a table.",
    "draw": "Draw a cell, a trained model, what a run recorded, or several runs compared, as a picture.",
    "check": "Hold a cell to all laws: derivatives, R-operator, Gauss-Newton, unrolling, passes, back ends.",
    "cells": "List the architectures: settings, parameters of a layer that reads 65 symbols, "
    "formula, source.",
    "export": "Write a trained model for another program: weights for PyTorch, an ONNX file, or "
    "standalone C.",
    "sweep": "Train many settings of one recipe on all cores, and tell which learn best.",
}
#: What options hold that may be empty, or a space.
TEXTS = ("TEXT", "CHAR", "NAME.")


def module_of(command: str) -> ModuleType:
    """The module of a command; a process imports no other, as each imports much."""
    if command in OWN_COMMANDS:
        return import_module(f"{__name__}.{command}")
    module: ModuleType = installed("commands", command)
    return module


def _first_line(module: str) -> str:
    """What a module does, by its docstring, without importing it."""
    found = find_spec(module)
    source = found.loader.get_source(module) if found and isinstance(found.loader, InspectLoader) else None
    return (ast.get_docstring(ast.parse(source or "")) or "").partition("\n")[0]


def all_commands() -> dict[str, str]:
    """What each command does, by its name."""
    return OWN_COMMANDS | {name: _first_line(point.value) for name, point in names_of("commands").items()}


def make_parser(commands: Collection[str] | None = None) -> Parser:
    """A parser that knows all commands, and the arguments of these (of all if None)."""
    parser = Parser(
        prog="graphnet-rnn",
        description="Recurrent networks declared by equations: train, sample, evaluate, draw and check them.",
        epilog="example:\n  graphnet-rnn train book.txt --units 256 --out runs/book\n"
        "each command has its own --help",
    )
    parser.add_argument("--version", action="version", version=f"graphnet-rnn {__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    known = OWN_COMMANDS if commands and {*commands} <= {*OWN_COMMANDS} else all_commands()
    for name, does in known.items():
        sub = parsers.add_parser(name, help=does, description=does)
        if commands is None or name in commands:
            module = module_of(name)
            sub.epilog = module.EXAMPLE
            module.add_arguments(sub)
        sub.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    return parser


def _read(given: Sequence[str]) -> argparse.Namespace:
    """The options; `written` of them are the names of those that were written, if only with what is their default."""
    parser = make_parser([word for word in given if not word.startswith("-")][:1])
    options, strange = parser.parse_known_args(given)
    (parsers,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    own = parsers.choices[options.command]
    if strange:
        own.error(f"unrecognized arguments: {' '.join(strange)}")
    for action in own._actions:
        action.default = argparse.SUPPRESS
    written = vars(parser.parse_args(given))
    for action in own._actions:
        found = written.get(action.dest)
        for value in found if isinstance(found, list) else [found]:
            if isinstance(value, str) and not value.strip() and action.metavar not in TEXTS:
                name = action.option_strings[0] if action.option_strings else action.dest
                own.error(f"{name} is empty; say what it is, or leave it out")
    options.written = frozenset(written) - {"command"}
    return options


def main(arguments: Sequence[str] | None = None, imported: Callable[[], object] = lambda: None) -> int:
    """Runs one command; returns the exit code. imported: called when all modules that it takes are."""
    prepare_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = argparse.Namespace(command=None, debug=False)

    def say(message: object) -> None:
        if rank_and_size()[0]:
            from graphnet_rnn.parallel.mpi import is_spoken_for

            if is_spoken_for():
                return
        name = "graphnet-rnn" if options.command is None else f"graphnet-rnn {options.command}"
        print(f"{name}: {brief(str(message))}", file=sys.stderr)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not rank_and_size()[0]:  # of the processes of `mpiexec` the first says what all would
            say(message)

    try:
        options = _read(given)
        imported()
        with ends_like_ctrl_c(), warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            code = int(module_of(options.command).run(options) or 0)
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
