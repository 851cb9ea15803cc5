"""Unstack: what is computed on a stack of all time steps is computed on stretches of them instead.

`recompute` can then drop such a stretch as a whole, its loss included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

from graphnet.graph import Graph
from graphnet.node import Node
from graphnet.ops.broadcast import BroadcastTo, Sum, broadcast_to
from graphnet.ops.elementwise import Elementwise, add
from graphnet.ops.index import OneHot
from graphnet.ops.leaf import Fill, Label, StopGradient, fill
from graphnet.ops.loss import SoftmaxCrossEntropy, SymbolCrossEntropy
from graphnet.ops.reduce import LogSoftmax, LogSumExp, Max, Min, Softmax
from graphnet.ops.shape import Concatenate, Place, Reshape, Slice, Stack, Transpose, is_whole, part, reshape
from graphnet.provenance import Model, attributed_to

__all__ = ["ANYWHERE", "unstack"]

#: The `source_serial` of nodes that belong where their inputs do, not to one place in the user's program.
ANYWHERE = -1
#: So many ops are followed from a stack on.
DEEPEST = 64


class Rows(NamedTuple):
    """Rows start ... stop - 1 along the first axis."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


def unstack(graph: Graph, segment: Mapping[Node, int]) -> Graph:
    """f([a_1; a_2; ...]) = [f([a_1; ...]); f([a_k; ...]); ...], where f works on each row alone.

    segment: for (most) nodes, a number. Pieces of a stack that follow each other and have one number stay together.
    Applies where rows of the result are read one by one, or summed up.
    """
    stretches = _Stretches(segment)

    def unstacked(node: Node) -> Node:
        new = stretches.without_stack(node)
        stretches.meet(new)
        return new

    return graph.rewrite(unstacked)


class _Stretches:
    """Some rows of x without computing x, for what is made of a stack by ops that work on each row alone."""

    def __init__(self, segment: Mapping[Node, int]) -> None:
        self._segment = segment
        #: For nodes whose rows come from the pieces of a stack: where its stretches begin and end, and how many ops
        #: lie between.
        self._edges: dict[Node, list[int]] = {}
        self._depth: dict[Node, int] = {}
        self._found: dict[tuple[Node, Rows], Node | None] = {}
        self._deep = 0

    def meet(self, node: Node) -> None:
        """To be called for each node, inputs first."""
        if isinstance(node.op, Stack) and node.op.axis == 0:
            numbers = [self._segment.get(piece) for piece in node.inputs]
            inner = [i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if a != b]
            self._edges[node], self._depth[node] = [0, *inner, len(numbers)], 0
        elif node.shape and _rule(node) is not None:
            sources = [x for x in node.inputs if x in self._edges]
            depth = 1 + max((self._depth[x] for x in sources), default=DEEPEST)
            edges = _edges(node, self._edges[sources[0]]) if depth <= DEEPEST else []
            # Else its rows are others, e.g. of a stack that is repeated along a new first axis.
            if edges and edges[-1] == node.shape[0]:
                self._edges[node], self._depth[node] = edges, depth

    def without_stack(self, node: Node) -> Node:
        """The node itself, or the same made of stretches."""
        op = node.op
        edges = self._edges.get(node.inputs[0]) if node.inputs else None
        if edges is None or len(edges) < 3:
            return node
        x = node.inputs[0]
        wanted = [Rows(a, b) for a, b in pairwise(edges)]
        if isinstance(op, Slice) and isinstance(op.key[0], int):
            at = op.key[0]
            wanted = [rows for rows in wanted if rows.start <= at < rows.stop]
        elif not (isinstance(op, Sum) and 0 in op.axes):
            return node
        with attributed_to() as made:
            made.model = Model(node.origin, node.scope, ANYWHERE)
            found = [s for s in (self(x, rows) for rows in wanted) if s is not None]
            if len(found) < len(wanted) or not found:
                return node
            if isinstance(op, Slice):
                return Slice((at - wanted[0].start, *op.key[1:]))(found[0])
            return add(*[op(stretch) for stretch in found])

    def __call__(self, x: Node, rows: Rows) -> Node | None:
        """These rows of x; None where x is made of a stack, but not row by row."""
        key = x, rows
        if key not in self._found:
            rule = _rule(x) if x in self._edges or self._deep < DEEPEST else None
            self._deep += 1
            found = None if rule is None else rule(x, rows, self)
            self._deep -= 1
            if found is None and x not in self._edges:
                found = part(x, 0, (*rows, 1))
            self._found[key] = found
        return self._found[key]


def _edges(node: Node, edges: list[int]) -> list[int]:
    """Where the stretches of a node begin and end, from those of its input."""
    op = node.op
    if isinstance(op, (Place, Slice)):
        first = op.key[0]
        if isinstance(first, int):
            return [0, node.shape[0]]
        start = first[0] if isinstance(op, Place) else -first[0]
        inner = [edge + start for edge in edges if 0 < edge + start < node.shape[0]]
        return [0, *inner, node.shape[0]]
    return edges


# -- how each op makes rows of its output from rows of its inputs --------------------------------------

Rule = Callable[[Node, Rows, _Stretches], Node | None]


def _rule(x: Node) -> Rule | None:
    return _each if isinstance(x.op, Elementwise) else RULES.get(type(x.op))


def _each(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    """Rows of x need the same rows of each input."""
    found = [of(source, rows) for source in x.inputs]
    return None if None in found else x.op(*found)


def _one_hot(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    """Of a single index, rows are its code's entries."""
    return _each(x, rows, of) if x.ndim > 1 else None


def _fill(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    return fill(x.op.number, (rows.length, *x.shape[1:]), x.dtype)  # type: ignore[attr-defined]


def _stack(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    return x.op(*x.inputs[rows.start : rows.stop]) if x.op.axis == 0 else _each(x, rows, of)  # type: ignore[attr-defined]


def _along(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    """An op along one axis, which must not be the first."""
    return _each(x, rows, of) if x.op.axis > 0 else None  # type: ignore[attr-defined]


def _over(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    """A reduction over axes, which must not be the first."""
    return None if 0 in x.op.axes else _each(x, rows, of)  # type: ignore[attr-defined]


def _broadcast(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    (source,) = x.inputs
    repeated = source.ndim < x.ndim or source.shape[0] != x.shape[0]
    found = source if repeated else of(source, rows)
    return None if found is None else broadcast_to(found, (rows.length, *x.shape[1:]))


def _reshape(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    (source,) = x.inputs
    found = of(source, rows) if source.shape and source.shape[0] == x.shape[0] else None
    return None if found is None else reshape(found, (rows.length, *x.shape[1:]))


def _transpose(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    return None if x.op.axes[0] else _each(x, rows, of)  # type: ignore[attr-defined]


def _slice(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    first, *rest = x.op.key  # type: ignore[attr-defined]
    if isinstance(first, int) or first[2] != 1:
        return None
    found = of(x.inputs[0], Rows(first[0] + rows.start, first[0] + rows.stop))
    key = ((0, rows.length, 1), *rest)
    return found if found is None or is_whole(key, found.shape) else Slice(key)(found)


def _place(x: Node, rows: Rows, of: _Stretches) -> Node | None:
    (source,) = x.inputs
    first, *rest = x.op.key  # type: ignore[attr-defined]
    if isinstance(first, int) or first[2] != 1:
        return None
    start, stop = max(first[0], rows.start), min(first[1], rows.stop)
    if start >= stop:
        return fill(0, (rows.length, *x.shape[1:]), x.dtype)
    found = of(source, Rows(start - first[0], stop - first[0]))
    key = ((start - rows.start, stop - rows.start, 1), *rest)
    return None if found is None else Place((rows.length, *x.shape[1:]), key)(found)


RULES: dict[type, Rule] = {
    BroadcastTo: _broadcast,
    Concatenate: _along,
    Fill: _fill,
    Label: _each,
    LogSoftmax: _along,
    LogSumExp: _along,
    Max: _over,
    Min: _over,
    OneHot: _one_hot,
    Place: _place,
    Reshape: _reshape,
    Slice: _slice,
    Softmax: _along,
    SoftmaxCrossEntropy: _each,
    Stack: _stack,
    StopGradient: _each,
    Sum: _over,
    SymbolCrossEntropy: _each,
    Transpose: _transpose,
}
