"""Joins of nodes in their simplest form: a join of all slices of an array is the array itself."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.graph.node import Key, Node
from graphnet.ops.leaf import After, Fill
from graphnet.ops.shape import Slice, Transpose, concatenate, is_whole, joined_entry, reshape


class Joins:
    """Makes joins of matrices, each only once."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, tuple[Node, ...]], Node] = {}

    def __call__(self, nodes: Sequence[Node], axis: int) -> Node:
        """Matrices one after another along an axis (0 or 1).

        [aᵀ | bᵀ] = [a; b]ᵀ, and columns of time steps become time steps of columns, the memory layout of a
        recurrent net's values.
        """
        key = axis, tuple(nodes)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._join(nodes, axis)
        return found

    def _join(self, nodes: Sequence[Node], axis: int) -> Node:
        if len(nodes) == 1:
            return nodes[0]
        match nodes[0].op:
            case After() as op:
                waits = nodes[0].inputs[1:]
                if all(x.op == op and x.inputs[1:] == waits for x in nodes):
                    return op(self([x.inputs[0] for x in nodes], axis), *waits)
        if any(untransposed(x) is not None for x in nodes):
            turned = [x for y in nodes if (x := transposed(y)) is not None]
            if len(turned) == len(nodes):
                return self(turned, 1 - axis).T
        whole = common_slice(nodes, axis)
        if whole is not None:
            return whole
        if axis == 1 and all(x.op.joins_along == 0 for x in nodes):
            cuts = [y.shape[0] for y in nodes[0].inputs]
            if all([y.shape[0] for y in x.inputs] == cuts for x in nodes):
                return concatenate([self(row, 1) for row in zip(*(x.inputs for x in nodes), strict=True)], 0)
        return concatenate(nodes, axis)


def transposed(x: Node) -> Node | None:
    """xᵀ if it exists in the graph already, or if all elements of x are one number."""
    number = x.op.everywhere
    return untransposed(x) if number is None else Fill(number, x.shape[::-1], x.dtype)()


def untransposed(x: Node) -> Node | None:
    """The matrix of which x is the transpose; None for others."""
    match x.op:
        case Transpose(axes=(1, 0)):
            return x.inputs[0]
    return None


def common_slice(nodes: Sequence[Node], axis: int) -> Node | None:
    """The slice of an array that the nodes are, one after another, if they are slices of one."""
    source = nodes[0].inputs[0] if nodes[0].inputs else None
    keys = [x.op.key for x in nodes if isinstance(x.op, Slice) and x.inputs[0] is source]
    if source is None or len(keys) < len(nodes):
        return None
    along = _axis_of_source(keys[0], axis)
    if along is None or len({(k[:along], k[along + 1 :]) for k in keys}) > 1:
        return None
    entry = joined_entry([k[along] for k in keys])
    if entry is None:
        return None
    key = (*keys[0][:along], entry, *keys[0][along + 1 :])
    shape = list(nodes[0].shape) or [1]  # single elements of a vector are joined to a vector
    shape[axis] = sum(x.shape[axis] if x.ndim else 1 for x in nodes)
    whole = source if is_whole(key, source.shape) else Slice(key)(source)
    return reshape(whole, shape)


def _axis_of_source(key: Key, axis: int) -> int | None:
    """The axis of the source along which slices with such keys follow each other.

    Either the one that became `axis`, or, for axis 0, one that was indexed away just before it.
    """
    kept = [i for i, k in enumerate(key) if not isinstance(k, int)]
    indexed = [i for i, k in enumerate(key) if isinstance(k, int)]
    if not indexed:
        return kept[axis]
    if axis == 0 and indexed == [0]:
        return 0
    return None
