"""A network as an ONNX file, for onnxruntime and other programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.onnx.sizes import Size
from graphnet.onnx.translate import traced, write
from graphnet.onnx.writer import Writer
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.formats.onnx_layers import Layers
from graphnet_rnn.network.ctc.loss import blank_for_sure
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.settings import one_of, whole_number, yes_or_no


def export_onnx(
    network: Network,
    path: str | Path,
    time: int | None = None,
    batch: int | None = None,
    initial: str = "given",
    dtype: str = "float32",
    lengths: bool = False,
) -> None:
    """Writes the logits of x, and the final states, as an ONNX file (opset 17).

    network: the network to export, without dropout.
    path: the file to write.
    time, batch: fixed sizes; default None, dynamic.
    initial: "given", the default, "zero", or "learned" (for a network with learned initial states), as in
    Network.unroll.
    dtype: of weights and values, default "float32"; most runtimes, including onnxruntime, run the recurrent operators
    in float32 only.
    lengths: True to add the input `lengths`. After the end of a case logits are 0 (with "ctc" certain of the blank), x
    is ignored, and the states stay, as in rnn.run. Default False.

    Inputs of the file: x, int64 (time, batch) or floats (time, batch, inputs), as the network reads; with
    initial="given" also the initial states, initial_h0, initial_c0, initial_h1, ... (batch, units); with lengths=True
    the lengths, int64 (batch,). Outputs: logits (time, batch, outputs), with a pool (batch, outputs), without an output
    layer `hidden` (time, batch, units) instead; and final_h0, final_c0, ... as the next initial states.

    A layer of Elman, LSTM, LSTMPeephole, GRU or GRUResetAfter, or Bidirectional of two of these, is one operator. Any
    other, including your own cell, is a Scan with the cell's equations as its body. Weights are initializers with their
    own names, except those that operators stack. Running the file with a symbol out of range is an error. The file's
    metadata has the vocabulary, if any, as the JSON string "vocabulary", and a description of the network.
    For several networks as one graph use gn.export_onnx.
    Raises UsageError, naming the node, for an op that ONNX does not have, for a cell with its own `sequence`, for
    invalid settings, and without the package onnx; SaveError if the file cannot be written.

    >>> network = rnn.Network([rnn.LSTM(3)], inputs=4, outputs=2)
    >>> import onnxruntime  # doctest: +SKIP
    >>> rnn.formats.export_onnx(network, "lstm.onnx")  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession("lstm.onnx")  # doctest: +SKIP
    >>> [node.name for node in session.get_inputs()]  # doctest: +SKIP
    ['x', 'initial_h0', 'initial_c0']
    """
    require_network("export_onnx", network).require_finite("export_onnx")
    sizes: list[int | str] = [
        name if size is None else whole_number(f"export_onnx: {name}", size)
        for name, size in (("time", time), ("batch", batch))
    ]
    one_of("initial", initial, ("given", "zero", "learned"))
    number = np.dtype(one_of("dtype", dtype, ("float32", "float64")))
    if initial == "learned" and network.initial_state != "learned":
        raise UsageError("export_onnx: initial='learned' needs a network with initial_state='learned'")
    file = _File(network, number, sizes, yes_or_no("export_onnx: lengths", lengths))
    file.add(initial)
    vocabulary = network.vocabulary
    metadata = {} if vocabulary is None else {"vocabulary": json.dumps(vocabulary.characters)}
    write_atomically(path, file.writer.file("network", repr(network), metadata))


class _File:
    def __init__(
        self, network: Network, number: np.dtype[Any], sizes: Sequence[int | str], ragged: bool
    ) -> None:
        self.network, self.ragged = network, ragged
        self.time, self.batch = sizes
        self.writer = Writer(number)

    def add(self, initial: str) -> None:
        network, writer = self.network, self.writer
        reserved = ["logits" if network.outputs else "hidden"]
        states = [
            (f"{s.name}{l}", n)
            for l, c in enumerate(network.layers)
            for s, n in zip(c.states, c.widths, strict=True)
        ]
        reserved += [f"final_{name}" for name, _ in states]
        ends = [writer.unique(name) for name in reserved]
        given = self.declare_x()
        before = self.before(states, initial)
        lengths, inside = self.declare_lengths(given)
        x = below = self.read(given, inside)
        layers = Layers(writer, network.dtype, lengths, inside)
        hidden: list[str] = []
        after: list[str] = []
        for l, cell in enumerate(network.layers):
            if l and network.skips_inputs:
                below = writer.node("Concat", [below, x], axis=2)
            own = before[len(after) : len(after) + len(cell.states)]
            below, finals = layers.run(f"layer{l}", cell, below, own)
            hidden.append(below)
            after += finals
        result, shape = self.output(hidden, lengths, inside)
        for value, name, axes in zip(
            [result, *after], ends, [shape, *([self.batch, n] for _, n in states)], strict=True
        ):
            writer.node("Identity", [value], name)
            writer.declare(writer.outputs, name, writer.dtype(network.dtype), axes)

    # -- what is read --------------------------------------------------------------------------

    def declare_x(self) -> str:
        writer, symbols = self.writer, self.network.reads == "symbols"
        shape = [self.time, self.batch, *([] if symbols else [self.network.inputs])]
        dtype = np.dtype("int64") if symbols else writer.dtype(self.network.dtype)
        x = writer.declare(writer.inputs, writer.unique("x"), dtype, shape)
        writer.cases_of(x, 1)
        return x

    def declare_lengths(self, x: str) -> tuple[str, str]:
        """Adds lengths, (batch,), and the mask of steps, (time, batch, 1); "" if all cases are full."""
        if not self.ragged:
            return "", ""
        writer = self.writer
        lengths = writer.declare(writer.inputs, writer.unique("lengths"), np.int64, [self.batch])
        zero, one = (writer.constant(np.array(n)) for n in (0, 1))
        time = writer.node("Gather", [writer.node("Shape", [x]), zero])
        steps = writer.node("Range", [zero, time, one])
        column = writer.node("Unsqueeze", [steps, writer.constant(np.array([1, 2]))])
        ends = writer.node("Unsqueeze", [lengths, writer.constant(np.array([0, 2]))])
        return lengths, writer.node("Less", [column, ends])

    def read(self, x: str, inside: str) -> str:
        """Returns x as vectors (time, batch, inputs); padding reads the first symbol."""
        if self.network.reads == "vectors":
            return self.scaled(x, "inputs", read=True)
        writer, width = self.writer, self.network.inputs
        if inside:
            has = writer.node("Squeeze", [inside, writer.constant(np.array([2]))])
            x = writer.node("Where", [has, x, writer.constant(np.array(0))])
        # OneHot returns zeros for a symbol out of range; Gather raises an error for one that is too large.
        negative = writer.node("Less", [x, writer.constant(np.array(0))])
        x = writer.node("Where", [negative, writer.constant(np.array(width)), x])
        known = writer.node("Gather", [writer.constant(np.arange(width)), x])
        depth, values = writer.constant(np.array(width)), writer.constant(np.array([0.0, 1.0]))
        return writer.node("OneHot", [known, depth, values], axis=-1)

    def before(self, states: Sequence[tuple[str, int]], initial: str) -> list[str]:
        """Returns the initial states, (batch, width) each; "" for zeros."""
        writer = self.writer
        if initial == "zero":
            return [""] * len(states)
        if initial == "given":
            dtype = writer.dtype(self.network.dtype)
            return [
                writer.declare(writer.inputs, writer.unique(f"initial_{name}"), dtype, [self.batch, n])
                for name, n in states
            ]

        def equations(cases: int) -> tuple[list[Node], list[Node]]:
            return self.network.learned_states(cases), []

        return write(writer, traced(equations), [])

    # -- what is given -------------------------------------------------------------------------

    def output(self, hidden: list[str], lengths: str, inside: str) -> tuple[str, list[int | str]]:
        network, writer = self.network, self.writer
        zero = writer.constant(np.zeros((), network.dtype))
        if network.pool is not None and network.outputs:
            hidden = [
                self.pooled(cell, h, lengths, inside) for cell, h in zip(network.layers, hidden, strict=True)
            ]
            return self.projected(hidden), [self.batch, network.outputs]
        width = network.outputs or network.layers[-1].output_width
        result = self.projected(hidden) if network.outputs else hidden[-1]
        if inside:
            sure = network.loss == "ctc" and network.outputs
            beyond = writer.constant(blank_for_sure(network.outputs, network.dtype)) if sure else zero
            result = writer.node("Where", [inside, result, beyond])
        return result, [self.time, self.batch, width]

    def projected(self, hidden: Sequence[str]) -> str:
        """o = Σ h W_ho + b_o over the layers that the output reads."""
        writer, weights = self.writer, self.network.output_weights
        total = ""
        for h, weight in zip(hidden[-len(weights) :], weights, strict=True):
            product = writer.node("MatMul", [h, writer.parameter(weight)])
            total = writer.node("Add", [total, product]) if total else product
        if self.network.output_bias:
            total = writer.node("Add", [total, writer.parameter(self.network.parameters["output.b_o"])])
        return self.scaled(total, "outputs", read=False)

    def scaled(self, values: str, of: str, read: bool) -> str:
        """(values - m) / s of what is read, m + s values of what is predicted."""
        writer, columns = self.writer, self.network.scaling_of(of)
        if columns is None:
            return values
        m, s = map(writer.constant, columns)
        if read:
            return writer.node("Div", [writer.node("Sub", [values, m]), s])
        return writer.node("Add", [m, writer.node("Mul", [s, values])])

    def pooled(self, cell: Cell, h: str, lengths: str, inside: str) -> str:
        writer, pool, dtype = self.writer, self.network.pool, self.network.dtype
        zero, axis = writer.constant(np.zeros((), dtype)), writer.constant(np.array([0]))
        if pool == "last":
            return self.whole(cell, h, lengths)
        if pool == "max":
            if inside:
                h = writer.node("Where", [inside, h, writer.constant(np.finfo(self.writer.dtype(dtype)).min)])
            return writer.extreme("ReduceMax", h, [0], writer.dtype(dtype))
        if not inside:
            return writer.node("ReduceMean", [h], axes=[0], keepdims=0)
        total = writer.node("ReduceSum", [writer.node("Where", [inside, h, zero]), axis], keepdims=0)
        most = writer.node("Max", [lengths, writer.constant(np.array(1))])
        column = writer.node("Unsqueeze", [most, writer.constant(np.array([1]))])
        return writer.node("Div", [total, writer.cast(column, writer.dtype(dtype))])

    def whole(self, cell: Cell, h: str, lengths: str) -> str:
        writer = self.writer
        first = writer.node("Gather", [h, writer.constant(np.array(0))], axis=0)
        if lengths:
            at = writer.node(
                "Max",
                [writer.node("Sub", [lengths, writer.constant(np.array(1))]), writer.constant(np.array(0))],
            )
            rows = writer.node("Unsqueeze", [at, writer.constant(np.array([0, 2]))])
            everywhere = writer.node("Expand", [rows, writer.sizes([1, Size(1), cell.output_width])])
            last = writer.node(
                "Squeeze",
                [writer.node("GatherElements", [h, everywhere], axis=0), writer.constant(np.array([0]))],
            )
        else:
            last = writer.node("Gather", [h, writer.constant(np.array(-1))], axis=0)

        def equations(cases: int) -> tuple[list[Node], list[Node]]:
            given = [gn.input((cases, cell.output_width), self.network.dtype) for _ in range(2)]
            return [cell.whole(*given)], given

        (found,) = write(writer, traced(equations), [first, last])
        return found
