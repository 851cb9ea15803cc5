"""RecurrentRBM: an RBM for each frame, whose biases a recurrent network computes from the frames before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.cell import initializers
from graphnet_rnn.cell.initializers import Initializer
from graphnet_rnn.errors import UsageError
from graphnet_rnn.models.energy import equations
from graphnet_rnn.models.energy.sequence import SequenceRBM
from graphnet_rnn.models.energy.units import sigmoid
from graphnet_rnn.models.frames import before, require_network_of_frames
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import Runner
from graphnet_rnn.network.unroll import Unrolled


class RecurrentRBM(SequenceRBM):
    """P(v) = Π_t P(v_t | u_t),  P(v_t, h_t | u_t) an RBM with biases b_v + u_t W_uv and b_h + u_t W_uh (RNN-RBM)

    u_t is the last layer of a network after the frames 0, v_1 ... v_{t-1}; the first, 0, is zeros.
    network: causal, without dropout, with outputs=0; its inputs are the visible units. hidden: units of the RBM, 100 by
    default. visibles, sigma: see RBM. seed, initial, values: see EnergyModel; W ~ N(0, 0.01²), W_uv and W_uh
    ~ N(0, 0.005²), biases 0.
    Train it with rnn.EnergyCases, by contrastive divergence through time: the past is observed, so gradients go through
    the network exactly. The RTRBM is the case in which u_t is the mean of the hidden units of step t - 1.
    Raises UsageError.
    Source: Boulanger-Lewandowski, Bengio & Vincent 2012, section 4.

    >>> net = rnn.Network([rnn.Elman(5)], inputs=4, outputs=0, reads="vectors")
    >>> model = rnn.energy.RecurrentRBM(net, hidden=3)
    >>> model.sample(time=6, batch=2).shape
    (6, 2, 4)
    >>> round(model.log_likelihood(np.zeros((1, 2, 4))), 1)  # nats; near 4 log(1/2), as the weights are small
    -2.8
    """

    def __init__(
        self,
        network: Network,
        hidden: int = 100,
        visibles: str = "binary",
        sigma: float = 1.0,
        seed: int = 0,
        initial: Mapping[str, Initializer] | None = None,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        self.network = require_network_of_frames("RecurrentRBM", network)
        if network.dropout or network.recurrent_dropout:
            raise UsageError(
                "RecurrentRBM: the network must not have dropout, since Gibbs chains and gradients read the same past; "
                "create it without"
            )
        self._runner = Runner(network)
        super().__init__(network.inputs, hidden, visibles, sigma, seed, network.dtype, initial, values)

    def declare(self) -> dict[str, tuple[tuple[int, ...], Initializer]]:
        U, V, H = self.network.layers[-1].output_width, self.visible, self.hidden
        return {
            "W": ((V, H), initializers.normal(0.01)),
            "b_v": ((V,), initializers.zeros()),
            "b_h": ((H,), initializers.zeros()),
            "W_uv": ((U, V), initializers.normal(0.005)),
            "W_uh": ((U, H), initializers.normal(0.005)),
        }

    # -- nodes ---------------------------------------------------------------------------------

    def machine(self, v: Node) -> tuple[Node, Node, Node]:
        time, batch, _ = v.shape
        past, start = before(v, gn), self.network.initial_state
        u = self.network.unroll(time, batch, initial=start, inputs=past, name="past", training=False)
        return self.parameters["W"], *self._after(u)

    def _after(self, unrolled: Unrolled) -> tuple[Node, Node]:
        """B_v and B_h of the step after each that the network has read, (time, batch, ·)."""
        with gn.scope(layer="output"):
            time, batch, units = unrolled.hidden[-1].shape
            u = gn.reshape(unrolled.hidden[-1], (time * batch, units))
            b_v, b_h = (gn.reshape(b, (time, batch, b.shape[1])) for b in self._of_states(self.parameters, u))
            return b_v, b_h

    @staticmethod
    def _of_states(p: Mapping[str, Any], u: Any) -> tuple[Any, Any]:
        """B_v and B_h, of nodes or arrays."""
        return p["b_v"] + u @ p["W_uv"], p["b_h"] + u @ p["W_uh"]

    def __graph__(self) -> gn.Graph:
        """The free energy of a frame after the one before, and its hidden units, for drawing."""
        last, v = (gn.input((1, 1, self.visible), self.dtype, name=name) for name in ("v_t-1", "v_t"))
        unrolled = self.network.unroll(1, 1, inputs=last, name="past", training=False)
        W, (b_v, b_h) = self.parameters["W"], self._after(unrolled)
        h = gn.sigmoid(v[0] @ W + b_h[0])
        free_energy = equations.free_energy(v, W, b_v, b_h, self.units)
        return gn.Graph([gn.label(free_energy, "F_t"), gn.label(h, "h_t")], [last, *unrolled.initial, v])

    # -- arrays --------------------------------------------------------------------------------

    def _past(self, batch: int) -> _Past:
        found = _Past(np.empty(0), None)
        self._read(found, np.zeros((1, batch, self.visible), self.dtype))
        return found

    def _read(self, past: _Past, v: Array) -> None:
        u, past.states = self._runner(v, past.states)
        past.u = u[-1]

    def _biases_after(self, past: _Past) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self._of_states(self.values, past.u)
        return found

    def _push(self, past: _Past, v: Array, h: Array) -> None:
        self._read(past, v[None])

    def _filter(self, v: Array, past: _Past) -> tuple[Array, Array, Array]:
        read, past.states = self._runner(v, past.states)
        u = np.concatenate([past.u[None], read[:-1]])
        past.u = read[-1]
        # A diverged model gives infinities, which the optimizers and `train` report; no warning here.
        with np.errstate(over="ignore", invalid="ignore"):
            b_v, b_h = self._of_states(self.values, u)
            return b_v, b_h, sigmoid(v @ self.values["W"] + b_h)

    def log_likelihood(self, v: Any) -> float:
        """Mean over sequences of log P(v_1 ... v_T), exact, in nats.

        Raises UsageError if the model is too large to enumerate.
        """
        return self._log_likelihood(v)


@dataclass
class _Past:
    """The network's output after the frames so far, (batch, units), and its states."""

    u: Array
    states: list[Array] | None
