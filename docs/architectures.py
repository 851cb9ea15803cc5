"""Writes docs/architectures.md and its pictures: every architecture with equation, source, parameters and diagram.

    python docs/architectures.py [--check] [NAME ...]

A picture is drawn again only if its graph has changed since the last drawing (architectures/graphs.json has digests) or
if you pass its NAME. A new version of Graphviz therefore does not change the other pictures.

The rows are read from the classes: the first paragraph of a docstring is the equation, and the text after "Source:" is
the source. The program also writes the table of published_numbers_of_parameters.md, between two comments. --check
writes nothing, and fails if a page or a picture is out of date.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import re
import sys
import textwrap
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


@dataclass(frozen=True)
class Family:
    """A section of cells: its heading, the modules of graphnet_rnn.cells, and the notation that only it uses."""

    heading: str
    modules: tuple[str, ...]
    notation: str

    @property
    def anchor(self) -> str:
        return "#" + re.sub(r"[^\w -]", "", self.heading.lower()).replace(" ", "-")


#: In the order of the page; cells of other modules are in OTHER.
FAMILIES = (
    Family(
        "LSTM and GRU",
        ("lstm", "gru"),
        """\
i, f, o are the input, forget and output gates, g is the new content, and c, s, m are memory cells, as each source
names them. r and z are the reset and update gates. A high z takes the new value n in `GRU`; in `GRUResetAfter`, as in
PyTorch, it keeps the old state.""",
    ),
    Family(
        "Simple, leaky and delayed",
        ("elman", "feedforward", "reservoir"),
        """\
φ is the argument `activation`. α is the argument `leak`, the share of the old state; many papers call 1 - α the
leaking rate.""",
    ),
    Family(
        "Multiplicative",
        ("multiplicative",),
        """\
m is a product of input and state. Index l is the layer of `StackedMRNN`; W_gh^l reads the layer below.""",
    ),
    Family(
        "Highway networks and hypernetworks",
        ("highway", "hyper"),
        """\
In `RHN` and `HyperRHN`, index l is a highway layer, s the state, h the new content, t the transform gate, and ←
replaces a value in each layer. In hypernetworks, a is the output of the *controller*, a small network that scales the
weights of the main one. S(a) is a matrix of factors; z, d_hk(a) and d_xk(a) are vectors of factors; b_k(a) is a bias;
k is a gate.""",
    ),
    Family(
        "Sparse random graphs",
        ("sparse",),
        """\
a_j is the output of unit j, V_j the value before the activation function s (argument `activation`). τ_ij is the
weight of the edge from unit i to unit j, τ_0j a bias, ρ_jx an input weight. Index x: a separate weight for each symbol
x.""",
    ),
    Family(
        "Wrappers, layer normalization and attention",
        ("combine", "attention"),
        """\
inner(x)_t is the output of the wrapped cell. LN(a) = g (a - μ) / √(v + 1e-5) + s, with the mean μ and the variance v
of the units of a; g and s are learned. In `Attention`, m_s and l_s are the vector and the log weight of memory
place s, e is a score, α_s the attention weight and c the context.""",
    ),
)
OTHER = Family(
    "Other cells",
    (),
    """\
In `RTRBMFilter`, r is the state. In `HMMFilter`, l has the log probabilities of the hidden states, A the transition and
B the emission probabilities. For `Equations`, the row shows the default text.""",
)

#: Smaller cells for the pictures of cells that would be too large for a slide.
SMALLER: dict[str, rnn.Cell] = {
    "Hyper": rnn.Hyper(rnn.Elman(64), rnn.Elman(16)),
    "Residual": rnn.Residual(rnn.GRU(64)),
    "Normalized": rnn.Normalized(rnn.Elman(64)),
    "Bidirectional": rnn.Bidirectional(rnn.Elman(64)),
}


@dataclass(frozen=True)
class Row:
    """An architecture: name, Python expression, documented class, number of parameters, and what is drawn.

    part: of the docstring's first paragraph, if not all of it is the equation.
    """

    name: str
    python: str
    documented: Any
    parameters: str
    drawn: Any
    part: str = ""

    @property
    def equation(self) -> str:
        return self.part or first_lines(self.documented)

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


def network_rows() -> list[Row]:
    """Networks of several layers."""
    curves = rnn.Network(autoencoder_layers(AUTOENCODERS["CURVES"]), 784, 784, loss="sigmoid")
    two = [rnn.LSTM(UNITS), rnn.LSTM(UNITS)]
    stacked = rnn.Network(two, SYMBOLS, SYMBOLS)
    skips = rnn.Network(two, SYMBOLS, SYMBOLS, skip=True)
    pooled = rnn.Network(two, SYMBOLS, SYMBOLS, pool="last")
    plain, skipping, pooling = re.split("; (?:skip=True|pool): ", first_lines(rnn.Network))
    ctc = rnn.Network([rnn.Bidirectional(rnn.LSTM(8))], 13, 40, loss="ctc")
    return [
        Row("Stacked", "rnn.Network([...])", rnn.Network, f"{stacked.theta.size:,} (two LSTMs)", None, plain),
        Row("Stacked, with skips", "rnn.Network([...], skip=True)", rnn.Network, f"{skips.theta.size:,} (two LSTMs)",
            skips, skipping),
        Row("One output per sequence", 'rnn.Network([...], pool="last")', rnn.Network,
            f"{pooled.theta.size:,} (two LSTMs)", None, pooling),
        Row("Deep autoencoder", "rnn.Network(rnn.cells.feedforward.autoencoder_layers(sizes), ...)", autoencoder_layers,
            f"{curves.theta.size:,} (CURVES)", curves.unroll(1, 1)),
        Row("CTC", 'rnn.Network(..., loss="ctc")', rnn.ctc.ctc_loss, "0", ctc),
    ]  # fmt: skip


def probabilistic_rows() -> list[Row]:
    """Models that are not networks."""
    energy = rnn.energy
    rbm, trbm, rtrbm = (make(64, 32) for make in (energy.RBM, energy.TRBM, energy.RTRBM))
    rnn_rbm = energy.RecurrentRBM(rnn.Network([rnn.Elman(32)], 64, 0, reads="vectors"), 32)
    hmm = rnn.HMM(16, SYMBOLS)
    tables = sum(table.size for table in (hmm.pi, hmm.A, hmm.B))
    sizes = "(64 visible, 32 hidden)"
    return [
        Row("RBM", "rnn.energy.RBM(visible, hidden)", energy.RBM, f"{rbm.theta.size:,} {sizes}", rbm),
        Row("TRBM", "rnn.energy.TRBM(visible, hidden)", energy.TRBM, f"{trbm.theta.size:,} {sizes}", trbm),
        Row("RTRBM (model)", "rnn.energy.RTRBM(visible, hidden)", energy.RTRBM, f"{rtrbm.theta.size:,} {sizes}", rtrbm),
        Row("RNN-RBM", "rnn.energy.RecurrentRBM(network, hidden)", energy.RecurrentRBM,
            f"{rnn_rbm.theta.size:,} {sizes}", rnn_rbm),
        Row("HMM", "rnn.HMM(states, symbols)", rnn.HMM, f"{tables:,} (16 states)", hmm),
    ]  # fmt: skip


def control_rows() -> list[Row]:
    """A network that moves an arm, the arm, and a task."""
    controller = Controller()
    x, u = gn.input((1, 4), name="x_t"), gn.input((1, 2), name="u_t")
    arm = gn.Graph([gn.label(Arm().step(x, u), "x_t+1")], [x, u])
    return [
        Row("Arm controller", "rnn.control.Controller()", Controller, f"{controller.theta.size:,} (2 × 100 units)",
            controller),
        Row("Two-joint arm", "rnn.control.Arm()", Arm, "0", arm),
        Row("Control task", "rnn.control.CenterOut(controller)", CenterOut, "0", None),
    ]  # fmt: skip


def all_rows() -> list[Row]:
    return [*cell_rows(), *network_rows(), *probabilistic_rows(), *control_rows()]


def embedded(cell: rnn.Cell, *more: rnn.Cell) -> list[rnn.Cell]:
    """Layers with an embedding of 27 numbers before them, as in Suarez 2017, 3.2."""
    return [rnn.Dense(27, activation="linear", bias=False), cell, *more]


#: Published numbers: name, layers, symbols, output bias, number reported, and a remark.
REPORTED: list[tuple[str, list[rnn.Cell], int, bool, str, str]] = [
    ("Krause: RNN", [rnn.Elman(400)], 70, False, "216,400", "400 units"),
    ("Krause: mRNN", [rnn.MRNN(280)], 70, False, "215,880", "280 units"),
    ("Krause: LSTM", [rnn.LSTMKrause(195)], 70, False, "220,350", "195 units"),
    ("Krause: stacked mRNN", [rnn.StackedMRNN((150, 130, 110))], 70, False, "219,090", "150, 130 and 110 units"),
    ("Krause: mLSTM", [rnn.MultiplicativeLSTM(170)], 70, False, "215,900", "170 units"),
    ("Sutskever: MRNN", [rnn.MRNN(1500)], 86, True, "4.9 M", "1500 units"),
    ("Suarez: LSTM", [rnn.LSTM(1000)], 50, True, "4.3 M", ""),
    ("Suarez: 2-layer LSTM", [rnn.LSTM(1000)] * 2, 50, True, "12.2 M", "the source rounds down"),
    ("Suarez: 2-layer LSTM (1125)", embedded(rnn.LSTM(1125), rnn.LSTM(1125)), 50, True, "15.6 M",
     "unexplained: 1125 units in the text, 1150 in a figure (16.06 M); 1133 would give 15.6 M"),
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
    lines = ["| model | here | published | remark |", "|---|---|---|---|"]
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


def escaped(text: str) -> str:
    """Text with underscores and asterisks for Markdown, outside of code and emphasis."""
    return re.sub(r"`[^`]*`|_", lambda found: "\\_" if found[0] == "_" else found[0], text)


def family_of(documented: Any) -> Family:
    module = documented.__module__.rpartition(".")[2]
    return next((each for each in FAMILIES if module in each.modules), OTHER)


def cell_tables() -> str:
    """A section for each family of cells."""
    rows = cell_rows()
    return "\n\n".join(
        "\n".join([
            f"### {family.heading}", "", textwrap.fill(escaped(family.notation), 120, break_on_hyphens=False), "",
            *table([row for row in rows if family_of(row.documented) is family]),
        ])
        for family in (*FAMILIES, OTHER)
    )  # fmt: skip


def require_every_cell(text: str) -> None:
    missing = sorted(set(rnn.cells.ALL) - set(re.findall(r"`(\w+)`", text)))
    if missing:
        raise SystemExit(f"docs/architectures.py: add {', '.join(missing)} to a row of CHOICE")


def linked(text: str) -> str:
    """Text with the name of each cell linked to its family."""

    def link(found: re.Match[str]) -> str:
        cell = rnn.cells.ALL.get(found[1])
        return f"[{found[0]}]({family_of(cell).anchor})" if cell else found[0]

    return re.sub(r"`(\w+)`", link, text)


CHOICE = """| purpose | cells |
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
| states of a probabilistic model | `HMMFilter`, `RTRBMFilter` ([whole models](#probabilistic-models)) |
| a wrapper around another cell | `Residual`, `Normalized`, `Bidirectional`, `Attention`, `Hyper` |
| a cell from the text of its equations | `Equations` |"""

PAGE = """# Architectures

Find a cell or a model with its equation, source, number of parameters and diagram. To use a cell, put it into a
network: `rnn.Network([rnn.GRU(128)], inputs=65, outputs=65)`. See also
[writing your own RNN cell](declaring_cells.md).

## Choose a cell

If you are unsure, start with `LSTM` or `GRU`. Each name links to the section with its equation.

{choice}

You can stack all cells, and wrap them in `Residual`, `Normalized` or `Bidirectional`. The inner cell of `Attention`
must be causal (no output depends on later inputs). The main cell of `Hyper` must compute its products with
[`affine` or `product`](declaring_cells.md#declare-weights).

## Read the equations

These rows apply to all cells. Other letters are explained above the table that uses them.

| notation | meaning |
|---|---|
| x, h | input; hidden state before the step |
| h' | the value of h after the step; likewise c' |
| x W | product of a row vector and a matrix (capital letter) |
| a b, A ∘ B | elementwise products |
| [h, n] | concatenation |
| σ, LN | logistic function; [layer normalization](#wrappers-layer-normalization-and-attention) |
| i, f, o = σ(x W\\_x· + ...) | one equation for each gate, with its own weights: W\\_xi, W\\_xf, W\\_xo |
| σ(x, h) | σ(x W\\_x + h W\\_h + b), with its own weights; likewise tanh(x, h), σ(x, h, c) |

## Cells (`rnn.cells.ALL`)

The first column shows the default arguments. *Parameters* counts the cell and an output layer, for {symbols} input and
output symbols; with 128 units, {output:,} of them are in the output layer. Tests compare every architecture with an
independent reference, such as a NumPy loop from the equations of the source, or PyTorch.

To draw a diagram yourself, call `viz.draw(cell, style="compact")`. The diagrams of `Hyper`, `Residual`, `Normalized`
and `Bidirectional` show simpler inner cells.

{cells}

## Networks

h^l\\_t is the state of layer l, and L the last layer; o is the output before the loss. `rnn.Network` also has options
for dropout (`variational=True`: one mask for all time steps), learned initial states and shared layers
(`share={{1: 0}}`). For CTC, p\\_t has the probabilities of the labels at step t, with a blank.

{networks}

## Probabilistic models

v and h are visible and hidden units, b\\_v and b\\_h their biases, and Z is the normalizing constant. W'\\_1 are the
weights from r\\_{{t-1}} to the hidden units; B\\_v,t and B\\_h,t depend on the past. An HMM has the initial
probabilities π, transition probabilities A and emission probabilities B.

{probabilistic}

## Motor control

q = [θ, φ] are the angles of shoulder and elbow. M is the inertia matrix, τ the torques, a₂ a constant of the arm. u is
the output of the controller (the torques). The controller reads v\\_t: the state x of the arm, possibly delayed, and
the goal x\\*.

{control}

<!-- Generated from the docstrings of the classes by docs/architectures.py. Don't edit this file. -->
"""

SOURCES = FOLDER / "published_numbers_of_parameters.md"
#: The two comments between which the program writes in SOURCES.
BEGIN, END = "<!-- Written by docs/architectures.py -->", "<!-- End of what docs/architectures.py writes -->"


def page() -> str:
    """The page as Markdown."""
    return PAGE.format(
        choice=linked(CHOICE),
        symbols=SYMBOLS,
        output=(UNITS + 1) * SYMBOLS,
        cells=cell_tables(),
        networks="\n".join(table(network_rows())),
        probabilistic="\n".join(table(probabilistic_rows())),
        control="\n".join(table(control_rows())),
    )


def sources() -> str:
    """The page of published numbers of parameters, with its table."""
    before, _, rest = SOURCES.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n".join([f"{before}{BEGIN}", "", *reported_table(), "", f"{END}{after}"])


def drawings() -> dict[str, viz.Drawing]:
    """The drawing of each row that has one."""
    return {
        row.name: viz.draw(
            row.drawn,
            style="compact",
            closed=None if isinstance(row.drawn, rnn.Network | rnn.Unrolled) else False,
        )
        for row in all_rows()
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
    require_every_cell(CHOICE)
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
    pages = {FOLDER / "architectures.md": page(), SOURCES: sources()}
    if options.check:
        old = [path.name for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
        if old or changed:
            print(f"out of date: {old} (pictures: {changed}); run python docs/architectures.py")
            return 1
        return 0
    for name in options.names or changed:
        file = drawn[name].save(PICTURES / file_of(name))
        file.write_text(without_lines(file.read_text(encoding="utf-8")), encoding="utf-8")
        kept[name] = digests[name]
    kept = {name: digest for name, digest in kept.items() if name in drawn}
    GRAPHS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    prepare_streams()
    sys.exit(main())
