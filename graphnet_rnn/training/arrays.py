"""Arrays as a problem: cases that are shuffled anew in every epoch, the last batch too, some kept to validate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.losses import SEQUENCE_LOSSES
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import checked_floats, checked_inputs
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.optimizers import Optimizer
from graphnet_rnn.optimizers.batched import BatchedObjective
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import amount, setting, whole_number
from graphnet_rnn.training.problem import ObjectiveProblem
from graphnet_rnn.training.state import digest_of

__all__ = ["Arrays", "checked_targets"]


@dataclass(eq=False, repr=False)
class Arrays(ObjectiveProblem):
    """C = Σ_n w_n C_n / Σ_n w_n over the cases n of a batch, C_n the mean loss of its scored steps

    network: any. inputs: (time, cases, inputs), or symbols (time, cases); targets: as the network's loss takes them,
    cases along the same axis: (time, cases), (time, cases, outputs), or (cases, labels) for "ctc".
    batch: cases of a batch (all, if there are fewer). An epoch has every case once, in an order of its own; where the
    last batch is not full, cases of no weight fill it up. gradient_batches: so many batches make a step; then what does
    not fill a step is left out of the epoch. curvature_batches: the first of them, for the curvature.
    valid: cases to validate on: (inputs, targets), (inputs, targets, weights), or the share of the cases that is kept
    for it, the last ones; None for none. weights: of the cases, (cases,), at least 0 (1). unscored: steps at the start
    without a target.
    clip_values, l2, threads, memory, backend: see Objective.
    Rows are in the network's loss, in nats but for "squared". Raises UsageError, DataError.
    """

    item: ClassVar[str] = "case"
    model: Network = field(init=False)
    objective: Objective | BatchedObjective = field(init=False)

    network: Network
    inputs: InitVar[Any]
    targets: InitVar[Any]
    batch: int = setting(32, "cases of a batch")
    _: KW_ONLY
    valid: InitVar[float | tuple[Any, ...] | None] = 0.1
    weights: InitVar[Any] = None
    gradient_batches: int = setting(1, "batches of a step")
    curvature_batches: int = setting(1, "the first of them, for the curvature")
    unscored: int = setting(0, "time steps at the start without a target")

    def __post_init__(
        self, inputs: Any, targets: Any, valid: float | tuple[Any, ...] | None, weights: Any
    ) -> None:
        if not isinstance(self.network, Network):
            raise UsageError(f"Arrays: network must be a Network, not {self.network!r:.60}")
        self.model = network = self.network
        whole = _checked(network, inputs, targets, weights)
        self._train, self._valid = self._divided(whole, valid)
        count, time = len(self._train[2]), len(whole[0])
        self.batch = min(whole_number("Arrays: batch", self.batch), count)
        self.gradient_batches = whole_number("Arrays: gradient_batches", self.gradient_batches)
        self.curvature_batches = whole_number("Arrays: curvature_batches", self.curvature_batches)
        self.unscored = whole_number("Arrays: unscored", self.unscored, least=0)
        if self.curvature_batches > self.gradient_batches:
            raise UsageError(
                f"Arrays: curvature_batches must be at most gradient_batches, {self.gradient_batches}, not "
                f"{self.curvature_batches}: they are a part of these"
            )
        self.items = self.batch * self.gradient_batches
        if self.gradient_batches == 1:
            self._steps = -(-count // self.batch)
        else:
            self._steps = count // self.items
        if not self._steps:
            raise DataError(
                f"Arrays: a step takes {self.items} cases, but there are {count} to train on; use a smaller batch"
            )
        self._random = gn.RandomSource(network.seed)
        self._single = self._objective(time)
        self.objective = self._single if self.gradient_batches == 1 else BatchedObjective(self._single)
        self._order: tuple[int, Array] | None = None
        self._judge = self._judging(time) if self._valid is not None else None

    @property
    def unit_name(self) -> str:  # type: ignore[override]
        return "squared error" if self.model.loss == "squared" else "nats"

    # -- cases ---------------------------------------------------------------------------------

    def _divided(self, whole: _Cases, valid: Any) -> tuple[_Cases, _Cases | None]:
        """Those to train on, and those to validate on."""
        if valid is None:
            return whole, None
        if isinstance(valid, tuple):
            if len(valid) not in (2, 3):
                raise UsageError(
                    "Arrays: valid must be (inputs, targets), (inputs, targets, weights), a share, or None"
                )
            kept = _checked(self.model, valid[0], valid[1], valid[2] if len(valid) == 3 else None)
            if len(kept[0]) != len(whole[0]):
                raise DataError(
                    f"Arrays: cases to train on have {len(whole[0])} steps, those to validate on {len(kept[0])}"
                )
            if self.model.loss in SEQUENCE_LOSSES and kept[1].shape[1] != whole[1].shape[1]:
                raise DataError(
                    f"Arrays: cases to train on have {whole[1].shape[1]} labels, those to validate on "
                    f"{kept[1].shape[1]}; fill the shorter ones up with -1"
                )
            return whole, kept
        share = amount("Arrays: valid", valid)
        count = len(whole[2])
        kept_count = round(share * count)
        if not kept_count:
            return whole, None
        if kept_count >= count:
            raise UsageError(f"Arrays: valid = {share:g} of {count} cases leaves none to train on")
        first, last = np.arange(count - kept_count), np.arange(count - kept_count, count)
        parts = self._chosen(whole, first), self._chosen(whole, last)
        for what, (_, _, w) in zip(("train", "validate"), parts, strict=True):
            if not w.any():
                raise DataError(f"Arrays: none of the cases to {what} on has a weight above 0")
        return parts

    def _chosen(self, cases: _Cases, which: Array) -> _Cases:
        x, t, w = cases
        by_case = self.model.loss in SEQUENCE_LOSSES
        return x.take(which, axis=1), t.take(which, axis=0 if by_case else 1), w[which]

    def _batches(self, cases: _Cases, order: Array) -> Iterator[_Cases]:
        """The cases in batches, the last one filled up with cases of no weight."""
        for start in range(0, len(order), self.batch):
            which = order[start : start + self.batch]
            missing = self.batch - len(which)
            x, t, w = self._chosen(cases, np.concatenate([which, np.resize(which, missing)]))
            if missing:
                w = np.concatenate([w[: len(which)], np.zeros(missing, w.dtype)])
            yield x, t, w

    # -- graphs --------------------------------------------------------------------------------

    def _unrolled(self, time: int, **how: Any) -> tuple[Unrolled, Node, Node]:
        """The net over a batch, the shares of its cases in the weight of all, and C."""
        labels = self._train[1].shape[1] if self.model.loss in SEQUENCE_LOSSES else None
        u = self.model.unroll(
            time, self.batch, initial=_first(self.model), unscored=self.unscored, labels=labels, **how
        )
        w = gn.input((self.batch,), self.model.dtype, name="w")
        with gn.scope(layer="cost"):
            losses = u.losses if labels is not None else gn.mean(u.losses[self.unscored :], axis=0)
            return u, w, gn.sum(w * losses)

    def _objective(self, time: int) -> Objective:
        u, w, cost = self._unrolled(time, random=self._random)
        return Objective(
            cost,
            list(self.model.parameters.values()),
            [u.inputs, u.targets, w],
            random=self._random,
            structure=u.structure if u.losses.ndim > 1 else (),
            structure_scale=1 / (time - self.unscored),
            **self.objective_settings(),
        )

    def _judging(self, time: int) -> gn.Function:
        u, w, cost = self._unrolled(time, training=False)
        return gn.compile([cost], [u.inputs, u.targets, w], backend=self.backend, threads=self.threads)

    # -- what a Trainer asks -------------------------------------------------------------------

    def require_fit(self, optimizer: Optimizer) -> None:
        super().require_fit(optimizer)
        own = type(optimizer).__name__
        if self.curvature_batches > 1 and not optimizer.curved:
            raise UsageError(f"Arrays: curvature_batches means nothing to {own}, which asks for no curvature")
        if optimizer.needs_single_cases:
            raise UsageError(
                "Arrays: a preconditioner that is an exponent needs the gradients of single cases, which are not "
                "computed here; use a metric ('kfac')"
            )

    def __len__(self) -> int:
        return self._steps

    def compile(self) -> None:
        self._single.compile()

    def feed(self, epoch: int, step: int) -> Objective | BatchedObjective:
        batches = list(self._batches(self._train, self._taken(epoch, step)))
        self.objective.redraw()
        if isinstance(self.objective, BatchedObjective):
            shared = [(x, t, _shares(w)) for x, t, w in batches]
            self.objective.feed(shared, curvature=shared[: self.curvature_batches])
        else:
            x, t, w = batches[0]
            self.objective.feed(x, t, _shares(w))
        return self.objective

    def _taken(self, epoch: int, step: int) -> Array:
        """The numbers of the step's cases."""
        if self._order is None or self._order[0] != epoch:
            generator = np.random.default_rng([self.model.seed, epoch])
            self._order = epoch, generator.permutation(len(self._train[2]))
        return self._order[1][step * self.items : (step + 1) * self.items]

    def weight(self, epoch: int, step: int) -> float:
        """The weight of its cases, so that an epoch's mean is that over all cases."""
        return float(self._train[2][self._taken(epoch, step)].sum())

    def validate(self) -> float | None:
        if self._judge is None or self._valid is None:
            return None
        total = 0.0
        for x, t, w in self._batches(self._valid, np.arange(len(self._valid[2]))):
            total += float(self._judge(x, t, _shares(w))[0]) * float(w.sum())
        return total / float(self._valid[2].sum())

    def description(self) -> dict[str, Any]:
        return {**super().description(), "data": digest_of(*self._train, *(self._valid or ()))}

    def numbers(self) -> dict[str, Any]:
        return {"random": self._random.state}

    def restore(self, arrays: Any, numbers: Any) -> None:
        self._random.state = numbers["random"]


def _shares(w: Array) -> Array:
    """Of each case in the weight of all; nothing for a batch that has none."""
    total = w.sum(dtype=np.float64)
    return w if not total else (w / total).astype(w.dtype)


#: Inputs, targets, and the weight of each case.
_Cases = tuple[Array, Array, Array]


def _checked(network: Network, inputs: Any, targets: Any, weights: Any) -> _Cases:
    """As the network takes them; DataError for what does not fit."""
    x = checked_inputs("Arrays", network, inputs)
    t = checked_targets(network, targets, x.shape[:2])
    w = np.ones(x.shape[1], network.dtype)
    if weights is not None:
        given = np.asarray(weights)
        if given.shape != w.shape:
            raise DataError(
                f"Arrays: weights must be {list(w.shape)}, one for each case, not {list(given.shape)}"
            )
        w = checked_floats("Arrays: weights", given).astype(network.dtype)
        if w.min() < 0 or not w.any():
            raise DataError(f"Arrays: weights must be at least 0, and not all 0; the least is {w.min():g}")
    return x, t, w


def checked_targets(network: Network, targets: Any, shape: Sequence[int]) -> Array:
    """The targets of so many (steps, cases) as the network's loss takes them; DataError for what does not fit."""
    time, count = shape
    by_case = network.loss in SEQUENCE_LOSSES
    symbols = by_case or network.loss == "softmax"
    # -1 stands behind the last label, and the last output is the blank.
    least, largest = (-1, network.outputs - 2) if by_case else (0, network.outputs - 1)
    wanted = (
        f"({count}, labels)" if by_case else f"({time}, {count}{'' if symbols else f', {network.outputs}'})"
    )
    try:
        t = np.asarray(targets)
    except ValueError as error:
        raise DataError(f"Arrays: targets must be an array {wanted}: {error}") from None
    fits = t.shape == ((time, count) if symbols else (time, count, network.outputs))
    if not (t.ndim == 2 and len(t) == count if by_case else fits):
        raise DataError(f"Arrays: targets must be {wanted} for these inputs, not {list(t.shape)}")
    if not symbols:
        return checked_floats("Arrays: targets", t).astype(network.dtype)
    if t.dtype.kind not in "iu" or (t.size and (t.min() < least or t.max() > largest)):
        raise DataError(
            f"Arrays: targets must be whole numbers in {least} ... {largest}, {wanted}, not {t.dtype}"
        )
    return t.astype(np.int64)


def _first(network: Network) -> str:
    return "learned" if network.initial_state == "learned" else "zero"
