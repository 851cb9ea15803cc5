"""Sums over rows: those of a cell's gates become one sum over the rows of all; rows that an index adds up to fewer ones
are summed over these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.broadcast import Sum
from graphnet.ops.index import ScatterAdd
from graphnet.ops.shape import split
from graphnet.passes.analysis import replace_groups, varying_nodes
from graphnet.passes.joining import Joins


def stack_reductions(graph: Graph) -> Graph:
    """Σ_rows a, Σ_rows b, ... = parts of Σ_rows [a | b | ...], where the join is there already; rows that are added
    up by an index likewise. Memory is then read once, in its order.

    a = [a_1; a_2; ...] is recognized as columns of [[a_1 | b_1]; [a_2 | b_2]; ...].
    graph: the graph to change; the result is a new graph.

    >>> a, b = [gn.input((2, 3)) for _ in range(2)], [gn.input((2, 4)) for _ in range(2)]
    >>> rows = gn.concatenate([gn.concatenate(pair, axis=1) for pair in zip(a, b)])
    >>> graph = gn.Graph([rows, gn.sum(gn.concatenate(a), axis=0), gn.sum(gn.concatenate(b), axis=0)])
    >>> [sum("Sum" in repr(n.op) for n in g.order) for g in (graph, gn.passes.stack_reductions(graph))]
    [2, 1]
    """
    inside = _columns_of_joins(graph)
    users: dict[Hashable, list[Node]] = defaultdict(list)
    for node in graph.order:
        key = _kind(node)
        if key is not None and node.inputs[0] in inside:
            users[key, inside[node.inputs[0]][0]].append(node)
    groups = []
    for nodes in users.values():
        nodes.sort(key=lambda n: inside[n.inputs[0]][1])
        join = inside[nodes[0].inputs[0]][0]
        if len(nodes) > 1 and sum(n.inputs[0].shape[1] for n in nodes) == join.shape[1]:
            groups.append(nodes)
    joined = Joins()

    def one_reduction(nodes: list[Node]) -> Sequence[Node]:
        first = nodes[0]
        whole = first.op(joined([n.inputs[0] for n in nodes], 1), *first.inputs[1:])
        return split(whole, nodes, whole.ndim - 1)

    return replace_groups(graph, groups, one_reduction)


def _kind(node: Node) -> Hashable:
    """Key that reductions must share to be joined; None for other nodes."""
    match node.op:
        case Sum(axes=(0,)) if node.inputs[0].ndim == 2:
            return Sum
        case ScatterAdd(axis=0, size=size) if node.inputs[0].ndim == 2:
            index = node.inputs[1]
            return ScatterAdd, size, index if index.op.joins_along is None else index.inputs
    return None


def _columns_of_joins(graph: Graph) -> dict[Node, tuple[Node, int, int]]:
    """For joins of time steps: the join of all gates that has the same values in columns start ... stop - 1."""
    place: dict[tuple[Node, ...], tuple[Node, int, int]] = {}
    joins = [n for n in graph.order if n.op.joins_along == 0]
    for join in joins:
        rows = join.inputs
        if all(r.op.joins_along == 1 for r in rows):
            start = 0
            for column in zip(*(r.inputs for r in rows), strict=False):
                stop = start + column[0].shape[1]
                if all(c.shape[1] == stop - start for c in column):
                    place.setdefault(tuple(column), (join, start, stop))
                start = stop
    return {join: place[join.inputs] for join in joins if join.inputs in place}


def sum_scatters(graph: Graph) -> Graph:
    """Σ_rows x = Σ_rows y, where y[index[i]] += x[i] is in the graph and has fewer rows: each row of x is in one of y.

    The gradient of a bias is then the sum of the gradient of the embedding, which has fewer rows. A sum that does not
    vary (see analysis.varying_nodes) is left alone if y varies.
    graph: the graph to change; the result is a new graph.

    >>> W, index = gn.parameter(np.ones((2, 3), np.float32)), gn.constant(np.array([0, 1, 1, 0]))
    >>> b = gn.parameter(np.ones(3, np.float32))
    >>> graph = gn.Graph(gn.gradient(gn.sum(gn.tanh(W[index] + b)), [W, b]))
    >>> [[n.inputs[0].shape for n in g.order if "Sum" in repr(n.op)] for g in (graph, gn.passes.sum_scatters(graph))]
    [[(4, 3)], [(2, 3)]]
    """
    scatters = [node for node in graph.order if isinstance(node.op, ScatterAdd) and node.op.axis == 0]
    varying = varying_nodes(graph) if scatters else set()
    fewer: dict[Node, Node] = {}
    for node in scatters:
        x, index = node.inputs
        stays = x not in varying and index in varying
        if index.ndim == 1 and not stays and node.shape[0] < fewer.get(x, x).shape[0]:
            fewer[x] = node

    def replace(node: Node) -> Node:
        match node.op:
            case Sum(axes=(0,)) as op if node.inputs[0] in fewer:
                return op(fewer[node.inputs[0]])
        return node

    return graph.rewrite(replace) if fewer else graph
