"""Cells made of cells: bidirectional layers, residual connections, layer normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.ops.elementwise import sigmoid, tanh
from graphnet_rnn.cell.cell import Cell, at_each_step, kept_inside, title_of
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import constant
from graphnet_rnn.cells.lstm import LSTM
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import shown, whole_number


def parts_states(cell: Cell, suffix: str = "") -> list[State]:
    """States of a part of a cell, with `suffix` added to their names."""
    return [
        replace(
            state,
            name=state.name + suffix,
            width=state.width if state.width == "reads" else max(1, cell.width_of(state)),
        )
        for state in cell.states
    ]


def as_cell(owner: str, argument: str, cell: Cell | int) -> Cell:
    """Returns the cell, or an LSTM of this number of units; UsageError for anything else."""
    if isinstance(cell, Cell):
        return cell
    if isinstance(cell, bool) or not isinstance(cell, (int, np.integer)):
        raise UsageError(f"{owner}: {argument} must be a cell, e.g. rnn.GRU(64), not {shown(cell)}")
    return LSTM(whole_number(f"{owner}: {argument}, as the units of an LSTM,", cell))


def output_or_one(cell: Cell) -> int:
    """Width of the output; 1 if it depends on an input width that is not set yet."""
    return max(1, cell.output_width)


class _Wrapper(Cell):
    def __init__(self, inner: Cell | int = 128) -> None:
        self.inner = as_cell(type(self).__name__, "inner", inner)
        super().__init__(1)
        self.resolve()

    def resolve(self) -> None:
        inner = self.inner.reading(self.reads)
        self.states = parts_states(inner)
        self.output = State("y", output_or_one(inner))

    @property
    def causal(self) -> bool:
        return self.inner.causal

    def whole(self, first: Node, last: Node) -> Node:
        return self.inner.reading(self.reads).whole(first, last)

    @property
    def drawn_inputs(self) -> int:
        return self.inner.drawn_inputs

    def changed(self, x: Node, y: Node) -> Node:
        """Output, from the input x and the output y of the inner cell."""
        raise NotImplementedError

    def step(self, x: Node, *states: Node) -> tuple[Node, ...]:
        y, after = self.part("inner", self.inner, self.reads).advance(x, states)
        return self.changed(x, y), *after

    def sequence(
        self,
        xs: Sequence[Node],
        states: Sequence[Node],
        backward: bool = False,
        inside: Sequence[Node] | None = None,
    ) -> tuple[list[Node], tuple[Node, ...]]:
        outputs, after = self.part("inner", self.inner, self.reads).sequence(xs, states, backward, inside)
        changed = at_each_step(self.changed, xs, outputs)
        if inside is not None:
            changed = at_each_step(lambda each, y: kept_inside(each, y, 0), inside, changed)
        return changed, after


class Residual(_Wrapper):
    """y_t = x_t + inner(x)_t, or x_t W_xy + inner(x)_t if the widths differ

    inner: any cell, or the number of units of an LSTM; 128 by default.
    Source: He et al. 2016, eqs 1-2; for recurrent layers, Wu et al. 2016, eq. 6.

    >>> net = rnn.Network([rnn.GRU(4), rnn.Residual(rnn.GRU(4))], inputs=3, outputs=3)
    >>> net.state_names()
    [('h_0^0', 4), ('h_0^1', 4)]
    """

    def changed(self, x: Node, y: Node) -> Node:
        return y + (x if x.shape == y.shape else self.product("x", "y", x, y.shape[1]))


class Normalized(_Wrapper):
    """y_t = LN(inner(x)_t)

    inner: any cell, or the number of units of an LSTM; 128 by default.

    LN(a) = g (a - μ) / √(σ² + 1e-5) + s, with the mean μ and the variance σ² of the units of a; g and s are learned.
    Source: Ba, Kiros & Hinton 2016, eq. 4.

    >>> net = rnn.Network([rnn.Normalized(rnn.GRU(4))], inputs=3, outputs=3)
    >>> [name for name in net.parameters if "inner" not in name]
    ['layer0.g_y', 'layer0.s_y', 'output.W_ho', 'output.b_o']
    """

    def changed(self, x: Node, y: Node) -> Node:
        return self.normalized("y", y)


class Bidirectional(Cell):
    """y_t = [forward(x_1 ... x_t), backward(x_T ... x_t)]  (two cells; the second starts at the end)

    forward: any cell, or the number of units of an LSTM; 64 by default. backward: likewise; by default a copy of
    `forward` with its own weights.

    The states are those of both cells. The backward cell starts at the last input, so its final states are those after
    the first input.
    Source: Schuster & Paliwal 1997.

    >>> net = rnn.Network([rnn.Bidirectional(rnn.GRU(4))], inputs=3, outputs=2)
    >>> net.state_names(), net.causal
    ([('h_forward_0', 4), ('h_backward_0', 4)], False)
    """

    _shows_parts: ClassVar[bool] = True

    def __init__(self, forward: Cell | int = 64, backward: Cell | int | None = None) -> None:
        self.forward = as_cell("Bidirectional", "forward", forward)
        self.backward = as_cell("Bidirectional", "backward", self.forward if backward is None else backward)
        super().__init__(1)
        self.resolve()

    def resolve(self) -> None:
        one, other = self.forward.reading(self.reads), self.backward.reading(self.reads)
        self.states = [*parts_states(one, "_forward"), *parts_states(other, "_backward")]
        self.output = State("y", output_or_one(one) + output_or_one(other))

    @property
    def causal(self) -> bool:
        return False

    def whole(self, first: Node, last: Node) -> Node:
        one, other = self.forward.reading(self.reads), self.backward.reading(self.reads)
        n = one.output_width
        return _joined(one.whole(first[:, :n], last[:, :n]), other.whole(last[:, n:], first[:, n:]))

    def step(self, x: Node, *states: Node) -> tuple[Node, ...]:
        """One step of both cells from the same input, as for a sequence of length 1."""
        count = len(self.forward.states)
        ahead, after = self.part("forward", self.forward, self.reads).advance(x, states[:count])
        back, before = self.part("backward", self.backward, self.reads).advance(x, states[count:])
        return _joined(ahead, back), *after, *before

    def name_before(self, state: State) -> str:
        return f"{state.name}_t+1" if state.name.endswith("_backward") else super().name_before(state)

    def sequence(
        self,
        xs: Sequence[Node],
        states: Sequence[Node],
        backward: bool = False,
        inside: Sequence[Node] | None = None,
    ) -> tuple[list[Node], tuple[Node, ...]]:
        count = len(self.forward.states)
        one, other = (self.part(name, getattr(self, name), self.reads) for name in ("forward", "backward"))
        with gn.scope(cell=title_of(self.forward), part="forward"):
            ahead, after = one.sequence(xs, states[:count], backward, inside)
        with gn.scope(cell=title_of(self.backward), part="backward"):
            back, before = other.sequence(xs, states[count:], not backward, inside)
        return at_each_step(_joined, ahead, back), (*after, *before)


def _joined(ahead: Node, back: Node) -> Node:
    return gn.concatenate([ahead, back], axis=1)


class LayerNormLSTM(Cell):
    """i, f, o, g: LN(x W_x) + LN(h W_h) + b  (each LN over all four);  then c' = f c + i g;  h' = o tanh(LN(c'))

    units: width of h and c, 128 by default. initial: initializers by weight name, see Cell.

    The columns of W_x, W_h and b are those of i, f, o and g, in this order. The forget bias starts at 1.
    Source: Ba, Kiros & Hinton 2016, eqs 20-22.

    >>> net = rnn.Network([rnn.LayerNormLSTM(4)], inputs=3, outputs=3)
    >>> net.parameters["layer0.W_x"].shape
    (3, 16)
    """

    states = (State("h"), State("c"))

    def step(self, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        n = self.units
        a = self.normalized("x", self.product("x", "", x, 4 * n), shift=None)
        a = a + self.normalized("h", self.product("h", "", h, 4 * n), shift=None)
        i, f, o, g = (
            a[:, k * n : (k + 1) * n] + self.weight(f"b_{gate}", (n,), constant(float(gate == "f")))
            for k, gate in enumerate("ifog")
        )
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(self.normalized("c", c)), c
