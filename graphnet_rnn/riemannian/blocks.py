"""Blocks: what a modulus makes of the weights of a group, as nodes, and steps M⁻¹ g from what these nodes are.

M = Σ m̃ ⊗ S Sᵀ over cases and steps: a block for each unit (and symbol, where one chooses), of which a metric keeps all,
the diagonal and the row of the bias, or the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.riemannian.groups import Group, Incoming

__all__ = ["REDUCTIONS", "Block", "Rows"]


class Rows:
    """The cases of all steps of a group below each other: sources by weight, the symbols, and a modulus."""

    def __init__(self, group: Group, moduli: Sequence[Node]) -> None:
        self.group = group
        found = [meeting.sources for meeting in group.meetings]
        self.m = gn.concatenate(moduli, axis=0)
        self.sources = [self._source(incoming, found) for incoming in group.incoming]
        symbols = [meeting.symbol for meeting in group.meetings if meeting.symbol is not None]
        self.symbol = gn.concatenate(symbols, axis=0) if symbols else None

    def _source(self, incoming: Incoming, found: Sequence[dict[Node, Node | None]]) -> Node:
        """(rows, n): what a weight multiplies, 1 for a bias, and 0 where it does not enter."""
        widths = {s[incoming.weight].shape[1] for s in found if s.get(incoming.weight) is not None}  # type: ignore[union-attr]
        width = widths.pop() if widths else 1
        parts = []
        for meeting, sources in zip(self.group.meetings, found, strict=True):
            source = sources.get(incoming.weight)
            if source is None:
                V = meeting.V
                source = gn.fill(1 if incoming.weight in sources else 0, (V.shape[0], width), V.dtype)
            parts.append(source)
        return gn.concatenate(parts, axis=0)

    def summed(self, values: Node) -> Node:
        """(rows, n) summed over the rows, of each symbol where one chooses: (n,) or (symbols, n)."""
        if self.symbol is None:
            return gn.sum(values, axis=0)
        return gn.scatter_add(values, self.symbol, self.group.symbols, axis=0)

    def weighed(self, incoming: Incoming, source: Node) -> Node:
        """Σ s_k m̃_j over the rows, for each entry (k, j) of the weight, of its shape."""
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


class Block:
    """A group under a metric: nodes, whose values add up over batches, and from their sums the step of a gradient."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.group = rows, rows.group

    def nodes(self) -> list[Node]:
        raise NotImplementedError

    def solved(self, values: Sequence[Array], g: Sequence[Array], damping: Any) -> list[Array]:
        """(M + damping)⁻¹ g: values of `nodes`, and of the gradient by weight, all in float64.

        damping: a number, or one for each unit.
        """
        raise NotImplementedError


class Diagonal(Block):
    """M_ii = (S ∘ S)ᵀ m̃"""

    def nodes(self) -> list[Node]:
        rows = self.rows
        return [
            rows.weighed(incoming, source * source)
            for incoming, source in zip(self.group.incoming, rows.sources, strict=True)
        ]

    def solved(self, values: Sequence[Array], g: Sequence[Array], damping: Any) -> list[Array]:
        return [each / (M + damping) for each, M in zip(g, values, strict=True)]


class QuasiDiagonal(Block):
    """M_ii = (S ∘ S)ᵀ m̃, M_0i = Sᵀ m̃, M_00 = Σ m̃: two products for a weight; the diagonal without a bias.

    Source: Ollivier 2013, eqs 34-35; of the writing weights 20-21.
    """

    def nodes(self) -> list[Node]:
        rows, bias = self.rows, self.group.bias
        found = Diagonal(rows).nodes()
        if bias is None:
            return found
        return found + [
            rows.weighed(incoming, source)
            for incoming, source in zip(self.group.incoming, rows.sources, strict=True)
            if incoming is not bias
        ]

    def solved(self, values: Sequence[Array], g: Sequence[Array], damping: Any) -> list[Array]:
        bias, count = self.group.bias, len(self.group.incoming)
        if bias is None:
            return Diagonal(self.rows).solved(values, g, damping)
        at = self.group.incoming.index(bias)
        M_00 = values[at] + damping
        g_0 = g[at]
        crossed = iter(values[count:])
        found: list[Array] = []
        moved = g_0 / M_00
        for number, incoming in enumerate(self.group.incoming):
            if number == at:
                found.append(moved)  # below
                continue
            M_ii, M_0i = values[number] + damping, next(crossed)
            to_unit = _to_entries(incoming)
            per_entry_g_0, per_entry_M_00 = to_unit(g_0), to_unit(M_00)
            step = (g[number] - per_entry_g_0 * M_0i / per_entry_M_00) / (M_ii - M_0i**2 / per_entry_M_00)
            found.append(step)
            moved = moved - _of_entries(incoming, M_0i * step, M_00.shape) / M_00
        found[at] = moved
        return found


def _to_entries(incoming: Incoming) -> Callable[[Array], Array]:
    """From numbers of units (symbols, units) to numbers of the entries that reach them."""
    match incoming.kind:
        case "product":
            return lambda each: each[..., None, :]
        case "edges":
            return lambda each: each[..., incoming.ends[1]]
        case _:
            return lambda each: each


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
    """The whole block of each unit, (symbols, units, d, d), d the entries that reach it: solved by Cholesky's factors.

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
            bias = incoming.kind == "bias"
            found.append(
                start
                + (0 if bias else incoming.features(self.group.units))
                + np.zeros((self.group.units, 1), int)
            )
            start += source.shape[1]
        return np.concatenate(found, axis=1)

    def _there(self) -> Array:
        """(units, d): where there is an entry at all."""
        return np.concatenate([each.places(self.group.units) >= 0 for each in self.group.incoming], axis=1)

    def solved(self, values: Sequence[Array], g: Sequence[Array], damping: Any) -> list[Array]:
        (M,) = values
        there, units = self._there(), self.group.units
        symbols = self.group.symbols
        M = M.reshape(symbols, units, *M.shape[-2:]) + 0.0
        diagonal = np.einsum("sudd->sud", M)
        diagonal += np.where(there, np.asarray(damping, float)[..., None], 1.0)
        gathered = [
            self._gathered(each, incoming) for each, incoming in zip(g, self.group.incoming, strict=True)
        ]
        right = np.concatenate(gathered, axis=2) * there
        try:
            np.linalg.cholesky(M)
        except np.linalg.LinAlgError:
            raise TrainingError(
                f"the metric of {self.group} is singular: sources of a unit say the same, or nothing; give a larger "
                "damping"
            ) from None
        found = np.linalg.solve(M, right[..., None])[..., 0]
        parts = np.split(found, np.cumsum([part.shape[2] for part in gathered])[:-1], axis=2)
        return [
            self._scattered(part, incoming, each.shape)
            for part, incoming, each in zip(parts, self.group.incoming, g, strict=True)
        ]

    def _gathered(self, values: Array, incoming: Incoming) -> Array:
        """(symbols, units, entries)"""
        places = incoming.places(self.group.units)
        return values.reshape(self.group.symbols, -1)[:, places]

    def _scattered(self, values: Array, incoming: Incoming, shape: tuple[int, ...]) -> Array:
        places = incoming.places(self.group.units)
        found = np.zeros((self.group.symbols, int(np.prod(shape)) // self.group.symbols))
        found[:, places[places >= 0]] = values[:, places >= 0]
        return found.reshape(shape)


REDUCTIONS: dict[str, type[Block]] = {"diagonal": Diagonal, "quasi-diagonal": QuasiDiagonal, "full": Full}
