"""Truncated gradient of LSTM: errors go back in time only along the memory cells."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.cells.lstm import MEMORY
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.online.learner import Learner

_FORMS = ", ".join(form.__name__ for form in MEMORY)


def truncated(network: Network) -> Network:
    """Returns a network with the same weights that stops gradients at h in products h W; W still learns.

    In an LSTM errors then go back in time only from c_t to c_{t-1}, so they neither explode nor vanish while the memory
    keeps its value. Graphs of the result have these derivatives and the same values as before:

        u = rnn.online.truncated(network).unroll(time=50, batch=32)
        rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets, *u.initial], also=u.final)

    network: its layers with states are LSTMs. Gradients stop at all sources of products except x: h_{t-1}, and in
    LSTMSutskever also n_{t-1} and the new h_t that its gates read. Gradients pass within a step from layer to layer,
    and through peepholes, as these lead from a memory cell to itself (Gers et al. 2002 cut them, too).
    Raises UsageError if a layer with states is not an LSTM.
    Source: Hochreiter & Schmidhuber 1997, appendix; Krause 2015, 2.2.

    >>> network = rnn.Network([rnn.LSTM(3)], inputs=4, outputs=4)
    >>> shortened = rnn.online.truncated(network)
    >>> np.shares_memory(shortened.theta, network.theta)  # training one trains both
    True
    """
    result = copy.copy(require_network("truncated", network))
    result.truncate()
    return result


class TruncatedLSTM(Learner):
    """e_w ← (∂c_t/∂c_{t-1}) e_w + ∂c_t/∂w, one number for each weight;  ∂loss_t/∂w = (∂loss_t/∂c_{t-1}) e_w + direct

    e_w = dc_j/dw is the trace of a weight w into unit j, along the memory alone: with `truncated`, c_t of unit j
    depends on c_{t-1} of unit j only (by the factor 1 in LSTM1997, by the forget gate f in the others, and through the
    peepholes in LSTMPeephole). The sum of the gradients over a sequence is that of `truncated(network)`, backpropagated
    to its start. Weights that do not lead into memory cells learn from the current step only.

        learner = rnn.online.TruncatedLSTM(network)
        loss, gradient = learner.step(inputs, targets)

    A step takes time and memory O(number of weights) for each sequence of the batch: three passes through one time
    step. network: the first layer is an LSTM; further layers have no states, e.g. Dense. With several layers of LSTM,
    the upper memory would need traces of all lower weights for each of its units: use RTRL(truncated(network)).
    batch, backend, threads: see Learner.
    Source: Hochreiter & Schmidhuber 1997, appendix; Krause 2015, eq. 2.17; forget gates, Gers et al. 2000.

    >>> network = rnn.Network([rnn.LSTM(3)], inputs=4, outputs=4)
    >>> learner = rnn.online.TruncatedLSTM(network, backend="numpy")
    >>> loss, gradient = learner.step(inputs=[1], targets=[2])
    >>> gradient.shape == network.theta.shape
    True
    """

    def _read_by(self) -> Network:
        first, *above = self.network.layers
        if type(first) not in MEMORY or any(cell.states for cell in above):
            raise UsageError(
                f"TruncatedLSTM: the first layer must be one of {_FORMS}, and no other may have states, but the "
                f"layers are {', '.join(map(repr, self.network.layers))}. For other networks use "
                "rnn.online.RTRL(network); for several layers of LSTM, RTRL(truncated(network))."
            )
        return truncated(self.network)

    @property
    def _memory_at(self) -> int:
        cell = self.network.layers[0]
        return [state.name for state in cell.states].index(MEMORY[type(cell)])

    def _into_memory(self, u: Unrolled) -> tuple[Node, dict[Node, Node]]:
        """∂c_t/∂c_{t-1}, (1, units), and ∂c_t/∂w for each weight w that has a trace.

        Each weight leads into one unit and each unit into itself, so these sums over units have one term each.
        """
        before, after = u.initial[self._memory_at], u.final[self._memory_at]
        parameters = list(self.network.parameters.values())
        ones = gn.fill(1, after.shape, after.dtype)
        kept, *direct = gn.backward({after: ones}, [before, *parameters])
        found = dict(zip(parameters, direct, strict=True))
        start = self._learned()[self._memory_at : self._memory_at + 1]
        return kept, {w: part for w, part in found.items() if w in start or not part.op.is_zeros}

    def _remembered_at_start(self, u: Unrolled) -> Array:
        """Zeros, but ones for the learned initial state of the memory."""
        _, direct = self._into_memory(u)
        start = self._learned()[self._memory_at : self._memory_at + 1]
        return np.concatenate([np.full(w.size, w in start, self.network.dtype) for w in direct])

    def _derivatives(self, u: Unrolled, loss: Node, memory: Sequence[Node]) -> tuple[Node, list[Node]]:
        (past,) = memory
        kept, direct = self._into_memory(u)
        traces, at = {}, 0
        for w in direct:
            traces[w] = gn.reshape(past[at : at + w.size], w.shape)
            at += w.size
        parameters = list(self.network.parameters.values())
        by_memory, *parts = gn.gradient(loss, [u.initial[self._memory_at], *parameters])
        # The last axis of a weight is that of its target units.
        gradients = [
            part + traces[w] * by_memory[0] if w in traces else part
            for w, part in zip(parameters, parts, strict=True)
        ]
        after = [traces[w] * kept[0] + part for w, part in direct.items()]
        return _joined(gradients), [_joined(after)]


def _joined(nodes: Sequence[Node]) -> Node:
    return gn.concatenate([gn.reshape(node, (-1,)) for node in nodes])
