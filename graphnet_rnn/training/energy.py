"""Energy models as problems: contrastive divergence over batches of cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.models.energy.divergence import ContrastiveDivergence
from graphnet_rnn.models.energy.learning import raised
from graphnet_rnn.models.energy.model import EnergyModel, as_generator
from graphnet_rnn.optimizers import CurvedOptimizer, FirstOrder, Optimizer
from graphnet_rnn.settings import amount, setting, whole_number
from graphnet_rnn.training.problem import CompiledProblem
from graphnet_rnn.training.state import description_of, digest_of

__all__ = ["EnergyCases"]


@dataclass(eq=False, repr=False)
class EnergyCases(CompiledProblem):
    """A step along contrastive divergence for each batch of cases; rows have the reconstruction error.

    model: RBM, TRBM or RTRBM. data: (cases, visible), or (time, sequences, visible) for a temporal model. batch: cases,
    or sequences, of a step; all are taken once in an epoch, in an order of its own, but for what fills no batch.
    gibbs_steps: k, or a function of the number of steps that were made. chains: of each case; their gradients' mean is
    taken, see ContrastiveDivergence. below: trained models from the data upwards; the model then learns from their
    `activities`, drawn anew for each batch. valid: the share of the cases that is kept to judge reconstructions by, the
    last ones. Its optimizers are those of first order and Hessian-free. Raises UsageError, DataError.
    """

    measure: ClassVar[str] = "error"
    item: ClassVar[str] = "case"
    objective: ContrastiveDivergence = field(init=False)

    model: EnergyModel
    data: InitVar[Any]
    batch: int = setting(100, "cases of a step")
    _: KW_ONLY
    gibbs_steps: int | Callable[[int], int] = 1
    chains: int = setting(1, "of each case; their gradients' mean is taken")
    below: Sequence[EnergyModel] = ()
    valid: InitVar[float] = 0.1
    seed: int = setting(0, "of the order of cases, and of all that is drawn")

    def __post_init__(self, data: Any, valid: float) -> None:
        self.objective = ContrastiveDivergence(
            self.model, 1, self.seed, self.backend, self.threads, self.chains
        )
        self.seed, self.below, batch = self.objective.seed, list(self.below), self.batch
        reader = self.below[0] if self.below else self.model
        cases = reader.check_data("data", data)
        self._axis, count = reader.case_axis, cases.shape[reader.case_axis]
        kept = round(amount("EnergyCases: valid", valid) * count)
        if kept >= count:
            raise UsageError(f"EnergyCases: valid = {valid:g} of {count} cases leaves none to train on")
        self._cases, self._kept = np.split(cases, [count - kept], axis=self._axis)
        self.batch = self.items = whole_number("EnergyCases: batch", batch)
        self._count = count - kept
        if self.batch > self._count:
            raise DataError(
                f"EnergyCases: batch is {batch}, but there are only {self._count} cases to train on"
            )

    def require_fit(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, (FirstOrder, CurvedOptimizer)):
            raise UsageError(
                "EnergyCases: optimizer must be a first-order or a Hessian-free one, e.g. rnn.Momentum(rate=0.01) or "
                f"rnn.HessianFree(), not {optimizer!r:.60}: the gradient is of no function whose value is known"
            )

    def __len__(self) -> int:
        return self._count // self.batch

    def feed(self, epoch: int, step: int) -> ContrastiveDivergence:
        order = as_generator("EnergyCases", self.seed, 0, epoch).permutation(self._count)
        which = order[step * self.batch : (step + 1) * self.batch]
        number = epoch * len(self) + step
        generator = as_generator("EnergyCases", self.seed, 1, number)
        self.objective.feed(raised(self._cases.take(which, axis=self._axis), self.below, generator))
        self.objective.draw = number
        steps = self.gibbs_steps(number) if callable(self.gibbs_steps) else self.gibbs_steps
        self.objective.gibbs_steps = whole_number("EnergyCases: gibbs_steps", steps)
        return self.objective

    def validate(self) -> float | None:
        if not self._kept.size:
            return None
        v: Array = self._kept
        for layer in self.below:
            v = layer.infer(v)
        return float(np.mean(np.square(v - self.model.reconstruct(v)), dtype=np.float64))

    def description(self) -> dict[str, Any]:
        steps = description_of(self.gibbs_steps) if callable(self.gibbs_steps) else self.gibbs_steps
        data = digest_of(self._cases, self._kept, *(layer.theta for layer in self.below))
        return {**super().description(), "gibbs_steps": steps, "data": data}
