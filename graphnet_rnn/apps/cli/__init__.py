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

#: The modules of this package that run one, in the order of --help. Experiments and other packages add theirs.
OWN_COMMANDS = (
    "demo", "train", "sample", "complete", "write", "evaluate", "predict", "draw", "check", "cells", "export", "sweep",
)  # fmt: skip
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
    own = {name: f"{__name__}.{name}" for name in OWN_COMMANDS}
    others = {name: point.value for name, point in names_of("commands").items()}
    return {name: _first_line(module) for name, module in (own | others).items()}


def make_parser(commands: Collection[str] | None = None) -> Parser:
    """A parser that knows the commands, and the arguments of these (of all if None).

    Where none are named, it says what each does; where only own ones are, it does not look for those of others.
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
        sub.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    return parser


def _read(given: Sequence[str]) -> argparse.Namespace:
    """The options; `written` of them are the names of those that were written, if only with what is their default."""
    asked = given[:1] in (["-h"], ["--help"])  # of all commands, whatever follows
    parser = make_parser([] if asked else [word for word in given if not word.startswith("-")][:1])
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
