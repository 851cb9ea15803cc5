"""OverCost: a metric of one cost, its numbers, and steps of gradients in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.backends.numpy import blas_limit
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.riemannian.blocks import Block, Solver
from graphnet_rnn.riemannian.groups import UnitGroup, unit_groups
from graphnet_rnn.riemannian.kronecker import KroneckerFactors, block_of
from graphnet_rnn.riemannian.losses import Carry, Losses
from graphnet_rnn.riemannian.metrics import Metric
from graphnet_rnn.riemannian.rows import Rows
from graphnet_rnn.settings import amount


class OverCost:
    """A metric over a cost: nodes, and steps of gradients from the nodes' values.

    part: "outputs", weights of the output groups, "hidden", all others, or "all". groups: these, in order. relative: a
    factor on the scale of the sum, see Losses.
    Raises UsageError for a cost without groups or without a Hessian.
    """

    def __init__(
        self,
        metric: Metric,
        cost: Node,
        parameters: Sequence[Node],
        part: str = "all",
        carry: Carry | None = None,
        relative: Node | None = None,
    ) -> None:
        self.metric, self.parameters = metric, list(parameters)
        #: Random numbers of this part, so that the order of creation does not matter.
        self.random = gn.RandomSource(0)
        losses, hidden, output = _divided(cost, self.parameters, carry, relative)
        wanted = hidden if part != "outputs" else []
        self.hidden_groups = len(wanted)
        m = metric.moduli(losses, wanted, output, self.random) if wanted else []
        self.blocks = [
            block_of(metric.reduction, Rows(group, each)) for group, each in zip(wanted, m, strict=True)
        ]
        last = output if part != "hidden" else []
        kept = metric.reduction if metric.outputs == "same" else metric.outputs
        at_outputs = metric.output_moduli(losses, last, self.random) if last else []
        self.blocks += [block_of(kept, Rows(group, m)) for group, m in zip(last, at_outputs, strict=True)]
        self._nodes = [block.nodes() for block in self.blocks]
        given = metric.output_damping is not None or metric.outputs == "same"
        symbols = _weights_of_symbols(losses) if last and not given else []
        self._by_frequency = bool(symbols)
        #: The damping of Kronecker factors is that of a mean over cases, effectively (Σ w)² / Σ w² of them.
        self._spread = (
            losses.spread if any(isinstance(block, KroneckerFactors) for block in self.blocks) else []
        )
        self._all = [
            losses.scale,
            *self._spread,
            *symbols,
            *(node for nodes in self._nodes for node in nodes),
        ]

    @property
    def groups(self) -> list[UnitGroup]:
        """Groups in the order of the blocks."""
        return [block.group for block in self.blocks]

    @property
    def weights(self) -> list[Node]:
        """Parameters of the groups."""
        return [incoming.weight for group in self.groups for incoming in group.incoming]

    def nodes(self) -> list[Node]:
        """Nodes to compute and to sum over batches: the scale of the sum, weights of the symbols, the blocks."""
        return [gn.reshape(node, (node.size,)) for node in self._all]

    @property
    def size(self) -> int:
        """Number of numbers in the metric."""
        return sum(node.size for node in self._all)

    def solver(self, numbers: Array, more: float = 0.0) -> Solver:
        """g ↦ (M + more)⁻¹ g, both by weight, for the cost as given; numbers: values of `nodes`, end to end.

        Raises TrainingError for a singular metric.
        """
        ends = list(accumulate(node.size for node in self._all))
        pieces = np.split(np.asarray(numbers, np.float64), ends[:-1])
        scale, *values = [piece.reshape(node.shape) for piece, node in zip(pieces, self._all, strict=True)]
        weight = float(scale)
        if weight == 0:  # no case has a weight, so the gradient is 0
            return Solver(lambda gradient: {w: np.zeros(w.shape) for w in gradient}, 1.0)
        if not 0 < weight < math.inf:
            raise TrainingError(
                f"the cases of the metric must have a finite total weight > 0, not {weight:g}; check their weights, "
                "and that losses are finite"
            )
        evenness = 1.0
        if self._spread:
            total, squares, count = (float(values.pop(0)) for _ in self._spread)
            evenness = total * total / squares / count
        # With a rounding error, since no unit may be without damping.
        frequency = (
            values.pop(0) / float(values.pop(0)) + np.finfo(np.float64).eps if self._by_frequency else None
        )
        solvers = []
        for number, (block, nodes) in enumerate(zip(self.blocks, self._nodes, strict=True)):
            of_block, values = values[: len(nodes)], values[len(nodes) :]
            block.require_finite(of_block)
            damping = self._damping(number, frequency)
            if isinstance(block, KroneckerFactors):
                damping *= evenness
            with _one_thread():
                solvers.append(block.solver(of_block, damping, more * weight))

        def solve(gradient: Mapping[Node, Array]) -> dict[Node, Array]:
            steps: dict[Node, Array] = {}
            with _one_thread():
                for block, solver in zip(self.blocks, solvers, strict=True):
                    weights = [each.weight for each in block.group.incoming]
                    slopes = [weight * np.asarray(gradient[w], np.float64) for w in weights]
                    steps.update(zip(weights, solver(slopes), strict=True))
            return steps

        return Solver(solve, max((each.condition for each in solvers), default=1.0))

    def flat_solver(self, who: str, numbers: Array, damping: float = 0.0) -> Solver:
        """`solver` for vectors of all parameters; UsageError, prefixed with `who`, for numbers of another size."""
        if np.shape(numbers) != (self.size,):
            raise UsageError(
                f"{who}: numbers must be the {self.size:,} that `metric` returns for this metric and part, not "
                f"of shape {list(np.shape(numbers))}"
            )
        solver = self.solver(numbers, amount(f"{who}: damping", damping))
        ends = list(accumulate(p.size for p in self.parameters))

        def solve(g: Array) -> Array:
            pieces = zip(self.parameters, np.split(g, ends[:-1]), strict=True)
            parts = {p: piece.reshape(p.shape).astype(p.dtype) for p, piece in pieces}
            found = solver({weight: parts[weight] for weight in self.weights})
            return np.concatenate([found.get(p, np.zeros(p.shape)).ravel() for p in self.parameters])

        return Solver(solve, solver.condition)

    def placed(self, numbers: Array, other: OverCost) -> Array:
        """Converts the numbers to those of the same metric of another cost, which has all groups of this one."""
        found = np.zeros(other.size)
        begins = dict(zip(map(_key, other.blocks), other._starts, strict=True))
        ends = [*self._starts[1:], self.size]
        head = self._starts[0]
        found[:head] = numbers[:head]
        for block, start, end in zip(self.blocks, self._starts, ends, strict=True):
            to = begins[_key(block)]
            found[to : to + end - start] = numbers[start:end]
        return found

    def rescale(self, numbers: Array, count: float) -> None:
        """Converts numbers of summed costs to those of their mean over `count` losses, in place."""
        numbers[0] = count

    @property
    def _starts(self) -> list[int]:
        """First index of each block's numbers, after the scale and the weights of the symbols."""
        own = [sum(node.size for node in nodes) for nodes in self._nodes]
        return list(accumulate(own[:-1], initial=self.size - sum(own)))

    def _damping(self, number: int, frequency: Array | None) -> Any:
        metric = self.metric
        if number < self.hidden_groups:
            return metric.damping
        if metric.outputs == "same" and metric.output_damping is None:
            return metric.damping
        if frequency is not None:
            return frequency
        return 1.0 if metric.output_damping is None else metric.output_damping


def _key(block: Block) -> tuple[Node, ...]:
    return tuple(each.weight for each in block.group.incoming)


def _one_thread() -> AbstractContextManager[object]:
    """Context with NumPy's BLAS on one thread: idle BLAS threads would spin during the next gradient."""
    return _limit()()


@cache
def _limit() -> Callable[[], AbstractContextManager[object]]:
    return blas_limit(1)


def _divided(
    cost: Node, parameters: Sequence[Node], carry: Carry | None = None, relative: Node | None = None
) -> tuple[Losses, list[UnitGroup], list[UnitGroup]]:
    """Losses of the cost, its hidden groups, and its output groups."""
    losses = Losses(cost, carry, relative)
    found = unit_groups(cost, parameters)
    output = [group for group in found if losses.is_output(group)]
    return losses, [group for group in found if group not in output], output


def hidden_unit_count(cost: Node, parameters: Sequence[Node]) -> int:
    """Number of units of the hidden groups, without learned initial states."""
    _, hidden, _ = _divided(cost, parameters)
    return sum(group.units for group in hidden if [each.kind for each in group.incoming] != ["bias"])


def _weights_of_symbols(losses: Losses) -> list[Node]:
    """Weight of each symbol among the targets, and their sum; nothing without symbols.

    Source: Ollivier 2013, below eq. 19, where ε_y is the quotient, the frequency.
    """
    nodes = losses.nodes
    if len(nodes) == 1 and nodes[0].op.index_size(1, *nodes[0].inputs) is not None:  # targets are symbols
        z, t = nodes[0].inputs
        w = losses.weights[0]
        chosen = gn.one_hot(t, z.shape[-1], z.dtype) * gn.reshape(w, (*w.shape, 1))
        return [gn.sum(chosen, axis=tuple(range(t.ndim))), gn.sum(w)]
    return []
