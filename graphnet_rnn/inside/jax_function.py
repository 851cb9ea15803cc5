"""jax_function: a network as a function on arrays of JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

import graphnet as gn
from graphnet_rnn.errors import UsageError
from graphnet_rnn.inside.calls import CompiledCalls, require_no_draws
from graphnet_rnn.network.network import Network, require_network

__all__ = ["jax_function", "on_arrays"]


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
    from graphnet_rnn.inside.jax_function import on_arrays

    return on_arrays(network, backend, threads)


def on_arrays(
    network: Network, backend: str, threads: int | None
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """See jax_function."""
    compiled = CompiledCalls(
        network, lambda outputs, inputs: gn.inside.jax_function(outputs, inputs, backend, threads)
    )
    names = {node: name for name, node in network.parameters.items()}

    def first_states(batch: int, parameters: Mapping[str, Any]) -> list[Any]:
        if network.initial_state == "zero":
            return list(map(jnp.asarray, network.zero_states(batch)))
        learned = (parameters[names[node.inputs[0]]] for node in network.learned_states(batch))
        return [jnp.broadcast_to(state, (batch, *state.shape)) for state in learned]

    def function(parameters: Mapping[str, Any], x: Any, *states: Any) -> tuple[Any, list[Any]]:
        missing = [name for name in names.values() if name not in parameters]
        if missing:
            raise UsageError(
                f"parameters lacks {missing[0]!r}; give all that jax_function returned, or what training made"
            )
        x = jnp.asarray(x)
        if x.ndim < 2:
            raise UsageError(f"x must have axes (time, batch, ...), not the shape {list(x.shape)}")
        time, batch = x.shape[:2]
        before = states or first_states(batch, parameters)
        outputs, *after = compiled(time, batch)(x, *before, *(parameters[name] for name in names.values()))
        return outputs, after

    return function, {name: jnp.asarray(node.value) for name, node in network.parameters.items()}
