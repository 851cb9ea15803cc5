"""Derivatives as graphs: `backward` (Jᵀu), `rop` (Jv) and `gradient`.

They apply the rules of the ops, in order, and add up the results. These are ordinary nodes, which can be
differentiated again, optimized, compiled and drawn. Each costs about one more evaluation of the graph.
Source: Lynge 2016, 3.2 (cotangents add over all consumers); Pearlmutter 1994 (the R-operator).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphnet.errors import DifferentiationError, DtypeError, ShapeError, ValueAccessError
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import Nodes, ancestors, as_nodes, dependents
from graphnet.graph.node import Node
from graphnet.graph.provenance import attributed_to
from graphnet.ops.elementwise import add, cast, clip
from graphnet.ops.leaf import as_node, fill, zeros
from graphnet.settings import limit, shown
from graphnet.system.process import collector_paused


def gradient(cost: Node, wrt: Nodes, clip_values: float | None = None) -> list[Node]:
    """g = ∂cost/∂w for each w of `wrt`, in its order; zeros for one that the cost does not depend on.

    cost: float scalar node. wrt: a node, a list of nodes, or a mapping of them by names, such as net.parameters.
    clip_values: c > 0 clips every cotangent to [-c, c] at every node of the backward pass (Mikolov 2012; Lynge 2016,
    3.7.1); the result is then not the gradient of any cost. None (default) for no clipping.
    Raises DifferentiationError if the cost is not a scalar, UsageError for a limit that is not above 0.

    >>> w = gn.parameter([1.0, 2.0, 3.0])
    >>> (g,) = gn.gradient(gn.sum(w * w), [w])
    >>> gn.compile(g)()[0].tolist()
    [2.0, 4.0, 6.0]
    """
    require_scalar("gradient", cost)
    return _pulled_back("gradient", {cost: fill(1, (), cost.dtype)}, wrt, clip_values)


def require_scalar(function: str, cost: Any) -> None:
    """Raises ValueAccessError or DifferentiationError unless the cost is a scalar node."""
    if not isinstance(cost, Node):
        raise ValueAccessError(f"{function}: the cost must be a node, not {shown(cost)}")
    if cost.shape != ():
        raise DifferentiationError(
            f"{function}: the cost must be a scalar, but {cost.describe()} (made at {cost.origin}) has shape "
            f"{list(cost.shape)}. Take gn.mean or gn.sum of it, or use gn.backward with a cotangent."
        )


def backward(cotangents: Mapping[Node, Any], wrt: Nodes, clip_values: float | None = None) -> list[Node]:
    """Jᵀu: for each w of `wrt`, Σ_y (∂y/∂w)ᵀ u_y over the outputs y with their cotangents u_y.

    cotangents: {output: cotangent of its shape}. wrt, clip_values: as for `gradient`; `wrt` may be any nodes of the
    graph.

    >>> w = gn.parameter([1.0, 2.0, 3.0])
    >>> (product,) = gn.backward({w * w: np.array([1.0, 0.0, 10.0])}, [w])
    >>> gn.compile(product)()[0].tolist()
    [2.0, 0.0, 60.0]
    """
    return _pulled_back("backward", cotangents, wrt, clip_values)


def _pulled_back(function: str, cotangents: Any, wrt: Any, clip_values: Any) -> list[Node]:
    if clip_values is not None:
        clip_values = limit(f"{function}: clip_values", clip_values)
    targets = float_nodes(function, "wrt", wrt, "differentiate with respect to")
    seeds = seed_nodes(function, cotangents)
    order = ancestors(seeds)
    return pull_back(order, dependents(order, targets), seeds, targets, clip_values)


def pull_back(
    order: Sequence[Node],
    reached: set[Node],
    seeds: Mapping[Node, Node],
    targets: Sequence[Node],
    clip_values: float | None,
    leaves: frozenset[Node] = frozenset(),
    factors: Mapping[Node, Node] | None = None,
) -> list[Node]:
    """Walks `order` from its end; visits only `reached`, and goes no further back than `leaves`.

    factors: {node: factor of its cotangent for the inputs of the node}; the node's own total is without it.
    """
    contributions: dict[Node, list[Node]] = {node: [u] for node, u in seeds.items()}
    wanted = set(targets)
    totals: dict[Node, Node] = {}
    with collector_paused(), attributed_to() as made:
        for node in reversed(order):
            if node not in reached or node not in contributions:
                continue
            made.model = node
            parts = contributions.pop(node)
            total = parts[0] if len(parts) == 1 else add(*parts)
            if clip_values is not None:
                total = clip(total, -clip_values, clip_values)
            if node in wanted:
                totals[node] = total
            if not node.inputs or node in leaves:
                continue
            if factors and node in factors:
                total = total * factors[node]
            cotangents = node.op.backward(total, node, *node.inputs)
            _require_nodes(node, "backward", cotangents)
            if len(cotangents) != len(node.inputs):
                raise DifferentiationError(
                    f"{node.op.name}.backward returned {len(cotangents)} cotangents for {len(node.inputs)} "
                    f"inputs, at {node.describe()} (made at {node.origin}). Return one for each input."
                )
            for source, g in zip(node.inputs, cotangents, strict=True):
                if source in reached and not g.op.is_zeros:
                    _require_like(source, node, "backward", g)
                    contributions.setdefault(source, []).append(g)
    return [totals[w] if w in totals else zeros(w.shape, w.dtype) for w in targets]


def rop(outputs: Nodes, tangents: Mapping[Node, Any]) -> list[Node]:
    """Jv: for each output y, R{y} = Σ_w (∂y/∂w) v_w over the nodes w with their tangents v_w.

    outputs: a node, a list of nodes, or a mapping of them by names. tangents: {node: tangent of its shape}; the nodes
    may be any nodes of the graph, which are then treated as independent variables. Zeros for an output that depends on
    none of them.

    >>> w = gn.parameter([1.0, 2.0, 3.0])
    >>> (product,) = gn.rop(w * w, {w: np.array([1.0, 0.0, 10.0])})
    >>> gn.compile(product)()[0].tolist()
    [2.0, 0.0, 60.0]
    """
    listed = float_nodes("rop", "outputs", outputs, "take the R-operator of")
    seeds = seed_nodes("rop", tangents)
    order = ancestors(listed, stop=seeds)
    return push_forward(order, listed, seeds)


def push_forward(order: Sequence[Node], outputs: Sequence[Node], seeds: Mapping[Node, Node]) -> list[Node]:
    """Walks `order` from its start; visits only nodes that depend on a seed."""
    reached = dependents(order, seeds)
    tangent: dict[Node, Node] = dict(seeds)
    absent: dict[Node, Node] = {}

    def tangent_of(node: Node) -> Node:
        found = tangent.get(node)
        if found is None:
            found = absent.get(node)
            if found is None:
                found = absent[node] = zeros(node.shape, node.dtype)
        return found

    with collector_paused(), attributed_to() as made:
        for node in order:
            if node not in reached or node in tangent:
                continue
            made.model = node
            incoming = [tangent_of(source) for source in node.inputs]
            if all(r.op.is_zeros for r in incoming):
                continue
            r = node.op.rop(*incoming, node, *node.inputs)
            _require_nodes(node, "rop", [r])
            _require_like(node, node, "rop", r)
            tangent[node] = r
    return [tangent_of(node) for node in outputs]


def _require_like(like: Node, node: Node, rule: str, found: Node) -> None:
    shaped = found.shape == like.shape
    if not shaped or (found.dtype != like.dtype and is_float(like.dtype)):
        raise (DtypeError if shaped else ShapeError)(
            f"{node.op.name}.{rule} returned {found.dtype} of shape {list(found.shape)} for {like.describe()} (made at "
            f"{like.origin}); it must be {like.dtype} of shape {list(like.shape)}. The op is at {node.origin}."
        )


def _require_nodes(node: Node, rule: str, results: Any) -> None:
    if isinstance(results, (list, tuple)):
        wrong = [type(r).__name__ for r in results if not isinstance(r, Node)]
        if not wrong:
            return
        found = f"a {wrong[0]}"
    else:
        found = f"a {type(results).__name__}, not a list or tuple"
    raise DifferentiationError(
        f"{node.op.name}.{rule} returned {found} where a node is needed, at {node.describe()} (made at {node.origin}). "
        "Return nodes; where there is no derivative, return zeros of the input's shape."
    )


def float_nodes(function: str, argument: str, nodes: Nodes, doing: str) -> Sequence[Node]:
    """Returns the nodes; raises ValueAccessError for other objects, DifferentiationError for other dtypes."""
    found = as_nodes(nodes, f"{function}: {argument}")
    for node in found:
        if not is_float(node.dtype):
            raise DifferentiationError(
                f"{function}: cannot {doing} {node.describe()} (made at {node.origin}): it is "
                f"{node.dtype}, and only float32 and float64 have derivatives."
            )
    return found


def seed_nodes(function: str, derivatives: Mapping[Node, Any]) -> dict[Node, Node]:
    """Returns the given cotangents or tangents as nodes of the right shape and dtype."""
    if not isinstance(derivatives, Mapping):
        raise ValueAccessError(
            f"gn.{function} takes a dict {{node: derivative}}, not a {type(derivatives).__name__}; give the "
            "factor of each node's derivative, e.g. {W: np.ones(W.shape)}."
        )
    result: dict[Node, Node] = {}
    for node, derivative in derivatives.items():
        float_nodes(function, "the keys", [node], "seed")
        d = as_node(derivative)
        if d.shape != node.shape:
            raise ShapeError(
                f"{function}: the derivative given for {node.describe()} (made at {node.origin}) has "
                f"shape {list(d.shape)}; it must have the node's shape, {list(node.shape)}."
            )
        if d.dtype != node.dtype:
            if is_float(d.dtype) and isinstance(derivative, Node):
                raise DtypeError(
                    f"{function}: the derivative given for {node.describe()} is {d.dtype}, but the node is "
                    f"{node.dtype}; use gn.cast."
                )
            d = cast(d, node.dtype)
        result[node] = d
    return result
