"""Unstack: replaces computations on a stack of all time steps by computations on chunks of it.

`recompute` can then drop such a chunk as a whole, its loss included.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.graph.provenance import Provenance, attributed_to
from graphnet.ops.broadcast import Sum
from graphnet.ops.elementwise import add
from graphnet.ops.shape import Slice, Stack, slice_along

#: The `source_serial` of nodes that belong where their inputs do, not to one place in the user's program.
ANYWHERE = -1
#: Maximum number of ops that are followed from a stack.
DEEPEST = 64


def unstack(graph: Graph, segment: Mapping[Node, int]) -> Graph:
    """f([a_1; a_2; ...]) = [f([a_1; ...]); f([a_k; ...]); ...], where f works on each row alone.

    segment: for (most) nodes, a number. Inputs of a stack that follow each other and have one number stay together.
    Applies where rows of the result are read one by one, or summed up.
    """
    chunks = _Chunks(segment)

    def unstacked(node: Node) -> Node:
        new = chunks.without_stack(node)
        chunks.meet(new)
        return new

    return graph.rewrite(unstacked)


class _Chunks:
    """Computes rows of x without all of x, for nodes computed from a stack by row-wise ops."""

    def __init__(self, segment: Mapping[Node, int]) -> None:
        self._segment = segment
        #: For nodes whose rows come from the inputs of a stack: where its chunks begin and end, and how many ops
        #: lie between.
        self._edges: dict[Node, list[int]] = {}
        self._depth: dict[Node, int] = {}
        self._found: dict[tuple[Node, range], Node | None] = {}
        self._deep = 0

    def meet(self, node: Node) -> None:
        """To be called for each node, inputs first."""
        match node.op:
            case Stack(axis=0):
                numbers = [self._segment.get(x) for x in node.inputs]
                inner = [i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if a != b]
                self._edges[node], self._depth[node] = [0, *inner, len(numbers)], 0
                return
        sources = [x for x in node.inputs if x in self._edges]
        depth = 1 + max((self._depth[x] for x in sources), default=DEEPEST)
        offset = node.op.row_offset(node, *node.inputs) if node.shape and depth <= DEEPEST else None
        if offset is not None:
            self._edges[node], self._depth[node] = _edges(node, self._edges[sources[0]], offset), depth

    def without_stack(self, node: Node) -> Node:
        edges = self._edges.get(node.inputs[0]) if node.inputs else None
        if edges is None or len(edges) < 3:
            return node
        chunks = [range(a, b) for a, b in pairwise(edges)]
        with attributed_to() as made:
            made.model = Provenance(node.origin, node.scope, ANYWHERE)
            match node.op:
                case Slice(key=(int(at), *rest)):
                    (some,) = [rows for rows in chunks if at in rows]
                    chunk = self(node.inputs[0], some)
                    return node if chunk is None else Slice((at - some.start, *rest))(chunk)
                case Sum(axes=axes) as op if 0 in axes:
                    found = [s for rows in chunks if (s := self(node.inputs[0], rows)) is not None]
                    return add(*[op(s) for s in found]) if len(found) == len(chunks) else node
        return node

    def __call__(self, x: Node, some: range) -> Node | None:
        """These rows of x; None where x is made of a stack, but not row by row."""
        key = x, some
        if key not in self._found:
            found = None
            if x in self._edges or self._deep < DEEPEST:
                self._deep += 1
                found = x.op.rows(some, self, x, *x.inputs)
                self._deep -= 1
            if found is None and x not in self._edges:
                found = slice_along(x, 0, (some.start, some.stop, 1))
            self._found[key] = found
        return self._found[key]


def _edges(node: Node, edges: list[int], offset: int) -> list[int]:
    """Boundaries of the chunks of a node, from those of an input whose row i + offset makes row i."""
    size = node.shape[0]
    return [0, *[edge - offset for edge in edges if 0 < edge - offset < size], size]
