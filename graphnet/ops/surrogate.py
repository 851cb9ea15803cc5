"""Losses with a convex surrogate, whose curvature Gauss-Newton products use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from graphnet.errors import DifferentiationError, DtypeError, ShapeError, ValueAccessError
from graphnet.graph.dtypes import is_float
from graphnet.graph.node import Array, Dtype, Node, RowsOf, Shape
from graphnet.ops.leaf import Label, as_node, zeros
from graphnet.settings import listed, shown


@dataclass(frozen=True, eq=False)
class Surrogate(Label):
    """y = x; for curvature, convex(z_1, ..., z_n, given...)"""

    symbol: ClassVar[str] = "surrogate"
    zero_if: ClassVar[str] = "first"
    convex: Callable[..., Node] = as_node
    #: n: number of inputs after x that are the z.
    count: int = 0

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, inputs[0].dtype

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return None  # rows of the places may have another meaning

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        return of(inputs[0], some)

    def forward(self, x: Array, *others: Array) -> Array:
        return x

    def backward(self, gy: Node, y: Node, x: Node, *others: Node) -> Sequence[Node]:
        return (gy, *(zeros(other.shape, gy.dtype) for other in others))

    def rop(self, rx: Node, *rest: Node) -> Node:
        return rx

    def places(self, y: Node) -> tuple[Node, ...]:
        """Returns the z: the nodes where the network ends."""
        return y.inputs[1 : 1 + self.count]

    def standing_for(self, y: Node) -> Node:
        """Returns the surrogate of y, convex(...), after checking its shape and dtype."""
        found = self.convex(*y.inputs[1:])
        if not isinstance(found, Node):
            raise ValueAccessError(
                f"with_surrogate: the surrogate of {y.describe()} (made at {y.origin}) must return a node, not "
                f"{shown(found)}"
            )
        if found.shape != y.shape or found.dtype != y.dtype:
            raise ShapeError(
                f"with_surrogate: the surrogate of {y.describe()} (made at {y.origin}) is {found.dtype} of shape "
                f"{list(found.shape)}; it must be {y.dtype} of shape {list(y.shape)}, a value for each value of the "
                "loss. Take gn.sum over the values of each case."
            )
        return found


def surrogates_among(nodes: Iterable[Node]) -> dict[Node, Surrogate]:
    """Returns the nodes that have a surrogate, with their ops."""
    return {node: node.op for node in nodes if isinstance(node.op, Surrogate)}


def with_surrogate(
    loss: Any, surrogate: Callable[..., Node], at: Node | Sequence[Node], given: Sequence[Any] = ()
) -> Node:
    """y = loss; in Gauss-Newton products y is surrogate(*at, *given), a function that is convex in the nodes `at`

    loss: float node of any shape; its Hessian with respect to the nodes `at` may be indefinite. y has its values and
    all its derivatives.
    surrogate: function of nodes, called when a product is made; returns a node of the loss's shape and dtype, with one
    value for each value of the loss. Its Hessian with respect to `at` replaces that of the loss, so
    gn.gauss_newton_product and rnn.Objective need no `at`.
    at: node or nodes where the network ends. given: other nodes that the surrogate needs, so that a graph can be
    rewritten; the surrogate must pass them through gn.stop_gradient. Example: ½ zᵀM z for a positive semi-definite
    matrix M:

        y = gn.with_surrogate(loss, lambda z, M: 0.5 * gn.sum(z * (z @ gn.stop_gradient(M)), axis=1), [z], [M])

    If the cost is linear in y (a mean, weights, a choice), only the surrogate's Hessian matters. A good surrogate has
    the loss's value and gradient at the current point and is nowhere below the loss. Then each step that lowers it also
    lowers the loss (majorization). An example is the expected negative log-likelihood of the complete data, which EM
    minimizes. If y is a log-likelihood, which the cost negates, the surrogate must be concave.
    Raises DtypeError for a loss that is not of floats; when a product is made, ShapeError for a surrogate of another
    shape.
    Source: Dempster, Laird & Rubin 1977 (EM); Lange, Hunter & Yang 2000 (surrogates); Schraudolph 2002.

    >>> z = gn.parameter([0.5, -1.0])
    >>> y = gn.with_surrogate(gn.sin(z), lambda z: 0.5 * z * z, at=z)
    >>> (product,) = gn.gauss_newton_product(gn.sum(y), {z: np.ones(2)})
    >>> gn.compile(product)()[0].tolist()
    [1.0, 1.0]
    """
    x, places = as_node(loss), [at] if isinstance(at, Node) else listed("with_surrogate: at", at, "nodes")
    if not is_float(x.dtype):
        raise DtypeError(
            f"with_surrogate: {x.describe()} (made at {x.origin}) is {x.dtype}; a loss must be float32 or float64"
        )
    if not callable(surrogate):
        raise ValueAccessError(
            f"with_surrogate: surrogate must be a function of nodes, called with those of `at` and `given`, not "
            f"{shown(surrogate)}"
        )
    for node in places:
        if not isinstance(node, Node) or not is_float(node.dtype):
            what = node.describe() if isinstance(node, Node) else f"{shown(node)}"
            raise DifferentiationError(
                f"with_surrogate: at must be float nodes, the outputs of the network, not {what}"
            )
    if not places:
        raise DifferentiationError(
            "with_surrogate: at is empty; list the nodes in which the surrogate is convex"
        )
    return Surrogate(surrogate, len(places))(x, *places, *given)
