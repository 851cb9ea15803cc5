"""The deterministic part of a recurrent temporal Boltzmann machine."""

from __future__ import annotations

from graphnet.graph.node import Node
from graphnet.ops.elementwise import sigmoid
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State

__all__ = ["RTRBM"]


class RTRBM(Cell):
    """r' = σ(x W_xr + r W_rr + b_r): the expected hidden units of an RBM whose biases the past sets

    The model of sequences itself, with its contrastive divergence through time, is `rnn.energy.RTRBM`.
    Source: Sutskever 2013, 3.7-3.8.
    """

    states = (State("r"),)

    def step(self, x: Node, r: Node) -> Node:
        return sigmoid(self.affine("r", x=x, r=r))
