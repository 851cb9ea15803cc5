"""Cut: long stacks of rows are multiplied and summed one chunk at a time, while the chunk is in the caches.

Stacking (see `products`) makes products large enough to be fast; beyond that size, it only takes memory and misses
caches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

from graphnet.graph.graph import Graph
from graphnet.graph.node import Key, Node
from graphnet.ops.broadcast import CHUNK, Sum
from graphnet.ops.elementwise import add
from graphnet.ops.index import ScatterAdd
from graphnet.ops.linear import MatMul
from graphnet.ops.shape import Slice, edges_of, inputs_between, slice_along
from graphnet.passes.joining import Joins, untransposed

#: Rows of a chunk. Less deep products are slower; of 1024 float32 numbers each, these are 8 MiB.
ROWS = 2048


def cut(graph: Graph, rows: int = ROWS) -> Graph:
    """Σ over many rows = Σ over the first of them + Σ over the next + ..., and [a_1; a_2; ...] b a chunk at a time.

    Sums of a join are cut: aᵀ b, sums over rows, and rows added up by an index. A product is cut if its rows are only
    read in parts, so that each chunk is computed just before its first use. Both need at least 2 `rows` rows. Joins
    whose inputs have equal sizes are cut at the same edges.
    graph: the graph to change; the result is a new graph. rows: number of rows of a chunk; ROWS by default.

    >>> x = [gn.input((2, 3)) for _ in range(4)]
    >>> graph = gn.Graph([gn.sum(gn.concatenate(x), axis=0)], x)
    >>> [sum("Sum" in repr(n.op) for n in g.order) for g in (graph, gn.passes.cut(graph, rows=4))]
    [1, 2]
    """
    chunks = _Chunks(graph, rows)
    return graph.rewrite(chunks.replace)


class _Chunks:
    def __init__(self, graph: Graph, rows: int) -> None:
        self._rows = rows
        self._joined = Joins()
        #: For products that are read in parts only: the chunks to compute. First as they are in the graph, then
        #: as they are rewritten.
        self._read_in_parts = _products_read_in_parts(graph, rows)
        self._originals = iter(graph.order)
        self._cut: dict[Node, list[tuple[int, int]]] = {}
        self._made: dict[tuple[Node, int], Node] = {}

    def replace(self, node: Node) -> Node:
        original = next(self._originals)
        if original in self._read_in_parts:
            self._cut[node] = self._read_in_parts[original]
            return node
        match node.op:
            case Slice(key=key) if node.inputs[0] in self._cut:
                return self._part_of_product(node, key)
        operands = _added_up(node)
        return (
            self._sum(node, operands) if operands is not None and operands[-1].op.joins_along == 0 else node
        )

    def _part_of_product(self, node: Node, key: Key) -> Node:
        """Part of a long product that a slice reads, computed from one of its chunks."""
        first, *rest = key
        assert not isinstance(first, int)
        (product,) = node.inputs
        chunks = self._cut[product]
        start, stop = chunks[bisect_right(chunks, first[0], key=lambda s: s[0]) - 1]
        chunk = self._made.get((product, start))
        if chunk is None:
            a, b = product.inputs
            some = self._chunk(a, start, stop)
            if some is None:
                some = slice_along(a, 0, (start, stop, 1))
            chunk = self._made[product, start] = some @ b
        return Slice(((first[0] - start, first[1] - start, 1), *rest))(chunk)

    def _sum(self, node: Node, operands: Sequence[Node]) -> Node:
        terms = []
        for start, stop in _chunks(edges_of(operands[-1]), self._rows):
            found = [x for y in operands if (x := self._chunk(y, start, stop)) is not None]
            if len(found) < len(operands):
                return node
            terms.append(_of_rows(node, found))
        return _total(terms) if len(terms) > 1 else node

    def _chunk(self, x: Node, start: int, stop: int) -> Node | None:
        """Rows start ... stop - 1; None if this would split an input of a join."""
        if x.op.joins_along != 0:
            return slice_along(x, 0, (start, stop, 1))
        found = inputs_between(x, start, stop)
        return None if found is None else self._joined(found, 0)


def _products_read_in_parts(graph: Graph, rows: int) -> dict[Node, list[tuple[int, int]]]:
    """Products of many rows of which each reader uses some, with chunks that do not split a reader's rows."""
    long = {n for n in graph.order if n.op.is_product and n.ndim == 2 and n.shape[0] >= 2 * rows}
    readers: dict[Node, list[Node]] = {node: [] for node in long.difference(graph.outputs)}
    for node in graph.order if readers else ():
        for source in node.inputs:
            if source in readers:
                readers[source].append(node)
    found = {}
    for product, its_readers in readers.items():
        read = [_rows_read(reader) for reader in its_readers]
        parts = sorted({part for part in read if part is not None})
        if None in read or any(b[0] < a[1] for a, b in pairwise(parts)):
            continue
        chunks = _chunks([parts[0][0], *(stop for _, stop in parts)], rows)
        if len(chunks) > 1:
            found[product] = chunks
    return found


def _rows_read(reader: Node) -> tuple[int, int] | None:
    match reader.op:
        case Slice(key=((start, stop, 1), *_)) if start < stop:
            return start, stop
    return None


def _chunks(edges: Sequence[int], rows: int) -> list[tuple[int, int]]:
    first, total = edges[0], max(1, edges[-1] - edges[0])
    count = max(1, total // rows)
    cuts = [first]
    for edge in edges[1:]:
        if (edge - first) * count // total > (cuts[-1] - first) * count // total:
            cuts.append(edge)
    return list(pairwise(cuts))


def _added_up(node: Node) -> tuple[Node, ...] | None:
    """The matrices (and index) whose rows are added up; last the one that decides. None for other nodes."""
    match node.op:
        case Sum(axes=(0,)) if node.inputs[0].ndim == 2:
            return node.inputs
        case ScatterAdd(axis=0):
            x, index = node.inputs
            return (index, x) if x.ndim == 2 and index.ndim == 1 else None
        case MatMul():
            a, b = node.inputs
            turned = untransposed(a)
            return None if turned is None else (turned, b)
    return None


def _total(terms: Sequence[Node]) -> Node:
    """Σ terms, each added as soon as it is computed; in chunks, since long chains have larger rounding errors."""
    if len(terms) > CHUNK:
        some = -(-len(terms) // CHUNK)
        terms = [_total(terms[i : i + some]) for i in range(0, len(terms), some)]
    return reduce(add, terms)


def _of_rows(node: Node, rows: Sequence[Node]) -> Node:
    match node.op, *rows:
        case Sum() as op, x:
            return op(x)
        case ScatterAdd() as op, index, x:
            return op(x, index)
    a, b = rows
    return a.T @ b
