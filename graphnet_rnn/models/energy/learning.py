"""train: contrastive divergence over batches of data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.models.energy.divergence import ContrastiveDivergence
from graphnet_rnn.models.energy.model import EnergyModel, as_generator
from graphnet_rnn.optimizers.base import Report, State, taken_up
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.hessian_free import CurvedOptimizer
from graphnet_rnn.optimizers.minimize import Result
from graphnet_rnn.optimizers.step import guarded_step
from graphnet_rnn.settings import is_true, whole_number

__all__ = ["train"]

#: What the state holds besides the optimiser's arrays.
UPDATE, RANDOM = "update", "random"
REMEDY = (
    "try a smaller rate, clipping (clip_norm=1.0), or, for Gaussian units, data divided by their deviation"
)


def train(
    model: EnergyModel,
    data: Any,
    optimizer: FirstOrder | CurvedOptimizer,
    updates: int,
    batch: int | None = None,
    gibbs_steps: int | Callable[[int], int] = 1,
    rate: Callable[[int], float] | None = None,
    below: Sequence[EnergyModel] = (),
    callback: Callable[[int, Report], object] | None = None,
    seed: int = 0,
    state: State | None = None,
    chains: int = 1,
    backend: str = "numba",
    threads: int | None = None,
) -> Result:
    """`updates` steps of the optimizer along contrastive divergence; the model's parameters are the last point.

    optimizer: of first order, or Hessian-free, see ContrastiveDivergence. data: (cases, visible), or
    (time, sequences, visible) for a temporal model. batch: cases, or sequences, drawn for each update without
    repetition; None: all of them. gibbs_steps: k, or a function of the update's number
    (the source: lambda n: 10 if n < 1000 else 25). rate: the learning rate by update, instead of the optimizer's.
    chains: of each case; their gradients' mean is taken. Hessian-free needs some ten with a TRBM or RTRBM.
    below: trained models from the data upwards; the model then learns from their `activities`, drawn anew for
    each batch. callback(update, report) may return True to stop; the model is then at the last point.
    state: that of an earlier Result, with which training goes on to the same numbers as if it had not stopped: 10
    updates and 10 more are 20. It holds the optimizer's arrays, the number of updates, which counts on, and where the
    random numbers are; the model brings the parameters. backend, threads: see gn.compile.
    The Result's loss is that of the last update, see ContrastiveDivergence; its reason "steps" or "callback".
    Raises UsageError and DataError for what cannot be meant, TrainingError when learning runs away.
    """
    if not isinstance(model, EnergyModel):
        raise UsageError(f"train takes an RBM, TRBM or RTRBM, not {model!r:.60}")
    if not isinstance(optimizer, (FirstOrder, CurvedOptimizer)):
        raise UsageError(
            "train: optimizer must be a first-order or a Hessian-free one, e.g. rnn.Momentum(rate=0.01) or "
            f"rnn.HessianFree(), not {optimizer!r:.60}"
        )
    updates = whole_number("train: updates", updates)
    generator = as_generator("train", seed)
    reader = below[0] if below else model
    cases = reader.check_data("data", data)
    axis, count = reader.case_axis, cases.shape[reader.case_axis]
    size = count if batch is None else whole_number("train: batch", batch)
    if size > count:
        raise DataError(f"train: batch is {size}, but the data hold only {count} (axis {axis})")
    objective = ContrastiveDivergence(model, 1, seed, backend, threads, chains)
    theta = objective.start()
    kept = _taken_up(optimizer, theta, state, generator)
    own = {name: array for name, array in kept.items() if name not in (UPDATE, RANDOM)}
    objective.draw = first = int(kept[UPDATE][0])
    reports: list[Report] = []
    reason = "steps"
    try:
        for update in range(first, first + updates):
            chosen = cases if size == count else cases.take(generator.permutation(count)[:size], axis=axis)
            objective.feed(raised(chosen, below, generator))
            objective.gibbs_steps = gibbs_steps(update) if callable(gibbs_steps) else gibbs_steps
            now = None if rate is None else rate(update)
            report = guarded_step(optimizer, objective, theta, own, f"update {update}", now, REMEDY)
            reports.append(report)
            if callback is not None:
                model.theta = theta
            if callback is not None and is_true(callback(update, report)):
                reason = "callback"
                break
    finally:  # the gradient is taken elsewhere by some
        model.theta = theta
    kept[UPDATE][0], kept[RANDOM][...] = first + len(reports), _words(generator)
    return Result(theta, reports[-1].loss, reports, reason, kept)


def _taken_up(
    optimizer: FirstOrder | CurvedOptimizer, theta: Array, given: State | None, generator: np.random.Generator
) -> State:
    """The state before the next update; the generator is brought to where it stands."""
    own = {UPDATE: np.zeros(1, np.int64), RANDOM: _words(generator)}
    stream = own[RANDOM][2:4].copy()
    kept = taken_up("train", f"training with {type(optimizer).__name__}", optimizer.init(theta) | own, given)
    if not np.array_equal(kept[RANDOM][2:4], stream):
        raise UsageError("train: state is of a run with another seed; give the same one")
    high, low, _, _, has, half = map(int, kept[RANDOM])
    words = dict(generator.bit_generator.state)
    if has > 1 or half >> 32 or kept[UPDATE][0] < 0:
        raise UsageError(f"train: {RANDOM} and {UPDATE} in state are none that train has given")
    words |= {"state": {**words["state"], "state": high << 64 | low}, "has_uint32": has, "uinteger": half}
    generator.bit_generator.state = words
    return kept


def _words(generator: np.random.Generator) -> Array:
    """Where a PCG64 stands, as 64-bit words: state and stream, the higher half first; half a word that is left."""
    state = generator.bit_generator.state
    numbers = state["state"]["state"], state["state"]["inc"]
    halves = [half for n in numbers for half in (n >> 64, n & (1 << 64) - 1)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def raised(data: Array, layers: Sequence[EnergyModel], generator: np.random.Generator) -> Array:
    """The activities of the last of the layers, each reading those of the one before."""
    for layer in layers:
        data = layer.activities(data, generator)
    return data
