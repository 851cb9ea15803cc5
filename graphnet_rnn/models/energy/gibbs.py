"""Gibbs sampling of many RBMs side by side, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.models.energy.units import VisibleUnits, draw_bits, sigmoid

__all__ = ["Chain", "gibbs"]


@dataclass(frozen=True)
class Chain:
    """Where chains ended, (..., visible): the values v, their means given the last h, the means of the first step."""

    v: Array
    mean: Array
    first_mean: Array


def gibbs(
    v: Array,
    W: Array,
    b_v: Array,
    b_h: Array,
    units: VisibleUnits,
    steps: int,
    generator: np.random.Generator,
) -> Chain:
    """`steps` times: h ~ P(h|v), v ~ P(v|h); each row a chain, with biases of its own where b_v and b_h are rows.

    Source: Sutskever 2013, 2.7 (the transition T), eqs 2.26-2.27, 2.33.
    """
    # As one matrix: NumPy makes products of stacked ones, here of few rows each, one at a time, and reads W each time.
    shape = v.shape
    v, b_v, b_h = (x if x.ndim == 1 else _rows(x, shape) for x in (v, b_v, b_h))
    first = mean = v
    # A model that has run away gives NaN, which the optimizers and `train` report; not a warning here.
    with np.errstate(invalid="ignore", over="ignore"):
        for step in range(steps):
            h = draw_bits(sigmoid(v @ W + b_h), generator)
            mean = units.mean(h @ W.T + b_v)
            v = units.draw(mean, generator)
            if step == 0:
                first = mean
    return Chain(v.reshape(shape), mean.reshape(shape), first.reshape(shape))


def _rows(x: Array, shape: tuple[int, ...]) -> Array:
    """One row for each chain, of which there are as many as shape has rows."""
    return np.broadcast_to(x, (*shape[:-1], x.shape[-1])).reshape(-1, x.shape[-1])
