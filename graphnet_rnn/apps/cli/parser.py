"""Arguments as they are written: one rule for numbers, and one line for what cannot be read."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from graphnet.system.text import on_one_line
from graphnet_rnn.parallel.launcher import rank_and_size

__all__ = ["HelpFormatter", "Parser", "brief"]

#: A line of an answer is no longer: what was given may be.
LONGEST_LINE = 800
WHOLE = re.compile(r"[+-]?[0-9]+")
DECIMAL = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|inf|nan)", re.IGNORECASE)


def brief(message: str) -> str:
    """The message, with the middle of too long lines left out.

    What a file or an argument brought in is shown, not obeyed: a terminal would take some characters for commands.
    """
    half = LONGEST_LINE // 2
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"
        for line in map(on_one_line, message.expandtabs().split("\n"))
    )


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and keeps the line breaks of examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        # "(default: None)" tells a reader nothing; 0, which is equal to False, does.
        nothing = action.default is None or action.default is False or action.default == ""
        return action.help if nothing else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """A number is one in ASCII digits: no _, no blanks, no digits of other scripts, which Python's int would take."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, **settings})
        self.register("type", int, _reader(int, WHOLE))
        self.register("type", float, _reader(float, DECIMAL))

    def error(self, message: str) -> NoReturn:
        """One line, and where more is said: a usage of twenty lines would hide it."""
        if rank_and_size()[0]:  # of the processes of `mpiexec` the first says what all would
            self.exit(2)
        self.exit(2, f"{self.prog}: {brief(on_one_line(message))}; see {self.prog} --help\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Raises OSError where standard output takes no more, of which Python's own says nothing."""
        if file is sys.stdout:
            print(message, end="", flush=True)
        else:
            super()._print_message(message, file)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # Before 3.13, Python takes the -- of --option=-- for the one that ends options, and the value becomes [].
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)


def _reader(kind: type[int | float], pattern: re.Pattern[str]) -> Callable[[str], int | float]:
    def read(text: str) -> int | float:
        if not pattern.fullmatch(text):
            raise ValueError(text)
        return kind(text)

    return read
