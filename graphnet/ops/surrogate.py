"""A loss that says which convex function stands for it where a Gauss-Newton product needs its curvature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from graphnet.errors import DifferentiationError, DtypeError, ShapeError, ValueAccessError
from graphnet.graph.dtypes import is_float
from graphnet.graph.node import Array, Dtype, Node, RowsOf, Shape
from graphnet.ops.leaf import Label, as_node, zeros
from graphnet.settings import listed

__all__ = ["Surrogate", "surrogates_among", "with_surrogate"]


@dataclass(frozen=True, eq=False)
class Surrogate(Label):
    """y = x; where curvature is wanted, convex(z_1, ..., z_n, given...)"""

    symbol: ClassVar[str] = "surrogate"
    zero_if: ClassVar[str] = "first"
    convex: Callable[..., Node] = as_node
    #: n: how many of the inputs after x are the z.
    count: int = 0

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, inputs[0].dtype

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return None  # rows of the places are of time, or whatever they are

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        return of(inputs[0], some)

    def forward(self, x: Array, *others: Array) -> Array:
        return x

    def backward(self, gy: Node, y: Node, x: Node, *others: Node) -> Sequence[Node]:
        return (gy, *(zeros(other.shape, gy.dtype) for other in others))

    def rop(self, rx: Node, *rest: Node) -> Node:
        return rx

    def places(self, y: Node) -> tuple[Node, ...]:
        """The z: where the net ends."""
        return y.inputs[1 : 1 + self.count]

    def standing_for(self, y: Node) -> Node:
        """What stands for y: convex(...), checked."""
        found = self.convex(*y.inputs[1:])
        if not isinstance(found, Node):
            raise ValueAccessError(
                f"with_surrogate: the surrogate of {y.describe()} (made at {y.origin}) gave {found!r:.60}, not a node"
            )
        if found.shape != y.shape or found.dtype != y.dtype:
            raise ShapeError(
                f"with_surrogate: the surrogate of {y.describe()} (made at {y.origin}) is {found.dtype} of shape "
                f"{list(found.shape)}; it must be {y.dtype} of shape {list(y.shape)}, a value for each value of the "
                "loss. Take gn.sum over what belongs to one case."
            )
        return found


def surrogates_among(nodes: Iterable[Node]) -> dict[Node, Surrogate]:
    """Those of the nodes that have a surrogate, which says where their net ends."""
    return {node: node.op for node in nodes if isinstance(node.op, Surrogate)}


def with_surrogate(
    loss: Any, surrogate: Callable[..., Node], at: Node | Sequence[Node], given: Sequence[Any] = ()
) -> Node:
    """y = loss; in Gauss-Newton products y is surrogate(*at, *given), a function that is convex in the nodes `at`

    loss: floats of any shape, whose own Hessian with respect to the nodes `at` need not be positive semi-definite; y
    has its values and all its derivatives. surrogate: called with the nodes when a product is made; gives a node of
    the loss's shape and dtype, each value the surrogate of the same value of the loss. Its Hessian with respect to
    `at` stands for the loss's, so gn.gauss_newton_product and rnn.Objective need no `at`. What it makes of other nodes
    than `at` must pass gn.stop_gradient; those that it needs are listed in `given`, so that a graph may be rewritten.
    For a matrix M that is positive semi-definite there is ½ zᵀM z:

        y = gn.with_surrogate(loss, lambda z, M: 0.5 * gn.sum(z * (z @ gn.stop_gradient(M)), axis=1), [z], [M])

    Where the cost is linear in y (a mean, weights, a choice), nothing but the surrogate's Hessian counts. A good one
    touches the loss where it is made, with its gradient, and lies nowhere below it: then each step that lowers it
    lowers the loss (majorisation). The expected negative log-likelihood of the complete data, of which EM makes the
    least, is one. Where y is a log-likelihood, whose cost has the minus sign, the surrogate is concave.
    Raises DtypeError for a loss that is not of floats; when a product is made, ShapeError for a surrogate of another
    shape.
    Source: Dempster, Laird & Rubin 1977 (EM); Lange, Hunter & Yang 2000 (surrogates); Schraudolph 2002.
    """
    x, places = as_node(loss), [at] if isinstance(at, Node) else listed("with_surrogate: at", at, "nodes")
    if not is_float(x.dtype):
        raise DtypeError(
            f"with_surrogate: {x.describe()} (made at {x.origin}) is {x.dtype}; a loss is of floats"
        )
    if not callable(surrogate):
        raise ValueAccessError(
            f"with_surrogate: surrogate must be a function of nodes, called with those of `at` and `given`, not "
            f"{surrogate!r:.60}"
        )
    for node in places:
        if not isinstance(node, Node) or not is_float(node.dtype):
            what = node.describe() if isinstance(node, Node) else f"{node!r:.60}"
            raise DifferentiationError(
                f"with_surrogate: at must be nodes of floats, where the net ends, not {what}"
            )
    if not places:
        raise DifferentiationError("with_surrogate: at is empty; say in which nodes the surrogate is convex")
    return Surrogate(surrogate, len(places))(x, *places, *given)
