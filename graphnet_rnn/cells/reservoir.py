"""Leaky integrators and echo-state networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from graphnet.graph.node import Node
from graphnet.ops.elementwise import tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import reservoir, uniform
from graphnet_rnn.settings import Count, Fraction, Positive, fraction

Density = Annotated[float, partial(fraction, or_all=True, above_zero=True)]


def _leaky(leak: float, before: Node, after: Node) -> Node:
    return leak * before + (1 - leak) * after if leak else after


@dataclass(eq=False, repr=False)
class LeakyRNN(Cell):
    """h' = α h + (1 - α) tanh(x W_xh + h W_hh + b_h)

    units: width of h, 128 by default. leak: α in [0, 1), 0.5 by default; 0 gives the Elman net, and near 1 units
    integrate over about 1 / (1 - α) steps. initial: initializers by weight name, see Cell.
    Source: Sutskever 2013, eq. 2.45; Jaeger & Haas 2004.

    >>> net = rnn.Network([rnn.LeakyRNN(4, leak=0.9)], inputs=3, outputs=3)
    >>> net.layers
    [LeakyRNN(units=4, leak=0.9)]
    """

    leak: Fraction = 0.5

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        return _leaky(self.leak, h, tanh(self.affine("h", x=x, h=h)))


@dataclass(eq=False, repr=False)
class EchoState(Cell):
    """h' = α h + (1 - α) tanh(x W_xh + h W_hh + b_h), with fixed random weights

    units: width of h, 256 by default. radius: spectral radius to which W_hh is scaled, 0.95 by default. density: share
    of the entries of W_hh that are not 0, 0.1 by default. leak: α, 0 by default, which means no leak (many papers call
    1 - α the leaking rate). input_scale: W_xh and b_h are uniform in ± this, 1 by default; smaller is more linear, try
    0.3. initial: initializers by weight name, see Cell.

    Training changes only the output layer; `rnn.fit_output` solves for the output weights in closed form.
    Source: Jaeger & Haas 2004; Sutskever 2013, 2.8.4, eq. 2.45.

    >>> net = rnn.Network([rnn.EchoState(20)], inputs=1, outputs=1, loss="squared")
    >>> list(net.parameters), list(net.fixed)
    (['output.W_ho', 'output.b_o'], ['layer0.W_hh', 'layer0.W_xh', 'layer0.b_h'])
    """

    units: Count = 256
    radius: Positive = 0.95
    density: Density = 0.1
    leak: Fraction = 0.0
    input_scale: Positive = 1.0

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        n, from_input = self.units, uniform(self.input_scale)
        a = x @ self.weight("W_xh", (x.shape[1], n), from_input, trained=False)
        a = a + self.recurrent("h", h) @ self.weight(
            "W_hh", (n, n), reservoir(self.radius, self.density), trained=False
        )
        a = a + self.weight("b_h", (n,), from_input, trained=False)
        return _leaky(self.leak, h, tanh(a))
