"""Nonlinear conjugate gradient: each direction combines the gradient with the last direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array, Node
from graphnet_rnn.optimizers.base import State
from graphnet_rnn.optimizers.line_search import Wolfe
from graphnet_rnn.optimizers.line_search_methods import LineSearchOptimizer, Point
from graphnet_rnn.optimizers.vectors import Declared, dot, fused, inner, norm

#: Minimum descent of a direction, relative to that of the gradient (Gilbert & Nocedal 1992).
DESCENT = 0.01


@dataclass(frozen=True)
class NonlinearConjugateGradient(LineSearchOptimizer):
    """θ ← θ + α p,  p ← -g' + β p,  β = max(0, g'ᵀ(g' - g) / gᵀg), and α by a line search

    iterations, tolerance, decrease: see LineSearchOptimizer: iterations of a step (20), gradient norm and relative
    decrease at which to end (0).

    β is that of Polak & Ribière, or 0 if negative. p is reset to -g' if it descends by less than a hundredth of the
    gradient's descent, -g'ᵀp < 0.01 g'ᵀg'. The line search requires the strong Wolfe conditions with c₁ = 10⁻⁴, c₂ =
    0.4. The first α would repeat the decrease of the last iteration, min(1, 2.02 (C - C_last) / gᵀp); in the first
    iteration, min(1, 1.01 / ‖g‖).
    These are the iterates of SciPy's CG, to rounding. It differs if p does not descend enough, or a line search fails:
    SciPy then searches the same line again, by another method.
    Source: Polak & Ribière 1969; Nocedal & Wright 2006, 5.2; Gilbert & Nocedal 1992; Moré & Thuente 1994.

    >>> w = gn.parameter(np.zeros(2), name="w")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, np.array([1.0, -1.0]))), [w])
    >>> optimizer = rnn.NonlinearConjugateGradient(iterations=5)
    >>> rnn.minimize(objective, optimizer, steps=1).theta.round(3).tolist()
    [1.0, -1.0]
    """

    rule: ClassVar[Wolfe] = Wolfe(c1=1e-4, c2=0.4, width=1e-14)

    def init(self, theta: Array, objective: Any = None) -> State:
        """Returns the initial state: bend, β p for the next direction; fall, decrease of the loss in the last
        iteration.
        """
        return {"bend": np.zeros_like(theta, np.float64), "fall": np.zeros(1)}

    def direction(self, here: Point, state: State) -> Array:
        g = here.gradient
        bent = np.empty_like(g)
        fall, steepest = _bent(bent, state["bend"], g)
        return bent if fall <= -DESCENT * steepest else -g

    def first(self, here: Point, direction: Array, state: State) -> float:
        fall = float(state["fall"][0])
        promised = fall if fall > 0 else 0.5 * norm(here.gradient)
        slope = inner(here.gradient, direction)
        return min(1.0, -1.01 * 2 * promised / slope) if slope else 1.0

    def learn(self, here: Point, there: Point, direction: Array, state: State) -> None:
        change, before = _changed(there.gradient, here.gradient)
        _turned(state["bend"], direction, max(0.0, change / before) if before else 0.0)
        state["fall"][...] = here.loss - there.loss

    def forget(self, state: State) -> bool:
        known = bool(state["bend"].any())
        state["bend"][...] = 0.0
        state["fall"][...] = 0.0
        return known


# Passes over vectors.


@fused
def _bent(new: Node, bend: Node, g: Node) -> Declared:
    """p = β p - g; pᵀg and gᵀg"""
    p = bend - g
    return {new: p}, [dot(p, g), dot(g, g)]


@fused
def _changed(g: Node, before: Node) -> Declared:
    """(g' - g)ᵀg' and gᵀg"""
    return {}, [dot(g - before, g), dot(before, before)]


@fused
def _turned(bend: Node, p: Node, beta: Node) -> Declared:
    """bend = β p"""
    return {bend: beta * p}, []
