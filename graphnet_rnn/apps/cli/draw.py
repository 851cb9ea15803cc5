"""Draw a cell, a trained model, what a run recorded, or several runs compared, as a picture."""

from __future__ import annotations

import argparse

from graphnet_rnn.apps.cli.graphs import SHOWN, draw_graph
from graphnet_rnn.apps.cli.optimizer import is_schedule, make_schedule
from graphnet_rnn.apps.cli.outputs import require_ending
from graphnet_rnn.apps.cli.pictures import KINDS, draw_runs, is_run
from graphnet_rnn.apps.cli.user_cells import make_cell, own_cells
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.errors import UsageError
from graphnet_rnn.formats.model_file import load_network
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.norms import weight_norms

EXAMPLE = """example:
  graphnet-rnn draw LSTM --out lstm.svg
  graphnet-rnn draw "RHN(depth=2)" --out rhn.svg
  graphnet-rnn draw my_cells.py:MyCell --style compact --out mine.png
  graphnet-rnn draw runs/book/model.safetensors --time 3 --out book.svg
  graphnet-rnn draw LSTM --show mirror --out lstm_mirror.svg
  graphnet-rnn draw LSTM --show explorer --out lstm.html
  graphnet-rnn draw runs/book --out curve.png
  graphnet-rnn draw runs/gru runs/lstm runs/rhn --out compared.png
  graphnet-rnn draw runs/book --chart weights --out weights.png
  graphnet-rnn draw runs/book --chart samples
  graphnet-rnn draw "Warmup(500).then(Cosine(20000))" --out schedule.svg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "what",
        nargs="+",
        help="a cell (LSTM, my_cells.py:MyCell), a model file, a run: its folder or its history (.jsonl), several "
        "of which are compared; or a schedule, as train takes it",
    )
    add(
        "--chart",
        choices=KINDS,
        help="of a run: its cost, steps of second order, norms of weights (of a model file, too), or what it "
        "wrote after each epoch (default: what fits it)",
    )
    add(
        "--out",
        default="graph.svg",
        metavar="FILE",
        help="ends in .svg, .png, .pdf, .dot or .html (charts: one of the first three; samples: .html, .svg, .txt or "
        ".ansi, or none, for the terminal; a dump: a folder)",
    )
    add(
        "--show",
        choices=tuple(SHOWN),
        default="graph",
        help="of a cell or a model; " + "; ".join(f"{name}: {words}" for name, words in SHOWN.items()),
    )
    add(
        "--style", choices=("full", "compact"), default="full", help="weights as nodes, or as labels on edges"
    )
    add("--cell", metavar="FILE:CELL", help="your own cell, if the model is made of it: my_cells.py:MyCell")
    add(
        "--theme",
        choices=("light", "dark", "colour-blind"),
        default="light",
        help="colours of a cell's or model's picture",
    )
    add("--time", type=int, default=3, help="time steps, for a model, and for what --show needs a network")


def run(options: argparse.Namespace) -> int:
    runs = [path for path in options.what if is_run(path)]
    if len(runs) == len(options.what):
        _refuse_options_of_graphs(options)
        return draw_runs(runs, options.chart, options.out if "out" in options.written else None)
    if len(options.what) > 1:
        other = next(what for what in options.what if what not in runs)
        raise UsageError(
            f"only runs are drawn together, and {other!r} is neither the folder of a run nor a history (.jsonl)"
        )
    (what,) = options.what
    if options.cell is not None and not what.endswith(".safetensors"):
        raise UsageError(f"--cell says of which cell a model file is made, and {what} is none; leave it out")
    if options.time < 1:
        raise UsageError(f"--time must be at least 1, not {options.time}")
    if options.chart is None and is_schedule(what):
        return _draw_schedule(what, options.out)
    subject: Cell | Network
    if what.endswith(".safetensors"):
        subject = load_network(what, own_cells(options.cell))
        if options.chart == "weights":
            return _draw_weights(subject, options.out)
    else:
        subject = make_cell(what)
    if options.chart is not None:
        raise UsageError(
            f"--chart {options.chart} is of a run: give its folder or its history (.jsonl), not {what}"
        )
    print(draw_graph(subject, options.show, options.out, options.style, options.theme, options.time))
    return 0


def _refuse_options_of_graphs(options: argparse.Namespace) -> None:
    """Of what is recorded of a run there are charts; what would be ignored there is an error."""
    stray = options.written & {"show", "style", "cell", "theme", "time"}
    if stray:
        names = ", ".join(f"--{name}" for name in sorted(stray))
        raise UsageError(f"{names} is of cells and models, and means nothing for runs; leave it out")


def _draw_schedule(text: str, out: str) -> int:
    import viz

    require_ending("--out", out)
    viz.schedule_curve(make_schedule(text)).savefig(out, dpi=150)
    print(f"wrote {out} (drawn by matplotlib)")
    return 0


def _draw_weights(network: Network, out: str) -> int:
    import viz

    require_ending("--out", out)
    viz.weight_norms(weight_norms(network)).savefig(out, dpi=150)
    print(f"wrote {out} (drawn by matplotlib)")
    return 0
