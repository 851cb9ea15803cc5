"""Cells made of cells: both directions of time, and shortcuts around a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import graphnet as gn
from graphnet.node import Node
from graphnet_rnn.cell import Cell
from graphnet_rnn.cells.lstm import LSTM
from graphnet_rnn.declaration import State
from graphnet_rnn.errors import UsageError

__all__ = ["Bidirectional", "Residual", "parts_states"]


def parts_states(cell: Cell, suffix: str = "") -> list[State]:
    """The states of a cell that is a part of another, under new names."""
    return [
        replace(
            state,
            name=state.name + suffix,
            width=state.width if state.width == "reads" else cell.width_of(state),
        )
        for state in cell.states
    ]


def _as_cell(owner: str, argument: str, cell: Cell) -> Cell:
    if not isinstance(cell, Cell):
        raise UsageError(f"{owner}: {argument} must be a cell, e.g. rnn.LSTM(64), not {cell!r:.60}")
    return cell


class Residual(Cell):
    """y_t = x_t + cell(x)_t: a shortcut around the cell, x_t W_xy + cell(x)_t where the widths differ

    Source: He et al. 2016, eqs 1-2; for recurrent layers, Wu et al. 2016, eq. 6.
    """

    def __init__(self, cell: Cell | None = None) -> None:
        self.cell = _as_cell("Residual", "cell", LSTM() if cell is None else cell)
        super().__init__(1)
        self.states = parts_states(self.cell)
        self.output = State("y", "cell_output")

    @property
    def cell_output(self) -> int:
        width = self.cell.returns[0].width
        return self.reads if width == "reads" else self.cell.output_width

    @property
    def causal(self) -> bool:
        return self.cell.causal

    @property
    def drawn_inputs(self) -> int:
        return self.cell.drawn_inputs

    def _added(self, x: Node, y: Node) -> Node:
        return y + (x if x.shape == y.shape else self.product("x", "y", x, y.shape[1]))

    def step(self, x: Node, *states: Node) -> tuple[Node, ...]:
        y, after = self.part("cell", self.cell, self.reads).advance(x, states)
        return self._added(x, y), *after

    def sequence(self, xs: Sequence[Node], states: Sequence[Node]) -> tuple[list[Node], tuple[Node, ...]]:
        outputs, after = self.part("cell", self.cell, self.reads).sequence(xs, states)
        return [self._added(x, y) for x, y in zip(xs, outputs, strict=True)], after


class Bidirectional(Cell):
    """y_t = [forward(x_1 ... x_t), backward(x_T ... x_t)]: two cells, one of which reads from the end

    The states are those of both cells; the backward cell's are its states before the last input and after the
    first. backward: as forward by default, with weights of its own. Source: Schuster & Paliwal 1997.
    """

    def __init__(self, forward: Cell | None = None, backward: Cell | None = None) -> None:
        self.forward = _as_cell("Bidirectional", "forward", LSTM(64) if forward is None else forward)
        self.backward = _as_cell("Bidirectional", "backward", self.forward if backward is None else backward)
        super().__init__(self.forward.output_width + self.backward.output_width)
        self.states = [*parts_states(self.forward, "_forward"), *parts_states(self.backward, "_backward")]
        self.output = State("y")

    @property
    def causal(self) -> bool:
        return False

    @property
    def drawn_inputs(self) -> int:
        return self.forward.output_width

    def step(self, x: Node, *states: Node) -> tuple[Node, ...]:
        """One step of each cell from the same input: what a sequence of one element gives."""
        outputs, after = self.sequence([x], states)
        return outputs[0], *after

    def sequence(self, xs: Sequence[Node], states: Sequence[Node]) -> tuple[list[Node], tuple[Node, ...]]:
        count, time = len(self.forward.states), len(xs)
        cell = self.part("forward", self.forward, self.reads)
        ahead, after = cell.sequence(xs, states[:count])
        cell, before = self.part("backward", self.backward, self.reads), tuple(states[count:])
        back: list[Node] = []
        for t in reversed(range(time)):
            with gn.scope(time=t + 1):
                y, before = cell.advance(xs[t], before)
            back.append(y)
        pairs = zip(ahead, reversed(back), strict=True)
        return [gn.concatenate(list(pair), axis=1) for pair in pairs], (*after, *before)
