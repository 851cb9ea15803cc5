"""Sum scatters: rows that an index adds up to fewer ones are summed over these."""

from __future__ import annotations

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.broadcast import Sum
from graphnet.ops.index import ScatterAdd
from graphnet.passes.analysis import varying_nodes

__all__ = ["sum_scatters"]


def sum_scatters(graph: Graph) -> Graph:
    """Σ_rows x = Σ_rows y, where y[index[i]] += x[i] is there already and has fewer rows: each row of x is in one of y.

    So is a bias' gradient found from that of the symbols, which are few beside all steps of all cases. A sum that stays
    from one run to the next (see analysis.varying_nodes) is left alone where y does not.
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
