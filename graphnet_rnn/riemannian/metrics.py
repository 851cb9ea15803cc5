"""Metrics: the modulus of each unit, and the entries of each unit's block to keep."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.backends.numpy import blas_limit
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.riemannian import moduli
from graphnet_rnn.riemannian.blocks import Block, Solver
from graphnet_rnn.riemannian.groups import UnitGroup, unit_groups
from graphnet_rnn.riemannian.kronecker import KroneckerFactors, block_of
from graphnet_rnn.riemannian.moduli import Carry, Moduli, Outputs
from graphnet_rnn.riemannian.rows import Rows
from graphnet_rnn.settings import Amount, amount, one_of, require_kinds, shown

__all__ = [
    "Backpropagated", "Frequency", "Kronecker", "Metric", "OuterProduct", "OverCost", "RootMeanSquare",
    "as_metric", "asked_for", "hidden_unit_count",
]  # fmt: skip

UNITWISE = ("full", "quasi-diagonal", "diagonal")
OF_OUTPUTS = (*UNITWISE, "same")
ESTIMATES = ("structured", "probe", "exact")
TIMES = {
    "independent": "kronecker",
    "symmetric": "kronecker symmetric",
    "linear": "kronecker over time",
}


@dataclass(frozen=True)
class Metric(ABC):
    """M(θ): a block for each unit, M = Σ m̃ ⊗ S Sᵀ + ε I over cases and steps, of the cost's sum over cases.

    reduction: of all blocks except those of the output: "full", "quasi-diagonal" (the diagonal and the row of the bias,
    at the cost of two products for a weight), or "diagonal". outputs: reduction for the output's weights, whose modulus
    is the diagonal of the losses' Hessian; "same": treated like all others. damping: ε.
    output_damping: damping of the output; by default the frequency of each symbol among the targets, or 1 without
    symbols.
    Source: Ollivier 2013, section 2.

    >>> metrics = [make() for make in rnn.riemannian.METRICS.values()]
    >>> all(isinstance(metric, rnn.riemannian.Metric) for metric in metrics)
    True
    >>> metrics[0].reduction, metrics[0].damping
    ('full', 1.0)
    >>> rnn.riemannian.Kronecker().description()["metric"]
    'Kronecker'
    >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=5, batch=1)
    >>> losses = rnn.riemannian.moduli.Outputs(u.cost)
    >>> hidden, output = rnn.riemannian.unit_groups(u.cost, u.network.parameters)
    >>> [m.shape for m in metrics[0].moduli(losses, [hidden], [output], u.random)[0]]
    [(1, 3), (1, 3), (1, 3), (1, 3), (1, 3)]
    >>> [m.shape for m in metrics[0].output_moduli(losses, [output], u.random)[0]]
    [(1, 2), (1, 2), (1, 2), (1, 2), (1, 2)]
    """

    reduction: str = "full"
    outputs: str = "quasi-diagonal"
    damping: Amount = 1.0
    output_damping: Amount | None = None

    reductions: ClassVar[tuple[str, ...]] = UNITWISE

    @property
    def by_pieces(self) -> bool:
        """True if pieces of a sequence can be measured separately with a vector carried back from piece to piece."""
        return True

    def __post_init__(self) -> None:
        own = type(self).__name__
        one_of(f"{own}: reduction", self.reduction, self.reductions)
        one_of(f"{own}: outputs", self.outputs, OF_OUTPUTS)
        require_kinds(self)

    @abstractmethod
    def moduli(
        self,
        losses: Outputs,
        hidden: Sequence[UnitGroup],
        output: Sequence[UnitGroup],
        random: gn.RandomSource,
    ) -> Moduli:
        """m̃ of the groups that no loss reads directly (hidden groups).

        losses: the cost's losses and the nodes that they read. hidden: the hidden groups. output: the output groups,
        which a loss reads directly. random: source of random targets or signs.
        """

    def description(self) -> dict[str, Any]:
        """Class and settings as JSON; see as_metric."""
        return {"metric": type(self).__name__, **{f.name: getattr(self, f.name) for f in fields(self)}}

    def output_moduli(self, losses: Outputs, output: Sequence[UnitGroup], random: gn.RandomSource) -> Moduli:
        """m̃ of the groups that a loss reads directly (output groups). losses, output, random: see moduli."""
        return [losses.curvature(group.pre_activations) for group in output]


@dataclass(frozen=True)
class OuterProduct(Metric):
    """m̃ = B², B = ∂C/∂V: the recurrent unitwise outer product metric (RUOP). For the rest see Metric.

    sampled: True uses losses of targets drawn from the model instead of the given ones, so that M is the Fisher metric
    of each unit at each step.
    Source: Ollivier 2013, eqs 23, 26, 55.

    >>> metric = rnn.riemannian.OuterProduct(reduction="quasi-diagonal", sampled=True)
    >>> optimizer = rnn.Riemannian(rate=0.1, metric=metric)
    >>> metric.description()["metric"]
    'OuterProduct'
    >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=5, batch=1)
    >>> losses = rnn.riemannian.moduli.Outputs(u.cost)
    >>> hidden, output = rnn.riemannian.unit_groups(u.cost, u.network.parameters)
    >>> [B.shape for B in metric.slopes(losses, [hidden], u.random)[0]]
    [(1, 3), (1, 3), (1, 3), (1, 3), (1, 3)]
    """

    sampled: bool = False

    def slopes(self, losses: Outputs, groups: Sequence[UnitGroup], random: gn.RandomSource) -> Moduli:
        """B, of the given targets, or of drawn ones; groups: groups of the cost; losses, random: see moduli."""
        return moduli.drawn_slopes(losses, groups, random) if self.sampled else moduli.slopes(losses, groups)

    def moduli(
        self,
        losses: Outputs,
        hidden: Sequence[UnitGroup],
        output: Sequence[UnitGroup],
        random: gn.RandomSource,
    ) -> Moduli:
        return [[B * B for B in found] for found in self.slopes(losses, hidden, random)]

    def output_moduli(self, losses: Outputs, output: Sequence[UnitGroup], random: gn.RandomSource) -> Moduli:
        if self.outputs != "same":
            return super().output_moduli(losses, output, random)
        return self.moduli(losses, output, output, random)


@dataclass(frozen=True)
class RootMeanSquare(OuterProduct):
    """M = √(mean over steps of (S B)²) for each parameter separately: a baseline without invariance.

    Source: Ollivier 2013, section 4; after Duchi, Hazan & Singer 2011.

    >>> metric = rnn.riemannian.RootMeanSquare(damping=1e-3)
    >>> metric.reduction, metric.outputs
    ('rms', 'diagonal')
    """

    reduction: str = "rms"
    outputs: str = "diagonal"
    damping: float = 0.0

    reductions: ClassVar[tuple[str, ...]] = ("rms",)


@dataclass(frozen=True)
class Frequency(OuterProduct):
    """M = the share of the steps at which a symbol chooses a weight, else 1: a baseline.

    Rare symbols then learn as fast as frequent ones. Source: Ollivier 2013, section 4.

    >>> metric = rnn.riemannian.Frequency()
    >>> metric.reduction, metric.outputs
    ('frequency', 'diagonal')
    """

    reduction: str = "frequency"
    outputs: str = "diagonal"
    damping: float = 0.0

    reductions: ClassVar[tuple[str, ...]] = ("frequency",)


@dataclass(frozen=True)
class Kronecker(OuterProduct):
    """M = E[S Sᵀ] ⊗ E[B Bᵀ] for each group: KFAC, which takes sources and slopes as independent

    over_time: "independent" steps; "linear": steps are a linear process of first order; "symmetric": one whose matrix
    is symmetric when both factors are white. The last two are for long times. Groups without factors (edges, diagonal
    connections, gated weights) have a diagonal. damping: of the mean over cases and steps, ε, split between both
    factors. sampled: True uses drawn targets, as the Fisher metric does. For the rest see Metric.
    Source: Martens & Grosse 2015; Martens, Ba & Johnson 2018, 3.5.

    >>> metric = rnn.riemannian.Kronecker(damping=1e-2, over_time="linear")
    >>> metric.reduction, metric.by_pieces
    ('kronecker over time', False)
    """

    reduction: str = "kronecker"
    outputs: str = "same"
    damping: float = 1e-3
    sampled: bool = True
    over_time: str = "independent"

    @property
    def by_pieces(self) -> bool:
        return self.over_time == "independent"

    reductions: ClassVar[tuple[str, ...]] = tuple(TIMES.values())

    def __post_init__(self) -> None:
        one_of("Kronecker: over_time", self.over_time, tuple(TIMES))
        one_of("Kronecker: reduction", self.reduction, ("kronecker", TIMES[self.over_time]))
        object.__setattr__(self, "reduction", TIMES[self.over_time])
        super().__post_init__()

    def moduli(
        self,
        losses: Outputs,
        hidden: Sequence[UnitGroup],
        output: Sequence[UnitGroup],
        random: gn.RandomSource,
    ) -> Moduli:
        return self.slopes(losses, hidden, random)


@dataclass(frozen=True)
class Backpropagated(Metric):
    """m̃_i = Σ_j (∂V_j/∂V_i)² m̃_j + (∂o/∂V_i)ᵀ H_L (∂o/∂V_i): the recurrent backpropagated metric (RBPM).

    estimate: "structured", eq. 24 as written, for nets whose units depend on each other by weights and unit by unit
    (Elman, GraphRNN, GNN, GLNN and cells of this form); "probe", an unbiased estimate by another backward pass with
    random signs, for any net, also with memory cells; "exact", a backward pass for each unit of each step, for tests.
    For the rest see Metric. Source: Ollivier 2013, eqs 24, 26, 61-63.

    >>> metric = rnn.riemannian.Backpropagated(estimate="probe")
    >>> metric.by_pieces, rnn.riemannian.Backpropagated().by_pieces
    (True, False)
    """

    estimate: str = "structured"

    @property
    def by_pieces(self) -> bool:
        return self.estimate == "probe"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("Backpropagated: estimate", self.estimate, ESTIMATES)

    def moduli(
        self,
        losses: Outputs,
        hidden: Sequence[UnitGroup],
        output: Sequence[UnitGroup],
        random: gn.RandomSource,
    ) -> Moduli:
        match self.estimate:
            case "structured":
                return moduli.structured(losses, hidden, output)
            case "probe":
                return moduli.probed(losses, hidden, random)
            case _:
                return moduli.exact(losses, hidden)


#: Metrics by their names in the source and on the command line.
METRICS: dict[str, Callable[[], Metric]] = {
    "ruop": OuterProduct,
    "rbpm": Backpropagated,
    "rbpm_probed": partial(Backpropagated, estimate="probe"),
    "qdruop": partial(OuterProduct, "quasi-diagonal"),
    "qdrbpm": partial(Backpropagated, "quasi-diagonal"),
    "qdrbpm_probed": partial(Backpropagated, "quasi-diagonal", estimate="probe"),
    "kfac": Kronecker,
    "rms": RootMeanSquare,
    "frequency": Frequency,
}
#: Their classes by name.
KINDS: dict[str, type[Metric]] = {kind.__name__: kind for kind in (type(make()) for make in METRICS.values())}


def as_metric(who: str, given: Any, argument: str = "metric must be") -> Metric:
    """Returns a metric, from a metric, a name in METRICS, or a description; UsageError for anything else.

    argument: beginning of the error message.
    """
    if isinstance(given, Metric):
        return given
    if isinstance(given, str) and given in METRICS:
        return METRICS[given]()
    if isinstance(given, Mapping) and given.get("metric") in KINDS:
        kind = KINDS[given["metric"]]
        settings = {str(name): value for name, value in given.items() if name != "metric"}
        if settings.keys() <= {f.name for f in fields(kind)}:
            return kind(**settings)
    raise UsageError(
        f"{who}: {argument} one of rnn.riemannian, e.g. rnn.riemannian.OuterProduct(), or one of "
        f"{', '.join(METRICS)}, not {shown(given)}"
    )


def asked_for(who: str, metric: Any, part: Any) -> Metric:
    """Returns the metric for an objective; UsageError for an invalid metric or part."""
    one_of(f"{who}: part", part, ("all", "outputs", "hidden"))
    return as_metric(who, metric)


class OverCost:
    """A metric over a cost: nodes, and steps of gradients from the nodes' values.

    part: "outputs", weights of the output groups, "hidden", all others, or "all". groups: these, in order. relative: a
    factor on the scale of the sum, see Outputs.
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
) -> tuple[Outputs, list[UnitGroup], list[UnitGroup]]:
    """Outputs of the cost, its hidden groups, and its output groups."""
    losses = Outputs(cost, carry, relative)
    found = unit_groups(cost, parameters)
    output = [group for group in found if losses.is_output(group)]
    return losses, [group for group in found if group not in output], output


def hidden_unit_count(cost: Node, parameters: Sequence[Node]) -> int:
    """Number of units of the hidden groups, without learned initial states."""
    _, hidden, _ = _divided(cost, parameters)
    return sum(group.units for group in hidden if [each.kind for each in group.incoming] != ["bias"])


def _weights_of_symbols(outputs: Outputs) -> list[Node]:
    """Weight of each symbol among the targets, and their sum; nothing without symbols.

    Source: Ollivier 2013, below eq. 19, where ε_y is the quotient, the frequency.
    """
    losses = outputs.losses
    if len(losses) == 1 and losses[0].op.index_size(1, *losses[0].inputs) is not None:  # targets are symbols
        z, t = losses[0].inputs
        w = outputs.weights[0]
        chosen = gn.one_hot(t, z.shape[-1], z.dtype) * gn.reshape(w, (*w.shape, 1))
        return [gn.sum(chosen, axis=tuple(range(t.ndim))), gn.sum(w)]
    return []
