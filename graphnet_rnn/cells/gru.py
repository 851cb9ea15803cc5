"""Gated recurrent unit in two forms: the reset gate acts before or after the product with W_hn."""

from __future__ import annotations

from graphnet import sigmoid, tanh
from graphnet.node import Node
from graphnet_rnn.cell import Cell, State

__all__ = ["GRU", "GRUResetAfter"]


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


class GRUResetAfter(Cell):
    """r, z = σ(x, h);  n = tanh(x W_xn + b_xn + r (h W_hn + b_hn));  h' = (1 - z) n + z h

    The reset gate acts after the product, and z = 1 keeps the state (in GRU, z = 1 replaces it).
    Source: Cho et al. 2014, arXiv version 1; the form of cuDNN and of torch.nn.GRU.
    """

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        r = sigmoid(self.affine("r", x=x, h=h))
        z = sigmoid(self.affine("z", x=x, h=h))
        new = x @ self.weight("W_xn", (x.shape[-1], self.units)) + self.weight("b_xn", (self.units,))
        old = h @ self.weight("W_hn", (self.units, self.units)) + self.weight("b_hn", (self.units,))
        n = tanh(new + r * old)
        return (1 - z) * n + z * h
