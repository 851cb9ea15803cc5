"""Writes docs/architectures.md and its pictures: every architecture with equation, source, parameters and diagram.

    python docs/architectures.py [--check] [NAME ...]

A picture is drawn again only if its graph has changed since the last drawing (architectures/graphs.json has digests) or
if you pass its NAME. A new version of Graphviz therefore does not change the other pictures.

The rows are read from the classes: the first paragraph of a docstring is the equation, and the text after "Source:" is
the source. --check writes nothing, and fails if the page or a picture is out of date.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.system.streams import prepare_streams
from graphnet_rnn.cells.feedforward import AUTOENCODERS, autoencoder_layers
from graphnet_rnn.experiments.control import Arm, CenterOut, Controller

FOLDER = Path(__file__).parent
PICTURES = FOLDER / "architectures"
GRAPHS = PICTURES / "graphs.json"
UNITS, SYMBOLS = 128, 65

#: The modules of graphnet_rnn.cells in each family of cells, in the order of the page; others are in OTHER.
FAMILIES = {
    "LSTM and GRU": ("lstm", "gru"),
    "Simple, leaky and delayed": ("elman", "feedforward", "reservoir"),
    "Multiplicative, highway and hypernetworks": ("multiplicative", "highway", "hyper"),
    "Sparse random graphs": ("sparse",),
    "Wrappers and layer normalization": ("combine", "attention"),
}
OTHER = "Other cells"

#: Smaller cells for the pictures of cells that would be too large for a slide.
SMALLER: dict[str, rnn.Cell] = {
    "Hyper": rnn.Hyper(rnn.Elman(64), rnn.Elman(16)),
    "Residual": rnn.Residual(rnn.GRU(64)),
    "Normalized": rnn.Normalized(rnn.Elman(64)),
    "Bidirectional": rnn.Bidirectional(rnn.Elman(64)),
}


@dataclass(frozen=True)
class Row:
    """An architecture: name, Python expression, documented class, number of parameters, and what is drawn."""

    name: str
    python: str
    documented: Any
    parameters: str
    drawn: Any

    @property
    def equation(self) -> str:
        return first_lines(self.documented)

    @property
    def source(self) -> str:
        """The text after "Source:" in the docstring."""
        found = re.search(
            r"Source: (.*?)(?:\n\n|\Z|\n {0,4}Raises)", inspect.getdoc(self.documented) or "", re.S
        )
        return " ".join(found[1].split()).rstrip(".") if found else ""


def first_lines(documented: Any) -> str:
    """The docstring's first paragraph."""
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def cell_rows() -> list[Row]:
    """Every cell of rnn.cells.ALL, with default arguments, in a network that reads and predicts 65 symbols."""
    rows = []
    for name, cell in rnn.cells.ALL.items():
        network = rnn.Network([cell()], SYMBOLS, SYMBOLS)
        fixed = sum(node.size for node in network.fixed.values())
        text = f"{network.theta.size:,}" + (f" (+ {fixed:,} fixed)" if fixed else "")
        call = re.sub(r'equations=".*"', 'equations="..."', repr(cell()))
        rows.append(Row(name, call, cell, text, SMALLER.get(name, cell)))
    return rows


def other_rows() -> list[Row]:
    """Networks and models that are not cells."""
    curves = rnn.Network(autoencoder_layers(AUTOENCODERS["CURVES"]), 784, 784, loss="sigmoid")
    stacked = rnn.Network([rnn.LSTM(UNITS), rnn.LSTM(UNITS)], SYMBOLS, SYMBOLS, skip=True)
    x, u = gn.input((1, 4), name="x_t"), gn.input((1, 2), name="u_t")
    rbm, trbm, rtrbm = (make(64, 32) for make in (rnn.energy.RBM, rnn.energy.TRBM, rnn.energy.RTRBM))
    hmm, controller = rnn.HMM(16, SYMBOLS), Controller()
    tables = sum(table.size for table in (hmm.pi, hmm.A, hmm.B))
    sizes = "(64 visible, 32 hidden)"
    ctc = rnn.Network([rnn.Bidirectional(rnn.LSTM(8))], 13, 40, loss="ctc")
    arm = gn.Graph([gn.label(Arm().step(x, u), "x_t+1")], [x, u])
    energy = rnn.energy
    return [
        Row("Stacked, with skips", "rnn.Network([...], skip=True)", rnn.Network, f"{stacked.theta.size:,} (two LSTMs)",
            stacked),
        Row("Deep autoencoder", "rnn.Network(rnn.cells.feedforward.autoencoder_layers(sizes), ...)", autoencoder_layers,
            f"{curves.theta.size:,} (CURVES)", curves.unroll(1, 1)),
        Row("RBM", "rnn.energy.RBM(visible, hidden)", energy.RBM, f"{rbm.theta.size:,} {sizes}", rbm),
        Row("TRBM", "rnn.energy.TRBM(visible, hidden)", energy.TRBM, f"{trbm.theta.size:,} {sizes}", trbm),
        Row("RTRBM (model)", "rnn.energy.RTRBM(visible, hidden)", energy.RTRBM, f"{rtrbm.theta.size:,} {sizes}", rtrbm),
        Row("HMM", "rnn.HMM(states, symbols)", rnn.HMM, f"{tables:,} (16 states)", hmm),
        Row("CTC", 'rnn.Network(..., loss="ctc")', rnn.ctc.ctc_loss, "0", ctc),
        Row("Arm controller", "rnn.control.Controller()", Controller, f"{controller.theta.size:,} (2 × 100 units)",
            controller),
        Row("Two-joint arm", "rnn.control.Arm()", Arm, "0", arm),
        Row("Control task", "rnn.control.CenterOut()", CenterOut, f"{controller.theta.size:,}", None),
    ]  # fmt: skip


def embedded(cell: rnn.Cell, *more: rnn.Cell) -> list[rnn.Cell]:
    """Layers with an embedding of 27 numbers before them, as in Suarez 2017, 3.2."""
    return [rnn.Dense(27, activation="linear", bias=False), cell, *more]


#: Published numbers: name, layers, symbols, output bias, number reported, and why ours may differ.
REPORTED: list[tuple[str, list[rnn.Cell], int, bool, str, str]] = [
    ("Krause: RNN", [rnn.Elman(400)], 70, False, "216,400", "70 symbols and no output bias in table 4.5"),
    ("Krause: mRNN", [rnn.MRNN(280)], 70, False, "215,880", ""),
    ("Krause: LSTM", [rnn.LSTMKrause(195)], 70, False, "220,350", "195 units: 4 n² + 5 · 70 n"),
    ("Krause: stacked mRNN", [rnn.StackedMRNN((150, 130, 110))], 70, False, "219,090", ""),
    ("Krause: mLSTM", [rnn.MultiplicativeLSTM(170)], 70, False, "215,900", "170 units: 5 n² + 6 · 70 n"),
    ("Sutskever: MRNN", [rnn.MRNN(1500)], 86, True, "4.9 M", ""),
    ("Suarez: LSTM", [rnn.LSTM(1000)], 50, True, "4.3 M", ""),
    ("Suarez: 2-layer LSTM", [rnn.LSTM(1000)] * 2, 50, True, "12.2 M", "the source truncates"),
    ("Suarez: 2-layer LSTM (1125)", embedded(rnn.LSTM(1125), rnn.LSTM(1125)), 50, True, "15.6 M",
     "1125 units in the text, 1150 in a figure (16.06 M); 1133 would give 15.6 M"),
    ("Suarez: HyperLSTM", [rnn.HyperLSTM(1000, 128, 4)], 50, True, "4.9 M", ""),
    ("Suarez: LN LSTM", [rnn.LayerNormLSTM(1000)], 50, True, "4.3 M", ""),
    ("Suarez: LN HyperLSTM", [rnn.HyperLSTM(1000, 128, 4, layer_norm=True)], 50, True, "4.9 M", ""),
    ("Suarez: 2-layer LN HyperLSTM", [rnn.HyperLSTM(1000, 128, 16, layer_norm=True)] * 2, 50, True, "14.4 M",
     "here with embeddings of size 16; the source gives no size (size 4: 14.1 M)"),
    ("Suarez: RHN", embedded(rnn.RHN(1000)), 50, True, "14.0 M", "the source counts only recurrent matrices"),
    ("Suarez: HyperRHN", embedded(rnn.HyperRHN(1000, 128)), 50, True, "15.5 M",
     "about 15.2 M in the text of the source"),
]  # fmt: skip


def reported_table() -> list[str]:
    lines = ["| model | here | reported | remark |", "|---|---|---|---|"]
    for name, layers, symbols, bias, reported, note in REPORTED:
        ours = rnn.Network(layers, symbols, symbols, output_bias=bias).theta.size
        lines.append(f"| {name} | {ours:,} | {reported} | {note} |")
    return lines


def file_of(name: str) -> str:
    return re.sub(r"\W+", "_", name.lower()).strip("_") + ".svg"


def table(rows: list[Row]) -> list[str]:
    lines = ["| architecture | equation | source | parameters | diagram |", "|---|---|---|---|---|"]
    for row in rows:
        equation = row.equation.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
        picture = (
            ""
            if row.drawn is None
            else f"[![{row.name}](architectures/{file_of(row.name)})](architectures/{file_of(row.name)})"
        )
        source = row.source.replace("|", "\\|")
        lines.append(
            f"| **{row.name}** `{row.python}` | {equation} | {source} | {row.parameters} | {picture} |"
        )
    return lines


def cell_tables() -> str:
    """A table for each family of cells."""
    families: dict[str, list[Row]] = {family: [] for family in [*FAMILIES, OTHER]}
    for row in cell_rows():
        module = row.documented.__module__.rpartition(".")[2]
        families[next((each for each, modules in FAMILIES.items() if module in modules), OTHER)].append(row)
    return "\n\n".join("\n".join([f"### {family}", "", *table(rows)]) for family, rows in families.items())


PAGE = """# Architectures

Find a cell or a model with its equation, source, number of parameters and diagram. To use a cell, put it into a
network: `rnn.Network([rnn.GRU(128)], inputs=65, outputs=65)`. See also
[writing your own RNN cell](declaring_cells.md).

## Choose a cell

If you are unsure, start with `LSTM` or `GRU`.

| purpose | cells |
|---|---|
| standard recurrent layers | `Elman`, `LSTM`, `GRU`, `GRUResetAfter` (as `torch.nn.GRU`) |
| a layer without memory | `Dense` |
| variants of the LSTM | `LSTMPeephole`, `LSTMProjected`, `LSTM1997`, `LSTMKrause`, `LSTMSutskever` |
| recurrent weights that depend on the input | `TensorRNN`, `MRNN`, `StackedMRNN`, `MultiplicativeLSTM` |
| several layers in each time step | `RHN`, `HyperRHN` |
| weights scaled by a second network | `Hyper`, `HyperLSTM`, `HyperRHN` |
| layer normalization | `LayerNormLSTM`, `Normalized` |
| sparse random connections | `GraphRNN`, `GNN`, `GLNN`, `GraphLSTM` |
| leaky units; delayed inputs and states | `LeakyRNN`; `NARX` |
| fixed random weights | `EchoState` |
| states of a probabilistic model | `HMMFilter`, `RTRBM` (whole models: `rnn.HMM`, `rnn.energy.RTRBM`) |
| a wrapper around another cell | `Residual`, `Normalized`, `Bidirectional`, `Attention`, `Hyper` |
| a cell from the text of its equations | `Equations` |

You can stack all cells, and wrap them in `Residual`, `Normalized` or `Bidirectional`. The inner cell of `Attention`
must be causal (no output depends on later inputs). The main cell of `Hyper` must compute its products with `affine` or
`product`.

`rnn.Network` has options for skip connections, dropout (`variational=True`: one mask for all time steps), learned
initial states and shared layers (`share={{1: 0}}`).

## Read the equations

| notation | meaning |
|---|---|
| x, h | input; hidden state before the step |
| h', h^l | the value after the step; the value of layer l |
| σ, LN | logistic function; layer normalization |
| x W | product of a row vector and a matrix (capital letter) |
| a b, A ∘ B | elementwise products |
| [h, n] | concatenation |
| W\\_x· | one matrix for each target: W\\_xi, W\\_xf, W\\_xo |
| σ(x, h) | σ(x W\\_x + h W\\_h + b), with weights of its own; likewise tanh(x, h), σ(x, h, c) |
| α | the argument `leak` (LeakyRNN, EchoState) |
| h, t = tanh, σ(...) | h = tanh(...) and t = σ(...), each with its own U, W (RHN, HyperRHN) |
| [l = 0] | 1 in the first highway layer, 0 in the others (RHN, HyperRHN) |
| U, W\\_l, M\\_l | weight matrices (RHN, HyperRHN) |
| S(a) | matrix of factors, computed from the state a of the controller (Hyper) |
| d\\_hk, d\\_xk, b\\_k | vectors for the gate k, computed from a (HyperLSTM) |
| φ, s(·) | activation functions (Dense; graph networks) |
| τ\\_ij, τ\\_0j, ρ\\_j | edge from unit i to j; bias; input weight. Index x: one for each symbol x (graph networks) |
| m\\_s, l\\_s, e | vector and log weight of memory place s; score (Attention) |

## Cells (`rnn.cells.ALL`)

The first column shows the default arguments. *Parameters* counts this cell and the output layer, for {symbols}
symbols.

To draw a diagram yourself, call `viz.draw(cell, style="compact")`. The diagrams of `Hyper`, `Residual`, `Normalized`
and `Bidirectional` show simpler inner cells.

{cells}

## Networks and models

{others}

## Numbers of parameters, compared with the sources

For readers of the [papers](what_the_sources_report.md):

{reported}

## How the architectures are tested

Tests compare every architecture with an independent reference: a NumPy loop from the equations of the source, an
explicit sum over all states, or PyTorch. Every cell also passes `rnn.testing.check_cell`.

`python docs/architectures.py` generates this page from the docstrings of the classes.
"""


def page() -> str:
    """The page as Markdown."""
    return PAGE.format(
        symbols=SYMBOLS,
        cells=cell_tables(),
        others="\n".join(table(other_rows())),
        reported="\n".join(reported_table()),
    )


def drawings() -> dict[str, viz.Drawing]:
    """The drawing of each row that has one."""
    return {
        row.name: viz.draw(
            row.drawn, style="compact", closed=None if isinstance(row.drawn, rnn.Network) else False
        )
        for row in [*cell_rows(), *other_rows()]
        if row.drawn is not None
    }


def without_lines(text: str) -> str:
    """Removes line numbers of nodes, so that a picture does not change if its node's line moves."""
    return re.sub(r"(made at \w+\.py):\d+", r"\1", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    parser.add_argument("names", nargs="*", metavar="NAME", help="draw this row (default: what has changed)")
    options, drawn = parser.parse_args(), drawings()
    for name in options.names:
        if name not in drawn:
            parser.error(f"no row with a picture is named {name!r}; there are {', '.join(drawn)}")
    digests = {
        name: hashlib.sha256(without_lines(each.dot).encode()).hexdigest()[:16]
        for name, each in drawn.items()
    }
    kept = json.loads(GRAPHS.read_text(encoding="utf-8"))
    changed = [
        name for name in drawn if digests[name] != kept.get(name) or not (PICTURES / file_of(name)).is_file()
    ]
    if options.check:
        if (FOLDER / "architectures.md").read_text(encoding="utf-8") != page() or changed:
            print(
                f"docs/architectures.md is out of date (pictures: {changed}); run python docs/architectures.py"
            )
            return 1
        return 0
    for name in options.names or changed:
        file = drawn[name].save(PICTURES / file_of(name))
        file.write_text(without_lines(file.read_text(encoding="utf-8")), encoding="utf-8")
        kept[name] = digests[name]
    kept = {name: digest for name, digest in kept.items() if name in drawn}
    GRAPHS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (FOLDER / "architectures.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    prepare_streams()
    sys.exit(main())
