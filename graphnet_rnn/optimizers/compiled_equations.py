"""Compiles the equations of an optimizer into in-place functions, once for each kind of vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.ops.leaf import After

#: Equations of a step: (θ, gradient, state, scalars by name) ↦ θ and the state after it.
Applied = Callable[[Node, Node, dict[str, Node], dict[str, Node]], tuple[Node, dict[str, Node]]]


class VectorKind(NamedTuple):
    """Cache key of a compiled function: size and dtype of θ, (name, shape, dtype) of each state array, names of the
    scalars, back end, maximum number of threads.
    """

    size: int
    dtype: str
    state: tuple[tuple[str, tuple[int, ...], str], ...]
    scalars: tuple[str, ...]
    backend: str
    threads: int | None

    @classmethod
    def of(
        cls, theta: Array, state: Mapping[str, Array], scalars: tuple[str, ...], threads: int | None
    ) -> VectorKind:
        shapes = tuple((name, array.shape, array.dtype.str) for name, array in state.items())
        return cls(theta.size, theta.dtype.str, shapes, scalars, gn.backend_of(theta), threads)

    def nodes(self) -> tuple[Node, dict[str, Node], dict[str, Node]]:
        """Returns θ, the state and the scalars as input nodes."""
        theta = gn.input((self.size,), self.dtype, name="θ")
        state = {name: gn.input(shape, dtype, name=name) for name, shape, dtype in self.state}
        return theta, state, {name: gn.input((), self.dtype, name=name) for name in self.scalars}


def update_function(kind: VectorKind, applied: Applied) -> gn.Function:
    """(loss, θ, g, *state, *scalars) ↦ ‖g‖; changes θ and the state in place, unless loss or ‖g‖ is not finite.

    One pass over g for its norm, then one over all. Nothing is written before the norm is computed, since a step on a
    NaN would destroy the parameters.
    """
    theta, state, scalars = kind.nodes()
    g = gn.input((kind.size,), kind.dtype, name="g")
    loss = gn.input((), "float64", name="loss")
    length = norm(g)
    sound = gn.logical_and(_is_finite(loss), _is_finite(length))

    def then(node: Node) -> Node:
        """Makes the vector depend on the check of the norm, so that all vector equations are in one pass."""
        return After()(node, sound) if node.shape == theta.shape else node

    old = {name: then(node) for name, node in state.items()}
    new_theta, new = applied(then(theta), then(g), old, scalars)
    updates = {theta: gn.where(sound, new_theta, then(theta))}
    updates |= {
        state[name]: gn.where(sound, node, old[name]) for name, node in new.items() if node is not old[name]
    }
    inputs = [loss, theta, g, *state.values(), *scalars.values()]
    return gn.compile([length], inputs, kind.backend, threads=kind.threads, updates=updates)


def lookahead_function(
    kind: VectorKind, point: Callable[[Node, dict[str, Node], dict[str, Node]], Node]
) -> gn.Function:
    """(out, θ, *state, *scalars): writes the point to out"""
    theta, state, scalars = kind.nodes()
    out = gn.input((kind.size,), kind.dtype, name="out")
    inputs = [out, theta, *state.values(), *scalars.values()]
    updates = {out: point(theta, state, scalars)}
    return gn.compile([], inputs, kind.backend, threads=kind.threads, updates=updates)


def _is_finite(x: Node) -> Node:
    return gn.less(gn.absolute(x), np.inf)


def norm(x: Node) -> Node:
    """‖x‖₂, summed in float64"""
    wide = gn.cast(x, "float64")
    return gn.sqrt(gn.sum(wide * wide))


def clip_by_norm(gradient: Node, threshold: float | Node) -> Node:
    """g · min(1, threshold / ‖g‖). Source: Pascanu, Mikolov & Bengio 2012; Lynge 2016, eq. 3.66."""
    length = norm(gradient)
    share = gn.where(gn.greater(length, threshold), threshold / length, 1.0)
    return gradient * gn.cast(share, gradient.dtype)


def clip_by_value(gradient: Node, limit: float | Node) -> Node:
    """Each g_i truncated to [-limit, limit]. (For truncation at every node, see gn.gradient.)"""
    return gn.minimum(gn.maximum(gradient, -limit), limit)
