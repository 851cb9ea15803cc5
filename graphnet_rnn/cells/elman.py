"""The vanilla recurrent net."""

from __future__ import annotations

from graphnet.graph.node import Node
from graphnet.ops.elementwise import tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State

__all__ = ["Elman"]


class Elman(Cell):
    """h' = tanh(x W_xh + h W_hh + b_h)

    Source: Elman 1990; Lynge 2016, eq. 3.32.
    """

    states = (State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        return tanh(self.affine("h", x=x, h=h))
