"""L-BFGS and nonlinear conjugate gradient, by SciPy: line searches on one batch.

A step is so many iterations of SciPy on the batch that the objective is fed, from scratch: what it has learned of the
curvature ends with the step, since the next batch is another function. For a whole data set, make one long step:

    rnn.minimize(objective, rnn.optimizers.LBFGS(iterations=1000), steps=1)
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Differentiable, Optimizer, Report, State
from graphnet_rnn.settings import amount, whole_number
from graphnet_rnn.vectors import inner, norm

__all__ = ["LBFGS", "NonlinearConjugateGradient", "ScipyMethod", "ScipyReport"]


@dataclass(frozen=True)
class ScipyReport(Report):
    """What a step did, besides the loss and the gradient's norm before it.

    before, after: the loss. iterations; evaluations: of the loss with its gradient. broken: at how many of these points
    they were no finite numbers. message: why SciPy stopped.
    """

    before: float = math.nan
    after: float = math.nan
    iterations: int = 0
    evaluations: int = 0
    broken: int = 0
    message: str = ""
    seconds: float = 0.0

    @property
    def taken(self) -> bool:
        return self.after < self.before

    @property
    def settled(self) -> bool:
        return not self.taken

    @property
    def gradients(self) -> int:
        return self.evaluations

    def __str__(self) -> str:
        return (
            f"loss {self.before:.6g} -> {self.after:.6g}  {self.iterations} iterations, {self.evaluations} evaluations"
            + (f" ({self.broken} not finite)" if self.broken else "")
            + f"  |g| {self.gradient_norm:.2g}  {self.message}  {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class ScipyMethod(Optimizer):
    """What they share. iterations: of a step, at most. tolerance: no component of the gradient is larger at the end.

    They compute in float64 whatever the network's dtype; losses and gradients are those of the network at the point in
    its dtype. A line search finds its own rate, so there is none to set, and one that is handed to `step` (a factor
    that a Trainer lets fall) changes nothing; nor would a clipped gradient be that of the loss.
    Where rnn.minimize is to reach a tolerance of its own, theirs must be as small (L-BFGS: `decrease` too, or 0).
    A point where the loss or its gradient is no finite number counts as too far. θ becomes the best point that was
    evaluated, which is the one where SciPy ends, unless its last line search fails; at worst θ is as it was.
    """

    iterations: int = 20
    tolerance: float = 1e-5

    method: ClassVar[str]

    def __post_init__(self) -> None:
        who = type(self).__name__
        object.__setattr__(self, "iterations", whole_number(f"{who}: iterations", self.iterations))
        amount(f"{who}: tolerance", self.tolerance)

    def init(self, theta: Array) -> State:
        return {}

    def step(
        self, objective: Differentiable, theta: Array, state: State, rate: float | None = None
    ) -> ScipyReport:
        """One step: changes `theta` in place. rate: see the class. Raises UsageError where there is no SciPy."""
        minimize = _scipy_minimize(type(self).__name__)
        started = time.perf_counter()
        search = _Search(objective, np.asarray(theta))
        if not search.finite:
            return ScipyReport(search.before, search.length, search.before, search.before, 0, 1, 1)
        result = minimize(
            search,
            search.point,
            method=self.method,
            jac=True,
            options=self._options(),
            callback=search.accepted,
        )
        after, best = search.best
        theta[...] = search.in_dtype(best)
        return ScipyReport(
            search.before, search.length, search.before, after, int(result.nit), search.evaluations,
            search.broken, str(result.message).rstrip("."), time.perf_counter() - started,
        )  # fmt: skip

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """As scipy.optimize.minimize takes them."""


@dataclass(frozen=True)
class LBFGS(ScipyMethod):
    """θ ← θ - α H g, with H ≈ (∇²C)⁻¹ from the last `memory` changes of θ and g, and α by a line search

    decrease: it ends when an iteration lowers the loss by a smaller share of it.
    Source: Liu & Nocedal 1989; SciPy's L-BFGS-B (Zhu, Byrd, Lu & Nocedal 1997), without bounds.
    """

    memory: int = 10
    decrease: float = 1e7 * float(np.finfo(np.float64).eps)

    method: ClassVar[str] = "L-BFGS-B"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "memory", whole_number("LBFGS: memory", self.memory))
        amount("LBFGS: decrease", self.decrease)

    def _options(self) -> dict[str, Any]:
        # SciPy also limits the evaluations, to 15,000: only the iterations are meant to.
        return {
            "maxcor": self.memory,
            "maxiter": self.iterations,
            "maxfun": 2**31 - 1,
            "gtol": self.tolerance,
            "ftol": self.decrease,
        }


@dataclass(frozen=True)
class NonlinearConjugateGradient(ScipyMethod):
    """θ ← θ + α p,  p ← -g + β p, with β of Polak & Ribière, 0 where it is negative, and α by a line search

    Source: Polak & Ribière 1969; Nocedal & Wright 2006, 5.2; SciPy's CG.
    """

    method: ClassVar[str] = "CG"

    def _options(self) -> dict[str, Any]:
        return {"maxiter": self.iterations, "gtol": self.tolerance}


class _Search:
    """The objective as SciPy calls it, the last point that SciPy accepted, and the best one that it asked for.

    Where the loss or its gradient is not finite, SciPy is told that the loss is flat, and larger than at the accepted
    point by what the slope there promised to gain. That brings its line search back to about a ninth of the way: a NaN
    would make the next point NaN, and from an infinity it would come back too far to be of use.
    """

    def __init__(self, objective: Differentiable, theta: Array) -> None:
        self.objective, self.dtype = objective, theta.dtype
        self.evaluations = self.broken = 0
        self.point = theta.astype(np.float64)
        self.loss, self.slope = self._evaluated(self.point)
        self.before, self.length = self.loss, norm(self.slope)
        self.finite = math.isfinite(self.loss) and math.isfinite(self.length)
        self.best = (self.loss, self.point)
        self._last = (self.point, self.loss, self.slope)

    def __call__(self, w: Array) -> tuple[float, Array]:
        at, loss, g = self._last
        if not np.array_equal(at, w):
            loss, g = self._evaluated(w)
        if not (math.isfinite(loss) and np.isfinite(g).all()):
            self.broken += 1
            promised = abs(inner(self.slope, w - self.point))
            return self.loss + (promised if math.isfinite(promised) else 1.0), np.zeros(w.shape)
        self._last = (w.copy(), loss, g)
        if loss < self.best[0]:
            self.best = (loss, self._last[0])
        return loss, g

    def accepted(self, intermediate_result: Any) -> None:
        """SciPy's iteration has ended at this point. (It looks at the argument's name.)"""
        self.point, self.loss = np.array(intermediate_result.x), float(intermediate_result.fun)
        self.slope = self._last[2]

    def in_dtype(self, w: Array) -> Array:
        with np.errstate(over="ignore"):
            return w.astype(self.dtype)

    def _evaluated(self, w: Array) -> tuple[float, Array]:
        self.evaluations += 1
        loss, g = self.objective.gradient(self.in_dtype(w))
        return float(loss), np.asarray(g, np.float64)


def _scipy_minimize(who: str) -> Callable[..., Any]:
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise UsageError(f"{who} needs the package scipy: pip install 'scipy>=1.13'") from None
    function: Callable[..., Any] = minimize
    return function
