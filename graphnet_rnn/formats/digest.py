"""Digest of a model's equations: detects changes since a file was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np

import graphnet as gn
from graphnet.graph.graph import substitute
from graphnet.graph.node import Array, Node
from graphnet_rnn.model import Model
from graphnet_rnn.network.lengths import ENDS
from graphnet_rnn.network.network import Network

#: Number of time steps.
STEPS = 3
#: Number of stored outputs, and of their digits.
KEPT = 8
DIGITS = 5
#: Period of the numbers: a prime, so that no two rows of a weight are equal.
CYCLE = 997
#: Tolerance: rounding in float32 changes outputs by 1e-6, a changed equation by far more.
TOLERANCE = 1e-3

#: Cache, since a training run writes the same digest into every file.
_known: WeakKeyDictionary[Model, list[float]] = WeakKeyDictionary()


def equation_digest(model: Model) -> list[float]:
    """Returns some outputs of the model for fixed values of all weights, inputs and initial states.

    For a network: o_1 ... o_3 and the last states, without dropout; for another model: the outputs of its graph.
    Independent of the weights. Empty if no output is finite.
    """
    found = _known.get(model)
    if found is None:
        # Tables of probabilities must not be negative.
        found = _known[model] = (
            _kept(_of_network(model))
            if isinstance(model, Network)
            else _kept(_of_graph(model, _numbers)) or _kept(_of_graph(model, _positive_numbers))
        )
    return found


def _of_network(network: Network) -> list[Array]:
    u = network.unroll(STEPS, 1, training=False, labels=0 if network.loss == "ctc" else None)
    weights = [*network.parameters.values(), *network.fixed.values()]
    made = [u.logits] if network.outputs else u.hidden[-1:]
    outputs = substitute([*made, *u.final], {node: gn.constant(_numbers(node)) for node in weights})
    x = np.arange(STEPS)[:, None] % network.inputs if network.reads == "symbols" else _numbers(u.inputs)
    function = gn.compile(outputs, [u.inputs, *u.initial], backend="numpy")
    with np.errstate(all="ignore"):
        return list(function(x, *map(_numbers, u.initial)))


def _of_graph(model: Model, numbers: Callable[[Node], Array]) -> list[Array]:
    graph = model.__graph__()
    weights = {*model.parameters.values(), *model.fixed.values()} & set(graph.order)
    outputs = substitute(graph.outputs, {node: gn.constant(numbers(node)) for node in weights})
    function = gn.compile(outputs, graph.inputs, backend="numpy")
    arrays = [numbers(node) if node.dtype.kind == "f" else _integers(node) for node in graph.inputs]
    with np.errstate(all="ignore"):
        return list(function(*arrays))


def _integers(node: Node) -> Array:
    return np.full(node.shape, ENDS in node.scope, node.dtype)


def _kept(arrays: Sequence[Array]) -> list[float]:
    values = np.concatenate([array.ravel() for array in arrays]).astype(np.float64)
    if not np.isfinite(values).all():
        return []
    kept = values[np.linspace(0, len(values) - 1, min(KEPT, len(values))).astype(int)]
    return [float(f"{value:.{DIGITS}g}") for value in kept]


def same_digest(a: Sequence[float], b: Sequence[float]) -> bool:
    """True if the digests agree, or if one is empty."""
    if not a or not b:
        return True
    return len(a) == len(b) and bool(
        np.abs(np.subtract(a, b)).max() <= TOLERANCE * max(np.abs(a).max(), np.abs(b).max())
    )


def _numbers(node: Node) -> Array:
    """Returns values of the node's shape, similar to weights: in ±1, and smaller for long sums."""
    terms = node.shape[-2] if node.ndim > 1 else 1
    cycle = (np.sin(1.0 + np.arange(CYCLE)) / np.sqrt(terms)).astype(node.dtype)
    return np.resize(cycle, node.shape)


def _positive_numbers(node: Node) -> Array:
    return np.abs(_numbers(node))
