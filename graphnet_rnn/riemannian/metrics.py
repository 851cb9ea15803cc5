"""Metrics: the modulus of each unit, and the entries of each unit's block to keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

import graphnet as gn
from graphnet_rnn.errors import UsageError
from graphnet_rnn.riemannian import moduli
from graphnet_rnn.riemannian.groups import UnitGroup
from graphnet_rnn.riemannian.losses import Losses
from graphnet_rnn.riemannian.moduli import Moduli
from graphnet_rnn.settings import Amount, one_of, require_kinds, shown

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
    >>> losses = rnn.riemannian.losses.Losses(u.cost)
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
        losses: Losses,
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

    def output_moduli(self, losses: Losses, output: Sequence[UnitGroup], random: gn.RandomSource) -> Moduli:
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
    >>> losses = rnn.riemannian.losses.Losses(u.cost)
    >>> hidden, output = rnn.riemannian.unit_groups(u.cost, u.network.parameters)
    >>> [B.shape for B in metric.slopes(losses, [hidden], u.random)[0]]
    [(1, 3), (1, 3), (1, 3), (1, 3), (1, 3)]
    """

    sampled: bool = False

    def slopes(self, losses: Losses, groups: Sequence[UnitGroup], random: gn.RandomSource) -> Moduli:
        """B, of the given targets, or of drawn ones; groups: groups of the cost; losses, random: see moduli."""
        return moduli.drawn_slopes(losses, groups, random) if self.sampled else moduli.slopes(losses, groups)

    def moduli(
        self,
        losses: Losses,
        hidden: Sequence[UnitGroup],
        output: Sequence[UnitGroup],
        random: gn.RandomSource,
    ) -> Moduli:
        return [[B * B for B in found] for found in self.slopes(losses, hidden, random)]

    def output_moduli(self, losses: Losses, output: Sequence[UnitGroup], random: gn.RandomSource) -> Moduli:
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
    damping: Amount = 0.0

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
    damping: Amount = 0.0

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
    damping: Amount = 1e-3
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
        losses: Losses,
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
        losses: Losses,
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
