"""Moduli: sensitivity of the cost to each pre-activation, (cases, units) for each place where weights meet.

A cost may be a mean over cases. Moduli are those of the sum, the log-likelihood of all data, so they grow with the
data, and damping is that of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

import graphnet as gn
from graphnet.derivatives.gradient import pull_back, push_forward
from graphnet.graph.graph import ancestors, dependents
from graphnet.graph.node import Dtype, Node, Shape
from graphnet.ops.shape import Stack
from graphnet_rnn.errors import UsageError
from graphnet_rnn.riemannian.groups import PreActivation, Term, UnitGroup
from graphnet_rnn.riemannian.losses import Losses, cuts_first_axis, hessian_of, prediction_of

#: Maximum number of nearest pre-activations of a node, for any length of the sequence.
FAR = 48
#: One modulus for each pre-activation of each group.
Moduli = list[list[Node]]


def _signs_of_each(random: gn.RandomSource, places: Sequence[Node]) -> dict[Node, Node]:
    """For each place ±1 for each entry. Places of one shape share a draw, as single draws cost more than a step."""
    alike: dict[tuple[Shape, Dtype], list[Node]] = {}
    for V in places:
        alike.setdefault((V.shape, V.dtype), []).append(V)
    found = {}
    for (shape, dtype), nodes in alike.items():
        drawn = 2 * random.bernoulli(0.5, (len(nodes), *shape), dtype) - 1
        found.update({V: drawn[k] for k, V in enumerate(nodes)})
    return found


def slopes(losses: Losses, groups: Sequence[UnitGroup]) -> Moduli:
    """B = ∂C/∂V of the summed cost"""
    places = [each.V for group in groups for each in group.pre_activations]
    # Scaled afterwards, so that the gradient shares this backward pass.
    later = {} if losses.carry is None else losses.carry.slopes
    found = iter(gn.backward({losses.cost: 1.0, **later}, places))
    return [[losses.scale * next(found) for _ in group.pre_activations] for group in groups]


def drawn_slopes(losses: Losses, groups: Sequence[UnitGroup], random: gn.RandomSource) -> Moduli:
    """B for losses with random slopes at the outputs, of the covariance H_L, as those of drawn targets"""
    places = [each.V for group in groups for each in group.pre_activations]
    found = iter(_carried(losses, groups, gn.backward, places, random))
    return [[next(found) for _ in group.pre_activations] for group in groups]


def _carried(
    losses: Losses,
    groups: Sequence[UnitGroup],
    back: Callable[[Mapping[Node, Node], Sequence[Node]], list[Node]],
    places: Sequence[Node],
    random: gn.RandomSource,
) -> list[Node]:
    """Backpropagates a random vector at the outputs, and that of later pieces, to these places.

    The result is also carried to the states before, except for output groups, which no later loss depends on.
    """
    seeds, carry = losses.roots(random), losses.carry
    if carry is None or all(map(losses.is_output, groups)):
        return back(seeds, places)
    for state, vector in carry.random.items():
        seeds[state] = seeds[state] + vector if state in seeds else vector
    found = back(seeds, [*places, *carry.initial])
    carry.random_back = found[len(places) :]
    return found[: len(places)]


def probed(losses: Losses, groups: Sequence[UnitGroup], random: gn.RandomSource) -> Moduli:
    """An unbiased estimate of the backpropagated modulus of any net, at the cost of a backward pass.

    One backward pass from a random vector with the covariance of H_L, with a random sign for each unit at each
    pre-activation: so terms of different units vanish in the mean of its square, and
    E b_i² = Σ_j (∂V_j/∂V_i)² E b_j² + (∂o/∂V_i)ᵀ H_L (∂o/∂V_i), which is eq. 63.
    """
    places = [each.V for group in groups for each in group.pre_activations]
    signs = _signs_of_each(random, places)

    def back(seeds: Mapping[Node, Node], wanted: Sequence[Node]) -> list[Node]:
        order = ancestors(seeds)
        return pull_back(order, dependents(order, wanted), seeds, wanted, None, factors=signs)

    found = iter(_carried(losses, groups, back, places, random))
    return [[b * b for b in (next(found) for _ in group.pre_activations)] for group in groups]


# -- unit by unit ----------------------------------------------------------------------------


def exact(losses: Losses, groups: Sequence[UnitGroup]) -> Moduli:
    """m̃_i = Σ_j (∂V_j/∂V_i)² m̃_j + (∂o/∂V_i)ᵀ H_L (∂o/∂V_i), as it is defined, for nets of few units

    ∂V_j/∂V_i excludes paths through a third pre-activation. Takes a backward pass for each unit of each pre-activation,
    and a forward one for the losses' inputs. Source: Ollivier 2013, eq. 63.
    """
    places = {each.V: None for group in groups for each in group.pre_activations}
    for place in dict.fromkeys(map(prediction_of, losses.nodes)):
        _require_cases_in_order(place, list(places))
    m = {V: [_form_of_output(losses, V, places)] for V in places}
    for V in sorted(places, key=lambda V: V.serial, reverse=True):
        others = [U for U in places if U is not V]
        order = ancestors([V], stop=others)
        wanted = [U for U in others if U in set(order)]
        reached, total = dependents(order, wanted), gn.add(*m[V])
        for j in range(V.shape[1]):
            found = pull_back(order, reached, {V: _unit(V, j)}, wanted, None, frozenset(others))
            for U, r in zip(wanted, found, strict=True):
                m[U].append(r * r * total[:, j : j + 1])
    return [[gn.add(*m[each.V]) for each in group.pre_activations] for group in groups]


def _require_cases_in_order(place: Node, pre_activations: Sequence[Node]) -> None:
    order = ancestors([place], stop=pre_activations)
    reached = dependents(order, pre_activations)
    cases = {V.shape[0] for V in pre_activations if V in reached}
    orderly = place.ndim >= 2 and {place.shape[-2]} == cases
    for node in order if orderly else ():
        stacks = node.op == Stack(0)
        if node in reached and node.op.moves and not (stacks or node.op.is_label or _cuts_steps(node)):
            orderly = False
    if cases and not orderly:
        raise UsageError(
            f"a loss reads {place.describe()} (made at {place.origin}), whose rows are not the cases of the "
            "pre-activations before it, one after the other; use estimate='probe'"
        )


def _cuts_steps(node: Node) -> bool:
    """True for a slice of only the first axis that leaves out some of more than two entries."""
    return cuts_first_axis(node) and node.inputs[0].ndim >= 3


def _form_of_output(losses: Losses, V: Node, places: Mapping[Node, None]) -> Node:
    """(∂o/∂V_i)ᵀ H_L (∂o/∂V_i) for each unit, without paths through other pre-activations"""
    others = [U for U in places if U is not V]
    columns = []
    for i in range(V.shape[1]):
        seeds = {U: gn.fill(0, U.shape, U.dtype) for U in others} | {V: _unit(V, i)}
        parts = []
        for loss, g in zip(losses.nodes, losses.weights, strict=True):
            place = prediction_of(loss)
            (moved,) = push_forward(ancestors([place], stop=seeds), [place], seeds)
            form = hessian_of(loss).curvature_form(g, moved, *loss.inputs)
            parts.append(_by_case(form, place.ndim - 2))
        columns.append(gn.add(*parts))
    return gn.stack(columns, axis=1)


def _by_case(form: Node, axis: int) -> Node:
    others = tuple(k for k in range(form.ndim) if k != axis)
    return gn.sum(form, axis=others) if others else form


def _unit(V: Node, j: int) -> Node:
    """1 at the unit j of each case."""
    row = np.zeros(V.shape[1], V.dtype)
    row[j] = 1
    return gn.broadcast_to(gn.constant(row), V.shape)


def structured(losses: Losses, groups: Sequence[UnitGroup], output: Sequence[UnitGroup]) -> Moduli:
    """The modulus of `exact` for nets whose sources and added terms depend on pre-activations unit by unit.

    Then ∂V_j/∂V_i = w_ij s'_i + 1[i = j] d_i, and eq. 24 is computed as written, at the cost of a backward pass through
    a step for each step. output: the output groups.
    Raises UsageError for other nets, and for nets whose states carry changes over many steps without a pre-activation
    between, like memory cells: these need derivatives for all pairs of steps.
    """
    assert losses.carry is None, "see Metric.by_pieces"
    losses.require_pre_activations(output)
    places = {each.V: None for group in groups for each in group.pre_activations}
    m: dict[Node, list[Node]] = {V: [] for V in places}
    for group in output:
        for each in group.pre_activations:
            _judge(losses, each, m)
    met: dict[Node, list[Term]] = {V: [] for V in places}
    for group in groups:
        for each in group.pre_activations:
            met[each.V] += each.terms
    for V in sorted(places, key=lambda V: V.serial, reverse=True):
        if m[V]:
            _pass_back(V, gn.add(*m[V]), met[V], m)
    zero = {V: gn.fill(0, V.shape, V.dtype) for V in places}
    return [[gn.add(*m[each.V], zero[each.V]) for each in group.pre_activations] for group in groups]


def _judge(losses: Losses, each: PreActivation, m: dict[Node, list[Node]]) -> None:
    """Adds the losses' share Σ_yy' w_iy H_yy' w_iy' for w_iy = ∂o_y/∂V_i, of o = s W + b and sums of this form."""
    nodes = {term.node for term in each.terms}
    own = {} if each.V in nodes else _slopes_to(each.V, m, frozenset(nodes))  # ∂o_i/∂V_i, past the weights
    by_unit = _ways(each.terms, m)
    for U in {**by_unit, **own}:
        ways = by_unit.get(U, [])
        for term, _ in ways:
            if term.incoming.kind != "product" or term.incoming.gated:
                raise _unstructured(term.node)
        if U in own and U.shape != each.V.shape:
            raise _unstructured(each.V)
        moved = [(slope, _weight(term)) for term, slope in ways]  # s'_i w_i
        if U in own:
            moved.append((own[U], gn.constant(np.eye(U.shape[1], dtype=U.dtype))))
        for number, (s, v) in enumerate(moved):
            for other, (r, u) in enumerate(moved[number:]):
                found = losses.rows(each.V, v, u)
                if found is not None:
                    m[U].append((2 if other else 1) * s * r * found)


def _pass_back(V: Node, m_V: Node, terms: Sequence[Term], m: dict[Node, list[Node]]) -> None:
    """Adds to m̃ of all pre-activations on which V depends: Σ_j (Σ s'_i w_ij + 1[i = j] d_i)² m̃_j."""
    nodes = {term.node for term in terms}
    own = {} if V in nodes else dict(_slopes_to(V, m, frozenset(nodes)))  # d_i
    for U, ways in _ways(terms, m).items():
        loops: dict[Node, Node] = {}  # Σ s'_i w_ii
        weights = []
        for term, slope in ways:
            if term.incoming.kind == "diagonal":
                _put(own, U, _weight(term) * slope)
                continue
            weights.append((term, slope))
            if U.shape == V.shape:
                _put(loops, U, slope * _own_weights(term, V))
        for number, (one, s) in enumerate(weights):
            m[U].append(s * s * _products_back(one, one, m_V))
            m[U] += [2 * s * r * _products_back(one, other, m_V) for other, r in weights[number + 1 :]]
        if loops and U in own:
            m[U].append(2 * own[U] * loops[U] * m_V)
    for U, d in own.items():
        if U.shape != V.shape:
            raise _unstructured(V)
        m[U].append(d * d * m_V)


def _ways(terms: Sequence[Term], m: Mapping[Node, object]) -> dict[Node, list[tuple[Term, Node]]]:
    """For each pre-activation the terms that depend on it, each with s'_i, the slope of the weight's source."""
    found: dict[Node, list[tuple[Term, Node]]] = {}
    for term in terms:
        if term.source is not None:
            for U, slope in _slopes_to(term.source, m).items():
                found.setdefault(U, []).append((term, slope if term.scale == 1 else term.scale * slope))
    return found


def _weight(term: Term) -> Node:
    assert term.factor is not None, "a term with a source"
    return term.factor


def _put(found: dict[Node, Node], U: Node, more: Node) -> None:
    found[U] = found[U] + more if U in found else more


def _products_back(one: Term, other: Term, m: Node) -> Node:
    """Σ_j w_ij w'_ij m_j for each of the sources' units; UsageError for two weights of different patterns."""
    own, second = one.incoming, other.incoming
    if (own.kind, own.gated) != (second.kind, second.gated):
        raise _unstructured(other.node)
    assert one.source is not None
    w = _weight(one) * _weight(other)
    if own.kind == "edges":
        i, j = own.ends
        if not all(map(np.array_equal, own.ends, second.ends)):
            raise _unstructured(other.node)
        along = gn.take(m, gn.constant(j), axis=1) * w
        return gn.scatter_add(along, gn.constant(i), one.source.shape[1], axis=1)
    if own.gated:
        return gn.matmul(w, gn.reshape(m, (*m.shape, 1)))[:, :, 0]
    return m @ gn.transpose(w)


def _own_weights(term: Term, V: Node) -> Node:
    w, own = _weight(term), term.incoming
    if own.kind == "edges":
        i, j = own.ends
        loops = np.flatnonzero(i == j)
        return gn.scatter_add(
            gn.take(w, gn.constant(loops), axis=1), gn.constant(i[loops]), V.shape[1], axis=1
        )
    eye = gn.constant(np.eye(V.shape[1], dtype=V.dtype))
    return gn.sum(w * eye, axis=-1)


def _slopes_to(
    node: Node, m: Mapping[Node, object], leaves: frozenset[Node] = frozenset()
) -> dict[Node, Node]:
    """∂node_i/∂V_i for each pre-activation V on which a node depends, unit by unit; UsageError if otherwise.

    leaves: nodes to ignore.
    """
    ones = gn.fill(1, node.shape, node.dtype)
    if node in m and not leaves:
        return {node: ones}
    stop = [U for U in m if U is not node]
    order = ancestors([node], stop=[*stop, *leaves])
    wanted = [U for U in stop if U in set(order)]
    if len(wanted) > FAR:
        raise UsageError(
            f"{node.describe()} (made at {node.origin}) depends on {len(wanted)} pre-activations directly, as "
            "states carry changes over many steps; use estimate='probe'"
        )
    reached = dependents(order, wanted)
    for each in order:
        unitwise = each.op.is_elementwise or each.op.is_label
        if (
            each in reached
            and each not in m
            and each not in leaves
            and not (unitwise and each.shape == node.shape)
        ):
            raise _unstructured(each)
    found = pull_back(order, reached, {node: ones}, wanted, None, frozenset([*stop, *leaves]))
    return {U: slope for U, slope in zip(wanted, found, strict=True) if not slope.op.is_zeros}


def _unstructured(node: Node) -> UsageError:
    return UsageError(
        f"{node.describe()} (made at {node.origin}) mixes units between two pre-activations, so derivatives from unit "
        "to unit are not single weights; use estimate='probe', or 'exact' for few units"
    )
