"""Nothing is computed that no output needs (prune), and nothing twice (merge)."""

from __future__ import annotations

from collections.abc import Callable

from graphnet.graph.graph import Graph, rewrite
from graphnet.graph.node import Node, Op
from graphnet.ops.leaf import Label, StopGradient
from graphnet.ops.shape import Slice


def prune(graph: Graph) -> Graph:
    """Removes labels and stop-gradients (derivatives have been taken already), and lets a slice of a joined array
    read the join's input itself, so that unread inputs are not computed.

    A Graph never contains nodes that no output depends on.
    graph: the graph to change; the result is a new graph.

    >>> x = gn.input(3)
    >>> graph = gn.Graph([gn.label(gn.exp(x), "y")], [x])
    >>> len(graph), len(gn.passes.prune(graph))
    (3, 2)
    """
    return graph.rewrite(_pruned)


def _pruned(node: Node) -> Node:
    match node.op:
        case Label() | StopGradient():
            return node.inputs[0]
        case Slice(key=key):
            (x,) = node.inputs
            smaller = x.op.sliced(key, x, *x.inputs)
            return node if smaller is None else smaller
    return node


def merge(graph: Graph) -> Graph:
    """Nodes with equal ops and the same inputs become one (the first); inputs first, so in one sweep.

    Inputs, parameters and random nodes are equal to themselves alone. Labels keep their own names.
    graph: the graph to change; the result is a new graph.

    >>> x = gn.input(3)
    >>> graph = gn.Graph([gn.exp(x) + gn.exp(x)], [x])
    >>> len(graph), len(gn.passes.merge(graph))
    (4, 3)
    """
    first = _first_of_equals()
    return graph.rewrite(lambda node: node if node.op.is_label else first(node))


def values_of(graph: Graph, is_passed: Callable[[Node], bool] = lambda node: False) -> dict[Node, Node]:
    """Representative of the value of each node: one node for all that compute the same value, through labels.

    is_passed: True for a node that stands for its second input: a choice whose condition holds where it matters.
    """
    first = _first_of_equals()

    def stands(node: Node) -> Node:
        if node.op.is_label:
            return node.inputs[0]
        return node.inputs[1] if is_passed(node) else first(node)

    done = rewrite(graph.order, stands)
    return {node: done.get(node, node) for node in graph.order}


def _first_of_equals() -> Callable[[Node], Node]:
    """Returns a function that maps a node to the first one with the same op and inputs. Map its inputs first."""
    first: dict[tuple[int, int, tuple[Node, ...]], Node] = {}
    # Hashing the settings of an op takes longest here, and many nodes share one op.
    equal: dict[Op, Op] = {}
    known: dict[int, int] = {}

    def replace(node: Node) -> Node:
        op = node.op
        kind = known.get(id(op))
        if kind is None:
            kind = known[id(op)] = id(equal.setdefault(op, op))
        return first.setdefault((kind, node.dtype.num, node.inputs), node)

    return replace
