"""List cells: settings, number of parameters with 65 input symbols, formula, source."""

from __future__ import annotations

import argparse
import inspect
import re

import numpy as np

from graphnet_rnn.apps.cli.specs import described, make_cell
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.weights import Weights
from graphnet_rnn.cells.all import ALL

EXAMPLE = """example:
  graphnet-rnn cells
  graphnet-rnn cells "RHN(units=64, depth=3)" my_cells.py:MyCell"""

UNITS, SYMBOLS = 128, 65


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "cells",
        nargs="*",
        metavar="cell",
        help=f"cells to list (default: all of graphnet, with {UNITS} units)",
    )


def run(options: argparse.Namespace) -> int:
    made = [make_cell(text) for text in options.cells] or [_usual(cell) for cell in ALL.values()]
    print("\n\n".join(map(entry, made)))
    if not options.cells:
        print("\nuse one: train --cell GRU, --cell 'RHN(units=64, depth=3)', --cell 'Residual(LSTM(64))'")
    return 0


def _usual(cell: type[Cell]) -> Cell:
    units = inspect.signature(cell).parameters.get("units")
    return cell() if units is None or isinstance(units.default, tuple) else cell(units=UNITS)


def entry(cell: Cell) -> str:
    """Description of a cell in three lines."""
    formula, *rest = described(type(cell))
    source = re.search(r"\bSource: .+?(?=\s+>>>|$)", " ".join(rest))
    return "\n".join(
        [f"{cell!r}: {_parameters(cell)}", f"    {formula}", *([f"    {source[0]}"] if source else [])]
    )


def _parameters(cell: Cell) -> str:
    weights = Weights("layer", 0, np.dtype("float32"), {})
    cell.bind_to(weights, SYMBOLS)
    trained = sum(node.size for node in weights.trained().values())
    fixed = sum(node.size for node in weights.nodes.values()) - trained
    return f"{trained:,} parameters" + (f", {fixed:,} fixed weights" if fixed else "")
