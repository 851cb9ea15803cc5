"""Leaky integrators, and the echo-state network, of which only the output is trained."""

from __future__ import annotations

from collections.abc import Mapping

from graphnet.graph.node import Node
from graphnet.ops.elementwise import tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer, reservoir, uniform
from graphnet_rnn.settings import amount, fraction

__all__ = ["EchoState", "LeakyRNN"]


class LeakyRNN(Cell):
    """h' = α h + (1 - α) tanh(x W_xh + h W_hh + b_h)

    leak: α; 0 is the Elman net, and near 1 units integrate over about 1 / (1 - α) steps.
    Source: Sutskever 2013, eq. 2.45; Jaeger & Haas 2004.
    """

    states = (State("h"),)

    def __init__(
        self, units: int = 128, leak: float = 0.5, *, initial: Mapping[str, Initializer] | None = None
    ) -> None:
        super().__init__(units, initial=initial)
        self.leak = fraction(f"{type(self).__name__}: leak", leak)

    def step(self, x: Node, h: Node) -> Node:
        return self.leak * h + (1 - self.leak) * tanh(self.affine("h", x=x, h=h))


class EchoState(Cell):
    """h' = α h + (1 - α) tanh(x W_xh + h W_hh + b_h), with W_xh, W_hh and b_h as they were drawn

    W_hh is sparse (density) and scaled to a spectral radius; W_xh and b_h are uniform in ± input_scale (smaller is more
    linear: try 0.3). leak: α, so 0 does not leak (many papers call 1 - α the leaking rate). Training reaches the output
    alone; `rnn.fit_output` finds it in closed form.
    Source: Jaeger & Haas 2004; Sutskever 2013, 2.8.4, eq. 2.45.
    """

    states = (State("h"),)

    def __init__(
        self,
        units: int = 256,
        radius: float = 0.95,
        density: float = 0.1,
        leak: float = 0.0,
        input_scale: float = 1.0,
        *,
        initial: Mapping[str, Initializer] | None = None,
    ) -> None:
        super().__init__(units, initial=initial)
        self.radius = amount("EchoState: radius", radius, above_zero=True)
        self.density = fraction("EchoState: density", density, or_all=True, above_zero=True)
        self.input_scale = amount("EchoState: input_scale", input_scale, above_zero=True)
        self.leak = fraction("EchoState: leak", leak)

    def step(self, x: Node, h: Node) -> Node:
        n, from_input = self.units, uniform(self.input_scale)
        a = x @ self.weight("W_xh", (x.shape[1], n), from_input, trained=False)
        a = a + self.recurrent("h", h) @ self.weight(
            "W_hh", (n, n), reservoir(self.radius, self.density), trained=False
        )
        a = a + self.weight("b_h", (n,), from_input, trained=False)
        return self.leak * h + (1 - self.leak) * tanh(a)
