"""Layers over time in ONNX: a recurrent operator if there is one, else a Scan with one step as its body."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.onnx.sizes import Size
from graphnet.onnx.translate import Equations, axes_of, traced, write
from graphnet.onnx.writer import Writer
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells.combine import Bidirectional, Normalized, Residual
from graphnet_rnn.errors import UsageError
from graphnet_rnn.formats.onnx_operators import OPERATORS, fused
from graphnet_rnn.settings import MANY, shown


class Layers:
    """Adds layers to a file.

    lengths: name of the value int64 (batch,) with the length of each case; "" if all are full. inside: that of the
    mask, bool (time, batch, 1).
    """

    def __init__(
        self, writer: Writer, dtype: np.dtype[np.floating], lengths: str = "", inside: str = ""
    ) -> None:
        self.writer, self.dtype, self.lengths, self.inside = writer, dtype, lengths, inside

    def run(
        self, name: str, cell: Cell, x: str, before: Sequence[str], reverse: bool = False
    ) -> tuple[str, list[str]]:
        """Adds a layer; returns its outputs (time, batch, width), and the final states. before: initial states, "" for
        zeros.

        Raises UsageError, naming the cell, for a cell with a `sequence` of its own.
        """
        if type(cell) in OPERATORS:
            return fused(self.writer, name, [cell], x, before, self.lengths, reverse)
        own = type(cell).sequence
        if own is Bidirectional.sequence:
            assert isinstance(cell, Bidirectional)
            return self._both(name, cell, x, before, reverse)
        if isinstance(cell, (Residual, Normalized)) and own in (Residual.sequence, Normalized.sequence):
            return self._changed(name, cell, x, before, reverse)
        if own is not Cell.sequence:
            raise UsageError(
                f"export_onnx: {shown(cell, MANY)} overrides `sequence`, so its single step cannot be repeated in "
                "the file; export the graph of a few steps instead: gn.export_onnx(nodes of network.unroll(...), "
                "path)"
            )
        return self._steps(name, cell, x, before, reverse)

    def _both(
        self, name: str, cell: Bidirectional, x: str, before: Sequence[str], reverse: bool
    ) -> tuple[str, list[str]]:
        parts = [cell.part(k, getattr(cell, k), cell.reads) for k in ("forward", "backward")]
        one, other = parts
        count = len(one.states)
        zeros = {not state for state in before}
        alike = type(one) is type(other) and one.widths == other.widths and type(one) in OPERATORS
        if alike and not reverse and len(zeros) == 1:
            return fused(self.writer, name, parts, x, before, self.lengths, reverse)
        ahead, after = self.run(f"{name}.forward", one, x, before[:count], reverse)
        back, first = self.run(f"{name}.backward", other, x, before[count:], not reverse)
        return self.writer.node("Concat", [ahead, back], axis=2), [*after, *first]

    def _changed(
        self, name: str, cell: Residual | Normalized, x: str, before: Sequence[str], reverse: bool
    ) -> tuple[str, list[str]]:
        inner = cell.part("inner", cell.inner, cell.reads)
        y, after = self.run(f"{name}.inner", inner, x, before, reverse)

        def equations(cases: int) -> tuple[list[Node], list[Node]]:
            given = [gn.input((cases, n), self.dtype) for n in (cell.reads, inner.output_width)]
            return [cell.changed(*given)], given

        made, _ = self._scan(name, equations, ["x", "y"], [x, y], [], False)
        return made, after

    def _steps(
        self, name: str, cell: Cell, x: str, before: Sequence[str], reverse: bool
    ) -> tuple[str, list[str]]:
        def equations(cases: int) -> tuple[list[Node], list[Node]]:
            states = [gn.input((cases, n), self.dtype) for n in cell.widths]
            x_t = gn.input((cases, cell.reads), self.dtype)
            inside = gn.input((cases, 1), "bool") if self.inside else None
            output, after = cell.advance(x_t, states, inside)
            return [*after, output], [*states, x_t, *([] if inside is None else [inside])]

        begin = [state or self.zeros(n) for state, n in zip(before, cell.widths, strict=True)]
        scanned, names = [x], [*(f"{s.name}_before" for s in cell.states), "x_t"]
        if self.inside:
            scanned, names = [x, self.inside], [*names, "inside"]
        return self._scan(name, equations, names, scanned, begin, reverse)

    def zeros(self, width: int) -> str:
        """(batch, width)"""
        zero = self.writer.constant(np.zeros((), self.dtype))
        return self.writer.node("Expand", [zero, self.writer.sizes([Size(1), width])])

    def _scan(
        self,
        name: str,
        equations: Equations,
        names: Sequence[str],
        scanned: Sequence[str],
        before: Sequence[str],
        reverse: bool,
    ) -> tuple[str, list[str]]:
        """Adds a Scan of equations (states, then output); returns all outputs, and the final states."""
        writer, step = self.writer, traced(equations)
        body = Writer(around=writer)
        given = [writer.unique(f"{name}.{each}") for each in names]
        for node, each in zip(step.inputs, given, strict=True):
            body.declare(body.inputs, each, writer.dtype(node.dtype), axes_of(step, node))
        for node, value in zip(step.outputs, write(body, step, given), strict=True):
            made = body.node("Identity", [value], writer.unique(f"{name}.step"))
            body.declare(body.outputs, made, writer.dtype(node.dtype), axes_of(step, node))
        ends = [writer.unique(f"{name}.{each}") for each in (*(f"after{i}" for i in range(len(before))), "y")]
        directions = [int(reverse)]
        writer.node(
            "Scan",
            [*before, *scanned],
            ends,
            body=body.graph(f"{name} at one step"),
            num_scan_inputs=len(scanned),
            scan_input_directions=directions * len(scanned),
            scan_output_directions=directions,
        )
        return ends[-1], ends[:-1]
