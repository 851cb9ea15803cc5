"""The quadratic model that a second-order step minimizes, and its prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.process import cached_property
from graphnet_rnn.optimizers.base import Curved
from graphnet_rnn.optimizers.conjugate_gradient import Preconditioner, Product
from graphnet_rnn.optimizers.vectors import double, norm

#: ρ above which the model is trusted more, and below which less (Levenberg and Marquardt's rule).
GOOD, BAD = 0.75, 0.25
#: Exponent (base 2) of |b| from which products are scaled, as squares of float32 numbers overflow above 2¹²⁷.
FAR = 30


@dataclass(frozen=True)
class QuadraticModel:
    """The objective at θ and its quadratic model ½ δᵀA δ - bᵀδ, A δ = `product` + λ δ.

    before: f(θ). last: the last step's result, or a fraction of it. tried: all losses evaluated.
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

        If products at the scale of b would leave the range of θ's dtype, v is scaled by a power of two.
        """
        exponent = math.frexp(norm(self.b))[1]
        if abs(exponent) < FAR:
            return self.curvature
        scale = math.ldexp(1.0, exponent)
        return lambda v: double(self.curvature(v / scale)) * scale

    def loss(self, delta: Array) -> float:
        """Returns f(θ + δ), infinity if it is not finite."""
        with np.errstate(over="ignore"):
            value = self.objective.loss(self.theta + delta.astype(self.theta.dtype))
        self.tried.append(value if math.isfinite(value) else math.inf)
        return self.tried[-1]

    @property
    def rounding(self) -> float:
        """Relative precision of the loss in θ's dtype."""
        return float(np.finfo(self.theta.dtype).eps)

    def shows(self, predicted: float) -> bool:
        """True if the predicted reduction exceeds the rounding of the loss in θ's dtype."""
        return -predicted > self.rounding * abs(self.before)

    def ratio(self, loss: float, predicted: float) -> float:
        """Returns ρ; NaN if no reduction is predicted, 1 if the predicted reduction is below rounding."""
        if not predicted < 0:
            return math.nan
        return (loss - self.before) / predicted if self.shows(predicted) else 1.0
