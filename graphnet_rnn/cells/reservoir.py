"""Leaky integrators, and the echo-state network, of which only the output is trained."""

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

__all__ = ["EchoState", "LeakyRNN"]

Density = Annotated[float, partial(fraction, or_all=True, above_zero=True)]


@dataclass(eq=False, repr=False)
class LeakyRNN(Cell):
    """h' = α h + (1 - α) tanh(x W_xh + h W_hh + b_h)

    leak: α; 0 is the Elman net, and near 1 units integrate over about 1 / (1 - α) steps.
    Source: Sutskever 2013, eq. 2.45; Jaeger & Haas 2004.
    """

    leak: Fraction = 0.5

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        return self.leak * h + (1 - self.leak) * tanh(self.affine("h", x=x, h=h))


@dataclass(eq=False, repr=False)
class EchoState(Cell):
    """h' = α h + (1 - α) tanh(x W_xh + h W_hh + b_h), with fixed random W_xh, W_hh and b_h

    W_hh is sparse (density) and scaled to a spectral radius; W_xh and b_h are uniform in ± input_scale (smaller is more
    linear: try 0.3). leak: α, so 0 does not leak (many papers call 1 - α the leaking rate). Training reaches the output
    alone; `rnn.fit_output` finds it in closed form.
    Source: Jaeger & Haas 2004; Sutskever 2013, 2.8.4, eq. 2.45.
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
        return self.leak * h + (1 - self.leak) * tanh(a)
