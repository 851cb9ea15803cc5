"""Norms of a network's weights, and of gradients by distance in time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.cell.weights import FlatParameters
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.running import array_of, checked_floats, checked_inputs, checked_symbols
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.optimizers.vectors import norm
from graphnet_rnn.settings import MANY, shown


def weight_norms(network: FlatParameters) -> dict[str, float]:
    """‖W‖ = √Σ w², the 2-norm of all entries, of each trained parameter, by its name: "layer0.W_xh".

    network: a Network or another model.
    Source: Suarez 2017, figs 2 and 3.

    >>> net = rnn.Network([rnn.Elman(4)], inputs=3, outputs=3)
    >>> {name: round(norm, 2) for name, norm in rnn.weight_norms(net).items()}
    {'layer0.W_xh': 1.46, 'layer0.W_hh': 1.4, 'layer0.b_h': 0.0, 'output.W_ho': 2.08, 'output.b_o': 0.0}
    """
    if not isinstance(network, FlatParameters):
        raise UsageError(
            f"weight_norms: the model must be a Network or another model of this framework, not {shown(network)}"
        )
    # No BLAS, as its sums depend on the number of threads, and histories are compared byte for byte.
    return {name: _norm(node.value) for name, node in network.parameters.items()}


def _norm(a: Array) -> float:
    with np.errstate(over="ignore"):
        square = float(np.sum(np.square(a, dtype=np.float64)))
    return math.sqrt(square) if 0 < square < math.inf else norm(a.ravel())


def gradient_by_distance(
    network: Network, inputs: Any, targets: Any, backend: str = "numba"
) -> dict[str, Array]:
    """‖∂L_T/∂s_{T-k}‖ for k = 0 ... T - 1, L_T the loss of the last step, by states: "layer0.h", "layer1.c".

    Returns for each state an array (T,): the mean over cases of the 2-norm of the gradient of the case's own loss. It
    shows how far back an error reaches, on all paths, also through the layers above.
    network: a causal network with a loss of each time step. inputs: (time, batch) symbols, or vectors (time, batch,
    inputs). targets: as for the network's cost; only those of the last step count. `rnn.data.Batches(symbols, time,
    batch)[0]` gives both. backend: see gn.compile. The states start as at the start of a sequence; no dropout.
    Raises UsageError for a network that reads later inputs or has a loss of whole sequences; DataError for arrays of
    other shapes.
    Source: Suarez 2017, 5.4 and figs 4 to 6.

    >>> net = rnn.Network([rnn.Elman(4)], inputs=3, outputs=3)
    >>> found = rnn.gradient_by_distance(net, inputs=[[0], [1], [2]], targets=[[1], [2], [0]])
    >>> found["layer0.h"].round(2)
    array([0.86, 0.54, 0.34])
    """
    require_network("gradient_by_distance", network).require_causal("gradient_by_distance")
    network.require_losses_of_steps("gradient_by_distance")
    names = [f"layer{l}.{state.name}" for l, cell in enumerate(network.layers) for state in cell.states]
    if not names:
        raise UsageError(
            f"gradient_by_distance: {shown(network, MANY)} has no states, so no gradient flows through time"
        )
    x = checked_inputs("gradient_by_distance", network, inputs)
    time, batch = x.shape[:2]
    u = network.unroll(time, batch, training=False)
    # A sum, so that each row of the gradient is that of the case's own loss.
    cost = gn.sum(u.losses[time - 1])
    # A delay line holds the same node as several states.
    states = list({id(node): node for column in u.after for node in column}.values())
    place = {id(node): i for i, node in enumerate(states)}
    function = gn.compile(gn.gradient(cost, states), [u.inputs, u.targets, *u.initial], backend=backend)
    found = function(x, _last_of(u, targets), *network.first_states(batch))
    norms = [float(np.mean(np.sqrt(np.sum(np.square(g, dtype=np.float64), axis=1)))) for g in found]
    return {
        name: np.array([norms[place[id(column[i])]] for column in reversed(u.after)])
        for i, name in enumerate(names)
    }


def _last_of(u: Unrolled, targets: Any) -> Array:
    """Returns the targets, with 0 for those of earlier steps, whose NaN would reach the gradient of the last."""
    own = "gradient_by_distance: targets"
    given, found = array_of(own, targets), np.zeros(u.targets.shape, u.targets.dtype)
    if given.shape != found.shape:
        raise DataError(f"{own} must be {list(found.shape)}, not {list(given.shape)}")
    if found.dtype.kind in "iu":
        found[-1] = checked_symbols(own, given[-1], u.network.outputs)
    else:
        found[-1] = checked_floats(own, given[-1], found.dtype)
    return found
