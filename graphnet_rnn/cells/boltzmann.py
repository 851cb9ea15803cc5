"""The deterministic part of a recurrent temporal Boltzmann machine."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.graph.node import Node
from graphnet.ops.elementwise import log, maximum, sigmoid
from graphnet.ops.reduce import log_softmax, softmax
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import normal

__all__ = ["RTRBM", "HMMFilter"]


class RTRBM(Cell):
    """r' = σ(x W_xr + r W_rr + b_r): the expected hidden units of an RBM whose biases depend on r

    The model of sequences itself, with its contrastive divergence through time, is `rnn.energy.RTRBM`.
    Source: Sutskever 2013, 3.7-3.8.
    """

    states = (State("r"),)

    def step(self, x: Node, r: Node) -> Node:
        return sigmoid(self.affine("r", x=x, r=r))


class HMMFilter(Cell):
    """l' = log(softmax(l + x (log B)ᵀ) A);  y = softmax(l'):  P(state at t + 1 | x_1 ... x_t)

    A = softmax(W_A), transitions, a row for each state; B = softmax(W_B), what each state emits, a row for each state;
    x is a symbol. The state is kept as logarithms, so that zeros are a uniform belief. The model of sequences itself,
    with EM, is `rnn.HMM`.
    Source: Ollivier 2013, 1.2.2: with a linear activation a gated network is a hidden Markov model.
    """

    states = (State("l"),)
    output = State("y")

    def step(self, x: Node, l: Node) -> tuple[Node, Node]:
        n = self.units
        transitions = softmax(self.weight("W_A", (n, n), normal(1.0)))
        emissions = log_softmax(self.weight("W_B", (n, x.shape[1]), normal(1.0)))
        # What no path reaches any more would be log 0, whose derivative is none.
        l = log(maximum(softmax(l + x @ emissions.T) @ transitions, 1e-30))
        return softmax(l), l

    def read_off(self, states: Sequence[Node]) -> Node:
        return softmax(states[0])
