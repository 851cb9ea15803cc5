"""Compiled calls of a network from other frameworks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import graphnet as gn
from graphnet.graph.node import Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network

#: Number of compiled sizes to keep.
KEPT = 8


def require_no_draws(who: str, network: Network, whose: str, remedy: str) -> None:
    """Raises UsageError for a network with dropout, as the other framework does not control its random numbers."""
    u = network.unroll(2, 1, labels=0 if network.loss == "ctc" else None)
    leaves = (node.op for node in gn.Graph(u.final).order if node.is_leaf)
    if network.dropout or any(op.is_fed and not op.is_input for op in leaves):
        raise UsageError(
            f"{who}: the network must not have dropout, since its random numbers are not {whose}; create it "
            f"without, and {remedy}"
        )


def require_states(who: str, names: Sequence[str], given: Any) -> None:
    """Raises UsageError unless one array is given for each state."""
    single = hasattr(given, "shape")
    if single or len(given) != len(names):
        found = f"a {type(given).__name__}" if single else len(given)
        raise UsageError(f"{who}: states: give {len(names)} arrays ({', '.join(names)}) or none, not {found}")


def called(network: Network, time: int, batch: int, ragged: bool) -> tuple[list[Node], list[Node]]:
    """Nodes (outputs, states after) and inputs (x, states before, parameters, lengths if ragged)."""
    lengths = [gn.input((batch,), "int32", name="lengths")] if ragged else []  # JAX has no int64 by default
    u = network.unroll(
        time,
        batch,
        training=False,
        labels=0 if network.loss == "ctc" else None,
        lengths=gn.cast(lengths[0], "int64") if ragged else False,
    )
    outputs = u.logits if network.outputs else u.hidden[-1]
    if u.ends is not None and network.pool is None:
        outputs = u.ends.cut(outputs)
    return [outputs, *u.final], [u.inputs, *u.initial, *network.parameters.values(), *lengths]


class CompiledCalls:
    """Cache of `make(outputs, inputs)` for the last eight sizes."""

    def __init__(
        self, network: Network, make: Callable[[list[Node], list[Node]], Callable[..., Any]]
    ) -> None:
        self._network, self._make = network, make
        self._kept: OrderedDict[tuple[int, int, bool], Callable[..., Any]] = OrderedDict()

    def __call__(self, time: int, batch: int, ragged: bool) -> Callable[..., Any]:
        sizes = time, batch, ragged
        function = self._kept.pop(sizes, None)
        if function is None:
            function = self._make(*called(self._network, *sizes))
        self._kept[sizes] = function
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return function
