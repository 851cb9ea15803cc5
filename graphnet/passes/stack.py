"""Stack: many small products become one large one."""

from __future__ import annotations

from collections.abc import Sequence

from graphnet.graph import Graph
from graphnet.node import Node
from graphnet.ops.elementwise import Add, add
from graphnet.ops.linear import MatMul
from graphnet.ops.shape import Transpose, concatenate

__all__ = ["stack"]


def stack(graph: Graph) -> Graph:
    """Σ_t a_tᵀ b_t = [a_1; ...; a_T]ᵀ [b_1; ...; b_T]: the gradient of a weight used at T time steps.

    One product over all rows runs near the machine's peak, where T thin ones and T additions of the
    weight's size do not. Costs a copy of the factors, each of which several weights often share.
    """
    return graph.rewrite(_replace)


def _replace(node: Node) -> Node:
    if not isinstance(node.op, Add):
        return node
    products = [term for term in node.inputs if _is_outer(term)]
    if len(products) < 2:
        return node
    rest = [term for term in node.inputs if not _is_outer(term)]
    return add(_stacked(products), *rest)


def _is_outer(term: Node) -> bool:
    """A product aᵀ b that sums over rows of a and b."""
    if not isinstance(term.op, MatMul):
        return False
    left = term.inputs[0].op
    return isinstance(left, Transpose) and left.axes == (1, 0)


def _stacked(products: Sequence[Node]) -> Node:
    rows_a = concatenate([term.inputs[0].inputs[0] for term in products])
    rows_b = concatenate([term.inputs[1] for term in products])
    return rows_a.T @ rows_b
