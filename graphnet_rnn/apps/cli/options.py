"""Parser with one-line errors, and options from the fields of settings.

Name, type, default and help of a setting are declared once (graphnet_rnn.settings.setting).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Collection, Iterable
from dataclasses import Field
from typing import Any, NoReturn

from graphnet.system.text import did_you_mean, on_one_line
from graphnet_rnn.apps.cli.answers import brief
from graphnet_rnn.errors import UsageError
from graphnet_rnn.parallel.launcher import rank_and_size


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        # "(default: None)" is not informative; 0, though equal to False, is.
        nothing = action.default is None or action.default is False or action.default == ""
        return action.help if nothing else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Parser with one-line errors."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _HelpFormatter, **settings})
        self.register("type", float, _number)

    def error(self, message: str) -> NoReturn:
        """Prints one line with a hint at --help, instead of a long usage."""
        if rank_and_size()[0]:  # with mpiexec, only the first process prints
            self.exit(2)
        self.exit(2, f"{self.prog}: {brief(on_one_line(message))}; see {self.prog} --help\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise

    def _print_message(self, message: str, file: Any = None) -> None:
        """Raises OSError if standard output fails, which argparse ignores."""
        if file is sys.stdout:
            print(message, end="", flush=True)
        else:
            super()._print_message(message, file)


def _number(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError
    return value


def add_model(parser: argparse.ArgumentParser, name: str = "model") -> None:
    """Adds the model file, and its cell."""
    parser.add_argument(name, help="model file (.safetensors) of a training run")
    add_cell(parser)


def add_cell(parser: argparse.ArgumentParser) -> None:
    """Adds the cell of a model."""
    own = "your own cell class, if the model uses one: my_cells.py:MyCell"
    parser.add_argument("--cell", metavar="FILE:CELL", help=own)


def add_settings(parser: argparse.ArgumentParser, *kinds: type, without: Collection[str] = ()) -> None:
    """Adds an option for each setting of these dataclasses; shared settings once.

    without: settings without an option.
    """
    names = set(without)
    for kind in kinds:
        for each in _declared(kind):
            if each.name in names:
                continue
            names.add(each.name)
            how = {"help": each.metadata["says"], "default": each.default, **each.metadata["option"]}
            if isinstance(how["default"], bool):
                how["action"] = "store_true"
            elif how["default"] is not None:
                how.setdefault("type", type(how["default"]))
            parser.add_argument(_option(each.name), **how)


def given_settings(
    kind: type, options: argparse.Namespace, without: Collection[str] = (), **others: Any
) -> dict[str, Any]:
    """Settings of a dataclass from the options. others: settings with other values."""
    names = (each.name for each in _declared(kind) if each.name not in without)
    return {name: getattr(options, name) for name in names} | others


def free_settings(*kinds: type) -> frozenset[str]:
    """Names of settings that may change on resume."""
    return frozenset(each.name for kind in kinds for each in _declared(kind) if each.metadata["free"])


def refuse(strange: Iterable[str], why: str) -> None:
    """Raises UsageError for options that do not apply; why: reason, after their names."""
    names = ", ".join(map(_option, sorted(strange)))
    if names:
        raise UsageError(f"{names} {why}; leave it out")


def _declared(kind: type) -> list[Field[Any]]:
    from graphnet_rnn.settings import (
        declared_settings,
    )  # imports NumPy, which --help of all commands avoids

    return declared_settings(kind)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
