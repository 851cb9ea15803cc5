"""Hold a cell to all laws: derivatives, R-operator, Gauss-Newton, unrolling, passes, back ends."""

from __future__ import annotations

import argparse

from graphnet.errors import GraphnetError
from graphnet.testing import LawError
from graphnet_rnn.cli.user_cells import find_cell
from graphnet_rnn.testing import check_cell

EXAMPLE = """example:
  graphnet-rnn check my_cells.py:MyCell"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", help="LSTM, package.module:Cell or my_cells.py:MyCell")


def run(options: argparse.Namespace) -> int:
    cell = find_cell(options.cell)
    print((cell.__doc__ or cell.__name__).strip().splitlines()[0])
    try:
        check_cell(cell, lambda name, found: print(f"  ok    {name}: {found}"))
    except LawError as error:
        if options.debug:
            raise
        raise GraphnetError(str(error)) from None
    print(f"{cell.__name__} obeys all laws")
    return 0
