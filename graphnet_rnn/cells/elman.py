"""The vanilla recurrent net."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from graphnet.graph.node import Node
from graphnet.ops.elementwise import tanh
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import Initializer, orthogonal

__all__ = ["Elman"]


class Elman(Cell):
    """h' = tanh(x W_xh + h W_hh + b_h)

    W_hh starts as 0.7 times an orthogonal matrix, so states fade, which keeps large nets stable. To remember for long,
    use initial={"W_hh": rnn.initializers.orthogonal()}.
    Source: Elman 1990; Lynge 2016, eq. 3.32.
    """

    states = (State("h"),)
    initially: ClassVar[Mapping[str, Initializer]] = {"W_hh": orthogonal(0.7)}

    def step(self, x: Node, h: Node) -> Node:
        return tanh(self.affine("h", x=x, h=h))
