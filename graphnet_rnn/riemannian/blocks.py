"""Blocks: what a modulus makes of the weights of a group, as nodes, and steps M⁻¹ g from what these nodes are.

M = Σ m̃ ⊗ S Sᵀ over cases and steps: a block for each unit (and symbol, where one chooses), of which a metric keeps all,
the diagonal and the row of the bias, or the diagonal.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.ops.index import OneHot
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.riemannian.groups import Incoming, UnitGroup

__all__ = ["REDUCTIONS", "Block", "Rows", "Solver", "block_of"]


@dataclass(frozen=True)
class Solver:
    """g ↦ M⁻¹ g, in float64.

    condition: of the worst block, the largest over the smallest number on the diagonal of what is divided by, squared
    where that is a factor: a bound from below of its condition number.
    """

    solve: Callable[[Any], Any]
    condition: float

    def __call__(self, g: Any) -> Any:
        return self.solve(g)


class Rows:
    """The cases of all steps of a group below each other: sources by weight, the symbols, and a modulus."""

    def __init__(self, group: UnitGroup, moduli: Sequence[Node]) -> None:
        self.group = group
        found = [at.sources for at in group.pre_activations]
        self.m = gn.concatenate(moduli, axis=0)
        self.sources = [self._source(incoming, found) for incoming in group.incoming]
        symbols = [at.symbol for at in group.pre_activations if at.symbol is not None]
        self.symbol = gn.concatenate(symbols, axis=0) if symbols else None
        self._codes = [self._code(incoming, found) for incoming in group.incoming]

    def _source(self, incoming: Incoming, found: Sequence[dict[Node, Node | float]]) -> Node:
        """(rows, n): what a weight multiplies, 1 for a bias, and 0 where it does not enter."""
        all_of_it = [sources.get(incoming.weight, 0.0) for sources in found]
        width = next((source.shape[1] for source in all_of_it if isinstance(source, Node)), 1)
        parts = [
            source if isinstance(source, Node) else gn.fill(source, (at.V.shape[0], width), at.V.dtype)
            for at, source in zip(self.group.pre_activations, all_of_it, strict=True)
        ]
        return gn.concatenate(parts, axis=0)

    @property
    def live(self) -> Node:
        """(rows, 1): 1 where a change of some unit counts, 0 for cases and steps that are masked, or not reached."""
        return gn.cast(gn.greater(gn.max(gn.absolute(self.m), axis=1, keepdims=True), 0), self.m.dtype)

    def _code(self, incoming: Incoming, found: Sequence[dict[Node, Node | float]]) -> Node | None:
        """(rows,): the symbols, where a weight multiplies a one-hot code at every pre-activation."""
        sources = [each.get(incoming.weight) for each in found]
        codes = [s.inputs[0] for s in sources if isinstance(s, Node) and isinstance(s.op, OneHot)]
        whole = self.symbol is None and len(codes) == len(sources)
        return gn.concatenate(codes, axis=0) if whole else None

    def reads_symbols(self, number: int) -> bool:
        """Whether what this weight of the group multiplies is a one-hot code everywhere."""
        return self._codes[number] is not None

    def always_one(self, incoming: Incoming) -> bool:
        """Whether it is a bias at every pre-activation, neither scaled nor repeated."""
        return all(at.sources.get(incoming.weight) == 1.0 for at in self.group.pre_activations)

    def squared(self) -> Rows:
        """The same with the squares of the modulus."""
        found = copy(self)
        found.m = self.m * self.m
        return found

    def summed(self, values: Node) -> Node:
        """(rows, n) summed over the rows, of each symbol where one chooses: (n,) or (symbols, n)."""
        if self.symbol is None:
            return gn.sum(values, axis=0)
        return gn.scatter_add(values, self.symbol, self.group.symbols, axis=0)

    def weighed(self, number: int, squared: bool = False, times: Node | None = None) -> Node:
        """Σ s_k m̃_j over the rows, for each entry (k, j) of this weight of the group, of its shape.

        squared: of s_k²; times: of s_k times this.
        """
        incoming, source, code = self.group.incoming[number], self.sources[number], self._codes[number]
        if code is not None and times is None:  # s_k is 0 or 1
            return gn.scatter_add(self.m, code, source.shape[1], axis=0)
        source = source * source if squared else source if times is None else source * times
        match incoming.kind:
            case "product":
                if self.symbol is None:
                    return gn.transpose(source) @ self.m
                outer = gn.reshape(source, (*source.shape, 1)) * gn.reshape(
                    self.m, (len(self), 1, self.group.units)
                )
                flat = self.summed(gn.reshape(outer, (len(self), -1)))
                return gn.reshape(flat, incoming.weight.shape)
            case "edges":
                i, j = incoming.ends
                return self.summed(
                    gn.take(source, gn.constant(i), axis=1) * gn.take(self.m, gn.constant(j), axis=1)
                )
            case _:
                return self.summed(source * self.m)

    def __len__(self) -> int:
        return int(self.m.shape[0])


class Block(ABC):
    """A group under a metric: nodes, whose values add up over batches, and from their sums the step of a gradient."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.group = rows, rows.group

    @abstractmethod
    def nodes(self) -> list[Node]:
        """What adds up."""

    @abstractmethod
    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        """g ↦ (M + damping + more)⁻¹ g; values: of `nodes`, in float64.

        damping: a number, or one for each unit. more: damping of the summed cost, whatever `damping` is of.
        Raises TrainingError where that is singular.
        """

    def require_finite(self, values: Sequence[Array]) -> None:
        """TrainingError for numbers of `nodes` that are none."""
        if not all(np.isfinite(each).all() for each in values):
            raise self._singular()

    def _require_positive(self, *curvatures: Array) -> None:
        if not all((each > 0).all() for each in curvatures):
            raise self._singular()

    def _singular(self) -> TrainingError:
        return TrainingError(
            f"the metric of {self.group} is singular, as sources of a unit say the same, or nothing, or it is not "
            "finite; give a larger damping, or take a network of dtype='float64'"
        )


class Diagonal(Block):
    """M_ii = (S ∘ S)ᵀ m̃"""

    def nodes(self) -> list[Node]:
        return [self.rows.weighed(number, squared=True) for number in range(len(self.group.incoming))]

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        damped = [M + damping + more for M in values]
        self._require_positive(*damped)
        return Solver(lambda g: [each / M for each, M in zip(g, damped, strict=True)], _spread(*damped))


class QuasiDiagonal(Block):
    """M_ii = (S ∘ S)ᵀ m̃, M_0i = Sᵀ m̃, M_00 = Σ m̃: two products for a weight; the diagonal without a bias.

    Source: Ollivier 2013, eqs 34-35; of the writing weights 20-21.
    """

    def nodes(self) -> list[Node]:
        rows, bias = self.rows, self.group.bias
        found = Diagonal(rows).nodes()
        if bias is None:
            return found
        at = self.group.incoming.index(bias)
        times = None if rows.always_one(bias) else rows.sources[at]
        return found + [
            rows.weighed(number, times=times) for number in range(len(self.group.incoming)) if number != at
        ]

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        bias, count = self.group.bias, len(self.group.incoming)
        if bias is None:
            return Diagonal(self.rows).solver(values, damping, more)
        at = self.group.incoming.index(bias)
        M_00 = values[at] + damping + more
        self._require_positive(M_00)
        crossed = iter(values[count:])
        parts: list[tuple[Incoming, Array, Array]] = []  # with M_0i / M_00, and M_ii - M_0i² / M_00
        for incoming, M_ii in zip(self.group.incoming, values[:count], strict=True):
            if incoming is not bias:
                M_0i = next(crossed)
                share = M_0i / _to_entries(incoming, M_00)
                parts.append((incoming, share, M_ii + damping + more - M_0i * share))
        self._require_positive(*(curved for _, _, curved in parts))

        def solve(g: Sequence[Array]) -> list[Array]:
            own = g[at] / M_00
            found: list[Array] = []
            for (incoming, share, curved), slope in zip(parts, [*g[:at], *g[at + 1 :]], strict=True):
                step = (slope - _to_entries(incoming, g[at]) * share) / curved
                own = own - _of_entries(incoming, share * step, M_00.shape)
                found.append(step)
            return [*found[:at], own, *found[at:]]

        return Solver(solve, _spread(M_00, *(curved for _, _, curved in parts)))


def _to_entries(incoming: Incoming, each: Array) -> Array:
    """From numbers of units (symbols, units) to numbers of the entries that reach them."""
    match incoming.kind:
        case "product":
            return each[..., None, :]
        case "edges":
            found: Array = each[..., incoming.ends[1]]
            return found
        case _:
            return each


def _of_entries(incoming: Incoming, values: Array, shape: tuple[int, ...]) -> Array:
    """Summed over the entries that reach each unit."""
    match incoming.kind:
        case "product":
            found: Array = values.sum(axis=-2)
            return found
        case "edges":
            total = np.zeros(shape)
            np.add.at(total.T, incoming.ends[1], values.T)
            return total
        case _:
            return values


class Full(Block):
    """The whole block of each unit, (symbols, units, d, d), d the entries that reach it

    It is solved once Cholesky's factors have shown that it is positive definite.
    Source: Ollivier 2013, eqs 26-27.
    """

    def nodes(self) -> list[Node]:
        rows, group = self.rows, self.group
        count, features, columns = len(rows), self._features(), self._columns()
        d = columns.shape[1]
        if rows.symbol is None and all(each.kind in ("product", "bias") for each in group.incoming):
            # All units see the same: one product for all blocks.
            weighed = gn.reshape(gn.transpose(rows.m), (group.units, 1, count)) * gn.transpose(features)
            return [gn.reshape(gn.reshape(weighed, (-1, count)) @ features, (group.units, d, d))]
        seen = gn.take(features, gn.constant(columns.ravel()), axis=1)
        seen = gn.reshape(seen, (count, group.units, d)) * gn.constant(self._there().astype(features.dtype))
        weighed = seen * gn.reshape(rows.m, (count, group.units, 1))
        if rows.symbol is None:
            return [gn.matmul(gn.transpose(weighed, (1, 2, 0)), gn.transpose(seen, (1, 0, 2)))]
        outer = gn.reshape(weighed, (count, group.units, d, 1)) * gn.reshape(seen, (count, group.units, 1, d))
        return [gn.reshape(rows.summed(gn.reshape(outer, (count, -1))), (group.symbols, group.units, d, d))]

    def _features(self) -> Node:
        return gn.concatenate(self.rows.sources, axis=1)

    def _columns(self) -> Array:
        """(units, d): which of the features each entry multiplies."""
        start, found = 0, []
        for incoming, source in zip(self.group.incoming, self.rows.sources, strict=True):
            found.append(start + incoming.features(self.group.units))
            start += source.shape[1]
        return np.concatenate(found, axis=1)

    def _there(self) -> Array:
        """(units, d): where there is an entry at all."""
        return np.concatenate([each.places(self.group.units) >= 0 for each in self.group.incoming], axis=1)

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        (M,) = values
        there, units, symbols = self._there(), self.group.units, self.group.symbols
        M = M.reshape(symbols, units, *M.shape[-2:]) + 0.0
        diagonal = np.einsum("sudd->sud", M)
        diagonal += np.where(there, np.asarray(damping, float)[..., None] + more, 1.0)
        try:
            L = np.linalg.cholesky(M)
        except np.linalg.LinAlgError:
            raise self._singular() from None

        def solve(g: Sequence[Array]) -> list[Array]:
            gathered = [
                self._gathered(each, incoming) for each, incoming in zip(g, self.group.incoming, strict=True)
            ]
            found = _substituted(L, np.concatenate(gathered, axis=2) * there)
            parts = np.split(found, np.cumsum([part.shape[2] for part in gathered])[:-1], axis=2)
            return [
                self._scattered(part, incoming, each.shape)
                for part, incoming, each in zip(parts, self.group.incoming, g, strict=True)
            ]

        own = np.einsum("sudd->sud", L)  # 1 where there is no entry
        return Solver(solve, float(np.max((own.max(axis=2) / own.min(axis=2)) ** 2)))

    def _gathered(self, values: Array, incoming: Incoming) -> Array:
        """(symbols, units, entries)"""
        places = incoming.places(self.group.units)
        return values.reshape(self.group.symbols, -1)[:, places]

    def _scattered(self, values: Array, incoming: Incoming, shape: tuple[int, ...]) -> Array:
        places = incoming.places(self.group.units)
        found = np.zeros((self.group.symbols, int(np.prod(shape)) // self.group.symbols))
        found[:, places[places >= 0]] = values[:, places >= 0]
        return found.reshape(shape)


def _substituted(L: Array, b: Array) -> Array:
    """(L Lᵀ)⁻¹ b for all blocks at once, forwards and backwards."""
    x = b.copy()
    for k in range(x.shape[-1]):
        x[..., k] = (x[..., k] - (L[..., k, :k] * x[..., :k]).sum(axis=-1)) / L[..., k, k]
    for k in reversed(range(x.shape[-1])):
        x[..., k] = (x[..., k] - (L[..., k + 1 :, k] * x[..., k + 1 :]).sum(axis=-1)) / L[..., k, k]
    return x


class RootMeanSquare(Block):
    """√(Σ S² m̃ / rows): the root of the mean square of what each step adds to the gradient. Source: Ollivier 2013, 4"""

    def nodes(self) -> list[Node]:
        return [*Diagonal(self.rows).nodes(), gn.sum(self.rows.live)]

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        *squares, count = values
        roots = [np.sqrt(each / max(float(count), 1.0)) + damping + more for each in squares]
        return Solver(lambda g: [_divided(a, r) for a, r in zip(g, roots, strict=True)], _spread(*roots))


class Frequency(Block):
    """The share of the steps at which a symbol chooses a weight, and 1 of one that no symbol chooses.

    Source: Ollivier 2013, 4: what makes rare symbols learn as fast as frequent ones.
    """

    def nodes(self) -> list[Node]:
        rows = self.rows
        live, found = rows.live, list[Node]()
        for number, source in enumerate(rows.sources):
            if rows.symbol is not None:
                found.append(rows.summed(live))
            elif rows.reads_symbols(number):
                found.append(gn.reshape(gn.sum(source * live, axis=0), (-1, 1)))
            else:
                found.append(gn.sum(live, axis=0))
        return [*found, gn.sum(live)]

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        *counts, count = values
        shares = [each / max(float(count), 1.0) + damping + more for each in counts]

        def solve(g: Sequence[Array]) -> list[Array]:
            rows = [s.reshape(*s.shape, *[1] * (a.ndim - s.ndim)) for a, s in zip(g, shares, strict=True)]
            return [_divided(a, s) for a, s in zip(g, rows, strict=True)]

        return Solver(solve, _spread(*shares))


def _spread(*diagonals: Array) -> float:
    """The largest of these numbers over the smallest that is not 0."""
    seen = np.concatenate([np.ravel(each) for each in diagonals])
    seen = seen[seen > 0]
    return float(seen.max() / seen.min()) if seen.size else 1.0


def _divided(g: Array, by: Array) -> Array:
    """g / by, and 0 where nothing has been seen."""
    return np.divide(g, by, out=np.zeros(g.shape), where=np.broadcast_to(by > 0, g.shape))


class Kronecker(Block):
    """M = A ⊗ G, A = Σ S Sᵀ / rows, G = Σ B Bᵀ: the rows' m is B, not its square

    damping: ε of the mean over rows, divided among both: (A + π √ε I) ⊗ (G + √ε/π I), π² = (tr A / dim A) / (tr G / dim
    G).
    Source: Martens & Grosse 2015, 4 and 6.3; with all steps independent, Martens, Ba & Johnson 2018, 3.5.1.
    """

    lags: ClassVar[int] = 0

    @staticmethod
    def has_factors(group: UnitGroup) -> bool:
        """Whether all units of a group see the same sources, at all steps."""
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

        return Solver(solve, _spread(np.diagonal(A)) * _spread(np.diagonal(G)))

    def _inverse(self, A: Array, G: Array, lagged: Sequence[Array]) -> Callable[[Array], Array]:
        """g ↦ M⁻¹ g, g a matrix. LinAlgError for factors that are singular."""
        np.linalg.cholesky(A), np.linalg.cholesky(G)
        left, right = np.linalg.inv(A), np.linalg.inv(G)
        return lambda g: _product(left, g, right.T)


class DiagonalOfSlopes(Block):
    """M_ii = Σ S_i² B_j² + ε rows, of groups that have no factors: weights unit by unit, of edges, or of a symbol."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows.squared())

    def nodes(self) -> list[Node]:
        return [*Diagonal(self.rows).nodes(), gn.sum(self.rows.live)]

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        *squares, count = values
        return Diagonal(self.rows).solver(squares, float(np.mean(damping)) * max(float(count), 1.0), more)


class KroneckerOverTime(Kronecker):
    """M = Σ_d Ψ^|d| (A ⊗ G), d all differences of time: of steps that are a linear process of the first order

    Ψ = Ψ_A ⊗ Ψ_G, Ψ_A = A₁ A⁻¹, of the covariances A₁ and G₁ of each step with the next. With factors made white, Ψ̂, it
    is (I - Ψ̂)⁻¹ (I - Ψ̂ Ψ̂ᵀ) (I - Ψ̂ᵀ)⁻¹ for long times, whose inverse takes eigenvectors of Ψ̂_A Ψ̂_Aᵀ and Ψ̂_G Ψ̂_Gᵀ alone.
    Source: Martens, Ba & Johnson 2018, 3.5.4, their second option.
    """

    lags: ClassVar[int] = 1

    def _inverse(self, A: Array, G: Array, lagged: Sequence[Array]) -> Callable[[Array], Array]:
        root_A, root_G = (_inverse_root(each) for each in (A, G))
        psi_A, psi_G = (_bounded(r @ lag.T @ r) for r, lag in zip((root_A, root_G), lagged, strict=True))
        (a, U), (b, W) = (np.linalg.eigh(psi @ psi.T) for psi in (psi_A, psi_G))
        curved = 1 - np.outer(a, b)

        def inverse(g: Array) -> Array:
            z = _product(root_A, g, root_G)
            z = z - _product(psi_A, z, psi_G.T)
            z = _product(U, _product(U.T, z, W) / curved, W.T)
            z = z - _product(psi_A.T, z, psi_G)
            return _product(root_A, z, root_G)

        return inverse


class KroneckerSymmetric(Kronecker):
    """The same with Ψ̂ taken as symmetric: (I + Ψ̂) (I - Ψ̂)⁻¹, for which one basis serves.

    Source: Martens, Ba & Johnson 2018, 3.5.3, their first option, for long times.
    """

    lags: ClassVar[int] = 1

    def _inverse(self, A: Array, G: Array, lagged: Sequence[Array]) -> Callable[[Array], Array]:
        root_A, root_G = (_inverse_root(each) for each in (A, G))
        psi_A, psi_G = (_bounded(r @ lag.T @ r) for r, lag in zip((root_A, root_G), lagged, strict=True))
        (a, U), (b, W) = (np.linalg.eigh((psi + psi.T) / 2) for psi in (psi_A, psi_G))
        both = np.outer(a, b)
        left, right, factor = root_A @ U, W.T @ root_G, (1 - both) / (1 + both)
        return lambda g: _product(left, _product(left.T, g, right.T) * factor, right)


def _product(left: Array, middle: Array, right: Array) -> Array:
    """left middle right, compiled: threads of NumPy's own products keep spinning beside the next gradient."""
    found: Array = _products(left.shape[0], *middle.shape, right.shape[1])(left, middle, right)[0]
    return found


@lru_cache(maxsize=64)
def _products(rows: int, inner: int, other: int, columns: int) -> gn.Function:
    shapes = (rows, inner), (inner, other), (other, columns)
    left, middle, right = inputs = [gn.input(shape, "float64") for shape in shapes]
    return gn.compile([left @ middle @ right], inputs)


def _inverse_root(M: Array) -> Array:
    """M^(-1/2). LinAlgError for one that is singular."""
    values, vectors = np.linalg.eigh(M)
    if not values[0] > np.finfo(np.float64).eps * values[-1]:
        raise np.linalg.LinAlgError("singular")
    found: Array = (vectors / np.sqrt(values)) @ vectors.T
    return found


def _bounded(psi: Array) -> Array:
    """The matrix, shrunk to a spectral norm below 1: so the process does not grow."""
    norm = float(np.linalg.norm(psi, 2))
    return psi * min(1.0, LARGEST / norm) if norm > 0 else psi


#: Below all traces that count; and the largest norm of what carries a step to the next.
TINY, LARGEST = 1e-30, 0.99


def block_of(reduction: str, rows: Rows) -> Block:
    """The block of a group; of one without Kronecker factors its diagonal, where these are asked for."""
    kind = REDUCTIONS[reduction]
    if issubclass(kind, Kronecker) and not kind.has_factors(rows.group):
        return DiagonalOfSlopes(rows)
    return kind(rows)


REDUCTIONS: dict[str, type[Block]] = {
    "diagonal": Diagonal,
    "quasi-diagonal": QuasiDiagonal,
    "full": Full,
    "rms": RootMeanSquare,
    "frequency": Frequency,
    "kronecker": Kronecker,
    "kronecker symmetric": KroneckerSymmetric,
    "kronecker over time": KroneckerOverTime,
}
