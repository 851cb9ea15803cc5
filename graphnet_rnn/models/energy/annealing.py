"""Estimates of log Z by annealed importance sampling, in NumPy."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.models.energy.units import VisibleUnits, draw_bits, sigmoid


def annealed_growth(
    W: Array, b_v: Array, b_h: Array, units: VisibleUnits, temperatures: int, chains: int,
    generator: np.random.Generator,
) -> Array:  # fmt: skip
    """log Z - log Z_0, float64 (rows,), estimated for each RBM; Z_0 is that without the hidden units' input

    p_β(v) ∝ exp(v·b_v - own energy) Π_j (1 + exp(β (v W + b_h)_j)), for `temperatures` steps of β from 0 to 1. At β = 0
    the visible units are independent, and log Z_0 = Σ log Σ_v exp(v b_v - own energy) + hidden log 2 is known. Each
    chain has the weight Π_k p_k(v) / p_{k-1}(v) along its path, with one Gibbs step at each β. The mean weight of all
    chains of a row is an unbiased estimate of Z / Z_0, so its logarithm tends to be too low.
    b_v: (rows, visible), b_h: (rows, hidden).
    Source: Neal 2001; Salakhutdinov & Murray 2008, 4.1.
    """
    rows = len(b_h)
    b_v, b_h = (np.repeat(b, chains, axis=0) for b in (b_v, b_h))
    v = units.draw(units.mean(b_v), generator)
    weight = np.zeros(len(v))
    betas = np.linspace(0, 1, temperatures + 1).astype(W.dtype)
    a = v @ W + b_h
    for before, beta in itertools.pairwise(betas):
        weight += _softplus(beta * a) - _softplus(before * a)
        h = draw_bits(sigmoid(beta * a), generator)
        v = units.draw(units.mean(beta * (h @ W.T) + b_v), generator)
        a = v @ W + b_h
    each = weight.reshape(rows, chains)
    most = each.max(axis=1)
    found: Array = most + np.log(np.exp(each - most[:, None]).mean(axis=1))
    return found


def _softplus(x: Array) -> Array:
    found: Array = (np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))).sum(axis=1, dtype=np.float64)
    return found


@dataclass(frozen=True)
class Chain:
    """Ends of chains, (..., visible): the values v, their means given the last h, the means of the first step."""

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
    """`steps` times: h ~ P(h|v), v ~ P(v|h); each row is a chain, with its own biases if b_v and b_h are rows.

    Source: Sutskever 2013, 2.7 (the transition T), eqs 2.26-2.27, 2.33.
    """
    # As one matrix: NumPy would compute stacked products of few rows one at a time and read W each time.
    shape = v.shape
    v, b_v, b_h = (x if x.ndim == 1 else _rows(x, shape) for x in (v, b_v, b_h))
    first = mean = v
    # A diverged model gives NaN, which the optimizers and `train` report; no warning here.
    with np.errstate(invalid="ignore", over="ignore"):
        for step in range(steps):
            h = draw_bits(sigmoid(v @ W + b_h), generator)
            mean = units.mean(h @ W.T + b_v)
            v = units.draw(mean, generator)
            if step == 0:
                first = mean
    return Chain(v.reshape(shape), mean.reshape(shape), first.reshape(shape))


def _rows(x: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, (*shape[:-1], x.shape[-1])).reshape(-1, x.shape[-1])
