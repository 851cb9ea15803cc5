"""L-BFGS: a quasi-Newton method without a stored matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.optimizers.base import State
from graphnet_rnn.optimizers.line_search import Wolfe
from graphnet_rnn.optimizers.line_search_methods import LineSearchOptimizer, Point
from graphnet_rnn.optimizers.vectors import Declared, dot, fused, inner, norm
from graphnet_rnn.settings import Count

ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class LBFGS(LineSearchOptimizer):
    """θ ← θ - α H g, with H ≈ (∇²C)⁻¹ from the last `memory` changes of θ and g, and α by a line search

        H' = (I - s yᵀ/sᵀy) H (I - y sᵀ/sᵀy) + s sᵀ/sᵀy      pair by pair, from I sᵀy/yᵀy of the last one

    memory: number of stored pairs (s, y), default 10.
    iterations, tolerance, decrease: see LineSearchOptimizer: iterations of a step (20), gradient norm and relative
    decrease at which to end (0).

    s = θ' - θ and y = g' - g, both on one batch. A pair is kept if sᵀy > ε |gᵀs|, ε the rounding of float64, so H is
    positive definite. α is 1 at first, and 1/‖g‖ without pairs. The line search requires the strong Wolfe conditions
    with c₁ = 10⁻³, c₂ = 0.9, to a tenth of α, in 20 trials.
    These are the iterates of SciPy's L-BFGS-B without bounds, to rounding. It differs if a line search fails: SciPy may
    then accept a step that lowers nothing and end, or clear the history and try α = 1 along -g. (SciPy's `ftol` is
    relative to max(|C|, |C'|, 1); its `gtol` limits the largest component of g.)
    Source: Nocedal 1980; Liu & Nocedal 1989; Byrd, Lu, Nocedal & Zhu 1995; Moré & Thuente 1994; over batches, each with
    its own y: Schraudolph, Yu & Günter 2007.

    >>> w = gn.parameter(np.zeros(2), name="w")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, np.array([1.0, -1.0]))), [w])
    >>> rnn.minimize(objective, rnn.LBFGS(iterations=5), steps=1).theta.round(3).tolist()
    [1.0, -1.0]
    """

    memory: Count = 10

    rule: ClassVar[Wolfe] = Wolfe(c1=1e-3, c2=0.9, width=0.1)

    def init(self, theta: Array, objective: Any = None) -> State:
        """Returns the initial state: s and y, the pairs end to end in a ring buffer; products, their sᵀy; pairs, their
        number.
        """
        return {
            "s": np.concatenate([np.zeros_like(theta, np.float64)] * self.memory),
            "y": np.concatenate([np.zeros_like(theta, np.float64)] * self.memory),
            "products": np.zeros(self.memory),
            "pairs": np.zeros(1, np.int64),
        }

    def direction(self, here: Point, state: State) -> Array:
        """Returns -H g, by two loops over the pairs."""
        pairs = int(state["pairs"][0])
        places = [k % self.memory for k in range(max(0, pairs - self.memory), pairs)]
        products, shares = state["products"], {}
        if not places:
            return -here.gradient
        s, y = ({i: self._at(i, state[name]) for i in places} for name in "sy")
        q, last = here.gradient.copy(), places[-1]
        along = inner(s[last], q)
        # Each pass applies one pair, and computes the coefficient of the next.
        for i, after in zip(reversed(places), [*reversed(places[:-1]), None], strict=True):
            shares[i] = along / products[i]
            (along,) = _gone(q, y[i], None if after is None else s[after], -shares[i])
        (along,) = _scaled(q, y[places[0]], products[last] / inner(y[last], y[last]))
        for i, after in zip(places, [*places[1:], None], strict=True):
            (along,) = _gone(q, s[i], None if after is None else y[after], shares[i] - along / products[i])
        return -q

    def first(self, here: Point, direction: Array, state: State) -> float:
        return 1.0 if state["pairs"][0] else 1 / norm(here.gradient)

    def learn(self, here: Point, there: Point, direction: Array, state: State) -> None:
        ends = there.w, here.w, there.gradient, here.gradient
        product, slope = _changes(*ends)
        if product > ROUNDING * abs(slope):
            place = int(state["pairs"][0]) % self.memory
            _kept(self._at(place, state["s"]), self._at(place, state["y"]), *ends)
            state["products"][place] = product
            state["pairs"] += 1

    def forget(self, state: State) -> bool:
        known = bool(state["pairs"][0])
        state["pairs"][...] = 0
        return known

    def _at(self, place: int, vectors: Array) -> Any:
        size = vectors.size // self.memory
        return vectors[place * size : (place + 1) * size]


# Passes over vectors.


@fused
def _gone(q: Node, way: Node, other: Node | None, share: Node) -> Declared:
    """q ← q + share · way; otherᵀq"""
    there = q + share * way
    return {q: there}, [gn.fill(0, (), "float64") if other is None else dot(other, there)]


@fused
def _scaled(q: Node, other: Node, share: Node) -> Declared:
    """q ← share · q; otherᵀq"""
    return {q: share * q}, [dot(other, share * q)]


@fused
def _changes(w: Node, w_before: Node, g: Node, g_before: Node) -> Declared:
    """sᵀy and gᵀs, of s = w' - w and y = g' - g"""
    s = w - w_before
    return {}, [dot(s, g - g_before), dot(g_before, s)]


@fused
def _kept(s: Node, y: Node, w: Node, w_before: Node, g: Node, g_before: Node) -> Declared:
    return {s: w - w_before, y: g - g_before}, []
