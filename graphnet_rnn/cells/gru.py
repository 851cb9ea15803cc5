"""Gated recurrent unit, with the reset gate before and after the product."""

from __future__ import annotations

from graphnet.graph.node import Node
from graphnet.ops.elementwise import sigmoid, tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State


class GRU(Cell):
    """r, z = σ(x, h);  n = tanh(x W_xn + (r h) W_hn + b_n);  h' = (1 - z) h + z n

    units: width of h, 128 by default. initial: initializers by weight name, see Cell.

    The reset gate acts on the state, before the product.
    Source: Cho et al. 2014; Lynge 2016, eqs 3.74-3.77, here with biases.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> list(net.layers[0].weights)
    ['W_xr', 'W_hr', 'b_r', 'W_xz', 'W_hz', 'b_z', 'W_xn', 'W_hn', 'b_n']
    """

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        r = sigmoid(self.affine("r", x=x, h=h))
        z = sigmoid(self.affine("z", x=x, h=h))
        n = tanh(self.affine("n", x=x, h=r * h))
        return (1 - z) * h + z * n


class GRUResetAfter(Cell):
    """r, z = σ(x, h);  n = tanh(x W_xn + b_xn + r (h W_hn + b_hn));  h' = (1 - z) n + z h

    units: width of h, 128 by default. initial: initializers by weight name, see Cell.

    The reset gate acts after the product, as in PyTorch's GRU, in which z keeps the old state.
    Source: Cho et al. 2014 as in cuDNN; torch.nn.GRU.

    >>> net = rnn.Network([rnn.GRUResetAfter(4)], inputs=3, outputs=3)
    >>> list(net.layers[0].weights)
    ['W_xr', 'W_hr', 'b_r', 'W_xz', 'W_hz', 'b_z', 'W_xn', 'b_xn', 'W_hn', 'b_hn']
    """

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        r = sigmoid(self.affine("r", x=x, h=h))
        z = sigmoid(self.affine("z", x=x, h=h))
        new = self.product("x", "n", x) + self.weight("b_xn", (self.units,))
        old = self.product("h", "n", h) + self.weight("b_hn", (self.units,))
        n = tanh(new + r * old)
        return (1 - z) * n + z * h
