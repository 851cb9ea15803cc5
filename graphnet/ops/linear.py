"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet.dtypes import common_dtype
from graphnet.errors import ShapeError, table_of_inputs
from graphnet.node import OPERATORS, Array, Node, Op
from graphnet.ops.broadcast import broadcast_to
from graphnet.ops.elementwise import cast
from graphnet.ops.leaf import as_node
from graphnet.ops.shape import Transpose, reshape

__all__ = ["BatchMatMul", "MatMul", "matmul"]


class Product(Op):
    """What the products share: dtypes are made equal first, and both inputs enter linearly."""

    symbol = "@"
    zero_if = "any"

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        nodes = Op.prepare(self, inputs)
        dtype = common_dtype(self.name, nodes)
        return tuple([node if node.dtype == dtype else cast(node, dtype) for node in nodes])

    def forward(self, a: Array, b: Array) -> Array:
        return np.matmul(a, b)

    def backward(self, gc: Node, c: Node, a: Node, b: Node) -> Sequence[Node]:
        return self(gc, _T(b)), self(_T(a), gc)

    def rop(self, ra: Node, rb: Node, c: Node, a: Node, b: Node) -> Node:
        return self(ra, b) + self(a, rb)


class MatMul(Product):
    """c[n, m] = Σ_k a[n, k] b[k, m]"""

    signature = "n k, k m -> n m"


class BatchMatMul(Product):
    """c[i, n, m] = Σ_k a[i, n, k] b[i, k, m]"""

    signature = "i n k, i k m -> i n m"


_SWAPS = {2: Transpose((1, 0)), 3: Transpose((0, 2, 1))}


def _T(matrix: Node) -> Node:
    """The matrix, or each matrix of a batch, transposed."""
    return _SWAPS[matrix.ndim](matrix)


def matmul(a: Any, b: Any) -> Node:
    """c = a @ b, by NumPy's rules: vectors are rows or columns, leading axes are batches (broadcast).

    Raises ShapeError if the inner sizes differ or an operand is a scalar.
    """
    a, b = as_node(a), as_node(b)
    if not a.shape or not b.shape:
        raise ShapeError("MatMul: a scalar has no product; use * instead." + table_of_inputs([a, b]))
    if a.ndim == 2 and b.ndim == 2:
        return MatMul()(a, b)
    inner = a.shape[-1], b.shape[-2] if b.ndim > 1 else b.shape[0]
    if inner[0] != inner[1]:
        raise ShapeError(
            f"MatMul: axis k is {inner[0]} in input 1 but {inner[1]} in input 2."
            + table_of_inputs([a, b], "... n k, ... k m -> ... n m")
        )
    rows = a if a.ndim > 1 else reshape(a, (1, *a.shape))
    columns = b if b.ndim > 1 else reshape(b, (*b.shape, 1))
    n, m = rows.shape[-2], columns.shape[-1]
    if columns.ndim == 2:
        # One matrix for all batches: the batches are more rows of one product.
        product = MatMul()(reshape(rows, (math.prod(rows.shape[:-1]), inner[0])), columns)
        leading = rows.shape[:-2]
    else:
        try:
            leading = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
        except ValueError:
            raise ShapeError("MatMul: the leading axes do not broadcast." + table_of_inputs([a, b])) from None
        count = math.prod(leading)
        product = BatchMatMul()(
            reshape(broadcast_to(rows, (*leading, *rows.shape[-2:])), (count, n, inner[0])),
            reshape(broadcast_to(columns, (*leading, *columns.shape[-2:])), (count, inner[0], m)),
        )
    tail = ((n,) if a.ndim > 1 else ()) + ((m,) if b.ndim > 1 else ())
    return reshape(product, (*leading, *tail))


OPERATORS["matmul"] = matmul
