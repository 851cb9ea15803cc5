"""The recurrent operators of ONNX, and the cells that they compute.

Weights are W (directions, gates · units, inputs), R (directions, gates · units, units) and B (directions, 2 · gates ·
units: the biases of W, then those of R), gates one below the other.
Source: the operators' equations in ONNX's specification, opset 14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from graphnet.graph.node import Array
from graphnet.onnx.writer import Writer
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.cells.gru import GRU, GRUResetAfter
from graphnet_rnn.cells.lstm import LSTM, LSTMPeephole
from graphnet_rnn.formats.torch_weights import stacked


@dataclass(frozen=True)
class Operator:
    """An ONNX operator that computes a cell: its gates in ONNX's order, by our letters.

    split: gates whose two biases stand apart. negated: gates of which we keep 1 − σ(a) = σ(−a).
    peepholes: gates that read the memory cells, in the order of the operator's input P.
    """

    name: str
    gates: str
    attributes: dict[str, int] = field(default_factory=dict)
    split: str = ""
    negated: str = ""
    peepholes: str = ""

    def weights(self, cell: Cell) -> dict[str, Array]:
        """W, R, B and P (only with peepholes), of one direction."""
        signs = np.repeat([-1 if gate in self.negated else 1 for gate in self.gates], cell.widths[0])
        W, R = (stacked(cell, [f"W_{s}{gate}" for gate in self.gates]) * signs[:, None] for s in "xh")
        of_x = stacked(cell, [f"b_x{g}" if g in self.split else f"b_{g}" for g in self.gates]) * signs
        of_h = np.zeros_like(of_x)
        for j, gate in enumerate(self.gates):
            if gate in self.split:
                of_h[j * cell.widths[0] : (j + 1) * cell.widths[0]] = cell.weights[f"b_h{gate}"].value
        found = {"W": W, "R": R, "B": np.concatenate([of_x, of_h])}
        if self.peepholes:
            found["P"] = stacked(cell, [f"w_c{gate}" for gate in self.peepholes])
        return found


#: z of ONNX and torch is the share of the old state; z of GRU that of the new one.
OPERATORS: dict[type[Cell], Operator] = {
    Elman: Operator("RNN", "h"),
    LSTM: Operator("LSTM", "iofg"),
    LSTMPeephole: Operator("LSTM", "iofc", peepholes="iof"),
    GRU: Operator("GRU", "zrn", {"linear_before_reset": 0}, negated="z"),
    GRUResetAfter: Operator("GRU", "zrn", {"linear_before_reset": 1}, split="n"),
}


def fused(
    writer: Writer,
    name: str,
    cells: Sequence[Cell],
    x: str,
    before: Sequence[str],
    lengths: str,
    reverse: bool,
) -> tuple[str, list[str]]:
    """One operator for a layer, or for both directions of one: cells of one kind and width.

    x: (time, batch, inputs). before: (batch, units) each, the states of the cells one after another; "" for zeros.
    lengths: int64 (batch,), or "" where all cases have all steps. Returns what it gives, (time, batch, units of all
    cells), and the states after.
    """
    operator, units, count = OPERATORS[type(cells[0])], cells[0].widths[0], len(cells[0].states)
    weights = [operator.weights(cell) for cell in cells]
    of = {key: writer.constant(np.stack([w[key] for w in weights]), f"{name}.{key}") for key in weights[0]}
    first, second = (writer.constant(np.array([axis])) for axis in (0, 1))
    begin = [
        _together(writer, [before[k + count * d] for d in range(len(cells))], first) for k in range(count)
    ]
    steps = writer.node("Cast", [lengths], to=writer.onnx.TensorProto.INT32) if lengths else ""
    inputs = [x, of["W"], of["R"], of["B"], steps, *begin, *([of["P"]] if "P" in of else [])]
    made = [writer.unique(f"{name}.{what}") for what in ("Y", *(s.name for s in cells[0].states))]
    direction = "bidirectional" if len(cells) == 2 else "reverse" if reverse else "forward"
    writer.node(operator.name, inputs, made, hidden_size=units, direction=direction, **operator.attributes)
    if len(cells) == 1:
        return writer.node("Squeeze", [made[0], second]), [
            writer.node("Squeeze", [end, first]) for end in made[1:]
        ]
    beside = writer.node("Transpose", [made[0]], perm=[0, 2, 1, 3])
    y = writer.node("Reshape", [beside, writer.constant(np.array([0, 0, 2 * units]))])
    ends = [
        writer.node("Gather", [end, writer.constant(np.array(d))], axis=0)
        for d in range(2)
        for end in made[1:]
    ]
    return y, ends


def _together(writer: Writer, states: Sequence[str], first: str) -> str:
    """(directions, batch, units); "" where all are zeros"""
    if not all(states):
        return ""
    apart = [writer.node("Unsqueeze", [state, first]) for state in states]
    return apart[0] if len(apart) == 1 else writer.node("Concat", apart, axis=0)
