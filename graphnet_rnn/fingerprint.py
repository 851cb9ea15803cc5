"""What a network's equations make of fixed numbers: tells whether they have changed since a file was written."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

import graphnet as gn
from graphnet.graph import substitute
from graphnet.node import Array, Node
from graphnet_rnn.network import Network

__all__ = ["fingerprint", "same_fingerprint"]

#: Three steps: the first state, one that the cell has made, and one that it has made of such.
STEPS = 3
#: So many outputs are kept, spread over all; with so many digits.
KEPT = 8
DIGITS = 5
#: The numbers repeat after so many: a prime, so that no two rows of a weight are the same.
CYCLE = 997
#: Two float32 computations of the same differ by 1e-6; an equation that was changed, by far more than this.
TOLERANCE = 1e-3

#: A training run writes the same one into every file.
_known: WeakKeyDictionary[Network, list[float]] = WeakKeyDictionary()


def fingerprint(network: Network) -> list[float]:
    """Some of o_1 ... o_3 and of the last states, where all weights, inputs and first states are given numbers.

    It does not depend on the network's weights, but on all that is computed with them. Without dropout. Empty for a
    network that makes no finite numbers of these.
    """
    found = _known.get(network)
    if found is None:
        found = _known[network] = _computed(network)
    return found


def _computed(network: Network) -> list[float]:
    u = network.unroll(STEPS, 1, training=False, labels=0 if network.loss == "ctc" else None)
    weights = [*network.parameters.values(), *network.fixed.values()]
    outputs = substitute([u.logits, *u.final], {node: gn.constant(_numbers(node)) for node in weights})
    x = np.arange(STEPS)[:, None] % network.inputs if network.reads == "symbols" else _numbers(u.inputs)
    function = gn.compile(outputs, [u.inputs, *u.initial], backend="numpy")
    with np.errstate(all="ignore"):
        arrays = function(x, *map(_numbers, u.initial))
    values = np.concatenate([array.ravel() for array in arrays]).astype(np.float64)
    if not np.isfinite(values).all():
        return []
    kept = values[np.linspace(0, len(values) - 1, min(KEPT, len(values))).astype(int)]
    return [float(f"{value:.{DIGITS}g}") for value in kept]


def same_fingerprint(a: Sequence[float], b: Sequence[float]) -> bool:
    """True if the two may be of the same equations; so if one of them says nothing."""
    if not a or not b:
        return True
    return len(a) == len(b) and bool(
        np.abs(np.subtract(a, b)).max() <= TOLERANCE * max(np.abs(a).max(), np.abs(b).max())
    )


def _numbers(node: Node) -> Array:
    """Numbers of the node's shape that look like weights: in ±1, and smaller where many of them are added up."""
    terms = node.shape[-2] if node.ndim > 1 else 1
    cycle = (np.sin(1.0 + np.arange(CYCLE)) / np.sqrt(terms)).astype(node.dtype)
    return np.resize(cycle, node.shape)
