"""Networks as functions on JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphnet as gn
from graphnet_rnn.data.sequences import checked_lengths
from graphnet_rnn.errors import UsageError
from graphnet_rnn.inside.calls import CompiledCalls, require_states
from graphnet_rnn.network.network import Network


def on_arrays(
    network: Network, backend: str, threads: int | None
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """See jax_function."""
    compiled = CompiledCalls(
        network, lambda outputs, inputs: gn.inside.jax_function(outputs, inputs, backend, threads)
    )
    names = {node: name for name, node in network.parameters.items()}
    states_of = [name for name, _ in network.state_names()]

    def first_states(batch: int, parameters: Mapping[str, Any]) -> list[Any]:
        if network.initial_state == "zero":
            return list(map(jnp.asarray, network.zero_states(batch)))
        learned = (parameters[names[node.inputs[0]]] for node in network.learned_states(batch))
        return [jnp.broadcast_to(state, (batch, *state.shape)) for state in learned]

    def function(
        parameters: Mapping[str, Any], x: Any, *states: Any, lengths: Any = None
    ) -> tuple[Any, list[Any]]:
        missing = [name for name in names.values() if name not in parameters]
        if missing:
            raise UsageError(
                f"parameters must contain all arrays that jax_function returned; {missing[0]!r} is missing"
            )
        x = jnp.asarray(x)
        axes = "(time, batch)" if network.reads == "symbols" else "(time, batch, inputs)"
        if x.ndim != axes.count(",") + 1:
            raise UsageError(f"x must have axes {axes}, not the shape {list(x.shape)}")
        time, batch = x.shape[:2]
        before = states or first_states(batch, parameters)
        require_states("jax_function", states_of, before)
        ends = []
        if lengths is not None:
            known = jnp.asarray(lengths)
            if not isinstance(known, jax.core.Tracer):  # in a compiled program, values are unknown
                checked_lengths("jax_function", np.asarray(known), time, batch)
            ends = [known.astype("int32")]
        weights = (parameters[name] for name in names.values())
        outputs, *after = compiled(time, batch, lengths is not None)(x, *before, *weights, *ends)
        return outputs, after

    return function, {name: jnp.asarray(node.value) for name, node in network.parameters.items()}
