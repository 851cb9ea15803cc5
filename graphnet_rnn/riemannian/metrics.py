"""Metrics: which modulus a change of a unit has, and how much of each unit's block is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.ops.loss import SymbolCrossEntropy
from graphnet_rnn.riemannian import moduli
from graphnet_rnn.riemannian.blocks import REDUCTIONS, Rows
from graphnet_rnn.riemannian.groups import Group, groups_of
from graphnet_rnn.riemannian.moduli import ByMeeting, Outputs
from graphnet_rnn.settings import amount, one_of

__all__ = ["Backpropagated", "Measured", "Metric", "OuterProduct", "OverCost", "hidden_unit_count"]

#: How the diagonal of the output's Hessian is reduced; "outer": as all other groups, by squares of slopes.
OF_OUTPUTS = ("quasi-diagonal", "diagonal", "full", "outer")
ESTIMATES = ("structured", "probe", "exact")


@dataclass(frozen=True)
class Metric(ABC):
    """M(θ): a block for each unit, M = Σ m̃ ⊗ S Sᵀ + ε I over cases and steps, of the cost's sum over cases.

    reduction: of the blocks of all but the output: "full", "quasi-diagonal" (the diagonal and the row of the bias, at
    the cost of two products for a weight), or "diagonal". outputs: of the output's weights, whose modulus is the
    diagonal of the losses' Hessian: "quasi-diagonal", "diagonal", "full"; "outer": its modulus is the square of the
    slope. damping: ε. output_damping: that of the output, the frequency of each symbol among the targets by default
    where there are symbols, else `damping`.
    Source: Ollivier 2013, section 2.
    """

    reduction: str = "full"
    outputs: str = "quasi-diagonal"
    damping: float = 1.0
    output_damping: float | None = None

    def __post_init__(self) -> None:
        own = type(self).__name__
        one_of(f"{own}: reduction", self.reduction, tuple(REDUCTIONS))
        one_of(f"{own}: outputs", self.outputs, OF_OUTPUTS)
        object.__setattr__(self, "damping", amount(f"{own}: damping", self.damping))
        if self.output_damping is not None:
            object.__setattr__(self, "output_damping", amount(f"{own}: output_damping", self.output_damping))

    @abstractmethod
    def moduli(
        self, outputs: Outputs, hidden: Sequence[Group], judged: Sequence[Group], random: gn.RandomSource
    ) -> ByMeeting:
        """m̃ of the groups that no loss judges."""


@dataclass(frozen=True)
class OuterProduct(Metric):
    """m̃ = B², B = ∂C/∂V: the recurrent unitwise outer product metric (RUOP). For the rest see Metric.

    Source: Ollivier 2013, eqs 23, 26, 55.
    """

    def moduli(
        self, outputs: Outputs, hidden: Sequence[Group], judged: Sequence[Group], random: gn.RandomSource
    ) -> ByMeeting:
        return moduli.outer(outputs, hidden)


@dataclass(frozen=True)
class Backpropagated(Metric):
    """m̃_i = Σ_j (∂V_j/∂V_i)² m̃_j + (∂o/∂V_i)ᵀ H_L (∂o/∂V_i): the recurrent backpropagated metric (RBPM).

    estimate: "structured", as eq. 24 is written, for nets whose units depend on each other by weights and unit by unit
    (Elman, GraphRNN, GNN, GLNN and whatever is written so); "probe", an unbiased estimate by another backward pass with
    random signs, for any net, also where memory cells hand changes on; "exact", a backward pass for each unit of each
    step, for tests.
    For the rest see Metric. Source: Ollivier 2013, eqs 24, 26, 61-63.
    """

    estimate: str = "structured"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("Backpropagated: estimate", self.estimate, ESTIMATES)

    def moduli(
        self, outputs: Outputs, hidden: Sequence[Group], judged: Sequence[Group], random: gn.RandomSource
    ) -> ByMeeting:
        if self.estimate == "structured":
            return moduli.structured(outputs, hidden, judged)
        return (
            moduli.probed(outputs, hidden, random)
            if self.estimate == "probe"
            else moduli.exact(outputs, hidden)
        )


class OverCost:
    """A metric over a cost: nodes, and from what these are the steps that it makes of gradients.

    part: "outputs", the weights of what the losses judge, "hidden", all others, or "all". groups: these, in order.
    Raises UsageError for what has no groups or no Hessian.
    """

    def __init__(
        self,
        metric: Metric,
        cost: Node,
        parameters: Sequence[Node],
        random: gn.RandomSource | None = None,
        part: str = "all",
    ) -> None:
        self.metric, self.parameters = metric, list(parameters)
        outputs = Outputs(cost)
        found = groups_of(cost, self.parameters)
        judged = [group for group in found if outputs.is_output(group)]
        hidden = [group for group in found if group not in judged]
        wanted = hidden if part != "outputs" else []
        self.hidden_groups = len(wanted)
        m = metric.moduli(outputs, wanted, judged, random or gn.RandomSource(0)) if wanted else []
        self.blocks = [
            REDUCTIONS[metric.reduction](Rows(group, each)) for group, each in zip(wanted, m, strict=True)
        ]
        for group in judged if part != "hidden" else ():
            squares = metric.outputs == "outer"
            at = moduli.outer(outputs, [group])[0] if squares else outputs.curvature(group.meetings)
            kept = metric.reduction if squares else metric.outputs
            self.blocks.append(REDUCTIONS[kept](Rows(group, at)))
        self._nodes = [block.nodes() for block in self.blocks]
        few = len(self.blocks) == self.hidden_groups or metric.output_damping is not None
        self._frequency = [] if few else [_frequency(outputs)]
        self._scale = outputs.scale

    @property
    def groups(self) -> list[Group]:
        """In the order of the blocks."""
        return [block.group for block in self.blocks]

    @property
    def weights(self) -> list[Node]:
        """The parameters of the groups."""
        return [incoming.weight for group in self.groups for incoming in group.incoming]

    def nodes(self) -> list[Node]:
        """What is to be computed: the scale of the sum, damping of the output, and the blocks."""
        return [self._scale, *self._frequency, *(node for nodes in self._nodes for node in nodes)]

    def measured(self, arrays: Sequence[Array]) -> Measured:
        """The metric that these values of `nodes` are."""
        values = [np.asarray(array, np.float64) for array in arrays]
        start = 1 + len(self._frequency)
        parts, at = [], start
        for nodes in self._nodes:
            parts.append(values[at : at + len(nodes)])
            at += len(nodes)
        return Measured(self, float(values[0]), values[1:start], parts)


def hidden_unit_count(cost: Node, parameters: Sequence[Node]) -> int:
    """How many units the groups have that no loss judges, learned initial states aside."""
    outputs = Outputs(cost)
    return sum(
        group.units
        for group in groups_of(cost, parameters)
        if not outputs.is_output(group) and [each.kind for each in group.incoming] != ["bias"]
    )


def _frequency(outputs: Outputs) -> Node:
    """ε_y: of each symbol among the targets, and a rounding; 1 where there are no symbols. Source: below eq. 19."""
    losses = outputs.losses
    if len(losses) == 1 and isinstance(losses[0].op, SymbolCrossEntropy):
        z, t = losses[0].inputs
        chosen = gn.one_hot(t, z.shape[-1], z.dtype)
        return gn.mean(chosen, axis=tuple(range(t.ndim))) + float(np.finfo(np.float64).eps)
    return gn.fill(1, (), outputs.cost.dtype)


@dataclass(frozen=True)
class Measured:
    """A metric at a point: the scale from the cost to its sum, and the values of each group's blocks.

    Those of several batches add up: a + b.
    """

    over: OverCost
    scale: float
    frequency: list[Array]
    values: list[list[Array]]

    def __add__(self, other: Measured) -> Measured:
        weight = self.scale / (self.scale + other.scale)
        frequency = [
            weight * a + (1 - weight) * b for a, b in zip(self.frequency, other.frequency, strict=True)
        ]
        values = [
            [a + b for a, b in zip(x, y, strict=True)] for x, y in zip(self.values, other.values, strict=True)
        ]
        return Measured(self.over, self.scale + other.scale, frequency, values)

    def damping(self, number: int) -> Any:
        """ε of a group: a number, or one for each unit."""
        metric = self.over.metric
        if number < self.over.hidden_groups:
            return metric.damping
        return self.frequency[0] if self.frequency else metric.output_damping

    def solved(self, gradient: Mapping[Node, Array]) -> dict[Node, Array]:
        """M⁻¹ g by weight, of the gradient of the summed cost."""
        found: dict[Node, Array] = {}
        for number, (block, values) in enumerate(zip(self.over.blocks, self.values, strict=True)):
            weights = [each.weight for each in block.group.incoming]
            steps = block.solved(
                values, [np.asarray(gradient[w], np.float64) for w in weights], self.damping(number)
            )
            found.update(zip(weights, steps, strict=True))
        return found
