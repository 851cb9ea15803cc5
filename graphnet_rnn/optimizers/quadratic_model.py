"""The quadratic model that a second-order step minimises, and how well it predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.process import cached_property
from graphnet_rnn.optimizers.base import Curved
from graphnet_rnn.optimizers.conjugate_gradient import Preconditioner, Product
from graphnet_rnn.optimizers.vectors import double, norm

__all__ = ["BAD", "GOOD", "QuadraticModel"]

#: ρ above which the model is trusted more, and below which less (Levenberg and Marquardt's rule).
GOOD, BAD = 0.75, 0.25
#: Powers of two of |b| from which on products are scaled: squares of float32 are numbers up to 2¹²⁷.
FAR = 30


@dataclass(frozen=True)
class QuadraticModel:
    """What a step is about: the objective at θ, and its quadratic model ½ δᵀA δ - bᵀδ, A δ = `product` + λ δ.

    before: f(θ). last: what the step before found, or a share of it. tried: each loss that was asked for.
    """

    objective: Curved
    theta: Array
    before: float
    curvature: Product
    b: Array
    damping: float = 0.0
    preconditioner: Preconditioner | None = None
    last: Array | None = None
    tried: list[float] = field(default_factory=list)

    @cached_property
    def product(self) -> Product:
        """v ↦ G v.

        Where b is so long, or so short, that the products of its like leave the range of θ's dtype, they are made of v
        divided by a power of two.
        """
        exponent = math.frexp(norm(self.b))[1]
        if abs(exponent) < FAR:
            return self.curvature
        scale = math.ldexp(1.0, exponent)
        return lambda v: double(self.curvature(v / scale)) * scale

    def loss(self, delta: Array) -> float:
        """f(θ + δ), infinite where it is not finite."""
        with np.errstate(over="ignore"):
            value = self.objective.loss(self.theta + delta.astype(self.theta.dtype))
        self.tried.append(value if math.isfinite(value) else math.inf)
        return self.tried[-1]

    @property
    def rounding(self) -> float:
        """What the precision of θ leaves open, relatively."""
        return float(np.finfo(self.theta.dtype).eps)

    def shows(self, predicted: float) -> bool:
        """Whether the loss, in the precision of θ, can show a reduction as large as the predicted one."""
        return -predicted > self.rounding * abs(self.before)

    def ratio(self, loss: float, predicted: float) -> float:
        """ρ; NaN where the model predicts no reduction, and 1 where one that rounding hides: so short is the step."""
        if not predicted < 0:
            return math.nan
        return (loss - self.before) / predicted if self.shows(predicted) else 1.0
