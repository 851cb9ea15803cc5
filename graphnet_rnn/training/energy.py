"""Energy models: contrastive divergence over batches of cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.models.energy.divergence import ContrastiveDivergence
from graphnet_rnn.models.energy.model import EnergyModel, as_generator, raised
from graphnet_rnn.models.energy.stack import Stack
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.hessian_free import CurvedOptimizer
from graphnet_rnn.settings import Count, listed, require_kinds, setting, shown, whole_number
from graphnet_rnn.training.batches_of_cases import divided
from graphnet_rnn.training.problem import CompiledProblem
from graphnet_rnn.training.state import description_of, digest_of


@dataclass(eq=False, repr=False)
class EnergyCases(CompiledProblem):
    """Contrastive divergence on batches of cases; history rows have the reconstruction error.

    model: an RBM, TRBM, RTRBM or RecurrentRBM.
    data: (cases, visible), or (time, sequences, visible) for a temporal model; or a function (generator, count) that
    draws new cases for each epoch.
    batch: cases, or sequences, of a step, default 100. Every epoch uses each once, in a new random order; cases that do
    not fill a batch are left out.
    gibbs_steps: k, default 1; or a function of the number of steps so far.
    chains: Gibbs chains of each case, default 1; their gradients are averaged, see ContrastiveDivergence.
    below: trained models from the data upwards, for layer-wise training; the model learns from their `activities`,
    drawn anew for each batch. Default none.
    valid: fraction of the cases to hold out for the reconstruction error, the last ones, default 0.1; not redrawn.
    drawn: cases of an epoch if `data` is a function, default 100.
    seed: seed of the order of the cases and of all random draws, default 0.
    threads, backend: see gn.compile.

    Optimizers: first-order and Hessian-free. Raises UsageError, DataError.

    >>> bits = np.repeat(np.random.default_rng(0).integers(0, 2, (50, 2)), 4, axis=1)
    >>> problem = rnn.EnergyCases(rnn.energy.RBM(8, 6), bits, batch=15)
    >>> len(problem)  # steps of an epoch: 45 cases to train, 5 to validate
    3
    """

    measure: ClassVar[str] = "error"
    item: ClassVar[str] = "case"
    remedy: ClassVar[str] = (
        "try a smaller rate, clipping (clip_norm=1.0), or, for Gaussian units, data divided by their deviation"
    )
    undivided: ClassVar[str] = (
        "all chains of a step are sampled together, and all held-out cases are needed for validation"
    )
    objective: ContrastiveDivergence = field(init=False)

    model: EnergyModel
    data: InitVar[Any]
    batch: Count = setting(100, "cases of a step")
    _: KW_ONLY
    gibbs_steps: int | Callable[[int], int] = 1
    # With one chain per frame, second-order optimizers diverge: parameters grow to 1e5 within ten steps.
    chains: int = setting(1, "Gibbs chains of each case, whose gradients are averaged")
    below: Sequence[EnergyModel] = ()
    valid: InitVar[float] = 0.1
    drawn: Count = setting(100, "cases of an epoch, if data are a function that draws them")
    seed: int = setting(0, "seed of the order of cases and of all random draws")

    def __post_init__(self, data: Any, valid: float) -> None:
        require_kinds(self)
        self.objective = ContrastiveDivergence(
            self.model, 1, self.seed, self.backend, self.threads, self.chains
        )
        self.seed = self.objective.seed
        self.below = listed("EnergyCases: below", self.below, "trained models")
        Stack([*self.below, self.model])  # raises if they do not fit
        self._reader = self.below[0] if self.below else self.model
        self._axis, self._draw = self._reader.case_axis, data if callable(data) else None
        cases = None if self._draw else self._reader.check_data("data", data)
        count = self.drawn if cases is None else cases.shape[self._axis]
        first, last = divided("EnergyCases", valid, count)
        self._count, kept, self._epoch = len(first), len(last), 0
        if cases is None:
            self._cases = self._draw_cases(self._count, 2, self._epoch)
            self._kept = self._draw_cases(kept, 3) if kept else self._cases[..., :0]
        else:
            self._cases, self._kept = np.split(cases, [self._count], axis=self._axis)
        self.items = self.batch
        if self.batch > self._count:
            raise DataError(
                f"EnergyCases: batch is {self.batch}, but there are only {self._count} cases to train on"
            )

    def require_fit(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, (FirstOrder, CurvedOptimizer)):
            raise UsageError(
                "EnergyCases: optimizer must be first-order or Hessian-free, e.g. rnn.Momentum(rate=0.01), not "
                f"{shown(optimizer)}: the loss itself cannot be computed"
            )

    def _draw_cases(self, count: int, *which: int) -> Array:
        assert self._draw is not None
        found = self._draw(as_generator("EnergyCases", self.seed, *which), count)
        cases = self._reader.check_data("data", found)
        if cases.shape[self._axis] != count:
            raise DataError(
                f"EnergyCases: data(generator, {count}) must return {count} cases; it returned "
                f"{cases.shape[self._axis]}"
            )
        return cases

    def __len__(self) -> int:
        return self._count // self.batch

    def feed(self, epoch: int, step: int) -> ContrastiveDivergence:
        if self._draw and epoch != self._epoch:
            self._cases, self._epoch = self._draw_cases(self._count, 2, epoch), epoch
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
        v = raised(self._kept, self.below, as_generator("EnergyCases", self.seed, 4))  # as for training
        return float(np.mean(np.square(v - self.model.reconstruct(v)), dtype=np.float64))

    def description(self) -> dict[str, Any]:
        steps = description_of(self.gibbs_steps) if callable(self.gibbs_steps) else self.gibbs_steps
        first = self._draw_cases(self._count, 2, 0) if self._draw else self._cases
        data = digest_of(first, self._kept, *(layer.theta for layer in self.below))
        return {**super().description(), "gibbs_steps": steps, "data": data}
