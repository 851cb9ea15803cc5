"""Blocks: the metric of the weights of a group, as nodes, and steps M⁻¹ g from their values.

M = Σ m̃ ⊗ S Sᵀ over cases and steps: a block for each unit (and symbol, for gated weights), of which a metric keeps
all, the diagonal and the row of the bias, or the diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.riemannian.groups import Incoming
from graphnet_rnn.riemannian.rows import Rows


@dataclass(frozen=True)
class Solver:
    """g ↦ M⁻¹ g, in float64.

    solve: function that returns M⁻¹ g.
    condition: lower bound of the condition number of the worst block: largest over smallest number on the diagonal of
    the divisor, squared if the divisor is a factor.

    >>> M = np.diag([1.0, 4.0])
    >>> solver = rnn.riemannian.Solver(lambda g: np.linalg.solve(M, g), condition=4.0)
    >>> solver(np.array([1.0, 2.0])).tolist()
    [1.0, 0.5]
    """

    solve: Callable[[Any], Any]
    condition: float

    def __call__(self, g: Any) -> Any:
        return self.solve(g)


class Block(ABC):
    """A group under a metric: nodes whose values are summed over batches, and steps of gradients from these sums."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.group = rows, rows.group

    @abstractmethod
    def nodes(self) -> list[Node]:
        """Nodes whose values are summed over batches."""

    @abstractmethod
    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        """g ↦ (M + damping + more)⁻¹ g; values: of `nodes`, in float64.

        damping: a number, or one for each unit. more: damping of the summed cost, for any scale of `damping`.
        Raises TrainingError if the matrix is singular.
        """

    def require_finite(self, values: Sequence[Array]) -> None:
        """Raises TrainingError if values of `nodes` are not finite."""
        if not all(np.isfinite(each).all() for each in values):
            raise self._singular()

    def _require_positive(self, *curvatures: Array) -> None:
        if not all((each > 0).all() for each in curvatures):
            raise self._singular()

    def _singular(self) -> TrainingError:
        return TrainingError(
            f"the metric of {self.group} is singular (sources of a unit are zero or linearly dependent) or not "
            "finite; use a larger damping, or a network of dtype='float64'"
        )


class Diagonal(Block):
    """M_ii = (S ∘ S)ᵀ m̃"""

    def nodes(self) -> list[Node]:
        return [self.rows.weighed(number, squared=True) for number in range(len(self.group.incoming))]

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        damped = [M + damping + more for M in values]
        self._require_positive(*damped)
        return Solver(lambda g: [each / M for each, M in zip(g, damped, strict=True)], spread(*damped))


class QuasiDiagonal(Block):
    """M_ii = (S ∘ S)ᵀ m̃, M_0i = Sᵀ m̃, M_00 = Σ m̃: two products for a weight; the diagonal without a bias.

    Source: Ollivier 2013, eqs 34-35; for output weights 20-21.
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

        return Solver(solve, spread(M_00, *(curved for _, _, curved in parts)))


def _to_entries(incoming: Incoming, each: Array) -> Array:
    """Numbers of the entries, from numbers (symbols, units) of the units that they lead to."""
    match incoming.kind:
        case "product":
            return each[..., None, :]
        case "edges":
            found: Array = each[..., incoming.ends[1]]
            return found
        case _:
            return each


def _of_entries(incoming: Incoming, values: Array, shape: tuple[int, ...]) -> Array:
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
    """The whole block of each unit, (symbols, units, d, d), d the entries that lead to it

    A Cholesky factorization checks that it is positive definite.
    Source: Ollivier 2013, eqs 26-27.
    """

    def nodes(self) -> list[Node]:
        rows, group = self.rows, self.group
        count, features, columns = len(rows), self._features(), self._columns()
        d = columns.shape[1]
        if rows.symbol is None and all(each.kind in ("product", "bias") for each in group.incoming):
            # All units have the same sources: one product for all blocks.
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
        """(units, d): feature that each entry multiplies."""
        start, found = 0, []
        for incoming, source in zip(self.group.incoming, self.rows.sources, strict=True):
            found.append(start + incoming.features(self.group.units))
            start += source.shape[1]
        return np.concatenate(found, axis=1)

    def _there(self) -> Array:
        """(units, d): mask of existing entries."""
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


class RootMeanSquareBlock(Block):
    """√(Σ S² m̃ / rows): the root mean square of a time step's contribution to the gradient. Source: Ollivier 2013, 4"""

    def nodes(self) -> list[Node]:
        return [*Diagonal(self.rows).nodes(), gn.sum(self.rows.live)]

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        *squares, count = values
        roots = [np.sqrt(each / max(float(count), 1.0)) + damping + more for each in squares]
        return Solver(lambda g: [_divided(a, r) for a, r in zip(g, roots, strict=True)], spread(*roots))


class FrequencyBlock(Block):
    """Share of the steps at which a symbol chooses a weight, and 1 for a weight that no symbol chooses.

    Rare symbols then learn as fast as frequent ones. Source: Ollivier 2013, 4.
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

        return Solver(solve, spread(*shares))


def spread(*diagonals: Array) -> float:
    """Largest of these numbers over the smallest that is not 0."""
    seen = np.concatenate([np.ravel(each) for each in diagonals])
    seen = seen[seen > 0]
    return float(seen.max() / seen.min()) if seen.size else 1.0


def _divided(g: Array, by: Array) -> Array:
    """g / by, and 0 where `by` is 0."""
    return np.divide(g, by, out=np.zeros(g.shape), where=np.broadcast_to(by > 0, g.shape))


class DiagonalOfSlopes(Block):
    """M_ii = Σ S_i² B_j² + ε rows, for groups without factors: diagonal, edge or gated weights."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows.squared())

    def nodes(self) -> list[Node]:
        return [*Diagonal(self.rows).nodes(), gn.sum(self.rows.live)]

    def solver(self, values: Sequence[Array], damping: Any, more: float = 0.0) -> Solver:
        *squares, count = values
        return Diagonal(self.rows).solver(squares, float(np.mean(damping)) * max(float(count), 1.0), more)
