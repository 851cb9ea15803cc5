"""A network as a file of ONNX, which onnxruntime and other programs run.

Each layer is one RNN, LSTM or GRU operator. Its weights are W (1, gates · units, inputs), R (1, gates · units,
units) and B (1, 2 · gates · units: the biases beside W, then those beside R), gates one below the other.
Source: the operators' equations in ONNX's specification, opset 14.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.version import __version__
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells import GRU, LSTM, Elman, GRUResetAfter, LSTMPeephole
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.formats.stacked import stacked
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import one_of, whole_number

__all__ = ["export_onnx"]

#: Of 2022: old enough for every runtime in use, and the recurrent operators have not changed since 14.
OPSET, IR_VERSION = 17, 8


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

    def weights(self, cell: Cell) -> tuple[Array, Array, Array, Array | None]:
        """W, R, B and P (None without peepholes), each with the axis of directions first."""
        signs = np.repeat([-1 if gate in self.negated else 1 for gate in self.gates], cell.widths[0])
        W, R = (stacked(cell, [f"W_{s}{gate}" for gate in self.gates]) * signs[:, None] for s in "xh")
        of_x = stacked(cell, [f"b_x{g}" if g in self.split else f"b_{g}" for g in self.gates]) * signs
        of_h = np.zeros_like(of_x)
        for j, gate in enumerate(self.gates):
            if gate in self.split:
                of_h[j * cell.widths[0] : (j + 1) * cell.widths[0]] = cell.weights[f"b_h{gate}"].value
        P = stacked(cell, [f"w_c{gate}" for gate in self.peepholes])[None] if self.peepholes else None
        return W[None], R[None], np.concatenate([of_x, of_h])[None], P


#: ONNX's z, like torch's, keeps the state; that of GRU replaces it.
OPERATORS: dict[type[Cell], Operator] = {
    Elman: Operator("RNN", "h"),
    LSTM: Operator("LSTM", "iofg"),
    LSTMPeephole: Operator("LSTM", "iofc", peepholes="iof"),
    GRU: Operator("GRU", "zrn", {"linear_before_reset": 0}, negated="z"),
    GRUResetAfter: Operator("GRU", "zrn", {"linear_before_reset": 1}, split="n"),
}


def export_onnx(
    network: Network,
    path: str | Path,
    time: int | None = None,
    batch: int | None = None,
    initial: str = "given",
    dtype: str = "float32",
) -> None:
    """Writes o = logits of x, and the states after x, as an ONNX file (opset 17).

    Inputs: x, int64 (time, batch) or floats (time, batch, inputs), as the network reads; with initial="given"
    also the states before x, initial_h0, initial_c0, initial_h1, ... (batch, units). Outputs: logits (time,
    batch, outputs) and final_h0, final_c0, ... to carry on with.
    time, batch: fixed sizes; None leaves them open. initial: "given", "zero", or "learned" (for a network
    that has learned states), as in Network.unroll. dtype: of weights and values; most runtimes, onnxruntime
    among them, run the recurrent operators in "float32" only.

    Layers may be Elman, LSTM, LSTMPeephole, GRU and GRUResetAfter, mixed, with skip connections or without.
    Dropout is for training and left out. A symbol beyond the network's is an error when the file is run. The
    vocabulary, if there is one, is the JSON string "vocabulary" in the file's metadata.
    Raises UsageError for other cells, for settings that cannot be meant, and without the package onnx;
    SaveError if the file cannot be written.
    """
    if not isinstance(network, Network):
        raise UsageError(f"export_onnx: an rnn.Network is needed, not a {type(network).__name__}")
    network.require_each_step("export_onnx")
    sizes: list[int | str] = [
        name if size is None else whole_number(f"export_onnx: {name}", size)
        for name, size in (("time", time), ("batch", batch))
    ]
    one_of("initial", initial, ("given", "zero", "learned"))
    number = np.dtype(one_of("dtype", dtype, ("float32", "float64")))
    if initial == "learned" and network.initial_state != "learned":
        raise UsageError("export_onnx: initial='learned' needs a network with initial_state='learned'")
    for cell in network.layers:
        if type(cell) not in OPERATORS:
            known = ", ".join(kind.__name__ for kind in OPERATORS)
            raise UsageError(f"ONNX has no operator for the cell {type(cell).__name__}; it has for {known}")
    try:
        import onnx
    except ImportError:
        raise UsageError("writing ONNX files needs the package onnx: pip install 'onnx>=1.16'") from None
    writer = _Writer(onnx, network, number, sizes)
    write_atomically(path, writer.model(initial).SerializeToString(deterministic=True))


class _Writer:
    """Collects nodes, constants, inputs and outputs of one ONNX graph."""

    def __init__(self, onnx: Any, network: Network, dtype: np.dtype[Any], sizes: Sequence[int | str]) -> None:
        self.onnx, self.network, self.dtype = onnx, network, dtype
        self.time, self.batch = sizes
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    # -- words -------------------------------------------------------------------------------

    def constant(self, name: str, value: Any) -> str:
        array = np.asarray(value)
        array = array.astype(self.dtype) if array.dtype.kind == "f" else array
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        """Adds a node, named as its first output, which it returns."""
        made = self.onnx.helper.make_node(operator, list(inputs), list(outputs), outputs[0], **attributes)
        self.nodes.append(made)
        return outputs[0]

    def declare(self, where: list[Any], name: str, dtype: Any, shape: Sequence[int | str]) -> str:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        where.append(self.onnx.helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    # -- the network -------------------------------------------------------------------------

    def model(self, initial: str) -> Any:
        """The whole file."""
        network, helper = self.network, self.onnx.helper
        self.constant("axis0", np.array([0]))
        self.constant("axis1", np.array([1]))
        x = below = self.read()
        hidden: list[str] = []
        finals: list[tuple[str, int]] = []
        for l, cell in enumerate(network.layers):
            if l and network.skips_inputs:
                below = self.node("Concat", [below, x], f"layer{l}.x", axis=2)
            below = self.layer(l, cell, below, self.before(l, cell, initial))
            hidden.append(below)
            finals += [(f"final_{s.name}{l}", n) for s, n in zip(cell.states, cell.widths, strict=True)]
        self.project(hidden)
        self.declare(self.outputs, "logits", self.dtype, [self.time, self.batch, network.outputs])
        for name, width in finals:
            self.declare(self.outputs, name, self.dtype, [self.batch, width])
        graph = helper.make_graph(self.nodes, "network", self.inputs, self.outputs, self.constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="graphnet",
            producer_version=__version__,
            doc_string=repr(network),
        )
        if network.vocabulary is not None:
            helper.set_model_props(model, {"vocabulary": json.dumps(network.vocabulary.characters)})
        return model

    def read(self) -> str:
        """x as vectors (time, batch, inputs)."""
        width = self.network.inputs
        if self.network.reads == "vectors":
            return self.declare(self.inputs, "x", self.dtype, [self.time, self.batch, width])
        x = self.declare(self.inputs, "x", np.int64, [self.time, self.batch])
        # OneHot makes zeros of a symbol that is too large; looking it up among all symbols is an error.
        known = self.node("Gather", [self.constant("symbols", np.arange(width)), x], "x.known")
        depth, values = self.constant("depth", np.array(width)), self.constant("off_on", np.array([0.0, 1.0]))
        return self.node("OneHot", [known, depth, values], "x.one_hot", axis=-1)

    def before(self, l: int, cell: Cell, initial: str) -> list[str]:
        """The states before x, (1, batch, units) each; "" for an input left out, which means zeros."""
        names = [state.name for state in cell.states]
        if initial == "zero":
            return [""] * len(names)
        states = []
        for name, width in zip(names, cell.widths, strict=True):
            if initial == "given":
                given = self.declare(self.inputs, f"initial_{name}{l}", self.dtype, [self.batch, width])
                states.append(self.node("Unsqueeze", [given, "axis0"], f"layer{l}.{name}_0"))
            else:
                value = self.network.parameters[f"initial.{name}{l}"].value
                row = self.constant(f"initial.{name}{l}", value[None, None])
                states.append(self.node("Expand", [row, self.shape_of_states()], f"layer{l}.{name}_0"))
        return states

    def shape_of_states(self) -> str:
        """[1, batch, 1], to which a learned state is widened."""
        if not any(node.name == "states.shape" for node in self.nodes):
            self.node("Shape", ["x"], "batch.size", start=1, end=2)
            one = self.constant("one", np.array([1]))
            self.node("Concat", [one, "batch.size", one], "states.shape", axis=0)
        return "states.shape"

    def layer(self, l: int, cell: Cell, x: str, before: Sequence[str]) -> str:
        """One recurrent operator; returns its outputs h_t, (time, batch, units)."""
        operator, name = OPERATORS[type(cell)], f"layer{l}"
        W, R, B, P = operator.weights(cell)
        weights = [self.constant(f"{name}.{k}", v) for k, v in (("W", W), ("R", R), ("B", B))]
        inputs = [x, *weights, "", *before]  # between them: lengths of sequences, which are all of `time`
        if P is not None:
            inputs.append(self.constant(f"{name}.P", P))
        ends = [f"{name}.{state.name}_T" for state in cell.states]
        attributes = {"hidden_size": cell.widths[0], **operator.attributes}
        self.node(operator.name, inputs, f"{name}.directions", *ends, **attributes)
        for state, end in zip(cell.states, ends, strict=True):
            self.node("Squeeze", [end, "axis0"], f"final_{state.name}{l}")
        return self.node("Squeeze", [f"{name}.directions", "axis1"], f"{name}.h")

    def project(self, hidden: Sequence[str]) -> None:
        """logits = Σ h W_ho + b_o over the layers that the output reads."""
        own = self.network.parameters
        matrices = {k.removeprefix("output."): p.value for k, p in own.items() if k.startswith("output.W_")}
        readers = hidden[-len(matrices) :]
        products = [
            self.node("MatMul", [h, self.constant(name, matrix)], f"output.{name}")
            for h, (name, matrix) in zip(readers, matrices.items(), strict=True)
        ]
        total = products[0] if len(products) == 1 else self.node("Sum", products, "output.sum")
        bias = own["output.b_o"].value if self.network.output_bias else np.zeros(self.network.outputs)
        self.node("Add", [total, self.constant("b_o", bias)], "logits")
