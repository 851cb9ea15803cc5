"""Long short-term memory in three forms.

i, f, o: input, forget and output gates; g: the new content; c (Krause: s): the memory cells.
"""

from __future__ import annotations

from graphnet import sigmoid, tanh
from graphnet.node import Node
from graphnet_rnn.cell import Cell, State

__all__ = ["LSTM", "LSTMKrause", "LSTMPeephole"]


class LSTM(Cell):
    """i, f, o = σ(x W_x· + h W_h· + b·);  g = tanh(x W_xg + h W_hg + b_g);  c' = f c + i g;  h' = o tanh(c')

    The forget bias starts at 1, so that memories last at first (Jozefowicz et al. 2015).
    Source: Hochreiter & Schmidhuber 1997; forget gate, Gers et al. 2000.
    """

    states = (State("h"), State("c"))

    def step(self, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        i = sigmoid(self.affine("i", x=x, h=h))
        f = sigmoid(self.affine("f", x=x, h=h, bias=1.0))
        o = sigmoid(self.affine("o", x=x, h=h))
        g = tanh(self.affine("g", x=x, h=h))
        c = f * c + i * g
        return o * tanh(c), c


class LSTMPeephole(Cell):
    """i, f = σ(x, h, c);  c' = f c + i tanh(x, h);  o = σ(x, h, c');  h' = o tanh(c'), peepholes diagonal

    Source: Graves 2013, eqs 7-11. (Lynge 2016, eq. 3.72 writes the old c in o; Graves reads the new one.)
    """

    states = (State("h"), State("c"))

    def step(self, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        i = sigmoid(self.affine("i", x=x, h=h) + self.diagonal("i", c=c))
        f = sigmoid(self.affine("f", x=x, h=h, bias=1.0) + self.diagonal("f", c=c))
        c = f * c + i * tanh(self.affine("c", x=x, h=h))
        o = sigmoid(self.affine("o", x=x, h=h) + self.diagonal("o", c=c))
        return o * tanh(c), c


class LSTMKrause(Cell):
    """g = x W_xg + h W_hg (linear);  i, f, o = σ(x, h);  s' = i g + f s;  h' = tanh(s' o), no biases

    Source: Krause 2015, 2.2, algorithm 2.
    """

    states = (State("h"), State("s"))

    def step(self, x: Node, h: Node, s: Node) -> tuple[Node, Node]:
        g = self.affine("g", x=x, h=h, bias=None)
        i = sigmoid(self.affine("i", x=x, h=h, bias=None))
        f = sigmoid(self.affine("f", x=x, h=h, bias=None))
        o = sigmoid(self.affine("o", x=x, h=h, bias=None))
        s = i * g + f * s
        return tanh(s * o), s
