"""Norms: of a network's weights, and of the gradient on its way back through time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.cell.weights import FlatParameters
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.running import checked_inputs
from graphnet_rnn.optimizers.vectors import norm
from graphnet_rnn.settings import MANY, shown

__all__ = ["gradient_by_distance", "weight_norms"]


def weight_norms(network: FlatParameters) -> dict[str, float]:
    """‖W‖ = √Σ w², the 2-norm of all entries, of each trained parameter, by its name: "layer0.W_xh".

    Source: Suarez 2017, figs 2 and 3.
    """
    if not isinstance(network, FlatParameters):
        raise UsageError(
            f"weight_norms: a Network or another model of this framework is needed, not {shown(network)}"
        )
    # No BLAS: its sums depend on the number of threads, and histories are compared byte for byte.
    return {name: _norm(node.value) for name, node in network.parameters.items()}


def _norm(a: Array) -> float:
    with np.errstate(over="ignore"):
        square = float(np.sum(np.square(a, dtype=np.float64)))
    return math.sqrt(square) if 0 < square < math.inf else norm(a.ravel())


def gradient_by_distance(
    network: Network, inputs: Any, targets: Any, backend: str = "numba"
) -> dict[str, Array]:
    """‖∂L_T/∂s_{T-k}‖ for k = 0 ... T - 1, L_T the loss of the last step, by states: "layer0.h", "layer1.c".

    The mean over the cases of 2-norms, each of a case's own loss: how far back an error reaches. It counts all ways
    from s_{T-k} to the loss, through the layers above as well.
    inputs: (time, batch) symbols, or vectors (time, batch, inputs). targets: as the network's cost takes them, of which
    only the last step's count. `rnn.data.Batches(symbols, time, batch)[0]` gives both. The first states are those of a
    start; no dropout.
    Raises UsageError for a network that reads later inputs or whose loss judges whole sequences; DataError for arrays
    that do not fit.
    Source: Suarez 2017, 5.4 and figs 4 to 6.
    """
    require_network("gradient_by_distance", network).require_causal("gradient_by_distance")
    network.require_losses_of_steps("gradient_by_distance")
    names = [f"layer{l}.{state.name}" for l, cell in enumerate(network.layers) for state in cell.states]
    if not names:
        raise UsageError(
            f"gradient_by_distance: {shown(network, MANY)} has no states, so it carries nothing through time"
        )
    x = checked_inputs("gradient_by_distance", network, inputs)
    time, batch = x.shape[:2]
    u = network.unroll(time, batch, training=False)
    # A sum, so that the gradient's row of each case is that of the case's own loss.
    cost = gn.sum(u.losses[time - 1])
    # A delay line holds the same node as several states.
    states = list({id(node): node for column in u.after for node in column}.values())
    place = {id(node): i for i, node in enumerate(states)}
    function = gn.compile(gn.gradient(cost, states), [u.inputs, u.targets, *u.initial], backend=backend)
    found = function(x, targets, *network.first_states(batch))
    norms = [float(np.mean(np.sqrt(np.sum(np.square(g, dtype=np.float64), axis=1)))) for g in found]
    return {
        name: np.array([norms[place[id(column[i])]] for column in reversed(u.after)])
        for i, name in enumerate(names)
    }
