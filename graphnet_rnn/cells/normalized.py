"""LSTM with layer normalisation."""

from __future__ import annotations

from graphnet.graph.node import Node
from graphnet.ops.elementwise import sigmoid, tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import constant

__all__ = ["LayerNormLSTM"]


class LayerNormLSTM(Cell):
    """i, f, o, g: LN(x W_x) + LN(h W_h) + b, all four at once;  c' = f c + i g;  h' = o tanh(LN(c'))

    The columns of W_x, W_h and b are those of i, f, o, g, one after the other; the forget bias starts at 1.
    Source: Ba, Kiros & Hinton 2016, eqs 20-22.
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
