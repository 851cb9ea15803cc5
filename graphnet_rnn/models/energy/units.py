"""Visible units: their parts of the energy, of Z and of P(v|h)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Dtype, Node
from graphnet.ops.elementwise import Sigmoid
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import amount, one_of


def sigmoid(x: Array) -> Array:
    """y = 1 / (1 + exp(-x)) of arrays, computed as by the node."""
    return Sigmoid().forward(x)


def draw_bits(p: Array, generator: np.random.Generator) -> Array:
    """1 with probability p, else 0, in the dtype of p."""
    return (generator.random(p.shape, dtype=p.dtype.type) < p).astype(p.dtype)


class VisibleUnits(ABC):
    """Visible units, which the rest of the model reaches through their total input a = b_v + h Wᵀ."""

    #: True if all v can be enumerated, so that log Z can be summed over either side.
    countable: ClassVar[bool] = False

    def own_energy(self, v: Node) -> Node | None:
        """Energy of v alone, without -v·b_v; (..., visible) to (...). None if there is none."""
        return None

    @abstractmethod
    def log_normaliser(self, a: Node) -> Node:
        """log Σ_v exp(v·a - own energy of v), an integral where v is real; (..., visible) to (...)."""

    @abstractmethod
    def mean(self, a: Array) -> Array:
        """E[v|h]"""

    @abstractmethod
    def draw(self, mean: Array, generator: np.random.Generator) -> Array:
        """v ~ P(v|h), given its mean."""

    @abstractmethod
    def draw_start(self, shape: tuple[int, ...], dtype: Dtype, generator: np.random.Generator) -> Array:
        """Start of a chain without information: W = 0, b_v = 0."""

    def check(self, owner: str, v: Array) -> None:
        """Raises DataError if finite values v cannot be values, or means, of such units."""

    def check_exact(self, owner: str, v: Array) -> None:
        """Raises DataError if v has no probability."""


@dataclass(frozen=True)
class BinaryUnits(VisibleUnits):
    """v in {0, 1}; P(v=1|h) = σ(a). Source: Sutskever 2013, eqs 2.24-2.27."""

    countable: ClassVar[bool] = True

    def log_normaliser(self, a: Node) -> Node:
        return gn.sum(gn.softplus(a), axis=-1)

    def mean(self, a: Array) -> Array:
        return sigmoid(a)

    def draw(self, mean: Array, generator: np.random.Generator) -> Array:
        return draw_bits(mean, generator)

    def draw_start(self, shape: tuple[int, ...], dtype: Dtype, generator: np.random.Generator) -> Array:
        return draw_bits(np.full(shape, 0.5, dtype), generator)

    def check(self, owner: str, v: Array) -> None:
        if v.size and (v.min() < 0 or v.max() > 1):
            raise DataError(
                f"{owner}: binary visible units need data of 0 and 1, or probabilities in [0, 1], but the data go "
                f"from {v.min():g} to {v.max():g}. Scale or threshold them, or use visibles='gaussian'."
            )

    def check_exact(self, owner: str, v: Array) -> None:
        between = (v != 0) & (v != 1)
        if between.any():
            raise DataError(
                f"{owner}: data must be 0 or 1, as only these have a probability with binary visible units, but the "
                f"data have {v[between][0]:g}. Threshold them, or draw samples: (generator.random(v.shape) < v)."
            )


@dataclass(frozen=True)
class GaussianUnits(VisibleUnits):
    """v real, with energy |v|² / 2σ²; P(v|h) = N(σ² a, σ² I). Source: Sutskever 2013, eq. 2.33."""

    sigma: float = 1.0

    def own_energy(self, v: Node) -> Node | None:
        return gn.sum(v * v, axis=-1) * (0.5 / self.sigma**2)

    def log_normaliser(self, a: Node) -> Node:
        each = 0.5 * math.log(2 * math.pi * self.sigma**2)
        return gn.sum(a * a, axis=-1) * (0.5 * self.sigma**2) + a.shape[-1] * each

    def mean(self, a: Array) -> Array:
        return a * a.dtype.type(self.sigma**2)

    def draw(self, mean: Array, generator: np.random.Generator) -> Array:
        noise = generator.standard_normal(mean.shape, dtype=mean.dtype.type)
        return mean + mean.dtype.type(self.sigma) * noise

    def draw_start(self, shape: tuple[int, ...], dtype: Dtype, generator: np.random.Generator) -> Array:
        return self.draw(np.zeros(shape, dtype), generator)


def visible_units(owner: str, visibles: str, sigma: float) -> VisibleUnits:
    """Returns the units of this name; UsageError for another name or an invalid sigma."""
    sigma = amount(f"{owner}: sigma", sigma, above_zero=True)
    if not 1e-15 <= sigma <= 1e15:  # float32 must hold its square
        raise UsageError(
            f"{owner}: sigma must be from 1e-15 to 1e15, not {sigma!r}; multiply the data by a constant"
        )
    if one_of(f"{owner}: visibles", visibles, ("binary", "gaussian")) == "gaussian":
        return GaussianUnits(float(sigma))
    if sigma != 1:
        raise UsageError(f"{owner}: sigma={sigma!r} does not apply to binary units; use visibles='gaussian'")
    return BinaryUnits()
