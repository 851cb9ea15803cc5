"""Draw a cell, a trained model, or what a run recorded, as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphnet_rnn.cli.user_cells import make_cell, own_cells
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model_file import load

EXAMPLE = """example:
  graphnet-rnn draw LSTM --out lstm.svg
  graphnet-rnn draw "RHN(depth=2)" --out rhn.svg
  graphnet-rnn draw my_cells.py:MyCell --style compact --out mine.png
  graphnet-rnn draw runs/book/model.safetensors --time 3 --out book.svg
  graphnet-rnn draw runs/book/history.jsonl --out curve.png"""

#: The endings of charts; pictures of graphs have more.
CHARTS = (".svg", ".png", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("what", help="a cell (LSTM, my_cells.py:MyCell), a model file, or a history (.jsonl)")
    add(
        "--out",
        default="graph.svg",
        metavar="FILE",
        help="ends in .svg, .png, .pdf, .dot or .html (a history: one of the first three)",
    )
    add(
        "--style", choices=("full", "compact"), default="full", help="weights as nodes, or as labels on edges"
    )
    add("--cell", metavar="FILE:CELL", help="your own cell, if the model is made of it: my_cells.py:MyCell")
    add("--time", type=int, default=3, help="time steps, for a model")


def run(options: argparse.Namespace) -> int:
    if options.what.endswith(".jsonl"):
        return _draw_history(options.what, options.out)
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


def require_chart(option: str, path: str) -> None:
    """UsageError, which names the option, for a file that matplotlib would not write."""
    if Path(path).suffix.lower() not in CHARTS:
        raise UsageError(f"{option} {path}: the name of a chart must end in one of {', '.join(CHARTS)}")


def _draw_history(path: str, out: str) -> int:
    """The flight recorder where steps report more than a loss; bits per character where a run has any."""
    import viz
    from viz.charts.history import read_history

    require_chart("--out", out)
    rows = read_history(path)
    recorded = any("ratio" in row for row in rows)
    has_bits = any("train_bits" in row or "valid_bits" in row for row in rows)
    figure = viz.training_curve(rows) if has_bits and not recorded else viz.flight_recorder(rows)
    figure.savefig(out, dpi=150)
    print(f"wrote {out} (drawn by matplotlib)")
    return 0
