"""User-defined ops with kernels of rows, as in the guide: sums over all paths of a lattice.

F[i, j] is the logarithm of the sum, over all paths to (i, j), of the product of their steps' weights. A step comes from
(i-1, j-1), (i-1, j) or (i, j-1). All derivatives of it, of any order, are one linear recursion and its transpose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node

#: From how far before (i, j) a step of each kind comes.
STEPS = ((1, 1), (1, 0), (0, 1))


@numba.njit
def value_before(table: Array, i: int, j: int, k: int) -> float:
    """table[i, j] where step k comes from; -inf outside, but 0 where all paths begin."""
    a, b = i - (k != 2), j - (k != 1)
    if a >= 0 and b >= 0:
        return table[a, b]
    return 0.0 if a < 0 and b < 0 and i == j else -math.inf


class Lattice(gn.Rowwise):
    """An op over weights w[k, i, j] of a lattice's steps"""

    def infer(self, *inputs):
        if inputs[0].shape[-3] != len(STEPS):
            raise gn.ShapeError(f"{self.name} takes weights of {len(STEPS)} kinds of step")
        return super().infer(*inputs)


class PathSums(Lattice):
    """F[i, j] = log Σ_k exp(w[k, i, j] + F[before (i, j) by step k])"""

    signature = "... k n m -> ... n m"

    @staticmethod
    def kernel(F, w):
        for i in range(F.shape[0]):
            for j in range(F.shape[1]):
                most = -math.inf
                for k in range(w.shape[0]):
                    most = max(most, w[k, i, j] + value_before(F, i, j, k))
                total = 0.0
                for k in range(w.shape[0]):
                    if most > -math.inf:
                        total += math.exp(w[k, i, j] + value_before(F, i, j, k) - most)
                F[i, j] = most + math.log(total) if most > -math.inf else most

    def backward(self, gF, F, w):
        p = chances(F, w)
        return (p * each_step(Recursion(back=True)(p, gF)),)

    def rop(self, rw, F, w):
        p = chances(F, w)
        return Recursion()(p, gn.sum(p * rw, -3))


@dataclass(frozen=True, eq=False)
class Recursion(Lattice):
    """x[i, j] = r[i, j] + Σ_k p[k, i, j] x[before (i, j) by step k]: x = (1 - A)⁻¹ r; back: with Aᵀ"""

    signature = "... k n m, ... n m -> ... n m"
    zero_if = "rest"

    back: bool = False

    @staticmethod
    def kernel(x, p, r, back):
        n, m = x.shape
        for a in range(n):
            for b in range(m):
                i, j = (n - 1 - a, m - 1 - b) if back else (a, b)
                total = r[i, j]
                for k in range(p.shape[0]):
                    di, dj = int(k != 2), int(k != 1)
                    if back and i + di < n and j + dj < m:
                        total += p[k, i + di, j + dj] * x[i + di, j + dj]
                    elif not back and i >= di and j >= dj:
                        total += p[k, i, j] * x[i - di, j - dj]
                x[i, j] = total

    def backward(self, gx, x, p, r):
        gr = Recursion(not self.back)(p, gx)
        return each_step(x) * before(gr) if self.back else each_step(gr) * before(x), gr

    def rop(self, rp, rr, x, p, r):
        change = after(rp * each_step(x)) if self.back else gn.sum(rp * before(x), -3)
        return Recursion(self.back)(p, rr + change)


def each_step(x: Node) -> Node:
    return gn.stack([x] * len(STEPS), -3)


def before(x: Node) -> Node:
    """For each kind of step, what stands where it comes from; 0 outside."""
    n, m = x.shape[-2:]
    wide = gn.pad(x, (*[(0, 0)] * (x.ndim - 2), (1, 0), (1, 0)))
    return gn.stack([wide[..., 1 - di : 1 - di + n, 1 - dj : 1 - dj + m] for di, dj in STEPS], -3)


def after(x: Node) -> Node:
    """The transpose of `before`: what comes from each place, over the kinds of step."""
    n, m = x.shape[-2:]
    wide = gn.pad(x, (*[(0, 0)] * (x.ndim - 2), (0, 1), (0, 1)))
    return gn.add(*(wide[..., k, di : di + n, dj : dj + m] for k, (di, dj) in enumerate(STEPS)))


def chances(F: Node, w: Node) -> Node:
    """p[k, i, j]: that a path to (i, j) came by step k"""
    inside = np.ones(w.shape[-3:], bool)
    inside[:2, :1], inside[::2, :, :1] = False, False
    inside[0, :1, :1] = True  # where all paths begin
    there = gn.broadcast_to(gn.constant(inside), w.shape)
    exponent = gn.where(there, w + before(F) - each_step(F), 0)
    return gn.where(there, gn.exp(exponent), 0)
