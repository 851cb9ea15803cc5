"""Gated recurrent unit."""

from __future__ import annotations

from graphnet import sigmoid, tanh
from graphnet.node import Node
from graphnet_rnn.cell import Cell, State

__all__ = ["GRU"]


class GRU(Cell):
    """r, z = σ(x, h);  n = tanh(x W_xn + (r h) W_hn + b_n);  h' = (1 - z) h + z n

    The reset gate acts on the state, before the product.
    Source: Cho et al. 2014; Lynge 2016, eqs 3.74-3.77 (with biases).
    """

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        r = sigmoid(self.affine("r", x=x, h=h))
        z = sigmoid(self.affine("z", x=x, h=h))
        n = tanh(self.affine("n", x=x, h=r * h))
        return (1 - z) * h + z * n
