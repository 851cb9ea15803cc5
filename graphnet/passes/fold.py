"""Fold: what depends on constants alone is computed once, now."""

from __future__ import annotations

import numpy as np

from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops.leaf import constant, fill

__all__ = ["fold"]

#: A constant may not grow by folding beyond this many bytes (a broadcast of a small one would).
LARGEST = 1 << 16


def fold(graph: Graph) -> Graph:
    """Replaces nodes whose inputs are all constants by a constant, unless that would take much memory.

    Elementwise ops on numbers that fill a shape stay numbers that fill a shape. A node that fails, or
    makes a NaN or an infinity, is left: it must do so where and when it runs.
    """
    return graph.rewrite(_replace)


def _replace(node: Node) -> Node:
    if not node.inputs or not all(x.op.is_constant for x in node.inputs):
        return node
    numbers = [np.asarray(x.op.everywhere, x.dtype) for x in node.inputs if x.op.everywhere is not None]
    if len(numbers) == len(node.inputs) and node.op.is_elementwise:
        number = _evaluate(node, numbers)
        return node if number is None else fill(number.item(), node.shape, node.dtype)
    limit = max(LARGEST, *(x.nbytes if x.op.everywhere is None else 0 for x in node.inputs))
    if node.nbytes > limit:
        return node
    value = _evaluate(node, [x.op.forward() for x in node.inputs])
    return node if value is None else constant(value)


def _evaluate(node: Node, arrays: list[Array]) -> Array | None:
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(node.op.forward(*arrays))
    except Exception:  # the node fails on these constants: let it fail at run time, with its origin
        return None
    return value if value.dtype.kind != "f" or np.isfinite(value).all() else None
