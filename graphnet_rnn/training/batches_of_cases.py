"""Batches of cases, shuffled in every epoch, and metrics besides the loss."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Array, Node
from graphnet.ops.random import Random
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.model import Model
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import amount, require_kinds
from graphnet_rnn.training.problem import ObjectiveProblem, Validated
from graphnet_rnn.training.state import fixed_parts


class BatchesOfCases(ObjectiveProblem):
    """Base class, a dataclass with the fields batch, gradient_batches and curvature_batches; subclasses define a batch.

    Call `_begin` before the objective exists. The cost of a step is the weighted mean over all its targets, in any
    number of batches.
    """

    item: ClassVar[str] = "case"

    #: Settings that subclasses declare as fields, in their own order.
    batch: int
    gradient_batches: int
    curvature_batches: int
    objective: Objective

    @property
    @abstractmethod
    def _count(self) -> int:
        """Number of training cases."""

    @abstractmethod
    def _weight_of(self, which: Array) -> float:
        """Returns the total weight of the targets of these cases."""

    @abstractmethod
    def _arrays_of(self, which: Array, scale: float) -> tuple[Any, ...]:
        """Returns the arrays of these cases: weights times `scale`, padded to a batch by weight 0."""

    def _packed(self, order: Array) -> list[Array]:
        return [order[i : i + self.batch] for i in range(0, len(order), self.batch)]

    def _mixed(self, batches: list[Array], generator: np.random.Generator) -> list[Array]:
        """Returns the batches of an epoch in the order of the steps, for steps of one batch."""
        return batches

    def _divided_step(self, cases: Array, generator: np.random.Generator) -> list[Array]:
        """Returns the cases of a step of several batches as full batches."""
        return [cases[i : i + self.batch] for i in range(0, len(cases), self.batch)]

    # -- beginning -----------------------------------------------------------------------------

    def _check_sizes(self) -> None:
        require_kinds(self)
        self._require_part(self.curvature_batches)

    def _begin(self, seed: int) -> None:
        self._seed, self._random = seed, gn.RandomSource(seed)
        self.items = self.batch * self.gradient_batches
        self._order: tuple[int, list[list[Array]]] | None = None
        self._validated = Validated[list[float]](self.model)
        self._steps = len(self._taken(0))
        if not self._steps:
            raise DataError(
                f"{type(self).__name__}: a step takes {self.items} cases, but there are {self._count} to train on; "
                "use a smaller batch"
            )

    # -- interface to a Trainer ----------------------------------------------------------------

    def _taken(self, epoch: int) -> list[list[Array]]:
        """Returns the batches of each step."""
        if self._order is None or self._order[0] != epoch:
            generator = np.random.default_rng([self._seed, epoch])
            order = generator.permutation(self._count)
            if self.gradient_batches == 1:
                steps = [[batch] for batch in self._mixed(self._packed(order), generator)]
            else:
                firsts = range(0, len(order) - self.items + 1, self.items)
                steps = [self._divided_step(order[i : i + self.items], generator) for i in firsts]
            self._order = epoch, steps
        return self._order[1]

    def __len__(self) -> int:
        return self._steps

    def compile(self) -> None:
        self.objective.compile()

    def require_fit(self, optimizer: Optimizer) -> None:
        super().require_fit(optimizer)
        if self.curvature_batches > 1:
            self._require_curved(optimizer)

    def feed(self, epoch: int, step: int) -> Objective:
        taken = self._taken(epoch)[step]
        weights = [self._weight_of(which) for which in taken]
        # A batch's cost is the mean over its targets; with these weights, the sum is the mean over all targets.
        arrays = [
            self._arrays_of(which, 1 / w if w else 0.0) for which, w in zip(taken, weights, strict=True)
        ]
        self.objective.redraw()
        # Batches without weight have no curvature.
        order = sorted(range(len(arrays)), key=lambda number: not weights[number])
        arrays, weights = [arrays[i] for i in order], [weights[i] for i in order]
        self.objective.feed_batches(arrays, curvature=arrays[: self.curvature_batches], weights=weights)
        return self.objective

    def weight(self, epoch: int, step: int) -> float:
        """Returns the weight of its targets, so that an epoch's mean is that over all targets."""
        return sum(map(self._weight_of, self._taken(epoch)[step]))

    def _measured(self, names: Iterable[str]) -> dict[str, Callable[[], float]]:
        return {name: partial(self._metric, i) for i, name in enumerate(names)}

    def _metric(self, number: int) -> float:
        measured = self._validated.now(self.validate)
        assert measured is not None
        return measured[number]

    def numbers(self) -> dict[str, Any]:
        return {"random": self._random.state}

    def restore(self, arrays: Any, numbers: Any) -> None:
        self._random.state = numbers["random"]


def divided(own: str, share: Any, count: int, series: Array | None = None) -> tuple[Array, Array]:
    """Returns the training cases, and the fraction of validation cases: the last ones, or the last ones of each series.

    series: index of the series of each case, in the order of time.
    """
    share = amount(f"{own}: valid", share)
    kept = round(share * count)
    if kept and kept >= count:
        raise UsageError(f"{own}: valid = {share:g} of {count} cases leaves none to train on")
    of = np.zeros(count, int) if series is None else np.unique(series, return_inverse=True)[1]
    cases = [np.flatnonzero(of == each) for each in range(of.max(initial=-1) + 1)]
    held = np.diff(np.round(kept * np.cumsum([len(each) for each in cases]) / count), prepend=0)
    last = np.zeros(count, bool)
    for each, share_of in zip(cases, held.astype(int).tolist(), strict=True):
        last[each[len(each) - min(share_of, len(each)) :]] = True
    return np.flatnonzero(~last), np.flatnonzero(last)


def digest_of_graph(cost: Node) -> str:
    """Returns a digest of the ops, their settings and constants, and the shapes of a graph."""
    order = ancestors([cost])
    number = {node: i for i, node in enumerate(order)}
    known: dict[int, str] = {}  # by the op's address: many nodes share one

    def settings(op: gn.Op) -> str:
        if id(op) not in known:
            named = (
                ("distribution", "number") if isinstance(op, Random) else () if op.by_identity else vars(op)
            )
            known[id(op)] = repr([fixed_parts(vars(op)[name]) for name in named])
        return known[id(op)]

    lines = (
        f"{n.op.name} {settings(n.op)} {n.dtype} {n.shape} {[number[x] for x in n.inputs]}" for n in order
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def seed_of(model: Model) -> int:
    """Returns the model's seed, 0 if it has none."""
    return int(getattr(model, "seed", 0))


# -- what is measured --------------------------------------------------------------------------

#: Loss -> metrics of each target.
MEASURES: dict[str, str] = {"softmax": "accuracy", "sigmoid": "accuracy", "squared": "mae"}


def measures(u: Unrolled, of_values: bool = False) -> dict[str, Node]:
    """Returns accuracy or absolute error of each target, averaged over its values; with of_values, of each value."""
    o, t = u.logits, u.targets
    match u.network.loss:
        case "softmax":
            return {"accuracy": gn.cast(gn.equal(gn.argmax(o), t), o.dtype)}
        case "sigmoid":
            values = gn.cast(gn.equal(o > 0, t > 0.5), o.dtype)
        case "squared":
            values = gn.absolute(o - t)
        case _:
            return {}
    return {MEASURES[u.network.loss]: values / values.shape[-1] if of_values else gn.mean(values, axis=-1)}


def losses_of_cases(u: Unrolled) -> Node:
    """Returns the sum over the scored steps of each case, (batch,)."""
    return u.losses if u.losses.ndim == 1 else gn.sum(u.losses[u.unscored :], axis=0)


def have_steps(u: Unrolled) -> Node | None:
    """Returns 1 for cases with a scored step, 0 for others, (batch,); None if all have one."""
    if u.judged_ends is None or u.losses.ndim == 1:
        return None
    inside = gn.cast(u.judged_ends.inside[u.unscored :], u.losses.dtype)
    return gn.max(inside, axis=0)


def measures_of_cases(u: Unrolled) -> dict[str, Node]:
    """Returns the mean over the scored steps of each case, (batch,); "exact": 1 if all are right."""
    found: dict[str, Node] = {}
    for name, value in measures(u).items():
        if value.ndim == 1:
            found[name] = value
            continue
        value, ends = value[u.unscored :], u.judged_ends
        if ends is None:
            found[name] = gn.mean(value, axis=0)
        else:
            inside = ends.inside[u.unscored :]
            steps = gn.maximum(gn.sum(gn.cast(inside, value.dtype), axis=0), 1)
            found[name] = gn.sum(gn.where(inside, value, 0), axis=0) / steps
            value = gn.where(inside, value, 1)
        if u.network.loss == "softmax":
            found["exact"] = gn.min(value, axis=0)
    return found
