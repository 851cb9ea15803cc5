"""Losses: the losses of a cost, the nodes that they read, and their Hessians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import graphnet as gn
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Node
from graphnet.ops.loss import SaysHessian
from graphnet.ops.shape import Slice, Stack
from graphnet.ops.surrogate import surrogates_among
from graphnet_rnn.errors import UsageError
from graphnet_rnn.riemannian.groups import PreActivation, UnitGroup


@dataclass
class Carry:
    """Derivatives after a piece of a sequence, of which the cost is the sum.

    slopes, random: for each final state the slope of all later losses, and a random vector at these losses,
    backpropagated, in the summed cost. initial: the states before the piece, to which both are carried; random_back:
    the result.
    """

    slopes: dict[Node, Node]
    random: dict[Node, Node]
    initial: list[Node]
    random_back: list[Node] = field(default_factory=list)


class Losses:
    """Nodes that a cost's losses read, and the weights of the losses in the summed cost.

    carry: derivatives of later pieces, if the cost is that of a piece. relative: a factor on the scale, if the cost is
    one of several batches.
    """

    def __init__(self, cost: Node, carry: Carry | None = None, relative: Node | None = None) -> None:
        self.carry = carry
        order = ancestors([cost])
        surrogates = surrogates_among(order)
        outer = ancestors([cost], stop=surrogates)
        self.cost, self._surrogates = cost, surrogates
        #: Losses with a Hessian.
        self.nodes = [node for node in outer if node.op.judged_input is not None]
        if not surrogates and not self.nodes:
            raise UsageError(
                f"{cost.describe()} (made at {cost.origin}) has no loss, so the outputs of the net are unknown: use "
                "gn.softmax_cross_entropy, gn.sigmoid_cross_entropy, gn.squared_error or gn.with_surrogate"
            )
        self._read_at(order)
        slopes_of = gn.gradient(cost, [*self.nodes, *surrogates])
        #: Σ g and Σ g², g = ∂cost/∂loss.
        self.sums = [gn.add(*[gn.sum(g**k) for g in slopes_of]) for k in (1, 2)]
        #: From a mean over N cases to their sum: N; Σ g / Σ g², 0 without weights. The cost of a piece is a sum.
        present = gn.greater(gn.add(*[gn.sum(gn.absolute(g)) for g in slopes_of]), 0)
        self.scale = (
            gn.where(present, self.sums[0] / gn.where(present, self.sums[1], 1), 0)
            if carry is None
            else gn.fill(1, (), cost.dtype)
        )
        if relative is not None:
            self.scale = relative * self.scale
        weights = [g * self.scale for g in slopes_of]
        self._weights = weights[: len(self.nodes)]
        #: Σ w, Σ w² and the number of losses with a weight w.
        self.spread = [
            gn.add(*[gn.sum(each) for each in parts])
            for parts in (
                weights,
                [w * w for w in weights],
                [gn.cast(gn.greater(gn.absolute(w), 0), w.dtype) for w in weights],
            )
        ]

    @property
    def weights(self) -> list[Node]:
        """Weight of each loss in the sum. UsageError for losses without a Hessian."""
        for node in self._surrogates:
            raise UsageError(
                f"the loss {node.describe()} (made at {node.origin}) has no Hessian of its own, only that of a "
                "surrogate: use a metric of slopes only, rnn.riemannian.OuterProduct(outputs='same') or "
                "Kronecker(sampled=False)"
            )
        return self._weights

    @property
    def places(self) -> list[Node]:
        """Nodes that the losses read."""
        found = [prediction_of(loss) for loss in self.nodes]
        for node, surrogate in self._surrogates.items():
            found += surrogate.places(node)
        return found

    def roots(self, random: gn.RandomSource) -> dict[Node, Node]:
        """For each place a random vector whose covariance is the Hessian of the losses."""
        found: dict[Node, Node] = {}
        for loss, g in zip(self.nodes, self.weights, strict=True):
            place = prediction_of(loss)
            root = hessian_of(loss).curvature_root(g, _signs(random, place), *loss.inputs)
            found[place] = found[place] + root if place in found else root
        return found

    def is_output(self, group: UnitGroup) -> bool:
        """True if losses read its pre-activations, some of a stack or all, and nothing else does."""
        return any(each.V in self._at for each in group.pre_activations) and all(
            (each.V in self._at or each.V in self._left_out) and each.V not in self._read_elsewhere
            for each in group.pre_activations
        )

    def require_pre_activations(self, output: Sequence[UnitGroup]) -> None:
        """Raises UsageError unless the losses read the pre-activations of these groups and nothing else."""
        known = {each.V for group in output for each in group.pre_activations}
        for V in self._at:
            if V not in known:
                raise UsageError(
                    f"a loss reads {V.describe()} (made at {V.origin}), which is not a pre-activation of output "
                    "weights; use estimate='probe', or 'exact' for few units"
                )

    def curvature(self, pre_activations: Sequence[PreActivation]) -> list[Node]:
        """Diagonal of the Hessian at the pre-activations of an output group."""
        diagonals = [
            hessian_of(loss).curvature_diagonal(g, *loss.inputs)
            for loss, g in zip(self.nodes, self.weights, strict=True)
        ]
        found = []
        for each in pre_activations:
            places = self._at.get(each.V, ())
            of = [diagonals[number] if step is None else diagonals[number][step] for number, step in places]
            found.append(gn.add(*of) if of else gn.fill(0, each.V.shape, each.V.dtype))
        return found

    def rows(self, V: Node, v: Node, u: Node) -> Node | None:
        """v_iᵀ H_L u_i for each case and row of two matrices, (rows, outputs); None if no loss reads V."""
        forms, weights = [], self.weights
        for number, step in self._at.get(V, ()):
            loss, g = self.nodes[number], weights[number]
            _, *targets = loss.inputs
            if step is not None:
                g, targets = g[step], [t[step] for t in targets]
            forms.append(hessian_of(loss).curvature_rows(g, v, u, V, *targets))
        return gn.add(*forms) if forms else None

    def _read_at(self, order: Sequence[Node]) -> None:
        """Finds the input of each loss: the steps of a stack, or some of them, or one node."""
        #: For each node the losses that read it, with the time step in each, or None.
        self._at: dict[Node, list[tuple[int, int | None]]] = {}
        #: Steps that are stacked with these nodes but that no loss reads.
        self._left_out: set[Node] = set()
        between = set(self.nodes) | set(self._surrogates)
        for number, place in enumerate(self.places):
            pieces, left_out, passed = _pieces(place)
            between |= passed
            self._left_out |= left_out
            for node, step in pieces:
                self._at.setdefault(node, []).append((number, step))
        at = {*self._at, *self._left_out}
        #: Those of these nodes that something else reads, too. (A surrogate reads its places.)
        self._read_elsewhere = (
            {x for node in order if node not in between for x in node.inputs if x in at}
            if not self._surrogates
            else set()
        )


#: Nodes that a loss reads, each with its time step; those that it leaves out; and the nodes between.
Pieces = tuple[list[tuple[Node, int | None]], set[Node], set[Node]]


def _pieces(place: Node) -> Pieces:
    """Parts of a loss's input: a stack's inputs, or those that a slice keeps; else the node itself."""
    if place.op.is_label:
        pieces, left_out, between = _pieces(place.inputs[0])
        return pieces, left_out, between | {place}
    match place.op:
        case Stack(axis=0):
            return [(node, step) for step, node in enumerate(place.inputs)], set(), {place}
        case Slice(key=(first, *_)) if cuts_first_axis(place):
            pieces, left_out, between = _pieces(place.inputs[0])
            if all(step is not None for _, step in pieces):
                by_step = {step: node for node, step in pieces}
                steps = [first] if isinstance(first, int) else list(range(*first))
                kept = [
                    (by_step[step], None if isinstance(first, int) else k) for k, step in enumerate(steps)
                ]
                gone = {node for node, step in pieces if step not in steps}
                return kept, left_out | gone, between | {place}
    return [(place, None)], set(), set()


def cuts_first_axis(slice_of: Node) -> bool:
    match slice_of:
        case Node(op=Slice(key=(_, *keys)), inputs=(whole,)):
            return all(key == (0, n, 1) for key, n in zip(keys, whole.shape[1:], strict=True))
    return False


def hessian_of(loss: Node) -> SaysHessian:
    match loss.op:
        case SaysHessian() as op:
            return op
    raise UsageError(
        f"the loss {loss.describe()} (made at {loss.origin}) has no Hessian: give its op curvature_diagonal, "
        "curvature_root, curvature_form and curvature_rows (graphnet/ops/loss.py), or use a metric of slopes only, "
        "such as rnn.riemannian.OuterProduct(outputs='same')"
    )


def prediction_of(loss: Node) -> Node:
    assert loss.op.judged_input is not None
    return loss.inputs[loss.op.judged_input]


def _signs(random: gn.RandomSource, like: Node) -> Node:
    return 2 * random.bernoulli(0.5, like.shape, like.dtype) - 1
