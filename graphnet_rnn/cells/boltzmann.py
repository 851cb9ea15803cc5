"""Deterministic parts of recurrent generative models, as cells."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.graph.node import Node
from graphnet.ops.elementwise import log, maximum, sigmoid
from graphnet.ops.reduce import log_softmax, softmax
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.declaration import State
from graphnet_rnn.cell.initializers import normal


class RTRBMFilter(Cell):
    """r' = σ(x W_xr + r W_rr + b_r)  (expected hidden units of an RBM)

    units: width of r, 128 by default. initial: initializers by weight name, see Cell.

    The biases of the RBM depend on r. `rnn.energy.RTRBM` is the generative model, trained by contrastive divergence
    through time.
    Source: Sutskever 2013, 3.7-3.8.

    >>> net = rnn.Network([rnn.RTRBMFilter(4)], inputs=3, outputs=3, loss="sigmoid")
    >>> net.state_names()
    [('r_0', 4)]
    """

    states = (State("r"),)

    def step(self, x: Node, r: Node) -> Node:
        return sigmoid(self.affine("r", x=x, r=r))


class HMMFilter(Cell):
    """l' = log(softmax(l + x (log B)ᵀ) A);  y = softmax(l') = P(state at t + 1 | x_1 ... x_t)

    units: number of hidden states, 128 by default. initial: initializers by weight name, see Cell.

    A = softmax(W_A) has the transition probabilities and B = softmax(W_B) the emission probabilities, one row for each
    state; x is a symbol. The belief l is stored as logarithms, so zero initial states mean a uniform belief. A
    probability below 1e-30 counts as 1e-30, since log 0 has no derivative. `rnn.HMM` is the model trained by
    expectation-maximization. `GNN` with a linear activation includes hidden Markov models.
    Source: Ollivier 2013, 1.2.2.

    >>> net = rnn.Network([rnn.HMMFilter(4)], inputs=3, outputs=3)
    >>> [name for name in net.parameters if name.startswith("layer0")]
    ['layer0.W_A', 'layer0.W_B']
    """

    states = (State("l"),)
    output = State("y")

    def step(self, x: Node, l: Node) -> tuple[Node, Node]:
        n = self.units
        transitions = softmax(self.weight("W_A", (n, n), normal(1.0)))
        emissions = log_softmax(self.weight("W_B", (n, x.shape[1]), normal(1.0)))
        # A state that no path reaches would be log 0, which has no derivative.
        l = log(maximum(softmax(l + x @ emissions.T) @ transitions, 1e-30))
        return softmax(l), l

    def read_off(self, states: Sequence[Node]) -> Node:
        return softmax(states[0])
