"""RTRL: the exact gradient, forward in time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import graphnet as gn
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Array, Node
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.online.learner import Learner


class RTRL(Learner):
    """M_t = (∂s_t/∂s_{t-1}) M_{t-1} + ∂s_t/∂θ;  ∂loss_t/∂θ = (∂loss_t/∂s_{t-1}) M_{t-1} + its direct part

    s: the states of all layers, one after the other, S numbers; M_t = ds_t/dθ, the influence of all weights on them
    since the sequence started. The sum of the gradients over a sequence equals that of backpropagation through time.

        learner = rnn.online.RTRL(network)
        loss, gradient = learner.step(inputs, targets)

    With R weights on which the states depend, a step takes S backward passes through one time step for the two
    Jacobians, and O(S² R) for the product; M has S R numbers. Each sequence of the batch takes this time and memory.
    For n fully connected units that is O(n⁴) time and O(n³) memory, for any length of the sequence.
    network, batch, backend, threads: see Learner.
    Source: Williams & Zipser 1989; Sutskever 2013, 2.8.1.

    >>> network = rnn.Network([rnn.Elman(3)], inputs=4, outputs=4)
    >>> learner = rnn.online.RTRL(network, backend="numpy")
    >>> loss, gradient = learner.step(inputs=[1], targets=[2])
    >>> gradient.shape == network.theta.shape, learner.states[0].shape
    (True, (1, 3))
    """

    def _remembering(self, u: Unrolled) -> list[Node]:
        reached = {*ancestors(u.final), *self._learned()} if u.final else set()
        return [node for node in self.network.parameters.values() if node in reached]

    def _remembered_at_start(self, u: Unrolled) -> Array:
        """M_0: zeros, but ones where a learned state is a parameter."""
        columns = _slices(self._remembering(u))
        influence = np.zeros(
            (sum(state.shape[1] for state in u.initial), sum(node.size for node in columns)),
            self.network.dtype,
        )
        row = 0
        for node in self._learned():
            influence[row : row + node.size, columns[node]] = np.eye(node.size)
            row += node.size
        return influence

    def _derivatives(self, u: Unrolled, loss: Node, memory: Sequence[Node]) -> tuple[Node, list[Node]]:
        parameters = list(self.network.parameters.values())
        count = len(u.initial)
        back = gn.gradient(loss, [*u.initial, *parameters])
        direct = dict(zip(parameters, map(_flat, back[count:]), strict=True))
        if not memory:
            return gn.concatenate(list(direct.values())), []
        (influence,) = memory
        columns = _slices(self._remembering(u))
        past = (gn.concatenate(back[:count], axis=1) @ influence)[0]
        parts = [part + past[columns[w]] if w in columns else part for w, part in direct.items()]
        by_state, by_weight = [], []
        for state in u.final:
            for row in np.eye(state.shape[1], dtype=state.dtype):
                back = gn.backward({state: row[None]}, [*u.initial, *columns])
                by_state.append(gn.concatenate(back[:count], axis=1))
                by_weight.append(gn.concatenate(list(map(_flat, back[count:]))))
        return gn.concatenate(parts), [gn.concatenate(by_state) @ influence + gn.stack(by_weight)]


def _flat(node: Node) -> Node:
    return gn.reshape(node, (-1,))


def _slices(parameters: Sequence[Node]) -> dict[Node, slice]:
    ends = np.cumsum([0, *(node.size for node in parameters)]).tolist()
    return {node: slice(a, b) for node, a, b in zip(parameters, ends[:-1], ends[1:], strict=True)}
