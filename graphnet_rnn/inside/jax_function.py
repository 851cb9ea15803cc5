"""jax_function: a network as a function on arrays of JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from graphnet_rnn.errors import UsageError
from graphnet_rnn.inside.calls import require_no_draws
from graphnet_rnn.network.network import Network, require_network

__all__ = ["jax_function"]


def jax_function(
    network: Network, backend: str = "numba", threads: int | None = None
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """outputs, states = function(parameters, x, *states): the function, and the parameters by name

    x: (time, batch, inputs); symbols without the last axis, int64, which JAX has with jax_enable_x64. states: one array
    (batch, width) for each state, in the order of `network.state_names()`; the network's first states if none is given.
    outputs: what enters the loss's own nonlinearity (with a scaling, in the units of the targets), or, of a network
    without output layer, what its last layer gives. With a layer that reads a sequence from its end, or pool "mean" or
    "max", pieces that hand their states on are not the whole.
    parameters: copies of the network's; gradients by them are those of the compiled program, see gn.inside.jax_function
    for what JAX may do with it. What is compiled for a time and batch is kept, for the last eight of these.
    Raises UsageError without JAX, and for a network with dropout, whose draws are not JAX's.
    """
    network = require_network("jax_function", network)
    if importlib.util.find_spec("jax") is None:
        raise UsageError("jax_function: JAX is not installed: pip install jax")
    require_no_draws("jax_function", network, "JAX's", "draw with jax.random between functions")
    from graphnet_rnn.inside.jax_functions import on_arrays

    return on_arrays(network, backend, threads)
