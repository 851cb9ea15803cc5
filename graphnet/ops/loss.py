"""The three losses, each combined with its output nonlinearity: stable, and convex in the pre-outputs.

All are in nats (squared error: in units squared) and keep the cases apart: take `mean` or `sum` for a
cost. `judged_input` marks the pre-output at which the Gauss-Newton matrix linearizes the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from graphnet.errors import DtypeError, GraphnetError, ShapeError, table_of_inputs
from graphnet.graph.dtypes import BOOL, FLOAT64, common_dtype, is_float
from graphnet.graph.node import Array, Dtype, Node, Op, Shape, shared
from graphnet.ops.broadcast import Sum, summed
from graphnet.ops.elementwise import Elementwise, cast, equal, exp, log, sigmoid, sqrt, where
from graphnet.ops.elementwise.base import as_nodes_together
from graphnet.ops.index import OneHot, one_hot
from graphnet.ops.leaf import as_node, fill, zeros
from graphnet.ops.linear import matmul
from graphnet.ops.reduce import log_softmax, log_softmax_nodes, shifted, shifted_node, softmax, spread
from graphnet.ops.shape import transpose


@runtime_checkable
class SaysHessian(Protocol):
    """A loss that is convex in the pre-outputs z and defines its Hessian H there, times gC, the slope of the cost."""

    def curvature_diagonal(self, gC: Node, z: Node, t: Node) -> Node:
        """H's diagonal, of the shape of z."""

    def curvature_root(self, gC: Node, noise: Node, z: Node, t: Node) -> Node:
        """L noise, L Lᵀ = H."""

    def curvature_form(self, gC: Node, v: Node, z: Node, t: Node) -> Node:
        """vᵀ H v of each case."""

    def curvature_rows(self, gC: Node, v: Node, u: Node, z: Node, t: Node) -> Node:
        """vᵀ H u for each case and row of u."""


class _CrossEntropy(Op):
    symbol = "cross-entropy"
    judged_input: ClassVar[int | None] = 0

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        z, t = Op.prepare(self, inputs)
        return z if is_float(z.dtype) else cast(z, FLOAT64), t

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        result = Op.infer(self, *inputs)
        if inputs[0].shape[-1] == 0:
            raise ShapeError(
                f"{self.name}: the last axis of the logits has size 0." + table_of_inputs(inputs)
            )
        return result

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0

    def aligned_axes(self, axis: int, y: Node, *inputs: Node) -> Sequence[int | None] | None:
        return axis, axis

    def weights(self, z: Node, t: Node) -> Node | None:
        """Returns the sum of the targets of each case; None where it is 1."""
        return None

    def curvature_diagonal(self, gC: Node, z: Node, t: Node) -> Node:
        """gC diag(∂²C/∂z²) = gC π (1 - π), π = softmax(z)"""
        pi = softmax(z)
        return self._spread(gC, z, t) * pi * (1 - pi)

    def curvature_root(self, gC: Node, noise: Node, z: Node, t: Node) -> Node:
        """√gC (√π ε - π √πᵀε): its covariance is gC (diag π - π πᵀ), the Hessian, if that of the noise ε is I."""
        pi, last = softmax(z), (z.ndim - 1,)
        rooted = sqrt(pi) * noise
        return sqrt(self._spread(gC, z, t)) * (rooted - pi * spread(Sum(last)(rooted), z, last))

    def curvature_form(self, gC: Node, v: Node, z: Node, t: Node) -> Node:
        """gC vᵀ (∂²C/∂z²) v for each case: gC (Σ_k π_k v_k² - (Σ_k π_k v_k)²)"""
        pi, last = softmax(z), (z.ndim - 1,)
        mean = Sum(last)(pi * v)
        weights = self.weights(z, t)
        return (gC if weights is None else gC * weights) * (Sum(last)(pi * v * v) - mean * mean)

    def curvature_rows(self, gC: Node, v: Node, u: Node, z: Node, t: Node) -> Node:
        """gC v_iᵀ (∂²C/∂z²) u_i = gC (Σ_k π_k v_ik u_ik - Σ_k π_k v_ik Σ_k π_k u_ik) for each case and row of matrices

        v, u: (rows, symbols). z: (cases, symbols). The result is (cases, rows).
        """
        pi = softmax(z)
        means = matmul(pi, transpose(v)), matmul(pi, transpose(u))
        found, weights = matmul(pi, transpose(v * u)) - means[0] * means[1], self.weights(z, t)
        return spread(gC if weights is None else gC * weights, found, (1,)) * found

    def _spread(self, gC: Node, z: Node, t: Node) -> Node:
        weights = self.weights(z, t)
        return spread(gC if weights is None else gC * weights, z, (z.ndim - 1,))

    def log_probabilities(self, logits: Array) -> Array:
        x = shifted(logits, -1)
        return x - np.log(summed(np.exp(x), (-1,), keepdims=True))


class SoftmaxCrossEntropy(_CrossEntropy):
    """C = -Σ_k t_k log softmax(z)_k, t a distribution over the last axis"""

    signature = "... k, ... k -> ..."

    def prepare(self, inputs: Sequence[Any]) -> tuple[Node, ...]:
        z, t = _CrossEntropy.prepare(self, inputs)
        dtype = common_dtype(self.name, [z, t])
        return cast(z, dtype), cast(t, dtype)

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        z, t = inputs
        last = z.ndim - 1
        return -Sum((last,))(where(equal(t, 0), 0, t * log_softmax_nodes(z, last)))

    def forward(self, z: Array, t: Array) -> Array:
        # 0 log 0 = 0: classes with target 0 cost nothing, even if their probability is 0.
        terms = np.where(t == 0, 0, t * self.log_probabilities(z))
        return -summed(terms, (-1,))

    def weights(self, z: Node, t: Node) -> Node | None:
        return Sum((z.ndim - 1,))(t)

    def _partials(self, z: Node, t: Node) -> tuple[Node, Node]:
        last = (z.ndim - 1,)
        return softmax(z) * spread(Sum(last)(t), z, last) - t, -log_softmax(z)

    def backward(self, gC: Node, C: Node, z: Node, t: Node) -> Sequence[Node]:
        g = spread(gC, z, (z.ndim - 1,))
        return [g * partial for partial in self._partials(z, t)]

    def rop(self, rz: Node, rt: Node, C: Node, z: Node, t: Node) -> Node:
        by_z, by_t = self._partials(z, t)
        return Sum((z.ndim - 1,))(rz * by_z + rt * by_t)


class SymbolCrossEntropy(_CrossEntropy):
    """C = -log softmax(z)_t, t the index of the correct class"""

    signature = "... k, ... -> ..."

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        z, t = inputs
        last = z.ndim - 1
        from_top = shifted_node(z, last)
        right = OneHot(z.shape[last], BOOL)(t)
        return log(Sum((last,))(exp(from_top))) - Sum((last,))(where(right, from_top, 0))

    def index_size(self, position: int, *inputs: Node) -> int | None:
        return inputs[0].shape[-1] if position == 1 else None

    def forward(self, z: Array, t: Array) -> Array:
        if t.size and (t.min() < 0 or t.max() >= z.shape[-1]):
            wrong = int(t.min() if t.min() < 0 else t.max())
            raise GraphnetError(
                f"SymbolCrossEntropy: target {wrong} is out of range: it must be 0 ... {z.shape[-1] - 1}."
            )
        log_p = self.log_probabilities(z)
        return -np.take_along_axis(log_p, t[..., None], axis=-1)[..., 0]

    def _partial(self, z: Node, t: Node) -> Node:
        return softmax(z) - one_hot(t, z.shape[-1], z.dtype)

    def backward(self, gC: Node, C: Node, z: Node, t: Node) -> Sequence[Node]:
        return spread(gC, z, (z.ndim - 1,)) * self._partial(z, t), zeros(t.shape, gC.dtype)

    def rop(self, rz: Node, rt: Node, C: Node, z: Node, t: Node) -> Node:
        return Sum((z.ndim - 1,))(rz * self._partial(z, t))


class _ElementwiseLoss(Elementwise):
    arity = 2
    domain = "float"
    judged_input: ClassVar[int | None] = 0

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, inputs[0].dtype

    def curvature(self, z: Node) -> Node:
        """∂²C/∂z²"""
        raise NotImplementedError

    def curvature_diagonal(self, gC: Node, z: Node, t: Node) -> Node:
        """gC ∂²C/∂z²"""
        return gC * self.curvature(z)

    def curvature_form(self, gC: Node, v: Node, z: Node, t: Node) -> Node:
        """gC v² ∂²C/∂z², of each output"""
        return self.curvature_diagonal(gC, z, t) * v * v

    def curvature_rows(self, gC: Node, v: Node, u: Node, z: Node, t: Node) -> Node:
        """gC v_iᵀ (∂²C/∂z²) u_i for each case and row i of two matrices

        z: (cases, outputs); the result is (cases, rows).
        """
        return matmul(self.curvature_diagonal(gC, z, t), transpose(v * u))

    def curvature_root(self, gC: Node, noise: Node, z: Node, t: Node) -> Node:
        """√(gC ∂²C/∂z²) ε: its covariance is the Hessian, if that of the noise ε is I."""
        return sqrt(self.curvature_diagonal(gC, z, t)) * noise


class SigmoidCrossEntropy(_ElementwiseLoss):
    """C = -t log σ(z) - (1 - t) log(1 - σ(z)) = s |z| + log(1 + exp(-|z|)), s = 1 - t where z > 0, else t

    A share s of 0 costs nothing, also where |z| is infinite.
    """

    symbol = "binary cross-entropy"
    kernel = "(0 if y == (1 if x > 0 else 0) else (1 - y if x > 0 else y) * abs(x)) + log1p(exp(-abs(x)))"

    def forward(self, z: Array, t: Array) -> Array:
        share, size = np.where(z > 0, 1 - t, t), np.abs(z)
        return np.where(share == 0, 0, share * size) + np.log1p(np.exp(-size))

    def partials(self, C: Node, z: Node, t: Node) -> Sequence[Node]:
        return sigmoid(z) - t, -z

    def curvature(self, z: Node) -> Node:
        return sigmoid(z) * sigmoid(-z)


class SquaredError(_ElementwiseLoss):
    """C = (y - t)²"""

    commutes = True
    symbol = "squared error"
    kernel = "(x - y) ** 2"

    def forward(self, y: Array, t: Array) -> Array:
        difference = y - t
        return difference * difference

    def partials(self, C: Node, y: Node, t: Node) -> Sequence[Node]:
        twice = 2 * (y - t)
        return twice, -twice

    def curvature(self, z: Node) -> Node:
        return fill(2, z.shape, z.dtype)


# -- the functions that users call -----------------------------------------------------------


def softmax_cross_entropy(logits: Any, targets: Any) -> Node:
    """C[...] = -Σ_k t_k log softmax(z)_k, one value in nats for each case.

    logits: z, floats (..., k). targets: integers (...), the correct classes in 0 ... k - 1; or floats (..., k),
    distributions t over the classes.
    Raises ShapeError if the shapes do not fit, DtypeError for boolean targets.

    >>> gn.compile(gn.softmax_cross_entropy([[0.0, 0.0], [5.0, 0.0]], [1, 0]))()[0].round(3).tolist()
    [0.693, 0.007]
    """
    z, t = as_node(logits), as_node(targets)
    if not z.shape:
        raise ShapeError("softmax_cross_entropy: logits must have an axis of classes." + table_of_inputs([z]))
    if t.dtype.kind in "iu":
        return shared(SymbolCrossEntropy)(z, t)
    if not is_float(t.dtype):
        raise DtypeError(
            "softmax_cross_entropy: targets must be integers (the correct classes) or floats (distributions), not "
            "booleans." + table_of_inputs([z, t])
        )
    return shared(SoftmaxCrossEntropy)(z, t)


def sigmoid_cross_entropy(logits: Any, targets: Any) -> Node:
    """C = -t log σ(z) - (1 - t) log(1 - σ(z)), one value in nats for each element.

    logits: z, floats of any shape. targets: t in [0, 1], of a shape that broadcasts with the logits; integers and
    booleans are cast to their dtype.

    >>> gn.compile(gn.sigmoid_cross_entropy([0.0, 5.0], [1, 0]))()[0].round(3).tolist()
    [0.693, 5.007]
    """
    z, t = as_nodes_together("sigmoid_cross_entropy", (logits, targets))
    return shared(SigmoidCrossEntropy)(z, cast(t, z.dtype) if t.dtype.kind in "iub" else t)


def squared_error(y: Any, targets: Any) -> Node:
    """C = (y - t)², one value for each element.

    y: predictions, floats of any shape. targets: t, of a shape that broadcasts with y; integers, booleans and Python's
    numbers are cast to its dtype.

    >>> gn.compile(gn.squared_error([1.0, 2.0], [0.0, 4.0]))()[0].tolist()
    [1.0, 4.0]
    """
    y, t = as_nodes_together("squared_error", (y, targets))
    return shared(SquaredError)(y, cast(t, y.dtype) if t.dtype.kind in "iub" else t)
