"""Curvature products, composed of `backward` and `rop`; ops need no rule for them.

Hessian product          Hv = R{∇C}                                        (Pearlmutter 1994)
Gauss-Newton product     Gv = Jᵀ H_L J v, J = ∂o/∂θ at the pre-outputs o,  (Schraudolph 2002)
                         H_L the Hessian of the cost as a function of o
For a loss combined with its matching nonlinearity G is also the Fisher matrix of the model's predictions. A loss that
is not convex in the o may have a surrogate that is (`gn.with_surrogate`): H_L is then the Hessian of the surrogate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from graphnet.derivatives.damping import damping_of
from graphnet.derivatives.gradient import (
    float_nodes,
    pull_back,
    push_forward,
    require_scalar,
    rop,
    seed_nodes,
)  # fmt: skip
from graphnet.errors import DifferentiationError
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import ancestors, dependents, substitute
from graphnet.graph.node import Node
from graphnet.graph.provenance import attributed_to
from graphnet.ops.leaf import fill, stop_gradient
from graphnet.ops.surrogate import Surrogate, surrogates_among


def hessian_product(cost: Node, tangents: Mapping[Node, Any]) -> list[Node]:
    """Hv = R{∇C}: for each node w of `tangents` = {w: v_w}, Σ_u (∂²C/∂w∂u) v_u.

    cost: a scalar node. tangents: {node: direction of its shape}; the nodes may be any nodes of the graph, which are
    then treated as independent variables, as in gn.rop. Source: Pearlmutter 1994.

    >>> w = gn.parameter([1.0, 2.0, 3.0])
    >>> (product,) = gn.hessian_product(gn.sum(w**3), {w: np.ones(3)})
    >>> gn.compile(product)()[0].tolist()
    [6.0, 12.0, 18.0]
    """
    require_scalar("hessian_product", cost)
    seeds = seed_nodes("hessian_product", tangents)
    slopes = _pulled_back(ancestors([cost]), {cost: fill(1, (), cost.dtype)}, seeds)
    return push_forward(ancestors(slopes, stop=seeds), slopes, seeds)


def gauss_newton_product(
    cost: Node,
    tangents: Mapping[Node, Any],
    at: Node | Sequence[Node] | None = None,
    damping: Sequence[tuple[Node, Node, Any]] = (),
) -> list[Node]:
    """Gv = Jᵀ H_L J v: for each node w of `tangents` = {w: v_w}, its part of the product.

    cost: a scalar node. tangents: {node: direction of its shape}; independent variables, as in gn.rop.
    at: the nodes o where the network is linearized (J = ∂o/∂w, and H_L is the Hessian of the cost as a function of the
    o alone). By default these are the inputs that the loss ops judge, and the nodes `at` of losses with a surrogate
    (gn.with_surrogate), which is then differentiated in place of the loss. If `at` is given, H_L is the cost's own. G
    is symmetric, and positive semi-definite if the cost is convex in the o.
    damping: structural damping, a list of (a, h, μ): pre-activations a, hidden units h = e(a), and μ >= 0: a number,
    array or node that multiplies h, such as one weight for each case. The change of h is penalized by μ times the loss
    that matches e, whose Hessian with respect to a is e'(a). Adds Σ μ J_aᵀ e'(a) J_a v in the same backward pass, as
    the cotangent μ R{h} at a. If h is the same node as a, the penalty is ½ |a - a₀|².
    Raises DifferentiationError if `at` is not given and the cost holds no loss op, or if some path leads
    from w to the cost around the o.
    Source: Schraudolph 2002; Martens 2010; Krause 2015, 3.3.2; structural damping, Martens & Sutskever 2011, Sutskever
    2013, 4.2.3 and algorithm 6.

    >>> W = gn.parameter(np.eye(2), name="W")
    >>> cost = gn.mean(gn.squared_error([[1.0, 2.0]] @ W, [[0.0, 0.0]]))
    >>> (product,) = gn.gauss_newton_product(cost, {W: np.ones((2, 2))})
    >>> gn.compile(product)()[0].tolist()
    [[3.0, 3.0], [6.0, 6.0]]
    """
    require_scalar("gauss_newton_product", cost)
    seeds = seed_nodes("gauss_newton_product", tangents)
    damping = damping_of(damping)
    if at is None:
        cost, places = _convex(cost)
    else:
        places = list(float_nodes("gauss_newton_product", "at", at, "linearize at"))
    outer = ancestors([cost], stop=places)
    _check_no_way_around(cost, places, tangents)
    # The cost is a function of the pre-outputs alone, even if one of them is computed from another.
    cost_gradient = _pulled_back(outer, {cost: fill(1, (), cost.dtype)}, places)
    moved = rop([*places, *(h for _, h, _ in damping)], seeds)
    jacobian_v = dict(zip(places, moved, strict=False))
    hessian_jv = push_forward(ancestors(cost_gradient, stop=places), cost_gradient, jacobian_v)
    cotangents = dict(zip(places, hessian_jv, strict=True))
    for (a, _, weight), change in zip(damping, moved[len(places) :], strict=True):
        penalty = change * weight
        cotangents[a] = cotangents[a] + penalty if a in cotangents else penalty
    return _pulled_back(ancestors(cotangents), cotangents, seeds)


def _pulled_back(order: Sequence[Node], cotangents: Mapping[Node, Node], wrt: Collection[Node]) -> list[Node]:
    """Jᵀu with respect to nodes that are independent variables, even if one is computed from another."""
    return pull_back(order, dependents(order, wrt), cotangents, list(wrt), None, frozenset(wrt))


def _convex(cost: Node) -> tuple[Node, list[Node]]:
    """Returns the cost with surrogates in place of their losses, and the nodes where the network ends."""
    declared = surrogates_among(ancestors([cost]))
    outer = ancestors([cost], stop=declared)
    found: dict[Node, None] = {}
    pinned: dict[Node, Node] = {}
    for node in outer:
        if node in declared:
            found |= dict.fromkeys(declared[node].places(node))
            pinned[node] = _pinned(node, declared[node])
        elif node.op.judged_input is not None:
            found[node.inputs[node.op.judged_input]] = None
    if not found:
        raise DifferentiationError(
            f"gauss_newton_product: {cost.describe()} (made at {cost.origin}) contains no loss op "
            "(softmax_cross_entropy, sigmoid_cross_entropy, squared_error) and no loss with a surrogate "
            "(gn.with_surrogate); pass the outputs of the network, to which the loss is applied: at=[...]."
        )
    return substitute([cost], pinned)[0], list(found)


def _pinned(loss: Node, op: Surrogate) -> Node:
    """Returns a node with the loss's value and the surrogate's derivatives."""
    with attributed_to() as made:
        made.model = loss
        surrogate = op.standing_for(loss)
        return stop_gradient(loss) + (surrogate - stop_gradient(surrogate))


def _check_no_way_around(cost: Node, places: Sequence[Node], wrt: Mapping[Node, Any]) -> None:
    inside: set[Node] = set()
    pending = [cost]
    while pending:
        node = pending.pop()
        # Integers and stop-gradients have no derivative, so no path leads through them.
        blocked = node in places or not is_float(node.dtype) or node.op.stops_gradient
        if not blocked and node not in inside:
            inside.add(node)
            pending.extend(node.inputs)
    for node in wrt:
        if node in inside:
            raise DifferentiationError(
                f"gauss_newton_product: {node.describe()} (made at {node.origin}) reaches the cost "
                "around the nodes where the network is linearized, so G would omit that path. Include "
                "a node on it in `at`: for an L2 term on the parameter W, at=[logits, W]."
            )
