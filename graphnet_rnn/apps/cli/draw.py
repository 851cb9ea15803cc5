"""Draw a cell, a trained model, the history of a run, or a comparison of runs."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import graphnet as gn
from graphnet_rnn.apps.cli.answers import save_chart
from graphnet_rnn.apps.cli.options import add_cell, refuse
from graphnet_rnn.apps.cli.outputs import PAGES, PICTURES, require_ending, require_folder_of
from graphnet_rnn.apps.cli.specs import is_schedule, make_cell, make_schedule, own_cells
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.errors import UsageError
from graphnet_rnn.formats.model_file import load_network
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.norms import weight_norms
from graphnet_rnn.network.unroll import Unrolled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from viz import Drawing

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

#: Charts of a run: learning curve, second-order steps, norms of weights, samples.
KINDS = ("curve", "flight", "weights", "samples")
#: Choices of `--show` and their help.
SHOWN = {
    "graph": "the graph; of a network, with each layer at each time step as one box",
    "inside": "all nodes inside the boxes",
    "values": "with the value of each node, for random inputs",
    "gradients": "with the norm of the derivative of the cost with respect to each node",
    "mirror": "the forward and the backward pass side by side",
    "generation": "a network that reads its own predictions",
    "explorer": "a page (.html) to browse, search and step through it",
    "dump": "a folder with the graph after each pass, the instructions, and pictures",
}
#: Time steps above which a message announces the picture: 5,000 take half a minute.
MANY_STEPS = 500
#: Symbols of the network around a cell.
_SYMBOLS = 27


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "what",
        nargs="+",
        help="cell (LSTM, my_cells.py:MyCell), model file, run (its folder or its history.jsonl; several are "
        "compared), or schedule as for train",
    )
    add(
        "--chart",
        choices=KINDS,
        help="chart of a run: cost, second-order steps, norms of weights (also of a model file), or text samples "
        "of each epoch (default: chosen from the run)",
    )
    add(
        "--out",
        default="graph.svg",
        metavar="FILE",
        help="output file: .svg, .png, .pdf, .dot, .html or .tex (charts: .svg, .png or .pdf; samples: .html, .svg, "
        ".txt or .ansi, or none to print them; dump: a folder)",
    )
    add(
        "--show",
        choices=tuple(SHOWN),
        default="graph",
        help="picture of a cell or model; " + "; ".join(f"{name}: {words}" for name, words in SHOWN.items()),
    )
    add(
        "--style",
        choices=("full", "compact"),
        default="full",
        help="draw weights as nodes (full), or as labels on edges (compact)",
    )
    add_cell(parser)
    add(
        "--theme",
        choices=("light", "dark", "colour-blind"),
        default="light",
        help="colors of the picture of a cell or model",
    )
    add("--time", type=int, default=3, help="number of time steps of a model")


def run(options: argparse.Namespace) -> int:
    runs = [path for path in options.what if path.endswith(".jsonl") or os.path.isdir(path)]
    if len(runs) == len(options.what):
        strange = options.written & {"show", "style", "cell", "theme", "time"}
        refuse(strange, "applies to cells and models, not to runs")
        return _draw_runs(runs, options.chart, options.out if "out" in options.written else None)
    if len(options.what) > 1:
        other = next(what for what in options.what if what not in runs)
        raise UsageError(
            f"only runs can be compared in one chart; {other!r} is neither the folder of a run nor a history (.jsonl)"
        )
    (what,) = options.what
    if options.cell is not None and not what.endswith(".safetensors"):
        raise UsageError(f"--cell is only for model files, and {what} is not one; leave it out")
    import viz

    subject: Cell | Network
    if options.chart is None and is_schedule(what):
        refuse(
            options.written & {"show", "style", "theme", "time"},
            "applies to cells and models, not to schedules",
        )
        require_ending("--out", options.out)
        return _chart(viz.schedule_curve(make_schedule(what)), options.out)
    if what.endswith(".safetensors"):
        subject = load_network(what, own_cells(options.cell))
        if options.chart == "weights":
            require_ending("--out", options.out)
            return _chart(viz.weight_norms(weight_norms(subject)), options.out)
    else:
        subject = make_cell(what)
        if options.show in ("graph", "explorer"):
            refuse(
                options.written & {"time"},
                f"does not apply to a cell with --show {options.show}, which is one step",
            )
    if options.chart is not None:
        raise UsageError(
            f"--chart {options.chart} needs a run: give its folder or its history (.jsonl), not {what}"
        )
    print(_draw_graph(subject, options.show, options.out, options.style, options.theme, options.time))
    return 0


def _chart(figure: Figure, out: str) -> int:
    save_chart(figure, out)
    return 0


# -- runs ------------------------------------------------------------------------------------------


def _draw_runs(paths: Sequence[str], kind: str | None, out: str | None) -> int:
    import viz

    for path in paths:
        if os.path.isdir(path) and not os.path.exists(os.path.join(path, "history.jsonl")):
            raise UsageError(f"{path} is a folder without a run: it has no history.jsonl")
    if len(paths) > 1 and kind not in (None, "curve"):
        raise UsageError(f"--chart {kind} shows one run, not {len(paths)}; name one, or leave --chart out")
    if kind == "samples":
        require_ending("--out", out, PAGES, "the name of a page of samples")
        samples = viz.samples(paths[0])
        if out is None:
            print(samples)
        else:
            samples.save(out)
            print(f"wrote {out}")
        return 0
    out = "graph.svg" if out is None else out
    require_ending("--out", out)
    if len(paths) > 1:
        return _chart(viz.compare_runs(dict(zip(_names(paths), paths, strict=True))), out)
    charts: dict[str | None, Callable[[str], Figure]] = {
        None: viz.history_chart,
        "curve": viz.training_curve,
        "flight": viz.flight_recorder,
        "weights": viz.weight_norms,
    }
    return _chart(charts[kind](paths[0]), out)


def _names(paths: Sequence[str]) -> list[str]:
    files = [Path(os.path.abspath(path)) for path in paths]
    folders = [f.parent if f.name == "history.jsonl" else f for f in files]
    names = [f.stem if f.suffix == ".jsonl" else f.name for f in folders]
    chosen = names if len(set(names)) == len(names) else paths
    return [os.fsencode(name).decode(errors="backslashreplace") for name in chosen]


# -- graphs ----------------------------------------------------------------------------------------


def _draw_graph(subject: Cell | Network, shown: str, out: str, style: str, theme: str, time: int) -> str:
    import viz

    if shown == "explorer":
        require_ending("--show explorer: --out", out, (".html",), "the name of a page")
        thing = subject if isinstance(subject, Cell) else _unrolled(subject, time)
        return f"wrote {viz.explore(thing, out, theme=theme)} (open it in a browser)"
    if shown != "dump":
        require_ending("--out", out, PICTURES, "the name of a picture")
    if shown == "graph" and isinstance(subject, Cell):
        return _saved(viz.draw(subject, style, theme=theme), out)
    network = Network([subject], _SYMBOLS, _SYMBOLS) if isinstance(subject, Cell) else subject
    if shown == "dump":
        return _dumped(network, out, style, theme, time)
    if shown == "generation":
        _announce(time)
        return _saved(viz.generation(network, max(time, 3), theme=theme), out)
    unrolled = _unrolled(network, time)
    drawings: dict[str, Callable[[], Drawing]] = {
        "graph": lambda: viz.draw(unrolled, style, theme=theme),
        "inside": lambda: viz.draw(unrolled, style, closed=False, theme=theme),
        "values": lambda: viz.draw(unrolled, style, notes=viz.values(unrolled), theme=theme),
        "gradients": lambda: viz.draw(unrolled, style, notes=viz.gradients(unrolled.cost), theme=theme),
        "mirror": lambda: viz.mirror(unrolled.cost, style, theme=theme),
    }
    return _saved(drawings[shown](), out)


def _unrolled(network: Network, time: int) -> Unrolled:
    settings: dict[str, Any] = {"labels": max(1, time // 2)} if network.loss == "ctc" else {}
    unrolled = network.unroll(time, batch=1, training=False, **settings)
    _announce(time)
    return unrolled


def _announce(time: int) -> None:
    if time > MANY_STEPS:
        warnings.warn(
            f"{time:,} time steps take long to draw, and are hard to read; use a smaller --time",
            stacklevel=2,
        )


def _saved(drawing: Drawing, out: str) -> str:
    drawing.save(out)
    # DOT is the text that a Graphviz would draw.
    return f"wrote {out} ({'not drawn' if out.lower().endswith('.dot') else drawing.renderer})"


def _dumped(network: Network, out: str, style: str, theme: str, time: int) -> str:
    import viz

    if os.path.splitext(out)[1]:
        raise UsageError(f"--show dump: --out {out} must be a folder, so its name cannot have a suffix")
    require_folder_of("--out", out, "explain.txt")
    unrolled = _unrolled(network, time)
    function = gn.compile([unrolled.cost, *gn.gradient(unrolled.cost, list(network.parameters.values()))])
    folder = viz.dump(function, out, style, theme)
    return f"wrote {len(list(folder.iterdir()))} files into {folder}"
