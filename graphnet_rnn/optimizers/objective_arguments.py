"""Checks of the arguments of an Objective."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.graph.graph import ancestors
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import amount, shown


def checked_nodes(argument: str, given: Any) -> list[Node]:
    if isinstance(given, Node):
        raise UsageError(f"Objective: {argument} must be a list of nodes; write [{given.name or '...'}]")
    try:
        listed = list(given)
    except TypeError:
        raise UsageError(f"Objective: {argument} must be a list of nodes, not {shown(given)}") from None
    for node in listed:
        if not isinstance(node, Node):
            raise UsageError(f"Objective: {argument} must be a list of nodes, but holds {shown(node)}")
    if argument in ("parameters", "inputs"):
        for node, count in Counter(listed).items():
            if count > 1:
                raise UsageError(
                    f"Objective: {argument} lists {node.describe()} (made at {node.origin}) twice"
                )
    if argument == "inputs":
        for node in listed:
            if not node.op.is_input:
                raise UsageError(
                    f"Objective: inputs must be nodes from gn.input, but {node.describe()} (made at "
                    f"{node.origin}) is a {node.op.name}"
                )
    return listed


def checked_parameters(given: Any) -> list[Node]:
    listed = checked_nodes("parameters", given.values() if isinstance(given, Mapping) else given)
    if not listed:
        raise UsageError("Objective: `parameters` is empty: give at least one")
    for node in listed:
        if not node.op.is_parameter:
            raise UsageError(
                f"Objective: parameters must be nodes from gn.parameter, but {node.describe()} (made at "
                f"{node.origin}) is a {node.op.name}"
            )
    return listed


def checked_pairs(structure: Any) -> list[tuple[Node, Node]]:
    try:
        listed = [(a, h) for a, h in structure]
    except (TypeError, ValueError):
        listed = [(None, None)]
    if not all(isinstance(node, Node) for pair in listed for node in pair):
        raise UsageError(
            f"Objective: structure must be pairs of nodes (a, h = e(a)), such as u.structure, not {shown(structure)}"
        )
    for (a, h), count in Counter(listed).items():
        if count > 1:
            raise UsageError(
                f"Objective: structure lists {a.describe()} and {h.describe()} (made at {h.origin}) twice, so they "
                "would be damped twice"
            )
    return listed


def require_connected(
    cost: Node, also: Sequence[Node], inputs: Sequence[Node], parameters: Sequence[Node]
) -> None:
    """Raises UsageError for a cost that depends on no parameter, or on an input that is not listed."""
    reached = set(ancestors([cost, *also]))
    described = f"the cost {cost.describe()} (made at {cost.origin})"
    if reached.isdisjoint(parameters):
        names = ", ".join(node.describe() for node in parameters[:3])
        raise UsageError(
            f"Objective: {described} depends on none of the parameters, {names}"
            f"{', ...' if len(parameters) > 3 else ''}; pass the parameters of the network that computes it"
        )
    missing = [n for n in reached.difference(inputs) if n.op.is_input]
    if missing:
        names = ", ".join(
            f"{n.describe()} (made at {n.origin})" for n in sorted(missing, key=lambda n: n.serial)
        )
        raise UsageError(
            f"Objective: {described} depends on {names}; list it in inputs, and feed it "
            "(first states of a network are 0 after net.unroll(..., initial='zero'))"
        )


def checked_weights(weights: Sequence[float], count: int) -> list[float]:
    """Returns the weights of batches. Raises UsageError unless there is a number >= 0 for each."""
    if len(weights) != count:
        raise UsageError(
            f"Objective.feed_batches: weights must be one number for each of the {count} batches of the gradient, not "
            f"{len(weights)}"
        )
    return [float(amount("Objective.feed_batches: a weight", weight)) for weight in weights]


def checked_vector(own: str, w: Any, size: int) -> Array:
    """Returns the vector as an array. Raises UsageError for other shapes and dtypes, prefixed with `own`."""
    try:
        vector: Array = w if hasattr(w, "shape") and not isinstance(w, Node) else np.asarray(w)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{own}: the vector cannot be converted to an array: {error}") from None
    if vector.shape != (size,):
        raise UsageError(
            f"{own}: the vector has shape {list(vector.shape)}, but there are {size:,} parameters"
        )
    if vector.dtype.kind not in "fiu":
        raise UsageError(f"{own}: the vector must be of real numbers, not {vector.dtype}")
    return vector
