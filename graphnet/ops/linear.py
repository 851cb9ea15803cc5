"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet.errors import ShapeError, table_of_inputs
from graphnet.graph.dtypes import BOOL, INT64, common_dtype
from graphnet.graph.node import OPERATORS, Array, Node, Op, shared
from graphnet.ops.broadcast import Sum, broadcast_to
from graphnet.ops.elementwise import cast
from graphnet.ops.leaf import as_node
from graphnet.ops.shape import Transpose, reshape


def as_common_dtype(op_name: str, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the nodes, cast to their common dtype."""
    dtype = common_dtype(op_name, nodes)
    return tuple([node if node.dtype == dtype else cast(node, dtype) for node in nodes])


class Product(Op):
    """Base of the matrix products: inputs are cast to one dtype; the product is linear in each."""

    symbol = "@"
    zero_if = "any"
    is_product = True

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        return as_common_dtype(self.name, Op.prepare(self, inputs))

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        """For booleans: True where a row and a column are both true in some place."""
        return None if y.dtype != BOOL else self(*[cast(x, INT64) for x in inputs]) > 0

    def forward(self, a: Array, b: Array) -> Array:
        return np.matmul(a, b)

    def backward(self, gc: Node, c: Node, a: Node, b: Node) -> Sequence[Node]:
        return self(gc, _T(b)), self(_T(a), gc)

    def rop(self, ra: Node, rb: Node, c: Node, a: Node, b: Node) -> Node:
        return self(ra, b) + self(a, rb)


class MatMul(Product):
    """c[n, m] = Σ_k a[n, k] b[k, m]"""

    signature = "n k, k m -> n m"

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return ((0, None), (None, 1))[axis]


class BatchMatMul(Product):
    """c[i, n, m] = Σ_k a[i, n, k] b[i, k, m]"""

    signature = "i n k, i k m -> i n m"

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return ((0, 0), (1, None), (None, 2))[axis]

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0


class ScaledMatMul(Op):
    """y[b, m] = Σ_n x[b, n] W[n, m] S[b, n, m],  S[b, n, m] = Σ_r u[b, r, n] v[b, r, m]

    Each case has its own W ∘ S, but neither forward nor backward builds that matrix: they need memory of the size
    of u and v. Source: Suarez 2017, eq. 8.
    """

    signature = "b n, n m, b r n, b r m -> b m"
    symbol = "@∘"
    zero_if = "any"

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        return as_common_dtype(self.name, Op.prepare(self, inputs))

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return ((0, None, 0, 0), (None, 1, None, 2))[axis]

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        x, W, u, v = inputs
        return Sum((1,))(reshape(scaled_rows(x, u) @ W, v.shape) * v)

    def forward(self, x: Array, W: Array, u: Array, v: Array) -> Array:
        y = np.zeros((x.shape[0], W.shape[1]), x.dtype)
        for r in range(u.shape[1]):
            y += (x * u[:, r]) @ W * v[:, r]
        return y

    def backward(self, gy: Node, y: Node, x: Node, W: Node, u: Node, v: Node) -> Sequence[Node]:
        xu, gv = scaled_rows(x, u), scaled_rows(gy, v)
        back = reshape(gv @ _T(W), u.shape)
        return (
            Sum((1,))(u * back),
            _T(xu) @ gv,
            reshape(x, (x.shape[0], 1, x.shape[1])) * back,
            reshape(gy, (gy.shape[0], 1, gy.shape[1])) * reshape(xu @ W, v.shape),
        )

    def rop(
        self, rx: Node, rW: Node, ru: Node, rv: Node, y: Node, x: Node, W: Node, u: Node, v: Node
    ) -> Node:
        return self(rx, W, u, v) + self(x, rW, u, v) + self(x, W, ru, v) + self(x, W, u, rv)


def scaled_rows(x: Node, factors: Node) -> Node:
    """x[b, n] factors[b, r, n], one row for each b and r"""
    b, r, n = factors.shape
    return reshape(reshape(x, (b, 1, n)) * factors, (b * r, n))


_SWAPS = {2: Transpose((1, 0)), 3: Transpose((0, 2, 1))}


def _T(matrix: Node) -> Node:
    return _SWAPS[matrix.ndim](matrix)


def matmul(a: Any, b: Any) -> Node:
    """c = a @ b, by NumPy's rules: vectors are rows or columns, leading axes are batches (broadcast).

    a: (..., n, k) or (k,). b: (..., k, m) or (k,). Nodes or arrays, cast to a common dtype that holds
    all their values. Raises ShapeError if the inner sizes differ or an operand is a scalar.

    >>> gn.compile(gn.matmul([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]))()[0].tolist()
    [21.0, 43.0]
    """
    a, b = as_node(a), as_node(b)
    if not a.shape or not b.shape:
        raise ShapeError("MatMul: a scalar has no product; use * instead." + table_of_inputs([a, b]))
    if a.ndim == 2 and b.ndim == 2:
        return shared(MatMul)(a, b)
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
        product = shared(MatMul)(reshape(rows, (math.prod(rows.shape[:-1]), inner[0])), columns)
        leading = rows.shape[:-2]
    else:
        try:
            leading = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
        except ValueError:
            raise ShapeError("MatMul: the leading axes do not broadcast." + table_of_inputs([a, b])) from None
        count = math.prod(leading)
        product = shared(BatchMatMul)(
            reshape(broadcast_to(rows, (*leading, *rows.shape[-2:])), (count, n, inner[0])),
            reshape(broadcast_to(columns, (*leading, *columns.shape[-2:])), (count, inner[0], m)),
        )
    tail = ((n,) if a.ndim > 1 else ()) + ((m,) if b.ndim > 1 else ())
    return reshape(product, (*leading, *tail))


def scaled_matmul(x: Any, W: Any, u: Any, v: Any) -> Node:
    """y_b = x_b (W ∘ Σ_r u_br v_brᵀ): each case multiplies by W scaled by its own matrix of low rank.

    x: (b, n). W: (n, m). u: (b, r, n). v: (b, r, m). The result is (b, m). The scaled matrices are never built.
    Raises ShapeError where the shapes do not fit.
    Source: Suarez 2017, eq. 8.

    >>> x, W = np.ones((1, 2)), np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> u, v = np.array([[[1.0, 0.0]]]), np.array([[[1.0, 10.0]]])
    >>> gn.compile(gn.scaled_matmul(x, W, u, v))()[0].tolist()
    [[1.0, 20.0]]
    """
    return shared(ScaledMatMul)(x, W, u, v)


OPERATORS["matmul"] = matmul
