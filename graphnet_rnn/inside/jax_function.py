"""jax_function: a network as a function on JAX arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from graphnet_rnn.errors import UsageError
from graphnet_rnn.inside.calls import require_no_draws
from graphnet_rnn.network.network import Network, require_network


def jax_function(
    network: Network, backend: str = "numba", threads: int | None = None
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """outputs, states = function(parameters, x, *states, lengths=None): the function, and the parameters by name

    network: any rnn.Network without dropout. backend, threads: see gn.compile.
    x: (time, batch, inputs); symbols without the last axis, int64, for which JAX needs jax_enable_x64. states: one
    array (batch, width) for each state, in the order of `network.state_names()`; the network's first states by default.
    lengths: whole numbers (batch,), the length of each padded sequence; None: all have the length of x. Outputs of
    padding are 0, and the returned states are those after the last step of each sequence.
    outputs: before the loss's nonlinearity (with a scaling, in the units of the targets); without an output layer,
    those of the last layer. With a bidirectional layer, or pool "mean" or "max", running a sequence in segments changes
    the result. parameters: copies of the network's. Gradients are those of the compiled program; gn.inside.jax_function
    lists what JAX can do with it. The last eight compiled sizes are kept.
    Raises UsageError without JAX, and for a network with dropout, whose random numbers JAX does not control.

    >>> network = rnn.Network([rnn.LSTM(3)], inputs=4, outputs=2, reads="vectors")
    >>> function, parameters = rnn.inside.jax_function(network)  # doctest: +SKIP
    >>> outputs, states = function(parameters, np.zeros((5, 1, 4), np.float32))  # doctest: +SKIP
    >>> outputs.shape, [state.shape for state in states]  # doctest: +SKIP
    ((5, 1, 2), [(1, 3), (1, 3)])
    """
    network = require_network("jax_function", network)
    if importlib.util.find_spec("jax") is None:
        raise UsageError("jax_function: JAX is not installed: pip install jax")
    require_no_draws("jax_function", network, "JAX's", "draw with jax.random between functions")
    from graphnet_rnn.inside.jax_functions import on_arrays

    return on_arrays(network, backend, threads)
