"""Prune: nothing is computed that no output needs."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from graphnet.graph import Graph
from graphnet.node import Node
from graphnet.ops.leaf import StopGradient
from graphnet.ops.shape import Concatenate, Slice, Stack, is_whole

__all__ = ["prune"]


def prune(graph: Graph) -> Graph:
    """Labels and stop-gradients vanish (no derivative is taken any more), and a slice of a joined array
    reads the joined piece itself, so that pieces which nobody reads are not computed.

    Nodes that no output depends on are in no Graph to begin with.
    """
    # Where the pieces of each join begin: looked up once, since a join of T pieces is sliced T times.
    starts: dict[Node, list[int]] = {}

    def replace(node: Node) -> Node:
        op = node.op
        if op.is_label or isinstance(op, StopGradient):
            return node.inputs[0]
        if isinstance(op, Slice):
            joined = node.inputs[0]
            if isinstance(joined.op, Stack):
                return _slice_of_stack(node, joined, op, joined.op)
            if isinstance(joined.op, Concatenate):
                if joined not in starts:
                    sizes = [piece.shape[joined.op.axis] for piece in joined.inputs]
                    starts[joined] = list(accumulate(sizes, initial=0))
                return _slice_of_concatenation(node, joined, op, joined.op, starts[joined])
        return node

    return graph.rewrite(replace)


def _slice_of_stack(node: Node, joined: Node, op: Slice, stack: Stack) -> Node:
    chosen = op.key[stack.axis]
    if not isinstance(chosen, int):
        return node
    rest = (*op.key[: stack.axis], *op.key[stack.axis + 1 :])
    return _slice_or_whole(joined.inputs[chosen], rest)


def _slice_of_concatenation(
    node: Node, joined: Node, op: Slice, join: Concatenate, starts: list[int]
) -> Node:
    wanted = op.key[join.axis]
    first, last = (wanted, wanted) if isinstance(wanted, int) else (wanted[0], wanted[1] - 1)
    if last < first or (not isinstance(wanted, int) and wanted[2] != 1):
        return node
    i = bisect_right(starts, first) - 1
    start = starts[i]
    if last >= starts[i + 1]:
        return node
    inside = wanted - start if isinstance(wanted, int) else (first - start, last + 1 - start, 1)
    return _slice_or_whole(joined.inputs[i], (*op.key[: join.axis], inside, *op.key[join.axis + 1 :]))


def _slice_or_whole(x: Node, key: tuple[int | tuple[int, int, int], ...]) -> Node:
    return x if is_whole(key, x.shape) else Slice(key)(x)
