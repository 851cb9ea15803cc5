"""Kronecker factors: blocks as a product of the moments of sources and slopes. Blocks by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.riemannian.blocks import (
    Block,
    Diagonal,
    DiagonalOfSlopes,
    FrequencyBlock,
    Full,
    QuasiDiagonal,
    RootMeanSquareBlock,
    Solver,
    spread,
)
from graphnet_rnn.riemannian.groups import UnitGroup
from graphnet_rnn.riemannian.rows import Rows


class KroneckerFactors(Block):
    """M = A ⊗ G, A = Σ S Sᵀ / rows, G = Σ B Bᵀ: the rows' m is B, not its square

    damping: ε of the mean over rows, split between both factors: (A + π √ε I) ⊗ (G + √ε/π I), π² = (tr A / dim A) / (tr
    G / dim G). Cases of unequal weights count as (Σ w)² / Σ w² cases, see OverCost.
    Source: Martens & Grosse 2015, 4 and 6.3; with all steps independent, Martens, Ba & Johnson 2018, 3.5.1.
    """

    lags: ClassVar[int] = 0

    @staticmethod
    def has_factors(group: UnitGroup) -> bool:
        """True if all units of a group have the same sources at all steps."""
        return all(each.kind in ("product", "bias") and not each.gated for each in group.incoming)

    def nodes(self) -> list[Node]:
        live, B = self.rows.live, self.rows.m
        S = gn.concatenate(self.rows.sources, axis=1) * live
        found = [gn.transpose(S) @ S, gn.transpose(B) @ B, gn.sum(live)]
        if self.lags:
            cases = self.group.pre_activations[0].V.shape[0]
            found += [gn.transpose(x[:-cases]) @ x[cases:] for x in (S, B)]
        return found

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        A, G, count, *lagged = values
        count = np.maximum(count, 1.0)
        A = A / count
        traces = [max(float(np.trace(each)) / len(each), TINY) for each in (A, G)]
        root, pi = math.sqrt(float(np.mean(damping) * count) + more), math.sqrt(traces[0] / traces[1])
        A, G = A + pi * root * np.eye(len(A)), G + root / pi * np.eye(len(G))
        try:
            inverse = self._inverse(A, G, [each / n for each, n in zip(lagged, (count, 1.0), strict=False)])
        except np.linalg.LinAlgError:
            raise self._singular() from None

        def solve(g: Sequence[Array]) -> list[Array]:
            step = inverse(np.concatenate([np.atleast_2d(each) for each in g], axis=0))
            ends = np.cumsum([1 if each.ndim == 1 else len(each) for each in g])[:-1]
            return [
                part.reshape(each.shape) for part, each in zip(np.split(step, ends, axis=0), g, strict=True)
            ]

        return Solver(solve, spread(np.diagonal(A)) * spread(np.diagonal(G)))

    def _inverse(self, A: Array, G: Array, lagged: Sequence[Array]) -> Callable[[Array], Array]:
        np.linalg.cholesky(A), np.linalg.cholesky(G)
        left, right = np.linalg.inv(A), np.linalg.inv(G)
        return lambda g: left @ g @ right.T


class KroneckerOverTime(KroneckerFactors):
    """M = Σ_d Ψ^|d| (A ⊗ G), d all differences of time: steps as a linear process of first order

    Ψ = Ψ_A ⊗ Ψ_G, Ψ_A = A₁ A⁻¹, from the covariances A₁ and G₁ of each step with the next. With whitened factors, Ψ̂,
    it is (I - Ψ̂)⁻¹ (I - Ψ̂ Ψ̂ᵀ) (I - Ψ̂ᵀ)⁻¹ for long times. Its inverse needs only eigenvectors of Ψ̂_A Ψ̂_Aᵀ and Ψ̂_G
    Ψ̂_Gᵀ.
    Source: Martens, Ba & Johnson 2018, 3.5.4, their second option.
    """

    lags: ClassVar[int] = 1

    def _inverse(self, A: Array, G: Array, lagged: Sequence[Array]) -> Callable[[Array], Array]:
        root_A, root_G = (_inverse_root(each) for each in (A, G))
        psi_A, psi_G = (_bounded(r @ lag.T @ r) for r, lag in zip((root_A, root_G), lagged, strict=True))
        (a, U), (b, W) = (np.linalg.eigh(psi @ psi.T) for psi in (psi_A, psi_G))
        curved = 1 - np.outer(a, b)

        def inverse(g: Array) -> Array:
            z = root_A @ g @ root_G
            z = z - psi_A @ z @ psi_G.T
            z = U @ ((U.T @ z @ W) / curved) @ W.T
            z = z - psi_A.T @ z @ psi_G
            found: Array = root_A @ z @ root_G
            return found

        return inverse


class KroneckerSymmetric(KroneckerFactors):
    """KroneckerOverTime with Ψ̂ taken as symmetric: (I + Ψ̂) (I - Ψ̂)⁻¹, for which one eigenbasis suffices.

    Source: Martens, Ba & Johnson 2018, 3.5.3, their first option, for long times.
    """

    lags: ClassVar[int] = 1

    def _inverse(self, A: Array, G: Array, lagged: Sequence[Array]) -> Callable[[Array], Array]:
        root_A, root_G = (_inverse_root(each) for each in (A, G))
        psi_A, psi_G = (_bounded(r @ lag.T @ r) for r, lag in zip((root_A, root_G), lagged, strict=True))
        (a, U), (b, W) = (np.linalg.eigh((psi + psi.T) / 2) for psi in (psi_A, psi_G))
        both = np.outer(a, b)
        left, right, factor = root_A @ U, W.T @ root_G, (1 - both) / (1 + both)
        return lambda g: left @ (left.T @ g @ right.T * factor) @ right


def _inverse_root(M: Array) -> Array:
    """M^(-1/2). LinAlgError for a singular matrix."""
    values, vectors = np.linalg.eigh(M)
    if not values[0] > np.finfo(np.float64).eps * values[-1]:
        raise np.linalg.LinAlgError("singular")
    found: Array = (vectors / np.sqrt(values)) @ vectors.T
    return found


def _bounded(psi: Array) -> Array:
    """The matrix, scaled to a spectral norm below 1, so that the process does not grow."""
    norm = float(np.linalg.norm(psi, 2))
    return psi * min(1.0, LARGEST / norm) if norm > 0 else psi


#: Smallest trace; largest norm of a transition matrix.
TINY, LARGEST = 1e-30, 0.99


# -- by name ---------------------------------------------------------------------------------


def block_of(reduction: str, rows: Rows) -> Block:
    """Block of a group; the diagonal for a group without Kronecker factors, if these are required."""
    kind = REDUCTIONS[reduction]
    if issubclass(kind, KroneckerFactors) and not kind.has_factors(rows.group):
        return DiagonalOfSlopes(rows)
    return kind(rows)


#: For a new reduction, write a Block (blocks.py) and add it here.
REDUCTIONS: dict[str, type[Block]] = {
    "diagonal": Diagonal,
    "quasi-diagonal": QuasiDiagonal,
    "full": Full,
    "rms": RootMeanSquareBlock,
    "frequency": FrequencyBlock,
    "kronecker": KroneckerFactors,
    "kronecker symmetric": KroneckerSymmetric,
    "kronecker over time": KroneckerOverTime,
}
