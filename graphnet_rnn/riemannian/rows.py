"""Rows: the inputs of a group's units at all steps of all cases, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import graphnet as gn
from graphnet.graph.node import Node
from graphnet_rnn.riemannian.groups import Incoming, UnitGroup


class Rows:
    """All cases and steps of a group as rows: sources by weight, the symbols, and a modulus."""

    def __init__(self, group: UnitGroup, moduli: Sequence[Node]) -> None:
        self.group = group
        found = [at.sources for at in group.pre_activations]
        self.m = gn.concatenate(moduli, axis=0)
        self.sources = [self._source(incoming, found) for incoming in group.incoming]
        symbols = [at.symbol for at in group.pre_activations if at.symbol is not None]
        self.symbol = gn.concatenate(symbols, axis=0) if symbols else None
        self._codes = [self._code(incoming, found) for incoming in group.incoming]

    def _source(self, incoming: Incoming, found: Sequence[dict[Node, Node | float]]) -> Node:
        """(rows, n): source of a weight, 1 for a bias, and 0 where the weight does not enter."""
        all_of_it = [sources.get(incoming.weight, 0.0) for sources in found]
        width = next((source.shape[1] for source in all_of_it if isinstance(source, Node)), 1)
        parts = [
            source if isinstance(source, Node) else gn.fill(source, (at.V.shape[0], width), at.V.dtype)
            for at, source in zip(self.group.pre_activations, all_of_it, strict=True)
        ]
        return gn.concatenate(parts, axis=0)

    @property
    def live(self) -> Node:
        """(rows, 1): 1 if the modulus of some unit is not 0; 0 for masked cases and steps."""
        return gn.cast(gn.greater(gn.max(gn.absolute(self.m), axis=1, keepdims=True), 0), self.m.dtype)

    def _code(self, incoming: Incoming, found: Sequence[dict[Node, Node | float]]) -> Node | None:
        """(rows,): the symbols, if the weight multiplies a one-hot code at every pre-activation."""
        sources = [each.get(incoming.weight) for each in found]
        codes = [s.inputs[0] for s in sources if isinstance(s, Node) and s.op.is_one_hot]
        whole = self.symbol is None and len(codes) == len(sources)
        return gn.concatenate(codes, axis=0) if whole else None

    def reads_symbols(self, number: int) -> bool:
        """True if this weight of the group multiplies a one-hot code everywhere."""
        return self._codes[number] is not None

    def always_one(self, incoming: Incoming) -> bool:
        """True if it is a bias at every pre-activation, neither scaled nor repeated."""
        return all(at.sources.get(incoming.weight) == 1.0 for at in self.group.pre_activations)

    def squared(self) -> Rows:
        """A copy with the modulus squared."""
        found = copy(self)
        found.m = self.m * self.m
        return found

    def summed(self, values: Node) -> Node:
        """(rows, n) summed over the rows, for each symbol if one chooses: (n,) or (symbols, n)."""
        if self.symbol is None:
            return gn.sum(values, axis=0)
        return gn.scatter_add(values, self.symbol, self.group.symbols, axis=0)

    def weighed(self, number: int, squared: bool = False, times: Node | None = None) -> Node:
        """Σ s_k m̃_j over the rows, for each entry (k, j) of this weight of the group, of its shape.

        squared: True for s_k² instead of s_k; times: a factor of s_k.
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
