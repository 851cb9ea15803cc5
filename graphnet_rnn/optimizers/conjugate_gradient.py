"""Linear conjugate gradient on a callable: minimizes φ(x) = ½ xᵀA x - bᵀx."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.vectors import Declared, Recycled, dot, double, fused, inner, norm

Product = Callable[[Array], Array]
#: M: a vector of positive numbers, its diagonal, or r ↦ M⁻¹ r, symmetric and positive definite.
Preconditioner = Array | Callable[[Array], Array]

#: Iterates are kept at steps 1, 2, 3, ... each this factor on from the last (Martens 2010, 4.6).
SPACING = 1.3


@dataclass(frozen=True)
class Direction:
    """One CG step: x after it, its direction p and step length α, φ(x), and the curvature pᵀA p / pᵀp.

    residual: |b - A x|, relative to the larger of |b| and its value at the start. slopes: rᵀM⁻¹r before and after the
    step; the first is the initial slope of -φ along p.
    """

    x: Array
    p: Array
    alpha: float
    value: float
    curvature: float
    residual: float
    slopes: tuple[float, float] = (0.0, 0.0)

    @property
    def step(self) -> Array:
        """α p"""
        return self.alpha * self.p


@dataclass(frozen=True)
class Solution:
    """Result of conjugate gradient.

    values: φ after each step, φ(start) first. kept: (step, x) of some iterates, including the last.
    reason: "progress" (φ stalled), "limit" (max_steps), "solved" (zero residual), "curvature" (A is not positive along
    a direction; x is the iterate before), "not finite", or the return value of `watch`.
    """

    x: Array
    values: list[float]
    kept: list[tuple[int, Array]]
    reason: str
    #: Smallest pᵀA p / pᵀp of all steps.
    least_curvature: float = field(default=math.inf)

    @property
    def steps(self) -> int:
        """Number of products with A in the iterations, without that of a warm start."""
        return len(self.values) - 1


def conjugate_directions(
    product: Product,
    b: Array,
    start: Array | None = None,
    preconditioner: Preconditioner | None = None,
    augment: Array | None = None,
    damping: float = 0.0,
) -> Iterator[Direction]:
    """Yields steps along directions that are conjugate in A, each to the minimum of φ along it, in float64.

    product: v ↦ G v, A = G + damping I.
    start: the first x, default zero.
    preconditioner: M, see Preconditioner.
    augment: a direction c to use first; all others are then conjugate to c, too, at the cost of storing c and A c:
    after i more steps φ is minimal in x₀ + span{c, r, P A r, ..., (P A)ⁱ⁻¹ r}, P projecting out c.

    The first item is the start, without a step. Ends at a zero residual, and at a direction along which A is not
    positive: its item has the x before, and p itself as `step`.
    Source: Hestenes & Stiefel 1952; preconditioned, Martens 2010, algorithm 2; augmented, Erhel & Guyomarc'h 2000.
    """
    b, spare = double(b), Recycled()

    def bent(v: Array) -> tuple[Array, float, float]:
        """A v, vᵀA v and vᵀv."""
        a = spare(v)
        bend, length = _bent(a, product(v), v, damping)
        return a, bend, length

    x = np.zeros_like(b) if start is None else double(start)
    r = b - bent(x)[0] if start is not None and x.any() else b.copy()
    scale = max(norm(b), norm(r)) or 1.0
    yield Direction(x, np.zeros_like(x), 0.0, _phi(x, r, b), math.inf, norm(r) / scale)
    c = shadow = None  # shadow: A c / cᵀA c
    if augment is not None and augment.any():
        c = double(augment)
        a, bend, length = bent(c)
        if 0 < bend < math.inf and length > 0:  # a square may underflow or overflow
            curvature = bend / length
            shadow = a / bend
            alpha = inner(r, c) / bend
            x, r = x + alpha * c, r - inner(r, c) * shadow
            yield Direction(x, c, alpha, _phi(x, r, b), curvature, norm(r) / scale)
        else:
            c = None  # CG works without it
    solve = preconditioner if callable(preconditioner) else None
    diagonal = None if callable(preconditioner) else preconditioner
    y = None if solve is None else double(solve(r))
    ry, along = _weighed(r, y, diagonal, shadow)
    recycled = Recycled()
    p = recycled(r)
    _turned(p, r if y is None else y, None, c, diagonal, 0.0, along)
    while ry > 0:
        a, bend, length = bent(p)
        if not length:
            return
        curvature = bend / length if bend < math.inf else math.nan
        if not curvature > 0:
            yield Direction(x, p, 1.0, _phi(x, r, b), curvature, norm(r) / scale, (ry, ry))
            return
        # Both are new vectors, since the caller may keep the old ones.
        alpha, before, x = ry / bend, x, recycled(r)
        twice, square, rest, along = _advanced(x, before, p, r, a, b, diagonal, shadow, alpha)
        del before
        if solve is not None:
            y = double(solve(r))
            rest, along = _weighed(r, y, None, shadow)
        yield Direction(x, p, alpha, -0.5 * twice, curvature, math.sqrt(square) / scale, (ry, rest))
        last, p = p, recycled(r)
        _turned(p, r if y is None else y, last, c, diagonal, rest / ry, along)
        del last
        ry = rest


# Vectors of a step: a product with A comes between the first pass over them and the second.


@fused
def _bent(new: Node, product: Node, p: Node, damping: Node) -> Declared:
    """A p = G p + λ p, in float64; pᵀA p and pᵀp"""
    a = gn.cast(product, "float64") + damping * p
    return {new: a}, [dot(p, a), dot(p, p)]


@fused
def _advanced(
    new: Node,
    x: Node,
    p: Node,
    r: Node,
    a: Node,
    b: Node,
    diagonal: Node | None,
    shadow: Node | None,
    alpha: Node,
) -> Declared:
    """x + α p; r ← r - α A p; xᵀ(r + b) and rᵀr; rᵀy and shadowᵀy of y = r / M"""
    there, rest = x + alpha * p, r - alpha * a
    return {new: there, r: rest}, [dot(there, rest + b), dot(rest, rest), *_weights(rest, diagonal, shadow)]


@fused
def _weighed(r: Node, y: Node | None, diagonal: Node | None, shadow: Node | None) -> Declared:
    return {}, _weights(r, diagonal, shadow, y)


def _weights(r: Node, diagonal: Node | None, shadow: Node | None, y: Node | None = None) -> list[Node]:
    if y is None:
        y = r if diagonal is None else r / diagonal
    return [dot(r, y), gn.fill(0, (), "float64") if shadow is None else dot(shadow, y)]


@fused
def _turned(
    new: Node, r: Node, p: Node | None, c: Node | None, diagonal: Node | None, beta: Node, along: Node
) -> Declared:
    """y + β p - (shadowᵀy) c, of y = r / M"""
    y = r if diagonal is None else r / diagonal
    turned = y if p is None else y + beta * p
    return {new: turned if c is None else turned - along * c}, []


def has_stalled(values: Sequence[float], tolerance: float, window: int) -> bool:
    """(φ_i - φ_{i-k}) / φ_i ≤ k ε at the last value, k = max(window, i / 10). Source: Krause 2015, eq. 4.2."""
    i = len(values) - 1
    k = max(window, i // 10)
    return (
        tolerance > 0
        and i > k
        and values[-1] < 0
        and values[-1] - values[-1 - k] >= k * tolerance * values[-1]
    )


def _phi(x: Array, r: Array, b: Array) -> float:
    return -0.5 * inner(x, r + b)


def conjugate_gradient(
    product: Product,
    b: Array,
    start: Array | None = None,
    *,
    max_steps: int = 250,
    tolerance: float = 5e-4,
    window: int = 10,
    residual: float = 0.0,
    preconditioner: Preconditioner | None = None,
    damping: float = 0.0,
    watch: Callable[[int, float, Array], str] | None = None,
) -> Solution:
    """Solves A x = b approximately with at most `max_steps` products with A; stops when φ stalls.

    Stops at step i where φ_i < 0 and (φ_i - φ_{i-k}) / φ_i ≤ k ε, k = max(window, i / 10), ε = tolerance (0: never);
    where |b - A x| ≤ residual · the larger of |b| and its value at the start; or along a direction of non-positive
    curvature. watch(step, φ, x) is called for each kept iterate, and stops by returning a reason. Other arguments: see
    conjugate_directions.
    Raises UsageError for invalid settings.
    Source: Martens 2010, 4.4 and algorithm 2; Krause 2015, eq. 4.2.
    """
    if max_steps < 1 or window < 1 or not (tolerance >= 0 and residual >= 0):
        raise UsageError(
            f"conjugate_gradient: max_steps ({max_steps}) and window ({window}) must be at least 1, tolerance "
            f"({tolerance}) and residual ({residual}) at least 0"
        )
    values: list[float] = []
    kept: list[tuple[int, Array]] = []
    least, reason, due = math.inf, "solved", 1.0
    x = np.zeros_like(b, np.float64)
    for i, direction in enumerate(conjugate_directions(product, b, start, preconditioner, damping=damping)):
        if i and not direction.curvature > 0:
            least = min(least, direction.curvature)
            reason = "curvature" if math.isfinite(direction.curvature) else "not finite"
            break
        if not math.isfinite(direction.value):
            reason = "not finite"
            break
        x, least = direction.x, min(least, direction.curvature)
        values.append(direction.value)
        ended = ""
        if direction.residual <= residual:
            ended = "solved"
        elif has_stalled(values, tolerance, window):
            ended = "progress"
        elif i == max_steps:
            ended = "limit"
        if ended or (i and i >= due):
            kept.append((i, x))
            due = max(i + 1, math.ceil(due * SPACING))
            verdict = "" if watch is None else watch(i, direction.value, x)
            ended = ended or verdict
        if ended:
            reason = ended
            break
    if values and (not kept or kept[-1][0] != len(values) - 1):
        kept.append((len(values) - 1, x))
        if watch is not None:
            watch(len(values) - 1, values[-1], x)
    return Solution(x, values, kept, reason, least)
