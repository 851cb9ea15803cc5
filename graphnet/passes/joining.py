"""Joins of nodes in their simplest form: what was sliced from one array is that array again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from graphnet.node import Node, shared
from graphnet.ops.leaf import After, Fill
from graphnet.ops.shape import Concatenate, Slice, Transpose, concatenate, is_whole, reshape

__all__ = ["Joins", "pieces_of_one"]


class Joins:
    """Makes joins of matrices, each only once."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, tuple[Node, ...]], Node] = {}

    def __call__(self, nodes: Sequence[Node], axis: int) -> Node:
        """Matrices one after another along an axis (0 or 1).

        [aᵀ | bᵀ] = [a; b]ᵀ, and columns of time steps become time steps of columns: the latter is how a
        recurrent net's values lie in memory.
        """
        key = axis, tuple(nodes)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._join(nodes, axis)
        return found

    def _join(self, nodes: Sequence[Node], axis: int) -> Node:
        if len(nodes) == 1:
            return nodes[0]
        if isinstance(nodes[0].op, After):
            waits = nodes[0].inputs[1:]
            if all(isinstance(x.op, After) and x.inputs[1:] == waits for x in nodes):
                return shared(After)(self([x.inputs[0] for x in nodes], axis), *waits)
        if any(_is_transposed(x) for x in nodes) and all(_is_transposed(x) or _is_fill(x) for x in nodes):
            return self([_transposed_fill(x) if _is_fill(x) else x.inputs[0] for x in nodes], 1 - axis).T
        whole = pieces_of_one(nodes, axis)
        if whole is not None:
            return whole
        if axis == 1 and all(isinstance(x.op, Concatenate) and x.op.axis == 0 for x in nodes):
            cuts = [piece.shape[0] for piece in nodes[0].inputs]
            if all([piece.shape[0] for piece in x.inputs] == cuts for x in nodes):
                return concatenate([self(row, 1) for row in zip(*(x.inputs for x in nodes), strict=True)], 0)
        return concatenate(nodes, axis)


def _is_fill(x: Node) -> bool:
    return isinstance(x.op, Fill)


def _transposed_fill(x: Node) -> Node:
    """A number everywhere, in the transposed shape."""
    assert isinstance(x.op, Fill)
    return Fill(x.op.number, x.shape[::-1], x.dtype)()


def _is_transposed(x: Node) -> bool:
    return isinstance(x.op, Transpose) and x.op.axes == (1, 0)


def pieces_of_one(nodes: Sequence[Node], axis: int) -> Node | None:
    """The stretch of an array from which the nodes were sliced one after another, if they were."""
    first = nodes[0]
    if not isinstance(first.op, Slice):
        return None
    source = first.inputs[0]
    if any(not isinstance(x.op, Slice) or x.inputs[0] is not source for x in nodes):
        return None
    keys = [x.op.key for x in nodes]  # type: ignore[attr-defined]
    along = _axis_of_source(keys[0], axis)
    if along is None or any(
        k[:along] != keys[0][:along] or k[along + 1 :] != keys[0][along + 1 :] for k in keys
    ):
        return None
    at = [k[along] for k in keys]
    if all(isinstance(k, int) for k in at):
        if any(b != a + 1 for a, b in pairwise(at)):
            return None
        stretch = (at[0], at[-1] + 1, 1)
    else:
        if any(isinstance(k, int) or k[2] != 1 for k in at) or any(a[1] != b[0] for a, b in pairwise(at)):
            return None
        stretch = (at[0][0], at[-1][1], 1)
    key = (*keys[0][:along], stretch, *keys[0][along + 1 :])
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in nodes)
    part = source if is_whole(key, source.shape) else Slice(key)(source)
    return reshape(part, shape)


def _axis_of_source(key: Sequence[int | tuple[int, int, int]], axis: int) -> int | None:
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
