"""Combines many small products into few large ones, which run near the machine's peak.

sums      Σ_t a_t b_t = [a_1 | a_2 | ...] [b_1; b_2; ...]: a weight's gradient over time; the gates' part of a state's
rows      a_1 b, a_2 b, ... = [a_1; a_2; ...] b: products of all time steps with one weight
columns   a b_1, a b_2, ... = a [b_1 | b_2 | ...]: the gates of a cell
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.broadcast import Sum
from graphnet.ops.elementwise import Add, add
from graphnet.ops.leaf import After
from graphnet.ops.linear import MatMul
from graphnet.ops.shape import Concatenate, Slice, Transpose, split
from graphnet.passes.analysis import data_dependent, independent_groups, replace_groups, varying_nodes
from graphnet.passes.joining import Joins, transposed, untransposed


def stack_sums(graph: Graph) -> Graph:
    """Σ_t a_t b_t = [a_1 | a_2 | ...] [b_1; b_2; ...], and Σ_t Σ_rows x_t = Σ_rows [x_1; x_2; ...].

    Joins outer products aᵀ b of data (gradients of a weight over time), and products with different weights
    (gradients of a state over gates) unless one of them can be stacked over time instead.
    A product with another reader is left alone: it would be computed twice.
    graph: the graph to change; the result is a new graph.

    >>> x = [gn.input((2, 3)) for _ in range(4)]
    >>> graph = gn.Graph([x[0].T @ x[1] + x[2].T @ x[3]], x)
    >>> [sum("MatMul" in repr(n.op) for n in g.order) for g in (graph, gn.passes.stack_sums(graph))]
    [2, 1]
    """
    of_data = data_dependent(graph.order)
    read_once = graph.read_once
    over_time = {p for group in _row_groups(graph) for p in group}

    def kind(term: Node) -> str:
        """Kind of a term; terms of one kind may be joined; "" for none."""
        if term not in read_once:
            return ""
        match term:
            case Node(op=Sum(axes=(0,)), inputs=(x,)) if x.ndim == 2:
                return "sum over rows"
            case Node(op=MatMul(), inputs=(a, b)) if b in of_data:
                return "outer" if transposed(a) is not None else ""
            case Node(op=MatMul()):
                return "weights over time" if term in over_time else "weights"
        return ""

    sums: dict[Node, list[list[tuple[Path, Node]]]] = {}
    rank: dict[Node, int] = {}
    additions = [node for node in graph.order if isinstance(node.op, Add)]
    absorbed = _inner_sums(additions, read_once)
    for node in additions:
        if node not in absorbed:
            by_kind: dict[str, list[tuple[Path, Node]]] = defaultdict(list)
            for path, term in _terms(node, absorbed):
                by_kind[kind(term)].append((path, term))
            found = [terms for k, terms in by_kind.items() if k and len(terms) > 1]
            if found:
                sums[node] = found
            for terms in found:
                if terms[0][1].op.is_product:
                    terms.sort(key=lambda t: [_place_in_time(x) for x in t[1].inputs])
                    for i, (_, term) in enumerate(terms):
                        rank.setdefault(term.inputs[1], i)
    if not sums:
        return graph
    for found in sums.values():
        for terms in found:
            if not terms[0][1].op.is_product:
                terms.sort(key=lambda t: (rank.get(t[1].inputs[0], 0), _place_in_time(t[1].inputs[0])))
    originals = iter(graph.order)
    joined = Joins()

    def replace(node: Node) -> Node:
        original = next(originals)
        found = sums.get(original)
        if found is None:
            return node
        # Rewritten nodes have new inputs; paths identify them.
        groups = [[path for path, _ in terms] for terms in found]
        everything = [path for path, _ in _terms(original, absorbed)]
        return _joined_sum(node, groups, everything, joined)

    return graph.rewrite(replace)


#: Which input of a sum, of that which input, and so on, through sums that only the next one reads.
Path = tuple[int, ...]
#: Maximum number of nested sums that are followed.
DEEPEST = 4


def _inner_sums(sums: Sequence[Node], read_once: Container[Node]) -> set[Node]:
    """Sums that only another sum reads; they count as part of that one."""
    inner = {node for node in sums if node in read_once}
    depth: dict[Node, int] = {}
    for reader in reversed(sums):
        below = depth.get(reader, 0) + 1
        if below <= DEEPEST:
            depth.update(dict.fromkeys(inner.intersection(reader.inputs), below))
    return set(depth)


def _terms(node: Node, absorbed: set[Node]) -> list[tuple[Path, Node]]:
    found: list[tuple[Path, Node]] = []
    pending: list[tuple[Path, Node]] = [((i,), x) for i, x in reversed(list(enumerate(node.inputs)))]
    while pending:
        path, term = pending.pop()
        if term in absorbed:
            pending += [((*path, i), x) for i, x in reversed(list(enumerate(term.inputs)))]
        else:
            found.append((path, term))
    return found


def _at(node: Node, path: Path) -> Node:
    for i in path:
        node = node.inputs[i]
    return node


def _joined_sum(node: Node, groups: Sequence[Sequence[Path]], paths: Sequence[Path], joined: Joins) -> Node:
    taken = {path for group in groups for path in group}
    terms = [_at(node, path) for path in paths if path not in taken]
    for group in groups:
        same = [_at(node, path) for path in group]
        if same[0].op.is_product:
            terms.append(joined([t.inputs[0] for t in same], 1) @ joined([t.inputs[1] for t in same], 0))
        else:
            terms.append(Sum((0,))(joined([t.inputs[0] for t in same], 0)))
    return add(*terms) if len(terms) > 1 else terms[0]


def _place_in_time(node: Node) -> tuple[int, int]:
    """Sorts as the user's program runs; joins, by their first input. A number everywhere is an initial state."""
    while isinstance(node.op, (After, Concatenate, Transpose)):
        node = node.inputs[0]
    return (node.source_serial, node.serial) if node.op.everywhere is None else (-1, -1)


def _is_matrix_product(node: Node) -> bool:
    """True for a product of two matrices that has elements."""
    return node.op.is_product and node.ndim == 2 and node.size > 0


def _row_groups(graph: Graph) -> list[list[Node]]:
    """Products of one right operand that do not depend on each other.

    Gradients of weights, aᵀ b, are excluded: the matrices a would have to be copied side by side.
    """
    varying = varying_nodes(graph)
    by_right: dict[tuple[Node, bool], list[Node]] = defaultdict(list)
    for node in graph.order:
        if _is_matrix_product(node) and untransposed(node.inputs[0]) is None:
            by_right[node.inputs[1], node in varying].append(node)
    groups = independent_groups(graph.order, list(by_right.values()))
    # In the order of other joins of the same rows: the rows are then in memory once.
    places = _places(graph)
    result = [rows for group in groups for rows in _rows_by_join(group, places)]
    return [rows for rows in result if len(rows) > 1]


def _rows_by_join(group: Sequence[Node], places: Mapping[Node, Mapping[int, int]]) -> list[list[Node]]:
    """Groups of products whose rows belong to one join, largest first; last, products without a join."""
    members: dict[int, dict[Node, int]] = defaultdict(dict)
    for product in group:
        for number, place in places.get(product.inputs[0], {-1: 0}).items():
            members[number][product] = place
    found: list[list[Node]] = []
    taken: set[Node] = set()
    for number in sorted(members, key=lambda n: (n < 0, -len(members[n]), n)):
        rows = [p for p in members[number] if p not in taken]
        at = members[number]
        rows.sort(key=lambda p: (at[p], _place_in_source(p.inputs[0])))
        taken.update(rows)
        found.append(rows)
    return found


def _place_in_source(x: Node) -> tuple[int, ...]:
    match x.op:
        case Slice(key=key):
            return tuple(k if isinstance(k, int) else k[0] for k in key)
    return ()


def _places(graph: Graph) -> dict[Node, dict[int, int]]:
    """For each input of joins along rows: number of the join -> place in it."""
    places: dict[Node, dict[int, int]] = {}
    joins = [(n, axis) for n in graph.order if (axis := n.op.joins_along) is not None]
    for number, (join, axis) in enumerate(joins):
        if axis == 0:
            for i, x in enumerate(join.inputs):
                places.setdefault(x, {}).setdefault(number, i)
    for join, axis in joins:
        if axis == 1 and join.inputs[0] in places:
            places.setdefault(join, places[join.inputs[0]])
    return places


def stack_rows(graph: Graph) -> Graph:
    """a_1 b, a_2 b, ... = [a_1; a_2; ...] b, where no a_i depends on another's product.

    graph: the graph to change; the result is a new graph.

    >>> x, W = [gn.input((2, 3)) for _ in range(4)], gn.parameter(np.ones((3, 5), np.float32))
    >>> graph = gn.Graph([each @ W for each in x], x)
    >>> [sum("MatMul" in repr(n.op) for n in g.order) for g in (graph, gn.passes.stack_rows(graph))]
    [4, 1]
    """
    joined = Joins()

    def one_product(products: list[Node]) -> Sequence[Node]:
        product = joined([p.inputs[0] for p in products], 0) @ products[0].inputs[1]
        return split(product, products, 0)

    return replace_groups(graph, _row_groups(graph), one_product)


def stack_columns(graph: Graph) -> Graph:
    """a b_1, a b_2, ... = a [b_1 | b_2 | ...], where no b_i depends on another's product.

    Joins of time steps with each other only: their columns are then joined step by step, as sums over rows need them.
    graph: the graph to change; the result is a new graph.

    >>> x, W = gn.input((2, 3)), [gn.parameter(np.ones((3, 5), np.float32)) for _ in range(4)]
    >>> graph = gn.Graph([x @ each for each in W], [x])
    >>> [sum("MatMul" in repr(n.op) for n in g.order) for g in (graph, gn.passes.stack_columns(graph))]
    [4, 1]
    """
    of_data, varying = data_dependent(graph.order), varying_nodes(graph)
    by_left: dict[tuple[Node, bool, bool, bool], list[Node]] = defaultdict(list)
    for node in graph.order:
        if _is_matrix_product(node):
            a, b = node.inputs
            of_steps = b in of_data and b.op.joins_along is not None
            by_left[a, b in of_data, of_steps, node in varying].append(node)
    weights: list[list[Node]] = []
    others: list[list[Node]] = []
    for (a, b_moves, *_), found in by_left.items():
        # A node that depends on no input depends on none of these products.
        (weights if a in of_data and not b_moves else others).append(found)
    groups = [*(found for found in weights if len(found) > 1), *independent_groups(graph.order, others)]
    joined = Joins()

    def one_product(products: list[Node]) -> Sequence[Node]:
        ordered = sorted(products, key=lambda p: _place_in_time(p.inputs[1]))
        product = ordered[0].inputs[0] @ joined([p.inputs[1] for p in ordered], 1)
        found = dict(zip(ordered, split(product, ordered, 1), strict=True))
        return [found[p] for p in products]

    return replace_groups(graph, groups, one_product)
