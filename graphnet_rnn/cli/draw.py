"""Draw a cell, or a trained model, as a picture."""

from __future__ import annotations

import argparse

from graphnet_rnn.cli.user_cells import make_cell, own_cells
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model_file import load

EXAMPLE = """example:
  graphnet-rnn draw LSTM --out lstm.svg
  graphnet-rnn draw "RHN(depth=2)" --out rhn.svg
  graphnet-rnn draw my_cells.py:MyCell --style compact --out mine.png
  graphnet-rnn draw runs/book/model.safetensors --time 3 --out book.svg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("what", help="a cell (LSTM, my_cells.py:MyCell) or a model file")
    add("--out", default="graph.svg", metavar="FILE", help="ends in .svg, .png, .pdf, .dot or .html")
    add(
        "--style", choices=("full", "compact"), default="full", help="weights as nodes, or as labels on edges"
    )
    add("--cell", metavar="FILE:CELL", help="your own cell, if the model is made of it: my_cells.py:MyCell")
    add("--time", type=int, default=3, help="time steps, for a model")


def run(options: argparse.Namespace) -> int:
    import viz

    thing: object
    if options.what.endswith(".safetensors"):
        if options.time < 1:
            raise UsageError(f"--time must be at least 1, not {options.time}")
        thing = load(options.what, own_cells(options.cell)).unroll(options.time, batch=1, training=False)
    else:
        thing = make_cell(options.what)
    drawing = viz.draw(thing, style=options.style)
    drawing.save(options.out)
    print(f"wrote {options.out} ({drawing.renderer})")
    return 0
