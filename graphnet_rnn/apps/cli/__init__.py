"""Command line, graphnet-rnn.

Each command is a module, here or registered by an entry point (graphnet_rnn.installed), that adds its arguments to a
parser, and runs. Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted (Ctrl-C, SIGTERM, SIGHUP). Errors are
printed as one sentence on standard error; --debug shows the traceback.
"""

from __future__ import annotations

import argparse
import ast
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from graphnet.system.streams import prepare_streams, what_was_escaped
from graphnet.system.text import did_you_mean
from graphnet.version import __version__
from graphnet_rnn.apps.cli.answers import brief, give_up_output, in_words
from graphnet_rnn.apps.cli.options import Parser
from graphnet_rnn.errors import UsageError
from graphnet_rnn.installed import installed, names_of
from graphnet_rnn.parallel.launcher import rank_and_size
from graphnet_rnn.training.interruption import ends_like_ctrl_c

#: Commands of this package, in the order of --help. Experiments and other packages add theirs.
OWN_COMMANDS = (
    "demo", "train", "sample", "complete", "write", "evaluate", "predict", "draw", "check", "cells", "export", "sweep",
)  # fmt: skip
#: Metavars of options that may be empty, or a space.
TEXTS = ("TEXT", "CHAR", "NAME.")


def module_of(command: str) -> ModuleType:
    """Module of a command; others are not imported, as imports are slow."""
    if command in OWN_COMMANDS:
        return import_module(f"{__name__}.{command}")
    module: ModuleType = installed("commands", command)
    return module


@cache
def _first_line(module: str) -> str:
    found = find_spec(module)
    source = found.loader.get_source(module) if found and isinstance(found.loader, InspectLoader) else None
    return (ast.get_docstring(ast.parse(source or "")) or "").partition("\n")[0]


def all_commands() -> dict[str, str]:
    """Name of each command -> its description."""
    own = {name: f"{__name__}.{name}" for name in OWN_COMMANDS}
    others = {name: point.value for name, point in names_of("commands").items()}
    return {name: _first_line(module) for name, module in (own | others).items()}


def make_parser(commands: Collection[str] | None = None) -> Parser:
    """Parser of all commands, with the arguments of `commands` (None: of all).

    Without `commands`, it also has their descriptions. Entry points are searched only for commands of other packages.
    """
    parser = Parser(
        prog="graphnet-rnn",
        description="Recurrent networks declared by equations: train, sample, evaluate, draw and check them.",
        epilog="example:\n  graphnet-rnn train book.txt --units 256 --out runs/book\n"
        "each command has its own --help",
    )
    parser.add_argument("--version", action="version", version=f"graphnet-rnn {__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    others = () if commands and {*commands} <= {*OWN_COMMANDS} else names_of("commands")
    for name, does in (dict.fromkeys((*OWN_COMMANDS, *others), "") if commands else all_commands()).items():
        sub = parsers.add_parser(name, help=does)
        if commands is None or name in commands:
            module = module_of(name)
            sub.description, sub.epilog = _first_line(module.__name__), module.EXAMPLE
            module.add_arguments(sub)
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _read(given: Sequence[str]) -> argparse.Namespace:
    """Options of a command line; `written` names those that are given explicitly, defaults included."""
    asked = given[:1] in (["-h"], ["--help"])  # help of all commands
    parser = make_parser([] if asked else [word for word in given if not word.startswith("-")][:1])
    options, strange = parser.parse_known_args(given)
    (parsers,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    own = parsers.choices[options.command]
    if strange:
        options_of = [name for action in own._actions for name in action.option_strings]
        hint = did_you_mean(strange[0].partition("=")[0], options_of)
        own.error(f"unrecognized arguments: {' '.join(strange)}{hint}")
    for action in own._actions:
        action.default = argparse.SUPPRESS
    written = vars(parser.parse_args(given))
    for action in own._actions:
        found = written.get(action.dest)
        for value in found if isinstance(found, list) else [found]:
            if isinstance(value, str) and not value.strip() and action.metavar not in TEXTS:
                name = action.option_strings[0] if action.option_strings else action.dest
                own.error(f"{name} must not be empty; give a value, or leave it out")
    options.written = frozenset(written) - {"command"}
    return options


def main(arguments: Sequence[str] | None = None, imported: Callable[[], object] = lambda: None) -> int:
    """Runs one command; returns the exit code. imported: callback after all imports."""
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
        if not rank_and_size()[0]:  # with mpiexec, only the first process prints
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
    except BrokenPipeError:  # the reader of our output has ended, as with `| head`
        give_up_output()
        return 1
    except BaseException as error:
        read = options.command is not None
        if options.debug or (not read and isinstance(error, SystemExit)):  # --help, or invalid arguments
            raise
        say(in_words(error, options))
        give_up_output()
        return 2 if isinstance(error, UsageError) else 1
    if what_was_escaped():
        say(what_was_escaped())
    return code
