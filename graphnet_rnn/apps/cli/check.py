"""Check a cell: derivatives, R-operator, Gauss-Newton, unrolling, compiler passes, back ends."""

from __future__ import annotations

import argparse

from graphnet.errors import GraphnetError
from graphnet.testing.laws import LawError
from graphnet_rnn.apps.cli.specs import described, make_cell
from graphnet_rnn.cells.equations import Equations
from graphnet_rnn.testing import check_cell

EXAMPLE = """example:
  graphnet-rnn check my_cells.py:MyCell
  graphnet-rnn check "RHN(depth=3)" LSTM"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "cells",
        nargs="+",
        metavar="cell",
        help="LSTM (`graphnet-rnn cells` lists all), package.module:Cell or my_cells.py:MyCell",
    )


def run(options: argparse.Namespace) -> int:
    cells = [make_cell(text) for text in options.cells]  # create all, since checking one takes seconds
    for number, made in enumerate(cells):
        cell = type(made)
        formula = made.equations if isinstance(made, Equations) else described(cell)[0]
        print("\n" * (number > 0) + formula)
        try:
            check_cell(made, lambda law, found: print(f"  ok    {law}: {found}"))
        except LawError as error:
            if options.debug:
                raise
            raise GraphnetError(str(error)) from None
        print(f"{cell.__name__} passes all checks")
    return 0
