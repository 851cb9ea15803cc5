"""A small network of a cell, arrays for it, and what our own program makes of them."""

from __future__ import annotations

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array


def network_and_gradients(cell: type[rnn.Cell]) -> tuple[rnn.Network, Array, tuple[Array, ...]]:
    """The network, x, and its outputs at x with the gradients of the sum of their squares."""
    net = rnn.Network(
        [cell(3)], 3, 2, loss="squared", reads="vectors", dtype="float64", initial_state="learned"
    )
    x = np.random.default_rng(0).standard_normal((4, 2, 3))
    u = net.unroll(4, 2, training=False, initial="learned")
    ours = gn.compile([u.logits, *gn.gradient(gn.sum(u.logits * u.logits), net.parameters)], [u.inputs])(x)
    return net, x, ours
